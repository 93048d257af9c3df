/** What axe-core finds wrong with how a page can be read and used by all: nothing, on any page. */

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import type { Page } from "playwright-core";

const script = readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

interface Violation {
  id: string;
  help: string;
  nodes: { html: string; failureSummary?: string }[];
}

/** Fails where axe finds a violation of WCAG 2.2 A or AA, or of what it calls best practice. */
export async function expectAccessible(page: Page, form: string): Promise<void> {
  // By the debugger, since the page's policy lets no script of others in.
  const found = await page.evaluate(`${await script};
    axe.run(document, { resultTypes: ["violations"] }).then((found) => JSON.stringify(found))`);
  const { violations, passes } = JSON.parse(found as string);
  assert.ok(passes.length > 10, `${form}: axe has looked at nothing`);
  const told = (violations as Violation[]).map(({ id, help, nodes }) => {
    const places = nodes.map(({ html, failureSummary }) => `${html}\n  ${failureSummary}`);
    return `${id}: ${help}\n  ${places.join("\n  ")}`;
  });
  assert.deepEqual(told, [], `${form}: ${told.join("\n")}`);
}

/** Milliseconds from the request for the page until it showed something. */
export async function firstPaint(page: Page): Promise<number> {
  // As text: what runs the tests gives functions a helper that pages do not have.
  const painted = await page.evaluate(`(async () => {
    for (;;) {
      const [paint] = performance.getEntriesByName("first-contentful-paint");
      if (paint) return paint.startTime;
      await new Promise(requestAnimationFrame);
    }
  })()`);
  return painted as number;
}
