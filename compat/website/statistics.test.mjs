import assert from "node:assert/strict";
import test from "node:test";
import { json, scrollThrough, visit } from "./support.mjs";

const HOUR = 3_600_000;
const state = (page) => page.locator("[data-state-text]");
const figure = (page, path) => page.locator(`[data-figure="${path}"]`).first();
const paused = { prepare: (page) => page.clock.install() };

/** An answer of the contract, with what a test wants to see in it. */
function stats({ messages = 5, time = Date.now(), ready = true } = {}) {
  return {
    time, started: time - 26 * HOUR, uptime_seconds: 26 * 3600, version: "0.1.0", ready,
    now: { tenants: 3, queues: 7, messages, message_bytes: 2048, connections: 11, receivers: 2, bans: 1, storage_bytes: 1, storage_free_bytes: 5 * 1024 ** 3 },
    rates: { in_per_second: 12.34, out_per_second: 0, requests_per_second: 250, refusals_per_second: 0,
      by_protocol: { sqs: { in_per_second: 12.34, out_per_second: 0, requests_per_second: 250 } } },
    totals: { in: 1_234_567, out: 9, requests: 10, refusals: 11, bans: 12, tenants_created: 13 },
  };
}

test("the real figures arrive, in numbers, and are called live", async () => {
  const { page, context } = await visit("/");
  await state(page).getByText("Live").waitFor();
  for (const path of ["now.tenants", "now.queues", "now.messages", "now.connections", "rates.in_per_second", "rates.by_protocol.sqs.requests_per_second", "totals.in"]) {
    assert.match(await figure(page, path).textContent(), /^[\d,.]+[KMB]?$/, path);
  }
  assert.match(await figure(page, "uptime_seconds").textContent(), /second|minute|hour|day/);
  await context.close();
});

test("figures are said with units and follow each answer, every five seconds", async () => {
  let messages = 5;
  const { page, context, requests } = await visit("/", { prepare: async (page) => {
    await page.clock.install();
    await page.route("**/api/stats", (route) => route.fulfill(json(stats({ messages, time: messages }))));
  } });
  await figure(page, "now.messages").getByText("5", { exact: true }).waitFor();
  assert.equal(await figure(page, "now.message_bytes").textContent(), "2 KiB");
  assert.equal(await figure(page, "rates.in_per_second").textContent(), "12.3");
  assert.equal(await figure(page, "uptime_seconds").textContent(), "1 day 2 hours");
  assert.equal(await figure(page, "totals.in").textContent(), "1.2M");
  for (const next of [1231, 1232, 1233, 1234]) {
    messages = next;
    await page.clock.runFor(5_000);
    await figure(page, "now.messages").getByText(next.toLocaleString("en"), { exact: true }).waitFor();
  }
  const asked = requests.filter((request) => request.url().endsWith("/api/stats")).length;
  assert.ok(asked >= 5 && asked <= 6, `${asked} questions in 20 s`);
  await context.close();
});

test("when the service stops answering the figures stay and are called old, and recover", async () => {
  let works = true, time = 1;
  const { page, context } = await visit("/", { prepare: async (page) => {
    await page.clock.install();
    await page.route("**/api/stats", (route) => works ? route.fulfill(json(stats({ time: time++ }))) : route.abort());
  } });
  await state(page).getByText("Live").waitFor();
  works = false;
  await page.clock.runFor(5_000);
  await state(page).getByText(/^Not updated since \d/).waitFor();
  assert.equal(await figure(page, "now.messages").textContent(), "5");
  assert.ok(await page.locator("[data-statistics].stale").isVisible());
  works = true;
  await page.clock.runFor(5_000);
  await state(page).getByText("Live").waitFor();
  await context.close();
});

test("an answer that never changes is called old as well", async () => {
  const { page, context } = await visit("/", { prepare: async (page) => {
    await page.clock.install();
    await page.route("**/api/stats", (route) => route.fulfill(json(stats({ time: 1000 }))));
  } });
  await state(page).getByText("Live").waitFor();
  for (let round = 0; round < 5; round++) await page.clock.runFor(5_000);
  await state(page).getByText(/^Not updated since/).waitFor();
  await context.close();
});

test("without any answer the page says so instead of showing zeros", async () => {
  const { page, context } = await visit("/", { prepare: (page) => page.route("**/api/**", (route) => route.abort()) });
  await state(page).getByText("No figures: the service does not answer.").waitFor();
  assert.equal(await figure(page, "now.messages").textContent(), "–");
  await context.close();
});

test("a hidden page asks nothing, and asks at once when it is seen again", async () => {
  const { page, context, requests } = await visit("/", paused);
  await state(page).getByText("Live").waitFor();
  const asked = () => requests.filter((request) => request.url().includes("/api/")).length;
  const show = (hidden) => page.evaluate((value) => {
    Object.defineProperty(document, "hidden", { configurable: true, get: () => value });
    document.dispatchEvent(new Event("visibilitychange"));
  }, hidden);
  await show(true);
  const before = asked();
  await page.clock.runFor(60_000);
  assert.equal(asked(), before);
  const again = page.waitForRequest("**/api/stats");
  await show(false);
  await again;
  await context.close();
});

/** An hour of fives with a hole in it. */
function history(window, step = 5, points = 720) {
  const end = Math.floor(Date.now() / 1000 / step) * step;
  const time = Array.from({ length: points }, (_, at) => end - (points - 1 - at) * step);
  const values = time.map((_, at) => at > points * 0.4 && at < points * 0.6 ? null : 5);
  const names = ["in_per_second", "out_per_second", "messages", "connections", "refusals_per_second", "tenants"];
  return { window, step_seconds: step, time, series: Object.fromEntries(names.map((name) => [name, values])) };
}

test("the charts show hour, day and week, draw a gap where nothing is known, and say the same in tables", async () => {
  const windows = [];
  const { page, context, complaints } = await visit("/", { prepare: (page) => page.route("**/api/history?**", (route) => {
    const window = new URL(route.request().url()).searchParams.get("window");
    windows.push(window);
    return route.fulfill(json(window === "week" ? history(window, 3600, 168) : window === "day" ? history(window, 60, 1440) : history(window)));
  }) });
  await page.locator("[data-history]").scrollIntoViewIfNeeded();
  await page.locator("[data-chart=messages] canvas").waitFor();
  assert.equal(await page.locator("[data-history] canvas").count(), 5);

  // Columns of the canvas that carry the curve's colour: whole left and right, none within the gap.
  const drawn = await page.locator("[data-chart=messages] canvas").evaluate((canvas) => {
    const context = canvas.getContext("2d");
    const colour = getComputedStyle(canvas).getPropertyValue("--in").trim();
    const [red, green, blue] = [1, 3, 5].map((at) => Number.parseInt(colour.slice(at, at + 2), 16));
    const { data, width, height } = context.getImageData(0, 0, canvas.width, canvas.height);
    return Array.from({ length: width }, (_, x) => {
      for (let y = 0; y < height; y++) {
        const at = (y * width + x) * 4;
        if (data[at + 3] > 200 && Math.abs(data[at] - red) + Math.abs(data[at + 1] - green) + Math.abs(data[at + 2] - blue) < 40) return true;
      }
      return false;
    });
  });
  const left = drawn.indexOf(true), right = drawn.lastIndexOf(true);
  const share = (from, to) => { const part = drawn.slice(Math.round(left + (right - left) * from), Math.round(left + (right - left) * to)); return part.filter(Boolean).length / part.length; };
  assert.ok(share(0.05, 0.35) > 0.95 && share(0.65, 0.95) > 0.95, "the curve is drawn where there is data");
  assert.equal(share(0.43, 0.57), 0, "something is drawn in the gap");

  const chart = page.locator("[data-chart=rates]");
  await chart.locator("summary").click();
  const rows = chart.locator("[data-table] tbody tr");
  await rows.nth(19).waitFor();
  const cells = await rows.locator("td").allTextContents();
  assert.ok(cells.includes("no data") && cells.includes("5"), cells.join());
  for (const name of ["day", "week"]) {
    const asked = page.waitForResponse(`**/api/history?window=${name}`);
    await page.getByRole("radio", { name }).check();
    await asked;
  }
  assert.ok(["hour", "day", "week"].every((name) => windows.includes(name)));
  assert.deepEqual(complaints, []);
  await context.close();
});

test("a broker that has just begun has no curve, and the page says why", async () => {
  const { page, context, complaints } = await visit("/", { prepare: (page) => page.route("**/api/history?**", (route) => {
    const name = new URL(route.request().url()).searchParams.get("window");
    return route.fulfill(json(history(name, 5, 0)));
  }) });
  await page.locator("[data-history]").scrollIntoViewIfNeeded();
  await page.getByText("Nothing has been recorded in this window yet.").waitFor();
  assert.deepEqual(complaints, []);
  await context.close();
});

test("the real history can be drawn for each window", async () => {
  const { page, context, complaints } = await visit("/");
  await scrollThrough(page);
  await page.locator("[data-history]").scrollIntoViewIfNeeded();
  await page.locator("[data-chart=rates] canvas").waitFor();
  for (const name of ["day", "week", "hour"]) {
    const answered = page.waitForResponse(`**/api/history?window=${name}`);
    await page.getByRole("radio", { name }).check();
    const { window, time, series } = await (await answered).json();
    assert.equal(window, name);
    for (const [key, values] of Object.entries(series)) assert.equal(values.length, time.length, key);
  }
  assert.deepEqual(complaints, []);
  await context.close();
});

const BAN = { level: 2, ends_in_seconds: 540, ends: Date.now() + 540_000 };

test("a ban is said on top of the page with its end, and goes when it is over", async () => {
  let banned = true;
  const { page, context } = await visit("/", { prepare: async (page) => {
    await page.clock.install();
    await page.route("**/api/stats", (route) => route.fulfill(banned ? json({ error: "banned", ban: BAN }, 429, { "retry-after": "540" }) : json(stats())));
  } });
  const banner = page.locator("#ban");
  await banner.getByText(/Your address is banned until \d.*in 9 minutes/).waitFor();
  assert.ok(await banner.getByRole("link").isVisible());
  banned = false;
  await page.clock.runFor(5_000);
  await state(page).getByText("Live").waitFor();
  assert.ok(!(await banner.isVisible()));
  await context.close();
});

const standing = (ban) => ({
  address: "203.0.113.7", requests: { left: 187, burst: 200, per_second: 100 }, tenants: { left: 19, per_hour: 20 },
  connections: { open: 3, most: 50 }, refusals: { last_minute: 4, ban_at: 100 }, ban,
});

test("the address page reads the real standing", async () => {
  const { page, context } = await visit("/address");
  await page.locator("[data-verdict]").getByText("Everything is open to your address.").waitFor();
  assert.match(await page.locator("[data-seen]").textContent(), /^[0-9a-f.:/]+$/);
  await context.close();
});

test("the address page says budgets, a ban and its end in plain words, and follows them", async () => {
  let ban = null;
  const { page, context } = await visit("/address", { prepare: async (page) => {
    await page.clock.install();
    await page.route("**/api/address", (route) => route.fulfill(json(standing(ban))));
  } });
  await page.locator("[data-seen]").getByText("203.0.113.7").waitFor();
  assert.match(await page.locator("[data-meter=requests]").textContent(), /187 of 200 left/);
  assert.match(await page.locator("[data-meter=tenants]").textContent(), /19 of 20 left/);
  assert.match(await page.locator("[data-meter=connections]").textContent(), /3 of 50 open/);
  assert.match(await page.locator("[data-meter=refusals]").textContent(), /4 of 100 in the last minute/);
  ban = BAN;
  await page.clock.runFor(3_000);
  await page.locator("[data-verdict]").getByText(/^Banned until \d.*, about 9 minutes from now\.$/).waitFor();
  ban = null;
  await page.clock.runFor(3_000);
  await page.locator("[data-verdict]").getByText("Everything is open to your address.").waitFor();
  await context.close();
});

test("budgets that this broker does not have are not shown", async () => {
  const { page, context } = await visit("/address", { prepare: (page) =>
    page.route("**/api/address", (route) => route.fulfill(json({ address: "127.0.0.1", requests: null, tenants: null, connections: null, refusals: null, ban: null }))) });
  await page.locator("[data-seen]").getByText("127.0.0.1").waitFor();
  assert.equal(await page.locator("[data-meter]:visible").count(), 0);
  await context.close();
});
