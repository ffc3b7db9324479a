// A browser against the site of COMPAT_SITE, and what the tests ask of every page.
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { after } from "node:test";
import { chromium } from "playwright-core";

export const site = (process.env.COMPAT_SITE ?? "http://127.0.0.1:9325").replace(/\/$/, "");
export const pages = ["/", "/how", "/docs", "/docs/sqs", "/limits", "/address", "/privacy"];
export const PLACEHOLDER = "YOUR-TENANT-IDENTIFIER";
export const IDENTIFIER = /^[a-z][a-z0-9]{23}$/;

const executablePath = process.env.COMPAT_CHROMIUM ?? ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find(existsSync);
const browser = await chromium.launch({
  executablePath,
  args: ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--no-first-run"],
});
after(() => browser.close());

/** A page of a browser that knows nothing yet; `complaints` fills with what the console, scripts and the policy object to. */
export async function visit(path, { width = 1280, height = 900, prepare, ...options } = {}) {
  // The edge's certificate comes from an authority made for this run.
  const context = await browser.newContext({ viewport: { width, height }, reducedMotion: "reduce", ignoreHTTPSErrors: true, ...options });
  const page = await context.newPage();
  const complaints = [];
  page.on("console", (message) => { if (["error", "warning"].includes(message.type())) complaints.push(message.text()); });
  page.on("pageerror", (error) => complaints.push(`${error}`));
  const requests = [];
  page.on("request", (request) => requests.push(request));
  await prepare?.(page, context);
  const response = await page.goto(site + path, { waitUntil: "load" });
  return { page, context, complaints, requests, response };
}

/** Everything of a request that leaves the browser, as one text. */
export const sent = (request) => JSON.stringify([request.url(), request.headers(), request.postData()]);

/** Goes through the whole page, so that what is drawn late is drawn. */
export async function scrollThrough(page) {
  await page.evaluate(async () => {
    for (let y = 0; y < document.body.scrollHeight; y += 500) {
      scrollTo(0, y);
      await new Promise(requestAnimationFrame);
    }
    scrollTo(0, 0);
  });
}

export async function clipboard(page) {
  return page.evaluate(() => navigator.clipboard.readText());
}

export const json = (body, status = 200, headers = {}) => ({ status, headers, contentType: "application/json", body: JSON.stringify(body) });

export function assertNothingLeaves(requests) {
  for (const request of requests) assert.ok(request.url().startsWith(site), `the page asks ${request.url()}`);
}
