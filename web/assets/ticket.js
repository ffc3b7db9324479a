// The identifier on the front page: shown, copied, replaced on request.

import { copy, say } from "./code.js";
import { identifier, isIdentifier, isKept, make, onChange, use } from "./tenant.js";

const ticket = document.querySelector("[data-ticket]");
const dialog = document.querySelector("[data-dialog]");
const find = (name) => ticket.querySelector(`[data-${name}]`);
const form = find("other-form");
const opener = find("other-identifier");

function show(text) {
  find("identifier").textContent = text;
  if (!isKept()) find("kept").textContent = "This browser stores nothing for this site, so the identifier ends with the page: copy it. Whoever has it reads your queues: treat it as a password.";
}

show(identifier());
onChange(show);

find("copy-identifier").addEventListener("click", ({ target }) => copy(target, identifier()));

find("new-identifier").addEventListener("click", () => {
  dialog.querySelector("[data-old-identifier]").textContent = identifier();
  dialog.returnValue = "keep";
  dialog.showModal();
});

dialog.addEventListener("close", () => {
  if (dialog.returnValue !== "new") return;
  use(make());
  say("A new identifier is in place.");
});

opener.addEventListener("click", () => {
  form.hidden = !form.hidden;
  opener.setAttribute("aria-expanded", !form.hidden);
  if (!form.hidden) form.elements.other.focus();
});

form.addEventListener("submit", (event) => {
  event.preventDefault();
  const field = form.elements.other;
  const text = field.value.trim();
  const wrong = isIdentifier(text) ? "" : `An identifier has 24 lowercase letters and digits and starts with a letter; this has ${text.length} characters${text.length === 24 ? " of another kind" : ""}.`;
  form.querySelector(".error").textContent = wrong;
  field.setAttribute("aria-invalid", Boolean(wrong));
  if (wrong) return field.focus();
  use(text);
  field.value = "";
  form.hidden = true;
  opener.setAttribute("aria-expanded", "false");
  opener.focus();
  say("The identifier you gave is in place.");
});
