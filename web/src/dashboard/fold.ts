// Parts that open and close. On a desk they are open but for what is asked for seldom; a telephone
// shows their names, and what one opens. A link to a part opens it.

const desk = matchMedia("(min-width: 40rem)");

function parts(): NodeListOf<HTMLDetailsElement> {
  return document.querySelectorAll<HTMLDetailsElement>("details.part");
}

function follow(): void {
  const target = location.hash === "" ? null : document.getElementById(location.hash.slice(1));
  const part = target?.querySelector<HTMLDetailsElement>("details.part");
  if (part) part.open = true;
}

export function fold(): void {
  for (const part of parts()) part.open = desk.matches && !part.hasAttribute("data-seldom");
  addEventListener("hashchange", follow);
  follow();
}
