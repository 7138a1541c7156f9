// Drives the page in headless Chromium as a person would: node page.mjs ADDRESS EXPORTED.html COUNTS.json [SCREENSHOTS]
// Needs playwright-core; CHROMIUM says where the browser is.
import { chromium } from "playwright-core";
import assert from "node:assert/strict";
import fs from "node:fs";
import http from "node:http";
import { HOSTILE } from "./names.mjs";

const [, , address, exported, countsFile, shots] = process.argv;
const counts = JSON.parse(fs.readFileSync(countsFile, "utf8"));
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM || "/usr/bin/chromium", args: ["--no-sandbox"] });
const context = await browser.newContext({ viewport: { width: 1440, height: 860 }, colorScheme: "dark" });
const page = await context.newPage();
const faults = [];
page.on("pageerror", (e) => faults.push(e.message));
page.on("console", (m) => m.type() === "error" && faults.push(m.text()));
page.on("dialog", (d) => (faults.push(`a dialog: ${d.message()}`), d.dismiss()));

const go = async (link) => {
  await page.goto(address + link);
  await page.reload();
  await page.waitForFunction(() => window.frit?.opened);
};
const laidOut = () => page.waitForFunction(() => frit.graph?.placed, null, { timeout: 20000 });
const shot = async (name) => shots && (await page.screenshot({ path: `${shots}/${name}.png` }));

// counts against the file
await go("#/programs");
const index = await page.evaluate(() => ({ counts: frit.pack.index.counts, programs: frit.pack.index.programs.length, kernels: frit.pack.index.kernels.length }));
assert.equal(index.counts.nodes, counts.node, "nodes");
assert.equal(index.counts.rules, counts.rule, "rules");
assert.equal(index.counts.launches, counts.launch, "launches");
assert.equal(index.programs, counts.schedule, "programs");
assert.equal(index.kernels, counts.compile, "kernels");
assert.ok((await page.evaluate(() => frit.opened)) < 2000, "it opens in two seconds");

// a program, a node by its link
await page.locator(".side:not(.right) .item").last().click();
await laidOut();
const node = await page.evaluate(() => frit.graph.nodes.find((n) => n.fill).id);
const program = await page.evaluate(() => location.hash.split("/")[2]);
await go(`#/programs/${program}/node/${node}`);
await laidOut();
await page.waitForSelector(".detail dl");
assert.match(await page.locator(".detail").innerText(), /made by[\s\S]*\.rs:\d+/);
await shot("programs");

// keys work without a click on the graph
await page.evaluate(() => frit.graph.zoom(3));
const zoomed = await page.evaluate(() => frit.graph.scale);
await page.keyboard.press("f");
await page.waitForFunction((s) => frit.graph.scale < s, zoomed);

// why the operations of its line became these kernels
await page.locator(".detail dd a", { hasText: ".rs:" }).first().click();
await page.waitForFunction(() => location.hash.includes("/line/"));
await page.waitForFunction(() => /operations? in \d+ kernel/.test(document.querySelector(".side.right .detail")?.innerText || ""));
assert.match(await page.locator(".side.right .detail").innerText(), /computes [\w, ]+: (\d+ )?[A-Z]/);
await shot("line");

// kernels: filtered, sorted, opened
await go("#/kernels");
const rows = page.locator("table.grid tbody tr");
assert.equal(await rows.count(), index.kernels);
await page.keyboard.press("/");
await page.keyboard.type("r_");
assert.ok((await rows.count()) < index.kernels);
await page.locator("th", { hasText: "compiled in" }).click();
await shot("kernels");
// the pass with most rules, and the one that replaces most in code
const most = (isCode) => page.evaluate(async (isCode) => {
  let best = [0, 0, -1];
  for (const [i, k] of frit.pack.index.kernels.entries()) {
    const { passes, texts } = await frit.pack.json(k.part);
    passes.forEach((p, j) => {
      const own = p.rules.filter((t, r) => r % 6 === 0 && (texts[t] === p.name) === isCode).length;
      if (own > best[2] && own === p.rules.length / 6) best = [i, j, own];
    });
  }
  return best;
}, isCode);
const [coded, codedPass, replaced] = await most(true);
assert.ok(replaced > 10, `${replaced} nodes are replaced in code`);
await go(`#/kernels/${coded}/passes/${codedPass}/graph/0`);
await laidOut();
await page.waitForSelector(".expr.after");
assert.match(await page.locator(".detail").innerText(), /replaced by[^]*pass[^]*crates\/.*\.rs:\d+/);
assert.match(await page.locator(".rule.on").innerText(), / → .*: /, "the ops before and after are told");
await shot("replaced");
const [kernel, pass] = await most(false);
await go(`#/kernels/${kernel}/passes/${pass}/graph`);
await laidOut();
await page.keyboard.press("ArrowRight");
await page.waitForSelector(".rule.on");
await page.keyboard.press("ArrowRight");
await page.waitForFunction(() => location.hash.endsWith("/graph/1"));
await laidOut();
await page.waitForSelector(".expr.after");
assert.match(await page.locator(".detail").innerText(), /crates\/.*\.rs:\d+/);
assert.match(await page.locator(".detail dd.mono").first().innerText(), / => /, "the rule is shown whole");
await page.waitForTimeout(300);
await shot("rules");
// the largest graph is not a ribbon: wide layers are wrapped
const shape = await page.evaluate(() => {
  const [x0, y0, x1, y1] = frit.graph.bounds;
  return { nodes: frit.graph.nodes.length, ratio: (x1 - x0) / (y1 - y0), ms: frit.graph.layoutTime };
});
assert.ok(shape.ratio < 4, `${shape.nodes} nodes are ${shape.ratio.toFixed(1)} times as wide as high`);
assert.ok(shape.ms < 1000, `${shape.nodes} nodes are laid out in ${shape.ms.toFixed(0)} ms`);
await go(`#/kernels/${kernel}/passes/${pass}/diff`);
// the diff shows what was added
await page.waitForSelector(".line.add");
await page.keyboard.press("]");
await page.waitForFunction((p) => location.hash.includes(`/passes/${p}/`), pass + 1);
await go(`#/kernels/${kernel}/code`);
await page.waitForSelector(".code .line");
// a load of the listing, its instruction, and from there back to the load
const load = await page.evaluate(async (k) => {
  const part = await frit.pack.json(frit.pack.index.kernels[k].part);
  const { name, steps, offsets, text } = part.programs[0];
  const lines = part.passes.findLast((p) => p.text?.startsWith(`kernel ${name}\n`)).text.split("\n");
  const op = new Map(lines.map((l) => /(%\d+) = (\w+):/.exec(l)).filter(Boolean).map((m) => [m[1], m[2]]));
  // of memory, not of an accumulator
  const reads = (l) => op.get(/= Load:\S+ (%\d+)/.exec(l)?.[1]) === "Index";
  return { line: lines.findIndex(reads), isWhole: steps.length === text.trimEnd().split("\n").length && steps.length === offsets.length };
}, kernel);
assert.ok(load.isWhole, "every line of the source has its step and its place in the machine code");
await go(`#/kernels/${kernel}/code/0/0/${load.line}`);
await page.waitForSelector(".code .line.on.at");
const marked = () => page.evaluate(() => [...document.querySelectorAll("#view .code")].map((c) => [...c.querySelectorAll(".line.on")].map((l) => [Number(l.querySelector("u").textContent) - 1, l.textContent])));
const [loads, , machine] = await marked();
assert.equal(loads[0][0], load.line);
assert.ok(machine.some(([, text]) => /\[/.test(text)), "the machine code of a load reads memory");
await shot("code");
await page.keyboard.press("ArrowRight");
await page.keyboard.press("ArrowRight");
await page.waitForFunction(() => /\/code\/0\/2\/\d+$/.test(location.hash));
assert.deepEqual((await marked())[0], loads, "from its instruction back to the load");
// one that is cut has the code of each program
const cut = await page.evaluate(async () => {
  for (const [i, k] of frit.pack.index.kernels.entries()) if (k.launches && (await frit.pack.json(k.part)).programs.length > 1) return i;
});
await go(`#/kernels/${cut}/code/1`);
await page.waitForFunction(() => /_merge/.test(document.querySelector(".code .line")?.innerText || ""));
await shot("programs_of_a_kernel");

// the timeline: zoomed, a range added up, a link that comes back
await go("#/timeline");
await page.waitForFunction(() => frit.graph.frames.length > 0);
const before = await page.evaluate(() => frit.graph.to - frit.graph.from);
await page.mouse.move(800, 300);
await page.mouse.wheel(0, -900);
await page.waitForFunction((b) => frit.graph.to - frit.graph.from < 0.5 * b, before);
await page.waitForFunction(() => /#\/timeline\/\d+-\d+/.test(location.hash));
const link = await page.evaluate(() => location.hash);
await go(link);
assert.ok((await page.evaluate(() => frit.graph.to - frit.graph.from)) < 0.5 * before, "the link keeps the range");
await go("#/timeline");
await page.waitForFunction(() => frit.graph.frames.length > 0);
await page.keyboard.down("Shift");
await page.mouse.move(155, 300);
await page.mouse.down();
await page.mouse.move(1100, 300, { steps: 4 });
await page.mouse.up();
await page.keyboard.up("Shift");
await page.waitForFunction(() => /selected/.test(document.querySelector(".side.right")?.innerText || ""));
await shot("timeline");
if (counts.replay) assert.match(await page.locator(".replays").innerText(), /ran kernel by kernel/);
// buffers: the largest ones are there, and most of all
await page.waitForFunction(() => frit.graph.memory.every((m) => !m.buffers || m.rows));
for (const m of await page.evaluate(() => frit.graph.memory.filter((m) => m.rows).map((m) => {
  const [shown, bytes] = [new Set(m.rows.flat()), [...m.life[2]]];
  const missing = bytes.filter((_, i) => !shown.has(i));
  return { device: m.device, shown: shown.size, all: m.buffers, largest: Math.max(...bytes), missing: Math.max(0, ...missing) };
}))) {
  assert.ok(m.shown > 0.6 * m.all, `${m.device}: ${m.shown} of ${m.all} buffers are drawn`);
  assert.ok(m.missing < m.largest, `${m.device}: a buffer of ${m.missing} bytes is missing`);
}

// what is inside of a span is not counted twice; a peak is in sight at any scale; large graphs become small ones
const small = await page.evaluate(async () => {
  const { ownTimes, rowsOf, steps } = await import("./timeline.js");
  const { shrink } = await import("./graph.js");
  const sums = ownTimes([[[0, 10, "epoch"]], [[1, 4, "launch"], [5, 8, "launch"]]]);
  const cards = Array.from({ length: 40000 }, (_, id) => ({ id, title: `Op${id % 3}` }));
  const edges = cards.slice(64).flatMap(({ id }) => [[id - 64, id], [id - 1 - ((7 * id) % 60), id]]);
  const [groups, between] = shrink(cards, edges, 5000);
  const place = new Map(groups.map((g, i) => [g.id, i]));
  return {
    own: [sums.get("epoch").own, sums.get("launch").own],
    peak: Math.max(...steps([0, 1, 2, 3, 4, 5], [1, 9, 1, 1, 2, 1], 0, 5, 2).map((s) => s[1])),
    rows: rowsOf([[0, 0, 5], [10, 4, 9], [1, 100, 50]]),
    groups: groups.length,
    members: groups.reduce((s, g) => s + (g.count ?? 1), 0),
    isInOrder: between.every(([a, b]) => place.get(a) < place.get(b)),
  };
});
assert.deepEqual(small.own, [4, 6]);
assert.equal(small.peak, 9);
assert.deepEqual(small.rows, [[1, 2], [0]]);
assert.ok(small.groups <= 5000 && small.members === 40000 && small.isInOrder, JSON.stringify(small));

// names of the program are text, whatever they are
const names = await page.evaluate(() => frit.pack.index.timeline.names);
assert.ok(names.includes(HOSTILE[0]) && names.includes(HOSTILE[1]), "the recording has the names");
assert.ok(names.every((n) => !/[\u0000-\u001f\u202e]/.test(n)), "control characters are shown as their numbers");
assert.match(await page.locator(".side.right").innerText(), /<img src=x onerror=/);
assert.equal(await page.evaluate(() => window.ran), undefined);

// links that nobody made show something
for (const link of ["#/%", "#/programs/-1", "#/programs/99999", "#/search/-1", "#/kernels/-1", `#/kernels/${kernel}/code/0/0/9999`, `#/kernels/${kernel}/code/-3`, `#/kernels/${kernel}/passes/-1/graph/-5`, "#/timeline/9-1", "#/nowhere"]) {
  await go(link);
  await page.waitForFunction(() => document.getElementById("view").innerText.trim().length > 20, null, { timeout: 5000 }).catch(() => assert.fail(`${link} leaves the page empty`));
}
await go("#/roofline");
await page.waitForTimeout(300);
await shot("roofline");

// the picture of the README: a pass that applies some rules
if (process.env.PICTURE) {
  const found = await page.evaluate(async () => {
    for (const [i, k] of frit.pack.index.kernels.entries()) {
      const j = k.passes.findIndex((p) => ["vectorise", "gates", "reduce"].includes(p[0]) && p[2] >= 4 && p[2] < 80);
      if (j < 0) continue;
      const { nodes, passes, texts } = await frit.pack.json(k.part);
      const below = (n, seen = new Set()) => {
        if (n < nodes.length && !seen.has(n) && seen.add(n)) nodes[n].slice(4).forEach((s) => below(s, seen));
        return seen;
      };
      const size = below(passes[j].root).size;
      if (size < 80 || size > 160) continue;
      // one that changes a few nodes over some that stay
      const rules = passes[j].rules;
      for (let r = 0; r < rules.length; r += 6) {
        if (texts[rules[r]] === passes[j].name) continue;
        const [before, after] = [below(rules[r + 3]), below(rules[r + 4])];
        const gone = [...before].filter((n) => !after.has(n) && texts[nodes[n][0]] !== "Const").length;
        if (after.size > 5 && gone >= 2 && gone <= 4) return [i, j, r / 6];
      }
    }
    return null;
  });
  if (found) {
    await go(`#/kernels/${found[0]}/passes/${found[1]}/graph/${found[2]}`);
    await laidOut();
    await page.waitForTimeout(600);
    await page.screenshot({ path: process.env.PICTURE });
  }
}

// nothing of a recording runs: names are text
const tags = await page.evaluate(() => document.querySelectorAll("#view script, #view img, #view iframe").length);
assert.equal(tags, 0);

// the exported file is the same page
const file = await context.newPage();
file.on("pageerror", (e) => faults.push(`exported: ${e.message}`));
file.on("console", (m) => m.type() === "error" && faults.push(`exported: ${m.text()}`));
await file.goto(`file://${fs.realpathSync(exported)}#/kernels/${kernel}/passes/${pass}/graph/1`);
await file.waitForFunction(() => window.frit?.graph?.placed, null, { timeout: 20000 });
const again = await file.evaluate(() => frit.pack.index.counts);
assert.deepEqual(again, index.counts);
await file.evaluate(() => {
  const s = document.createElement("script");
  s.textContent = "window.ran = true";
  document.body.append(s);
});
assert.equal(await file.evaluate(() => window.ran), undefined, "a script that was put into the page does not run");
const own = faults.filter((f) => !/Content Security Policy/.test(f));
assert.deepEqual(own, []);

// others get nothing
const { origin, pathname } = new URL(address);
assert.equal((await fetch(`${origin}/`)).status, 404);
assert.equal((await fetch(`${origin}/${"0".repeat(32)}/pack`)).status, 404);
assert.equal((await fetch(`${origin}${pathname}pack`, { headers: { Range: "bytes=0-7" } })).status, 206);
const strange = await new Promise((answered) => http.get(`${origin}${pathname}`, { headers: { Host: "other.example" } }, (r) => (r.resume(), answered(r.statusCode))));
assert.equal(strange, 403, "another host's page gets nothing");
await browser.close();
console.log("the page works");
