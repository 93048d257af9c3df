// Elements out of code. Whatever comes from a server or a person becomes text, never markup:
// nothing here or in the pages takes HTML.

type Child = Node | string | number;

/** An element with attributes and children; `false` and `undefined` leave an attribute out. */
export function el<K extends keyof HTMLElementTagNameMap>(
  name: K,
  attributes: Record<string, string | number | boolean | undefined> = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== false) {
      element.setAttribute(key, value === true ? "" : String(value));
    }
  }
  element.append(...children.map((child) => (typeof child === "number" ? String(child) : child)));
  return element;
}

/** The element with that id, which the page's own markup has. */
export function byId<T extends HTMLElement = HTMLElement>(id: string): T {
  const element = document.getElementById(id);
  if (element === null) throw new Error(`the page lacks #${id}`);
  return element as T;
}

/** Sets a text only when it is another one, so that nothing is laid out or read out twice. */
export function setText(element: Element, text: string): void {
  if (element.textContent !== text) element.textContent = text;
}
