// The visitor's tenant identifier: made here, kept here, sent by nothing in this file.

const KEPT_AS = "powerqueue.tenant";
const LETTERS = "abcdefghijklmnopqrstuvwxyz";
const DIGITS = "0123456789";
const LENGTH = 24;
const listeners = new Set();
let current = null;
let kept = true;

/** Whether a text has an identifier's form. */
export const isIdentifier = (text) => /^[a-z][a-z0-9]{23}$/.test(text);

/** A fresh identifier: a letter, then letters and digits, each as likely as any other. */
export function make() {
  let made = pick(LETTERS);
  while (made.length < LENGTH) made += pick(LETTERS + DIGITS);
  return made;
}

/** One of the characters. Bytes past the last whole multiple of their number are thrown away, or the first would be likelier. */
function pick(characters) {
  const fair = 256 - (256 % characters.length);
  const byte = new Uint8Array(1);
  do crypto.getRandomValues(byte); while (byte[0] >= fair);
  return characters[byte[0] % characters.length];
}

/** The identifier in use; the first call of a browser makes it. */
export function identifier() {
  if (current) return current;
  const stored = read();
  return isIdentifier(stored ?? "") ? (current = stored) : use(make());
}

/** Takes another identifier, keeps it, and tells the page. */
export function use(text) {
  current = text;
  try {
    localStorage.setItem(KEPT_AS, text);
    kept = true;
  } catch {
    kept = false;
  }
  for (const listener of listeners) listener(text);
  return text;
}

/** False where the browser refuses to store anything: then the identifier lasts as long as the page. */
export const isKept = () => kept;

export const onChange = (listener) => listeners.add(listener);

function read() {
  try {
    return localStorage.getItem(KEPT_AS);
  } catch {
    kept = false;
    return null;
  }
}

// Another tab of this site took another identifier: this one follows, so that both show the same.
addEventListener("storage", ({ key, newValue }) => {
  if (key !== KEPT_AS || !isIdentifier(newValue ?? "")) return;
  current = newValue;
  for (const listener of listeners) listener(newValue);
});
