// Elements out of code. Whatever comes from the daemon, and with it from others' files, becomes
// text, never markup: nothing here or in the page takes HTML.

/** An element with attributes and children; `false` and `undefined` leave an attribute out. */
export function el(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== false) {
      element.setAttribute(key, value === true ? "" : String(value));
    }
  }
  element.append(...children);
  return element;
}

/** The element with that id, which the page's own markup has. */
export function byId(id) {
  const element = document.getElementById(id);
  if (element === null) throw new Error(`the page lacks #${id}`);
  return element;
}

/** Sets a text only when it is another one, so that nothing is laid out or read out twice. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** At most `max` characters of what should be a text, whatever it is. */
export function words(value, max = 300) {
  const text = typeof value === "string" ? value : typeof value === "number" ? String(value) : "";
  return text.length > max ? `${text.slice(0, max)}…` : text;
}

/** `187` seconds as `3:07`; nothing for what is no length. */
export function clock(seconds) {
  if (!Number.isFinite(seconds) || seconds <= 0) return "";
  const whole = Math.round(seconds);
  return `${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, "0")}`;
}

/** Milliseconds as people say them. */
export function took(ms) {
  if (ms < 10) return `${ms.toFixed(1)} ms`;
  return ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`;
}

/** A number of things, with its word. */
export function count(number, one, many) {
  return `${number} ${number === 1 ? one : many}`;
}
