// The chat page of a running `frit serve` in headless Chromium: node page.mjs URL [CHROMIUM]
// Needs playwright-core (npm) and a Chromium.
import { chromium } from "playwright-core";

const [url, executablePath = "/usr/bin/chromium"] = process.argv.slice(2);
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
const page = await browser.newPage();
const problems = [];
page.on("pageerror", e => problems.push(e.message));
page.on("console", m => m.type() === "error" && problems.push(m.text()));
page.on("request", r => new URL(r.url()).origin === new URL(url).origin || problems.push("it asks " + r.url()));
await page.goto(url);
await page.waitForFunction(() => document.getElementById("name").textContent !== "frit");
await page.fill("#temperature", "0");
await page.fill("#text", "Say hello.");
await page.press("#text", "Enter");
await page.waitForFunction(() => document.getElementById("stats").textContent.includes("tokens"), null, { timeout: 120000 });
const answer = await page.textContent(".assistant");
if (!answer.trim()) problems.push("the answer is empty");
await page.fill("#text", "Tell me a very long story.");
await page.press("#text", "Enter");
await page.waitForFunction(() => document.querySelectorAll(".assistant")[1]?.textContent.length > 20, null, { timeout: 120000 });
await page.click("#send");
await page.waitForFunction(() => document.getElementById("send").textContent === "send");
await page.click("#reset");
if (await page.locator(".turn").count()) problems.push("turns are left");
await browser.close();
if (problems.length) { console.error(problems.join("\n")); process.exit(1); }
console.log("the page works:", JSON.stringify(answer.slice(0, 80)));
