// The live figures and the charts. One cached answer every five seconds while somebody looks; none in a hidden tab.

import { ask, bytes, clock, duration, number, whileVisible } from "./service.js";

const EVERY = 5;
/** So long without a newer answer, and the figures are called old. */
const STALE_AFTER = 15;
const WORDS = { number, bytes, duration, text: (value) => value ?? "–" };

const section = document.querySelector("[data-statistics]");
const stateText = section.querySelector("[data-state-text]");
const ago = section.querySelector("[data-ago]");
const figures = [...section.querySelectorAll("[data-figure]")].map((element) => ({
  element, path: element.dataset.figure.split("."), words: WORDS[element.dataset.as ?? "number"],
}));

let seen = null; // { time: of the service, at: here }

whileVisible(EVERY, async () => {
  try {
    const stats = await ask("/api/stats");
    if (!seen || stats.time > seen.time) seen = { time: stats.time, at: performance.now(), shown: Date.now() };
    for (const { element, path, words } of figures) {
      const text = words(path.reduce((value, key) => value?.[key], stats));
      if (element.textContent !== text) element.textContent = text;
    }
    judge(true, stats.ready);
  } catch {
    judge(false);
  }
});
setInterval(() => { if (!document.hidden) tick(); }, 1000);

function judge(answered, ready = true) {
  const age = seen ? (performance.now() - seen.at) / 1000 : Infinity;
  const stale = !answered || age > STALE_AFTER;
  section.classList.toggle("stale", stale);
  section.classList.toggle("fresh", !stale);
  const text = stale
    ? seen ? `Not updated since ${clock(seen.shown)}: the service may be down.` : "No figures: the service does not answer."
    : ready ? "Live" : "Live, and not ready for messages yet";
  if (stateText.textContent !== text) stateText.textContent = text;
  tick();
}

function tick() {
  const stale = section.classList.contains("stale");
  const age = seen ? Math.round((performance.now() - seen.at) / 1000) : 0;
  ago.textContent = seen && !stale ? `· updated ${age < 2 ? "just now" : `${age} s ago`}` : "";
}

// --- charts: fetched and drawn when they come near the screen -------------------------------------------------------

const history = section.querySelector("[data-history]");
new IntersectionObserver(async (entries, observer) => {
  if (!entries.some((entry) => entry.isIntersecting)) return;
  observer.disconnect();
  const { start } = await import("./charts.js");
  start(history);
}, { rootMargin: "300px" }).observe(history);
