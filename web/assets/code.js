// Code on a page: the visitor's identifier filled in, copy buttons, one language at a time.

import { identifier, onChange } from "./tenant.js";

const PLACEHOLDER = "YOUR-TENANT-IDENTIFIER";
const CHOSEN_AS = "powerqueue.language";
// Strings first, so that "https://…" is no remark.
const TOKENS = /("(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`[^`\n]*`)|((?:^|(?<=\s))(?:#|\/\/) .*$)/gm;

/** Makes the code under an element useful. */
export function dress(root) {
  for (const figure of root.querySelectorAll("[data-code]")) {
    if (figure.classList.contains("program")) colour(figure.querySelector("code"));
    addCopy(figure.querySelector("figcaption"), () => figure.querySelector("code").textContent, figure.querySelector("pre").ariaLabel);
  }
  for (const element of root.querySelectorAll("[data-copyable]")) addCopy(element.parentElement, () => element.textContent, "endpoint");
  for (const element of root.querySelectorAll("mark.tenant, code")) markPlaceholders(element);
  fill();
  for (const group of root.querySelectorAll("[data-languages]")) tabs(group);
  choose(chosen());
}

// What a button says again once it has said how copying went.
const resting = new WeakMap();

/** Copies a text and says so on the button; without permission it selects nothing and says that instead. */
export async function copy(button, text) {
  const rest = resting.get(button) ?? { label: button.textContent, name: button.ariaLabel };
  resting.set(button, rest);
  let copied;
  try {
    await navigator.clipboard.writeText(text);
    copied = true;
  } catch {
    copied = copyByHand(text);
  }
  button.textContent = copied ? "Copied" : "Not allowed";
  button.ariaLabel = null;
  say(`${button.textContent}.`);
  clearTimeout(rest.timer);
  rest.timer = setTimeout(() => {
    button.textContent = rest.label;
    button.ariaLabel = rest.name;
    resting.delete(button);
  }, 1600);
}

/** Speaks to screen readers. */
export function say(text) {
  let voice = document.querySelector("#voice");
  if (!voice) {
    voice = document.createElement("p");
    voice.id = "voice";
    voice.className = "sr";
    voice.role = "status";
    document.body.append(voice);
  }
  voice.textContent = text;
}

// For pages over plain HTTP, where there is no clipboard interface.
function copyByHand(text) {
  const area = document.createElement("textarea");
  area.value = text;
  area.className = "sr";
  document.body.append(area);
  area.select();
  const worked = document.execCommand("copy");
  area.remove();
  return worked;
}

function addCopy(place, text, what) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "plain";
  button.textContent = "Copy";
  button.ariaLabel = `Copy ${what}`;
  button.dataset.copy = "";
  button.addEventListener("click", () => copy(button, text()));
  place.append(button);
}

function colour(code) {
  const text = code.textContent;
  const parts = [];
  let at = 0;
  for (const match of text.matchAll(TOKENS)) {
    parts.push(text.slice(at, match.index), span(match[1] ? "quoted" : "remark", match[0]));
    at = match.index + match[0].length;
  }
  code.replaceChildren(...parts, text.slice(at));
}

function span(name, text) {
  const element = document.createElement("span");
  element.className = name;
  element.textContent = text;
  return element;
}

function markPlaceholders(element) {
  if (element.matches("mark.tenant")) return;
  const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  const found = [];
  while (walker.nextNode()) if (walker.currentNode.data.includes(PLACEHOLDER)) found.push(walker.currentNode);
  for (const node of found) {
    const rest = node.splitText(node.data.indexOf(PLACEHOLDER));
    rest.splitText(PLACEHOLDER.length);
    const mark = document.createElement("mark");
    mark.className = "tenant";
    rest.replaceWith(mark);
    mark.append(rest);
  }
}

function fill() {
  const marks = document.querySelectorAll("mark.tenant");
  // A private broker has keys of its own, which no page can make.
  if (marks.length === 0 || document.documentElement.dataset.mode === "private") return;
  for (const mark of marks) mark.textContent = identifier();
}
onChange(fill);

// --- languages ------------------------------------------------------------------------------------------------------

function chosen() {
  try {
    return localStorage.getItem(CHOSEN_AS);
  } catch {
    return null;
  }
}

let groups = 0;

function tabs(group) {
  const panels = [...group.querySelectorAll(":scope > [data-language]")];
  const list = document.createElement("div");
  list.role = "tablist";
  list.ariaLabel = "Language";
  const prefix = `languages-${groups++}`;
  for (const panel of panels) {
    const tab = document.createElement("button");
    tab.type = "button";
    tab.role = "tab";
    tab.id = `${prefix}-${panel.dataset.language}`;
    tab.textContent = panel.dataset.name;
    tab.dataset.chooses = panel.dataset.language;
    panel.role = "tabpanel";
    panel.id = `${tab.id}-panel`;
    panel.setAttribute("aria-labelledby", tab.id);
    tab.setAttribute("aria-controls", panel.id);
    panel.querySelector(".language").hidden = true;
    tab.addEventListener("click", () => remember(tab.dataset.chooses, tab));
    list.append(tab);
  }
  list.addEventListener("keydown", (event) => {
    const all = [...list.children];
    const at = all.indexOf(document.activeElement);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: all.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    const tab = all[(to + all.length) % all.length];
    tab.focus();
    remember(tab.dataset.chooses, tab);
  });
  group.prepend(list);
}

/** Shows a language in every group of the page and keeps the clicked tab where it is on the screen. */
function remember(language, tab) {
  const before = tab.getBoundingClientRect().top;
  choose(language);
  scrollBy({ top: tab.getBoundingClientRect().top - before, behavior: "instant" });
  try {
    localStorage.setItem(CHOSEN_AS, language);
  } catch { /* the choice then lasts as long as the page */ }
}

function choose(language) {
  for (const group of document.querySelectorAll("[data-languages]")) {
    const names = [...group.querySelectorAll(":scope > [data-language]")].map((panel) => panel.dataset.language);
    const shown = names.includes(language) ? language : names[0];
    for (const panel of group.querySelectorAll(":scope > [data-language]")) panel.hidden = panel.dataset.language !== shown;
    for (const tab of group.querySelectorAll("[role=tab]")) {
      tab.setAttribute("aria-selected", tab.dataset.chooses === shown);
      tab.tabIndex = tab.dataset.chooses === shown ? 0 : -1;
    }
  }
}
