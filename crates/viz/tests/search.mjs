// A recorded search in the page: node search.mjs ADDRESS [SCREENSHOTS]
import { chromium } from "playwright-core";
import assert from "node:assert/strict";

const [, , address, shots] = process.argv;
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM || "/usr/bin/chromium", args: ["--no-sandbox"] });
const page = await browser.newPage({ viewport: { width: 1440, height: 860 } });
const faults = [];
page.on("pageerror", (e) => faults.push(e.message));
await page.goto(`${address}#/search`);
await page.waitForSelector(".tree .step");
const searches = await page.evaluate(() => frit.pack.index.searches);
assert.ok(searches.length > 0);
// all but those that a search begins with hang on one of an earlier round
for (const s of searches) for (const [i, [round, , , parent]] of s.candidates.entries()) if (round) assert.ok(parent > 0 && parent <= i && s.candidates[parent - 1][0] < round, `${s.name}: ${i} hangs on ${parent}`);
assert.ok((await page.locator(".tree .step.best").count()) > 0, "the way to the winner is marked");
if (shots) await page.screenshot({ path: `${shots}/search.png` });
// a recording that was asked for all candidates has the passes of each, apart from the kernels that ran
const [candidates, all] = await page.evaluate(() => [frit.pack.index.kernels.filter((k) => k.candidate).length, frit.pack.index.kernels.length]);
if (candidates) {
  await page.locator(".tree .opts a").first().click();
  await page.waitForFunction(() => /#\/kernels\/\d+/.test(location.hash) && document.querySelector(".side.right"));
  assert.match(await page.locator("#view").innerText(), /candidate \d+ of a search/);
  await page.goto(`${address}#/kernels`);
  await page.waitForSelector("table.grid tbody tr");
  assert.equal(await page.locator("table.grid tbody tr").count(), all - candidates);
}
assert.deepEqual(faults, []);
await browser.close();
console.log("the search is shown");
