/**
 * How the server's pages look: light and dark, on a telephone and on a desk, calm where calm is
 * asked for. `PICTURES=FOLDER` keeps the pictures, for eyes that judge what no test can.
 */

import assert from "node:assert/strict";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import type { Page } from "playwright-core";
import { openContext, openPage } from "./browser.js";
import { startDemo } from "./program.js";

const SCREENS = { phone: { width: 390, height: 844 }, desk: { width: 1280, height: 900 } };

const SCHEMES = ["light", "dark"] as const;

/** Takes the page in each form, and checks what a program can check of it. */
async function look(page: Page, name: string): Promise<void> {
  for (const colorScheme of SCHEMES) {
    await page.emulateMedia({ colorScheme });
    for (const [screen, size] of Object.entries(SCREENS)) {
      await page.setViewportSize(size);
      const form = `${name}-${screen}-${colorScheme}`;
      const width = await page.evaluate(() => document.documentElement.scrollWidth);
      assert.ok(width <= size.width, `${form} is ${width} wide`);
      assert.deepEqual(await page.evaluate(fadedTexts), [], form);
      if (process.env.PICTURES) {
        await mkdir(process.env.PICTURES, { recursive: true });
        const path = join(process.env.PICTURES, `${form}.png`);
        await page.evaluate(() => scrollTo(0, 0));
        await page.screenshot({ path, fullPage: true });
      }
    }
  }
}

/** In the page: texts whose contrast is below 4.5:1 (WCAG 2.2, 1.4.3), 3:1 where they are large. */
function fadedTexts(): string[] {
  type Colour = [number, number, number, number];
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true })!;
  const colour = (css: string): Colour => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = css;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = (top: Colour, below: Colour): Colour => {
    const mix = (at: number) => top[at] * top[3] + below[at] * (1 - top[3]);
    return [mix(0), mix(1), mix(2), 1];
  };
  const luminance = (rgb: Colour) => {
    const [r, g, b] = rgb.map((value) => {
      const share = value / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  /** What is behind an element; `null` where a picture is. */
  const behind = (element: Element | null): Colour | null => {
    if (element === null) return colour("Canvas");
    const style = getComputedStyle(element);
    if (style.backgroundImage !== "none" || element.matches(".sky")) return null;
    const own = colour(style.backgroundColor);
    if (own[3] === 1) return own;
    const below = behind(element.parentElement);
    return below && over(own, below);
  };
  const faded: string[] = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let text = walk.nextNode(); text; text = walk.nextNode()) {
    const element = text.parentElement!;
    const isSeen = element.checkVisibility({ opacityProperty: true, visibilityProperty: true });
    if (!text.textContent?.trim() || !isSeen || element.closest("svg, .spoken, script, style")) {
      continue;
    }
    const ground = behind(element);
    if (!ground) continue;
    const { color, fontSize, fontWeight } = getComputedStyle(element);
    const [a, b] = [luminance(over(colour(color), ground)), luminance(ground)];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const size = parseFloat(fontSize);
    const isLarge = size >= 24 || (size >= 18.66 && Number(fontWeight) >= 700);
    if (contrast < (isLarge ? 3 : 4.5)) {
      faded.push(`${text.textContent.trim().slice(0, 40)}: ${contrast.toFixed(2)}`);
    }
  }
  return faded;
}

test("both pages fit each screen and can be read, light and dark", async (t) => {
  const { url, api } = await startDemo(t, "--users=300", "--rate=60");
  const context = await openContext(t);
  // The runner's compiler calls it in each function with functions of its own.
  await context.addInitScript("globalThis.__name = (of) => of");

  const page = await openPage(t, context, `${url}#3`, { hosts: [api] });
  await page.locator("#feed .listens").nth(5).waitFor();
  await page.fill("#words", "Good evening from Earth");
  await page.press("#words", "Enter");
  await page.locator("#said", { hasText: "Back here after" }).waitFor();
  await page.waitForSelector("#followers .there.online");
  await look(page, "demo");

  const hosts = [new URL(url).host];
  const dashboard = await openPage(t, context, `http://${api}/#id=3`, { hosts });
  await dashboard.locator('#state[data-state="live"]').waitFor();
  await dashboard.fill("#send-about", "3");
  await dashboard.getByRole("button", { name: "Send", exact: true }).click();
  await dashboard.locator("#arrivals .took").first().waitFor();
  await dashboard.locator("#tune-sum", { hasText: "fit" }).waitFor();
  await dashboard.locator("#figures-details summary").click();
  await dashboard.locator("#figures-table tbody tr").nth(5).waitFor();
  await dashboard.locator("#figures-details summary").click();
  await look(dashboard, "dashboard");
});

test("who asks for calm sees nothing move in", async (t) => {
  const { url, api } = await startDemo(t, "--users=300", "--rate=60");
  const context = await openContext(t, { reducedMotion: "reduce" });
  const page = await openPage(t, context, `${url}#3`, { hosts: [api] });
  const row = page.locator("#feed .item").first();
  await row.waitFor();
  const animation = await row.evaluate((row) => {
    row.classList.add("fresh", "says");
    return getComputedStyle(row).animationName;
  });
  assert.equal(animation, "none");
});
