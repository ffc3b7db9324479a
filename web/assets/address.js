// How the visitor's address stands: budgets, connections, a ban and its end. Asking costs nothing of them.

import { ask, clock, duration, number, whileVisible } from "./service.js";

const box = document.querySelector("[data-standing]");
const find = (name) => box.querySelector(`[data-${name}]`);
let standing = null, at = 0, failed = null;

whileVisible(3, async () => {
  try {
    standing = await ask("/api/address");
    at = Date.now();
    failed = null;
  } catch (error) {
    failed = error;
  }
  show();
});
setInterval(() => { if (!document.hidden && standing?.ban) show(); }, 1000);

function show() {
  find("state").parentElement.classList.toggle("stale", Boolean(failed));
  find("state").parentElement.classList.toggle("fresh", !failed);
  write(find("state-text"), failed ? standing ? `Not updated since ${clock(at)}: the service may be down.` : "The service does not answer." : "Live");
  if (!standing) return write(find("verdict"), failed ? "No answer, so nothing is known about your address." : "Asking…");
  const { ban } = standing;
  const left = ban ? ban.ends_in_seconds - Math.round((Date.now() - at) / 1000) : 0;
  box.classList.toggle("banned-now", Boolean(ban) && left > 0);
  write(find("verdict"), verdict(ban, left));
  write(find("seen"), standing.address);
  for (const [name, words] of Object.entries(METERS)) {
    const section = box.querySelector(`[data-meter=${name}]`);
    if (!section) continue;
    const figures = standing[name];
    section.hidden = !figures;
    if (figures) meter(section, words(figures));
  }
}

function verdict(ban, left) {
  if (ban && left > 0) {
    const ends = `Banned until ${clock(at + ban.ends_in_seconds * 1000)}`;
    // The seconds go by in sight; a screen reader hears the sentence again only when the minute changes.
    return `${ends}, ${left > 90 ? `about ${duration(Math.ceil(left / 60) * 60)}` : "less than two minutes"} from now.`;
  }
  if (ban) return "The ban has just ended. Go on, a little slower.";
  const { requests, refusals } = standing;
  if (refusals && refusals.last_minute * 2 >= refusals.ban_at) return "Careful: many requests were refused in the last minute.";
  if (requests && requests.left < requests.burst / 10) return "Busy: the request budget is nearly spent.";
  return "Everything is open to your address.";
}

const METERS = {
  requests: ({ left, burst, per_second }) => ({
    value: left, most: burst, of: `of ${number(burst)} left`, better: "more",
    words: `${number(per_second)} come back each second. With none left a request is refused, not delayed.`,
  }),
  tenants: ({ left, per_hour }) => ({
    value: left, most: per_hour, of: `of ${number(per_hour)} left`, better: "more",
    words: "They come back over an hour. Tenants that exist already cost nothing.",
  }),
  connections: ({ open, most }) => ({
    value: open, most, of: `of ${number(most)} open`, better: "less",
    words: "Open connections to the broker itself; those through the HTTPS proxy do not count.",
  }),
  refusals: ({ last_minute, ban_at }) => ({
    value: last_minute, most: ban_at, of: `of ${number(ban_at)} in the last minute`, better: "less",
    words: "When all are used up, the address is banned for a while.",
  }),
};

function meter(section, { value, most, of, better, words }) {
  write(section.querySelector("[data-left]"), number(Math.floor(value)));
  write(section.querySelector("[data-of]"), of);
  write(section.querySelector("[data-words]"), words);
  const bar = section.querySelector("meter");
  bar.max = most;
  bar.low = most * 0.1;
  bar.high = most * (better === "more" ? 0.2 : 0.6);
  bar.optimum = better === "more" ? most : 0;
  bar.value = value;
}

function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}
