/**
 * What a program can see of how a page looks: light and dark, on a telephone and on a desk.
 * `PICTURES=FOLDER` keeps the pictures, for eyes that judge what no test can.
 */

import assert from "node:assert/strict";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { expectAccessible } from "./axe.js";

const SCREENS = { phone: { width: 390, height: 844 }, desk: { width: 1280, height: 900 } };

const SCHEMES = ["light", "dark"] as const;

/** Takes the page in each form, and checks what a program can check of it. */
export async function look(page: Page, name: string): Promise<void> {
  for (const colorScheme of SCHEMES) {
    // What moves in is half seen for a moment, and no text to be read then.
    await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
    for (const [screen, size] of Object.entries(SCREENS)) {
      await page.setViewportSize(size);
      await page.evaluate(painted);
      const form = `${name}-${screen}-${colorScheme}`;
      const width = await page.evaluate(() => document.documentElement.scrollWidth);
      const past = width <= size.width ? [] : await page.evaluate(widest, size.width);
      assert.ok(width <= size.width, `${form} is ${width} wide: ${past.join(", ")}`);
      assert.deepEqual(await page.evaluate(fadedTexts), [], form);
      await expectAccessible(page, form);
      if (process.env.PICTURES) {
        await mkdir(process.env.PICTURES, { recursive: true });
        const path = join(process.env.PICTURES, `${form}.png`);
        await page.evaluate(() => scrollTo(0, 0));
        await page.screenshot({ path, fullPage: true });
      }
    }
  }
}

/** In the page: its next frame has been laid out and painted, with what observers of sizes do. */
function painted(): Promise<void> {
  return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done())));
}

/** In the page: what reaches past its edge and is cut by nothing, the inmost of it. */
function widest(edge: number): string[] {
  const reaches = (element: Element) => element.getBoundingClientRect().right > edge;
  const isCut = (element: Element): boolean => {
    const above = element.parentElement;
    return above !== null && (getComputedStyle(above).overflowX !== "visible" || isCut(above));
  };
  return [...document.body.querySelectorAll("*")]
    .filter((element) => reaches(element) && !isCut(element))
    .filter((element) => ![...element.children].some(reaches))
    .map((element) => `${element.tagName} #${element.id} .${element.className}: ${element.textContent}`);
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
