// Controls the browser: reads one JSON object a line, does it as a user would (keys and clicks),
// answers one JSON object a line. Started by tests/src/editors/vscode.rs.
//
//   node vscode.mjs PLAYWRIGHT_FOLDER CHROMIUM URL

import { createInterface } from "node:readline";
import { createRequire } from "node:module";

const [playwright, executablePath, url] = process.argv.slice(2);
const { chromium } = createRequire(import.meta.url)(playwright);
const PATIENCE = 120_000;

const browser = await chromium.launch({
  executablePath,
  args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
});
const page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
page.setDefaultTimeout(PATIENCE);

// The page, or the web view of the session.
const view = page.frameLocator("iframe.webview.ready[src*='extensionId=pilcrow']").frameLocator("iframe#active-frame");
const place = ({ within, inView }) => (inView ? view : page).locator(within ?? "body");

const input = ".quick-input-widget .quick-input-filter input";

// VS Code fills the list when it opens, and a stop of a debug session takes the focus and so closes the list:
// it is opened again.
async function palette(key, text, wanted) {
  const row = page.locator(".quick-input-list .monaco-list-row", { hasText: wanted }).first();
  const end = Date.now() + PATIENCE;
  for (;;) {
    try {
      await page.keyboard.press(key);
      await page.locator(input).waitFor({ state: "visible", timeout: 10_000 });
      await page.locator(input).fill(text, { timeout: 10_000 });
      await row.waitFor({ state: "visible", timeout: 10_000 });
      return await row.click({ timeout: 10_000 });
    } catch (error) {
      if (Date.now() > end) throw error;
      await page.keyboard.press("Escape");
    }
  }
}

const hands = {
  async start() {
    await page.goto(url, { waitUntil: "domcontentloaded" });
    await page.locator(".monaco-workbench .part.editor").waitFor({ state: "visible" });
    await page.locator(".statusbar").waitFor({ state: "visible" });
  },
  open: ({ file }) => palette("Control+P", file, file.split("/").at(-1)),
  command: ({ name }) => palette("F1", `>${name}`, name),
  async answer({ text }) {
    await page.locator(input).waitFor({ state: "visible" });
    await page.locator(input).fill(text);
    await page.keyboard.press("Enter");
    await page.locator(input).waitFor({ state: "hidden" });
  },
  async focus() {
    await page.locator(".editor-group-container.active .monaco-editor").first().click({ position: { x: 400, y: 300 } });
  },
  async goto({ line, column }) {
    await page.keyboard.press("Control+G");
    await page.locator(input).waitFor({ state: "visible" });
    await page.locator(input).fill(`:${line}:${column}`);
    await page.keyboard.press("Enter");
    await page.locator(input).waitFor({ state: "hidden" });
  },
  press: ({ key }) => page.keyboard.press(key),
  type: ({ text }) => page.keyboard.type(text),
  click: ({ text, ...where }) => place(where).getByText(text, { exact: false }).first().click(),
  async button({ label, ...where }) {
    const row = place(where).first();
    await row.hover();
    // VS Code's own buttons have different roles, and labels that name their keys too.
    const own = row.locator(`[aria-label^="${label}"]`);
    await (where.inView ? row.getByRole("button", { name: label, exact: true }) : own).first().click();
  },
  async shows({ text, ...where }) {
    await place(where).getByText(text, { exact: false }).first().waitFor({ state: "visible" });
  },
  // The visible text of a part of the window; nothing if it is not there.
  look: async (where) => (await place(where).allInnerTexts()).join("\n"),
  expand: ({ within }) => view.locator(within).locator("summary").first().click(),
  prompt: () => view.locator("#prompt").click(),
  promptText: () => view.locator("#prompt").inputValue(),
  async tab({ label }) {
    const focused = view.locator(":focus");
    for (let step = 0; step < 20; step++) {
      await page.keyboard.press("Shift+Tab");
      const name = (await focused.getAttribute("aria-label")) ?? (await focused.innerText());
      if (name === label) return;
    }
    throw new Error(`no Tab reaches ${label}`);
  },
  choose: ({ label, value }) => view.getByLabel(label, { exact: true }).selectOption(value).then(() => undefined),
  async reload() {
    await page.reload({ waitUntil: "domcontentloaded" });
    await page.locator(".statusbar").waitFor({ state: "visible" });
  },
  screenshot: ({ path }) => page.screenshot({ path, animations: "disabled" }).then(() => undefined),
};

for await (const line of createInterface({ input: process.stdin })) {
  const request = JSON.parse(line);
  try {
    const value = await hands[request.do](request);
    console.log(JSON.stringify({ value: value ?? null }));
  } catch (error) {
    console.log(JSON.stringify({ error: String(error) }));
  }
}
await browser.close();
