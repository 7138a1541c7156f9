// A large recording in headless Chromium: node large.mjs ADDRESS [SCREENSHOTS]. It opens in two seconds, its largest graphs are
// laid out, the timeline is drawn in 10 ms a frame however many events it has, and the page stays under 500 MB.
// Needs playwright-core; CHROMIUM says where the browser is.
import { chromium } from "playwright-core";
import assert from "node:assert/strict";
import fs from "node:fs";

const [, , address, shots] = process.argv;
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM || "/usr/bin/chromium", args: ["--no-sandbox", "--enable-precise-memory-info"] });
const page = await (await browser.newContext({ viewport: { width: 1440, height: 860 } })).newPage();
const faults = [];
page.on("pageerror", (e) => faults.push(e.message));

// MB of the largest process that draws a page: its script, its canvases and its worker
function resident() {
  const sizes = fs.readdirSync("/proc").filter((n) => /^\d+$/.test(n)).map((pid) => {
    try {
      if (!fs.readFileSync(`/proc/${pid}/cmdline`, "utf8").includes("--type=renderer")) return 0;
      return Number(/RssAnon:\s+(\d+)/.exec(fs.readFileSync(`/proc/${pid}/status`, "utf8"))[1]) / 1000;
    } catch {
      return 0;
    }
  });
  return Math.max(...sizes);
}
const laidOut = () => page.waitForFunction(() => frit.graph?.placed, null, { timeout: 30000 });
const shot = async (name) => shots && (await page.screenshot({ path: `${shots}/${name}.png` }));
let most = 0;
const look = () => (most = Math.max(most, resident()));

await page.goto(address);
await page.waitForFunction(() => window.frit?.opened, null, { timeout: 30000 });
const opened = await page.evaluate(() => frit.opened);
const index = await page.evaluate(() => ({ ...frit.pack.index.counts, kernels: frit.pack.index.kernels.length, events: frit.pack.index.timeline.tracks.reduce((s, t) => s + t.events, 0) }));
look();
if (index.kernels) {
  // the program with most kernels, and the ten kernels with most rules, each in the pass that has most of them
  const program = await page.evaluate(() => frit.pack.index.programs.reduce((b, p, i, all) => (p.calls > (all[b]?.calls ?? -1) ? i : b), 0));
  if (await page.evaluate(() => frit.pack.index.programs.length)) {
    await page.evaluate((p) => (location.hash = `#/programs/${p}`), program);
    await laidOut();
    look();
    await shot("large-program");
  }
  const passes = await page.evaluate(() => {
    const best = frit.pack.index.kernels.map((k, i) => [i, ...k.passes.reduce((b, p, j) => (p[2] > b[1] ? [j, p[2]] : b), [0, -1])]);
    return best.sort((a, b) => b[2] - a[2]).slice(0, 10);
  });
  for (const [kernel, pass] of passes.filter((p) => p[2] >= 0)) {
    await page.evaluate(([k, p]) => (location.hash = `#/kernels/${k}/passes/${p}/graph`), [kernel, pass]);
    await page.waitForFunction(([k, p]) => location.hash.includes(`/kernels/${k}/passes/${p}/`) && (frit.graph?.placed || document.querySelector(".code, .empty")), [kernel, pass], { timeout: 30000 });
    look();
  }
  await shot("large-pass");
}
await page.evaluate(() => (location.hash = "#/timeline"));
await page.waitForFunction(() => frit.graph?.frames?.length > 0 && frit.graph.t);
await page.mouse.move(800, 300);
for (let i = 0; i < 60; i++) {
  await page.mouse.wheel(0, i % 20 < 12 ? -160 : 240);
  await page.waitForTimeout(16);
}
look();
await page.waitForTimeout(300);
const frames = await page.evaluate(() => [...frit.graph.frames].sort((a, b) => a - b));
const median = frames[frames.length >> 1];
await shot("large-timeline");
const heap = await page.evaluate(() => performance.memory.usedJSHeapSize / 1e6);
look();
console.log(`${index.kernels} kernels, ${index.rules} rules, ${index.events} events: opened in ${opened.toFixed(0)} ms, ${most.toFixed(0)} MB at most (${heap.toFixed(0)} MB of script at last), a frame of the timeline ${median.toFixed(1)} ms`);
assert.ok(opened < 2000, "it opens in two seconds");
assert.ok(most < 500, "it stays under 500 MB");
assert.ok(median < 10, "a frame takes less than 10 ms");
assert.deepEqual(faults, []);
await browser.close();
