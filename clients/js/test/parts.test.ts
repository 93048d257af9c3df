/** The parts that need no server: cursors, ids, and how long a full server is left alone. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { Cursor } from "../src/cursor.js";
import { refusal } from "../src/failure.js";
import { SpokenIds } from "../src/spoken.js";

test("full server that does not say when, or not to this page, is left alone", async () => {
  const asked = async (status: number, after?: string) => {
    const headers: HeadersInit = after ? { "retry-after": after } : {};
    return (await refusal(new Response("", { status, headers }))).retryAfterMs;
  };
  assert.equal(await asked(503), 5000);
  assert.equal(await asked(503, "-7"), 5000, "no wait ends before it has begun");
  assert.equal(await asked(429, "Fri, 31 Dec 1999 23:59:59 GMT"), 5000);
});

test("cursor passes each id once and after a gap any", () => {
  const cursor = new Cursor("0005");
  assert.deepEqual(["0004", "0005", "0006", "0006", ""].map((id) => cursor.pass(id)), [
    false,
    false,
    true,
    false,
    false,
  ]);
  cursor.gap();
  assert.equal(cursor.at, "0006", "the old one stays until another comes");
  assert.equal(cursor.pass("0001"), true, "another server counts from elsewhere");
  assert.equal(cursor.pass("0001"), false);
});

test("ids said to the stream are answered in order, refused ones are forgotten", async () => {
  const ids = new SpokenIds(["a", 7]);
  const said: object[] = [];
  ids.speak((words) => said.push(words));
  const reopen = () => assert.fail("the stream can be told");
  const taken = [
    ids.change("login", ["b"], reopen),
    ids.change("login", ["c", "a"], reopen),
    ids.change("logout", ["7"], reopen),
    ids.change("login", ["a"], reopen),
  ];
  assert.deepEqual(said, [{ login: ["b"] }, { login: ["c"] }, { logout: ["7"] }]);
  ids.answered();
  ids.answered(new Error("no"));
  ids.answered();
  assert.deepEqual(await Promise.all(taken), [true, false, true, true]);
  assert.deepEqual(ids.all, ["a", "b"]);
});
