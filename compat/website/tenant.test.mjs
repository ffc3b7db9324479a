import assert from "node:assert/strict";
import test from "node:test";
import { IDENTIFIER, PLACEHOLDER, clipboard, pages, scrollThrough, sent, site, visit } from "./support.mjs";

/** The identifier on the page; the page's own module puts it there, perhaps after the page counts as loaded. */
const shown = (page) => page.locator("[data-identifier]").filter({ hasText: /\S/ }).textContent();
const clipboards = { permissions: ["clipboard-read", "clipboard-write"] };

test("a first visit makes an identifier, and later visits show the same", async () => {
  const { page, context } = await visit("/");
  const first = await shown(page);
  assert.match(first, IDENTIFIER);
  await page.reload();
  assert.equal(await shown(page), first);
  const second = await context.newPage();
  await second.goto(`${site}/`);
  assert.equal(await shown(second), first);
  const { page: stranger, context: other } = await visit("/");
  assert.notEqual(await shown(stranger), first);
  await Promise.all([context.close(), other.close()]);
});

test("identifiers are well-formed, all different, and no character is likelier than another", async () => {
  const { page, context } = await visit("/");
  const made = await page.evaluate(async () => {
    const { make } = await import("/assets/tenant.js");
    return Array.from({ length: 4000 }, make);
  });
  for (const each of made) assert.match(each, IDENTIFIER);
  assert.equal(new Set(made).size, made.length);
  const counts = (texts) => {
    const all = {};
    for (const sign of texts.join("")) all[sign] = (all[sign] ?? 0) + 1;
    return Object.values(all);
  };
  // Chi squared with 25 and 35 degrees of freedom: above these limits once in a million runs.
  for (const [texts, kinds, limit] of [[made.map((each) => each[0]), 26, 74], [made.map((each) => each.slice(1)), 36, 91]]) {
    const found = counts(texts);
    assert.equal(found.length, kinds);
    const mean = found.reduce((sum, count) => sum + count, 0) / kinds;
    const chi = found.reduce((sum, count) => sum + (count - mean) ** 2 / mean, 0);
    assert.ok(chi < limit, `chi squared ${chi}`);
  }
  await context.close();
});

test("a new identifier comes only after a warning that shows the old one", async () => {
  const { page, context } = await visit("/");
  const first = await shown(page);
  const dialog = page.locator("[data-dialog]");
  await page.locator("[data-new-identifier]").click();
  assert.ok(await dialog.isVisible());
  assert.equal(await page.locator("[data-old-identifier]").textContent(), first);
  await page.keyboard.press("Escape");
  assert.equal(await shown(page), first);
  await page.locator("[data-new-identifier]").click();
  await dialog.getByRole("button", { name: "Keep it" }).click();
  assert.equal(await shown(page), first);
  await page.locator("[data-new-identifier]").click();
  await dialog.getByRole("button", { name: "Make a new one" }).click();
  await page.waitForFunction((old) => document.querySelector("[data-identifier]").textContent !== old, first);
  const second = await shown(page);
  assert.match(second, IDENTIFIER);
  assert.notEqual(second, first);
  assert.ok((await page.locator(".program code").first().textContent()).includes(second));
  await page.reload();
  assert.equal(await shown(page), second);
  await context.close();
});

test("an identifier from elsewhere is taken if it is one, and refused in words if not", async () => {
  const { page, context } = await visit("/");
  const first = await shown(page);
  await page.locator("[data-other-identifier]").click();
  const field = page.locator("#other");
  for (const wrong of ["guest", "Abcdefghijklmnopqrstuvwx", "1bcdefghijklmnopqrstuvwx", PLACEHOLDER]) {
    await field.fill(wrong);
    await page.keyboard.press("Enter");
    assert.match(await page.locator("#other-error").textContent(), /24 lowercase letters and digits/);
    assert.equal(await shown(page), first);
  }
  await field.fill(" abcdefghijklmnopqrstuvwx ");
  await page.keyboard.press("Enter");
  assert.equal(await shown(page), "abcdefghijklmnopqrstuvwx");
  await context.close();
});

test("a browser that stores nothing still gets an identifier and is told that it will not last", async () => {
  const { page, complaints, context } = await visit("/", {
    prepare: (page) => page.addInitScript(() => { Object.defineProperty(window, "localStorage", { get() { throw new DOMException("no", "SecurityError"); } }); }),
  });
  assert.match(await shown(page), IDENTIFIER);
  assert.match(await page.locator("[data-kept]").textContent(), /ends with the page/);
  assert.deepEqual(complaints, []);
  await context.close();
});

test("the identifier is in every program and leaves the browser by no request before a click", async () => {
  const { page, context, requests } = await visit("/", { prepare: (page) => page.clock.install() });
  const mine = await shown(page);
  for (const path of pages) {
    await page.goto(site + path);
    await scrollThrough(page);
    await page.clock.runFor(11_000);
    for (const code of await page.locator(".program code").allTextContents()) {
      assert.ok(code.includes(mine) && !code.includes(PLACEHOLDER));
    }
    for (const tab of await page.locator("[role=tab]").all()) await tab.click();
  }
  assert.ok(requests.length > 20);
  for (const request of requests) {
    assert.ok(!sent(request).includes(mine), request.url());
    assert.ok(!request.url().includes("/try/"), "nobody clicked");
  }
  await context.close();
});

test("every copy button copies its text whole, with the identifier", async () => {
  const { page, context } = await visit("/docs/sqs", clipboards);
  const blocks = page.locator("[data-code]");
  assert.ok(await blocks.count() > 40);
  const copied = await page.evaluate(async () => {
    const wrong = [];
    for (const figure of document.querySelectorAll("[data-code]")) {
      const buttons = figure.querySelectorAll("[data-copy]");
      buttons[0].click();
      while (buttons[0].textContent !== "Copied") await new Promise((resolve) => setTimeout(resolve, 1));
      const text = await navigator.clipboard.readText();
      if (buttons.length !== 1 || text !== figure.querySelector("code").textContent) wrong.push(figure.textContent);
    }
    return wrong;
  });
  assert.deepEqual(copied, []);
  await page.goto(`${site}/`);
  const press = async (button) => {
    await button.click();
    await button.filter({ hasText: "Copied" }).waitFor();
  };
  // Once it is shown the buttons beside it work.
  const mine = await shown(page);
  await press(page.locator("[data-copy-identifier]"));
  assert.equal(await clipboard(page), mine);
  await press(page.locator(".endpoint [data-copy]").first());
  assert.equal(await clipboard(page), await page.locator("[data-copyable]").first().textContent());
  await context.close();
});

test("a copy button pressed twice says Copied for a moment and then its own words again", async () => {
  const { page, context } = await visit("/", { ...clipboards, prepare: (page) => page.clock.install() });
  const button = page.locator("[data-copy-identifier]");
  const words = await button.textContent();
  await shown(page);
  for (let press = 0; press < 2; press++) {
    if (press) await button.evaluate((element) => { element.textContent = "not yet"; });
    await button.click();
    await button.filter({ hasText: "Copied" }).waitFor();
    await page.clock.runFor(1_000);
  }
  assert.equal(await button.textContent(), "Copied");
  await page.clock.runFor(1_000);
  assert.equal(await button.textContent(), words);
  await context.close();
});

test("the language chosen once is shown on every page from then on, by mouse or keyboard", async () => {
  const { page, context } = await visit("/docs/sqs");
  const selected = () => page.locator("[role=tab][aria-selected=true]").allTextContents();
  assert.deepEqual([...new Set(await selected())], ["Python"]);
  await page.getByRole("tab", { name: "Go" }).first().click();
  assert.deepEqual([...new Set(await selected())], ["Go"]);
  await page.keyboard.press("ArrowRight");
  assert.deepEqual([...new Set(await selected())], ["Java"]);
  await page.goto(`${site}/`);
  assert.deepEqual(await selected(), ["Java"]);
  assert.ok(await page.getByText("SqsClient.builder()").first().isVisible());
  assert.ok(!(await page.getByText("import boto3").first().isVisible()));
  await context.close();
});

test("try it sends one message into the visitor's tenant and receives it, only on a click", async () => {
  const { page, context, requests, complaints } = await visit("/");
  const mine = await shown(page);
  const latest = page.locator("[data-happened] li").first();
  await page.locator("[data-receive]").click();
  await latest.getByText("Nothing to receive").waitFor();
  await page.locator("#try-body").fill("grüße “one”");
  await page.locator("[data-send]").click();
  await latest.getByText("Sent “grüße “one””").waitFor();
  assert.ok(await page.locator(".act.done:visible").first().isVisible(), "the line that does the same is marked");
  await page.locator("[data-receive]").click();
  await latest.getByText("Received “grüße “one”” and deleted it.").waitFor();
  const tries = requests.filter((request) => request.url().includes("/try/"));
  assert.ok(tries.length >= 6);
  for (const request of tries) {
    assert.equal(request.url(), `${site}/try/sqs`);
    assert.equal(request.method(), "POST");
    assert.ok(request.headers().authorization.includes(`Credential=${mine}/`));
    assert.ok(!(request.postData() ?? "").includes(mine));
  }
  assert.deepEqual(complaints, []);
  await context.close();
});

test("the lines marked in every language are those that send, receive and delete", async () => {
  const { page, context } = await visit("/");
  const marked = await page.evaluate(() => [...document.querySelectorAll("[data-language]")].map((section) => [
    section.dataset.language,
    ...["send", "receive"].map((name) => [...section.querySelectorAll(`.act.${name}`)].map((line) => line.textContent).join("\n")),
  ]));
  assert.equal(marked.length, 5);
  for (const [language, sends, receives] of marked) {
    assert.match(sends, /send[-_]?message\b[^]*hello/i, language);
    assert.match(receives, /receive[-_]?message[^]*delete[-_]?message/i, language);
    assert.doesNotMatch(sends + receives, /create[-_]?queue/i, language);
  }
  await context.close();
});
