/** The hooks for React and Vue, as they are built, with the real ones in a document of jsdom. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { JSDOM } from "jsdom";
import { createElement, StrictMode } from "react";
import { createSSRApp, effectScope, h } from "vue";
import { renderToString } from "vue/server-renderer";
import { Rooms } from "../src/members.js";
import { Ears, type Kind, type Listener } from "../src/listeners.js";
import type { Connection } from "../src/index.js";
import type * as ReactHooks from "../src/react.js";
import type * as VueHooks from "../src/vue.js";

const dist = (name: string) => import(new URL(`../dist/${name}.js`, import.meta.url).href);
const react: typeof ReactHooks = await dist("react");
const vue: typeof VueHooks = await dist("vue");

/** What hooks need of a connection, told by hand. */
class Scripted {
  readonly ears = new Ears();
  /** How many listen. */
  listeners = 0;
  readonly rooms = new Rooms(() => {});

  on(what: Kind, listener: Listener) {
    const off = this.ears.on(what, listener);
    this.listeners++;
    return () => {
      this.listeners--;
      off();
    };
  }

  members(id: string) {
    return this.rooms.look(id);
  }

  tell(n: number, event?: string) {
    this.ears.event({ id: `0${n}`, about: "bob", event, data: n });
  }

  get connection() {
    return this as unknown as Connection<{ "": number; typing: number }>;
  }
}

const list = (...ids: string[]) => ({
  members: { of: "room:7", count: ids.length, list: ids.map((id) => ({ id })) },
});

/** A document, and React in it. */
async function render() {
  const { window } = new JSDOM("<main></main>");
  Object.assign(globalThis, { window, document: window.document, IS_REACT_ACT_ENVIRONMENT: true });
  // Node has one from 21 on.
  globalThis.navigator ??= window.navigator;
  const { createRoot } = await import("react-dom/client");
  const { act } = await import("react");
  const main = window.document.querySelector("main")!;
  const root = createRoot(main);
  return {
    /** What the page shows. */
    text: () => main.textContent,
    act: (work: () => void) => act(async () => work()),
    root,
  };
}

test("useEvents of React shows the newest events of its name while it is mounted", async () => {
  const { text, act, root } = await render();
  const first = new Scripted();
  const second = new Scripted();
  const Feed = ({ from, max }: { from: Scripted | null; max?: number }) => {
    const events = react.useEvents(from?.connection, { event: "typing", max });
    return events.map(({ data, event }) => `${event}${data} `);
  };
  const show = (from: Scripted | null, max?: number) =>
    act(() => root.render(createElement(StrictMode, null, createElement(Feed, { from, max }))));
  await show(null);
  assert.equal(text(), "");
  await show(first, 2);
  assert.equal(first.listeners, 1);
  await act(() => [1, 2, 3].forEach((n) => first.tell(n, "typing")));
  await act(() => first.tell(4));
  assert.equal(text(), "typing2 typing3 ");
  await show(second);
  assert.deepEqual([text(), first.listeners, second.listeners], ["", 0, 1]);
  await act(() => second.tell(5, "typing"));
  assert.equal(text(), "typing5 ");
  await act(() => root.unmount());
  assert.equal(second.listeners, 0);
});

test("useEvents of React without a name shows all events", async () => {
  const { text, act, root } = await render();
  const scripted = new Scripted();
  const Feed = () => react.useEvents(scripted.connection).map(({ data }) => `${data} `);
  await act(() => root.render(createElement(Feed)));
  await act(() => scripted.tell(1, "typing"));
  await act(() => scripted.tell(2));
  assert.equal(text(), "1 2 ");
  await act(() => root.unmount());
});

test("useMembers of React shows who is in the room that it was given last", async () => {
  const { text, act, root } = await render();
  const scripted = new Scripted();
  const Here = ({ room }: { room: string }) => {
    const { list, count } = react.useMembers(scripted.connection, room);
    return `${count}: ${list.map(({ id }) => id)}`;
  };
  const show = (room: string) =>
    act(() => root.render(createElement(StrictMode, null, createElement(Here, { room }))));
  await show("room:7");
  assert.equal(text(), "0: ");
  await act(() => scripted.rooms.hear(list("bob", "ann")));
  assert.equal(text(), "2: bob,ann");
  await act(() => scripted.rooms.hear({ left: { of: "room:7", id: "bob" } }));
  assert.equal(text(), "1: ann");
  await show("room:8");
  assert.deepEqual([text(), scripted.rooms.ids], ["0: ", ["room:8"]]);
  await act(() => root.unmount());
  assert.deepEqual(scripted.rooms.ids, []);
});

test("useMembers of React begins with what is known of the room", async () => {
  const { text, act, root } = await render();
  const scripted = new Scripted();
  scripted.members("room:7");
  scripted.rooms.hear(list("bob"));
  const Here = () => `${react.useMembers(scripted.connection, "room:7").count}`;
  await act(() => root.render(createElement(Here)));
  assert.equal(text(), "1");
  await act(() => root.unmount());
});

test("useEvents of Vue has the newest events until its scope ends", () => {
  const scripted = new Scripted();
  const scope = effectScope();
  const [typing, all] = scope.run(() => [
    vue.useEvents(scripted.connection, { event: "typing", max: 2 }),
    vue.useEvents(scripted.connection),
  ])!;
  [1, 2, 3].forEach((n) => scripted.tell(n, "typing"));
  scripted.tell(4);
  assert.deepEqual(typing.value.map(({ data }) => data), [2, 3]);
  assert.deepEqual(all.value.map(({ data }) => data), [1, 2, 3, 4]);
  scope.stop();
  assert.equal(scripted.listeners, 0);
});

test("useMembers of Vue shows who is in a room until its scope ends", async () => {
  const scripted = new Scripted();
  const scope = effectScope();
  const here = scope.run(() => vue.useMembers(scripted.connection, "room:7"))!;
  assert.deepEqual(here.value, { list: [], count: 0 });
  scripted.rooms.hear(list("bob", "ann"));
  const later = scope.run(() => vue.useMembers(scripted.connection, "room:7"))!;
  const text = () => `${later.value.count}: ${here.value.list.map(({ id }) => id)}`;
  const app = createSSRApp(() => h("p", text()));
  assert.equal(await renderToString(app), "<p>2: bob,ann</p>");
  scope.stop();
  assert.deepEqual(scripted.rooms.ids, []);
});
