import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import test from "node:test";
import { PLACEHOLDER, assertNothingLeaves, pages, scrollThrough, site, visit } from "./support.mjs";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

for (const path of pages) {
  test(`${path} is a whole page under a strict policy and asks nobody else for anything`, async () => {
    const { page, complaints, requests, response, context } = await visit(path);
    await scrollThrough(page);
    assert.equal(response.status(), 200);
    assert.match(response.headers()["content-security-policy"], /default-src 'self'/);
    const html = await response.text();
    assert.doesNotMatch(html, /<style|\sstyle=|\son[a-z]+=|<script(?![^>]*\ssrc=)/, "inline style or script");
    assert.doesNotMatch(html, /\{\{|\{%/, "template syntax is left");
    assert.equal(await page.locator("h1").count(), 1);
    assert.equal(await page.locator("html").getAttribute("lang"), "en");
    for (const landmark of ["header", "main", "footer"]) assert.equal(await page.locator(`body > ${landmark}`).count(), 1, landmark);
    assertNothingLeaves(requests);
    assert.deepEqual(complaints, []);
    await context.close();
  });

  test(`${path} fits from 320 px to wide screens`, async () => {
    const { page, context } = await visit(path, { width: 360 });
    await scrollThrough(page);
    for (const width of [320, 360, 768, 1440, 2560]) {
      await page.setViewportSize({ width, height: 800 });
      assert.equal(await page.evaluate(() => document.documentElement.scrollWidth - innerWidth), 0, `scrolls sideways at ${width} px`);
    }
    await context.close();
  });

  for (const colorScheme of ["light", "dark"]) {
    test(`${path} is accessible in ${colorScheme}, contrast included`, async () => {
      const { page, context } = await visit(path, { colorScheme, bypassCSP: true, prepare: (page) => page.addInitScript({ content: axe }) });
      await scrollThrough(page);
      const { violations, passes } = await page.evaluate(() => axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] }));
      assert.deepEqual(violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ target, failureSummary }) => `${target} ${failureSummary}`).join("; ")}`), []);
      assert.ok(passes.some(({ id }) => id === "color-contrast"), "contrast was not looked at");
      await context.close();
    });
  }

  test(`${path} reads well without scripts`, async () => {
    const { page, context } = await visit(path, { javaScriptEnabled: false });
    assert.equal(await page.locator("[data-needs-script]:visible").count(), 0, "shows what only a script can work");
    assert.equal(await page.locator("button:visible").count(), 0, "shows a button that does nothing");
    const programs = page.locator(".program");
    for (let at = 0; at < await programs.count(); at++) {
      assert.ok(await programs.nth(at).isVisible());
      assert.ok((await programs.nth(at).textContent()).includes(PLACEHOLDER));
    }
    await context.close();
  });
}

test("the skip link is the first stop of the keyboard and leads to the content", async () => {
  const { page, context } = await visit("/");
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement.className), "skip");
  await page.keyboard.press("Enter");
  assert.equal(await page.evaluate(() => document.activeElement.id), "main");
  await context.close();
});

test("every link and every file that a page names is there, anchors included", async () => {
  const { page, context } = await visit("/");
  const seen = new Map();
  const anchors = [];
  const todo = [...pages];
  while (todo.length) {
    const path = todo.shift();
    if (seen.has(path)) continue;
    const answer = await page.request.get(site + path);
    assert.equal(answer.status(), 200, path);
    const isPage = answer.headers()["content-type"].startsWith("text/html");
    const text = await answer.text();
    seen.set(path, new Set(isPage ? [...text.matchAll(/\sid="([^"]+)"/g)].map((found) => found[1]) : []));
    if (!isPage) continue;
    for (const [, name] of text.matchAll(/<[^!>]*?\s(?:href|src)="([^"]*)"/g)) {
      const target = new URL(name.replaceAll("&amp;", "&"), site + path);
      if (target.origin !== new URL(site).origin) {
        assert.ok(["mailto:", "https:"].includes(target.protocol), `${name} on ${path}`);
        continue;
      }
      if (target.hash) anchors.push([path, target.pathname, target.hash.slice(1)]);
      todo.push(target.pathname);
    }
  }
  for (const [from, path, id] of anchors) assert.ok(seen.get(path)?.has(id), `${path}#${id}, named on ${from}, is nowhere`);
  assert.ok(seen.size > pages.length + 5, `only ${seen.size} things were followed`);
  assert.ok(anchors.length > 5);
  await context.close();
});

test("the first load of every page weighs less than 150 KB without compression, and the front page with charts less than 250", async () => {
  for (const path of pages) {
    const weights = new Map();
    const { page, context } = await visit(path, {
      prepare: (page) => page.on("response", async (response) => weights.set(response.url(), (await response.body().catch(() => Buffer.alloc(0))).length)),
    });
    await page.waitForLoadState("networkidle");
    const sum = () => [...weights.values()].reduce((all, each) => all + each, 0);
    assert.ok(weights.size > 4 && sum() < 150_000, `${path}: ${sum()} bytes: ${JSON.stringify([...weights])}`);
    if (path === "/") {
      await page.locator("[data-history]").scrollIntoViewIfNeeded();
      await page.locator("canvas").first().waitFor();
      assert.ok(sum() < 250_000, `with charts ${sum()} bytes`);
    }
    await context.close();
  }
});

test("what is nowhere is answered by a page that leads back", async () => {
  const { page, response, context } = await visit("/no-such-page");
  assert.equal(response.status(), 404);
  assert.equal(await page.locator("h1").textContent(), "Nothing is queued here");
  assert.ok(await page.locator("main a[href='/docs']").isVisible());
  await context.close();
});

test("robots.txt and security.txt say what their readers look for", async () => {
  const { page, context } = await visit("/");
  const robots = await page.request.get(`${site}/robots.txt`);
  assert.match(robots.headers()["content-type"], /^text\/plain/);
  assert.match(await robots.text(), /^User-agent: \*$/m);
  const security = await page.request.get(`${site}/.well-known/security.txt`);
  assert.match(security.headers()["content-type"], /^text\/plain/);
  const text = await security.text();
  const expires = Date.parse(/^Expires: (.+)$/m.exec(text)[1]);
  assert.ok(expires > Date.now() && expires < Date.now() + 366 * 86_400_000, "RFC 9116 wants a date less than a year away");
  assert.match(text, /^Canonical: http.*\/\.well-known\/security\.txt$/m);
  await context.close();
});

test("the away page needs no broker: it is one file without style, script or template", async () => {
  const html = readFileSync(new URL("../../web/pages/away.html", import.meta.url), "utf8");
  assert.doesNotMatch(html, /\{\{|\{%|<style|\sstyle=|<script|<link|\ssrc=/);
  const { page, context, complaints } = await visit("/", { width: 360 });
  await page.route(`${site}/away`, (route) => route.fulfill({ status: 503, contentType: "text/html", headers: { "content-security-policy": "default-src 'self'" }, body: html }));
  await page.goto(`${site}/away`);
  assert.ok(await page.locator("h1").isVisible());
  assert.equal(await page.evaluate(() => document.documentElement.scrollWidth - innerWidth), 0);
  assert.deepEqual(complaints.filter((text) => !text.includes("503")), []);
  await context.close();
});
