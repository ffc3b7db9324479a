// Asking the service: one place that knows what a ban looks like, and how numbers and times are said.

const banner = document.querySelector("#ban");

/** Thrown when the service answers with an error; `status` is 0 when it does not answer. */
export class Refused extends Error {
  constructor(status, body) {
    super(body?.message ?? body?.Message ?? `the service answered ${status}`);
    this.status = status;
    this.body = body;
  }
}

/** A JSON answer, or Refused. */
export async function ask(path, options = {}) {
  let response;
  try {
    response = await fetch(path, { credentials: "omit", signal: AbortSignal.timeout(20_000), ...options });
  } catch {
    throw new Refused(0, { message: "the service does not answer" });
  }
  const body = await response.json().catch(() => null);
  if (response.status === 429) showBan(body?.ban, response.headers.get("retry-after"));
  if (!response.ok || body === null) throw new Refused(response.status, body);
  if (path !== "/api/address") hideBan();
  return body;
}

function showBan(ban, retryAfter) {
  const seconds = ban?.ends_in_seconds ?? Number(retryAfter);
  const until = seconds > 0 ? ` until ${clock(Date.now() + seconds * 1000)}, in ${duration(seconds)}` : " for a while";
  const text = `Your address is banned${until}: too many of its requests were refused. `;
  // Said once, then updated without interrupting anybody.
  if (banner.hidden) banner.setAttribute("role", "alert");
  else banner.setAttribute("role", "none");
  const link = document.createElement("a");
  link.href = "/address";
  link.textContent = "What this means";
  banner.replaceChildren(text, link);
  banner.hidden = false;
}

function hideBan() {
  banner.hidden = true;
}

/** Calls at once and every so many seconds, but not while nobody looks. */
export function whileVisible(seconds, call) {
  let timer;
  const go = async () => {
    clearTimeout(timer);
    if (document.hidden) return;
    await call();
    clearTimeout(timer);
    if (!document.hidden) timer = setTimeout(go, seconds * 1000);
  };
  document.addEventListener("visibilitychange", go);
  go();
}

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const tenths = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

export function number(value) {
  if (typeof value !== "number") return "–";
  if (value >= 100_000) return compact.format(value);
  return value < 100 && !Number.isInteger(value) ? tenths.format(value) : whole.format(value);
}

export function bytes(value) {
  if (typeof value !== "number") return "–";
  const units = ["bytes", "KiB", "MiB", "GiB", "TiB"];
  let power = 0;
  while (value >= 1024 && power < units.length - 1) { value /= 1024; power++; }
  return `${power ? tenths.format(value) : whole.format(value)} ${units[power]}`;
}

/** "3 minutes", "2 days 4 hours": two units at most. */
export function duration(seconds) {
  if (typeof seconds !== "number") return "–";
  let left = Math.max(0, Math.round(seconds));
  const parts = [];
  for (const [unit, length] of [["day", 86_400], ["hour", 3600], ["minute", 60], ["second", 1]]) {
    const count = Math.floor(left / length);
    left -= count * length;
    if (count || (parts.length === 0 && length === 1)) parts.push(`${count} ${unit}${count === 1 ? "" : "s"}`);
    else if (parts.length) break;
    if (parts.length === 2 || (parts.length === 1 && length === 60 && count >= 10)) break;
  }
  return parts.join(" ");
}

export const clock = (time) => new Date(time).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit" });
