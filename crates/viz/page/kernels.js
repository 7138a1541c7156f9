// Every kernel in a table, and each with its passes and its code.
import { count, el, empty, rate, short, shortFile, size, time, where } from "./dom.js";
import { code } from "./code.js";
import { passes } from "./passes.js";

const gflops = (k) => (k.took ? k.flops / k.took : 0);
const gbytes = (k) => (k.took ? k.bytes / k.took : 0);

// The most that a device was seen to do, or was measured to.
export function peaks(index, device) {
  const d = index.devices.find((d) => d.name === device);
  const own = index.kernels.filter((k) => k.device === device);
  const measured = !!(d && d.flops && d.bytes);
  return {
    measured,
    flops: measured ? d.flops / 1e9 : Math.max(1e-9, ...own.map(gflops)),
    bytes: measured ? d.bytes / 1e9 : Math.max(1e-9, ...own.map(gbytes)),
  };
}

// How much of what the machine allows a kernel reaches; 0 where nobody measured what that is.
export function share(index, k) {
  if (!k.took || (!k.flops && !k.bytes)) return 0;
  const p = peaks(index, k.device);
  if (!p.measured) return 0;
  return Math.max(gflops(k) / p.flops, gbytes(k) / p.bytes);
}

// Where a device says what it keeps outside registers that is bytes of a lane; else it is accesses of the stack, counted.
const spilled = (k) => (k.counted ? (k.spills ? `${k.spills} B` : "0") : String(k.spills));

const COLUMNS = [
  ["name", "kernel", (k) => k.name, (k) => k.name, "name"],
  ["device", "device", (k) => k.device, (k) => k.device, "text"],
  ["launches", "launches", (k) => k.launches, (k) => (k.launches ? count(k.launches) : "–")],
  ["took", "total", (k) => k.took, (k) => time(k.took)],
  ["mean", "mean", (k) => (k.launches ? k.took / k.launches : 0), (k) => time(k.launches ? k.took / k.launches : 0)],
  ["gflops", "GFLOP/s", gflops, (k) => rate(gflops(k))],
  ["gbytes", "GB/s", gbytes, (k) => rate(gbytes(k))],
  ["share", "of roofline", null, null, "bar"],
  ["registers", "registers", (k) => k.registers, (k) => (k.registers ? String(k.registers) : "–")],
  ["spills", "spills", (k) => k.spills, (k) => (k.registers ? spilled(k) : "–")],
  ["rules", "rules", (k) => k.passes.reduce((s, p) => s + p[2], 0), (k) => count(k.passes.reduce((s, p) => s + p[2], 0))],
  ["ns", "compiled in", (k) => k.ns, (k) => time(k.ns)],
  ["hits", "hits", (k) => k.hits, (k) => (k.hits ? count(k.hits) : "–")],
  ["line", "first run by", (k) => shortFile(k.line), (k) => shortFile(k.line), "text"],
];

const sorting = { by: "took", down: true, filter: "" };

export function kernels(app, path) {
  const index = app.pack.index;
  if (!index.kernels.length) return empty("No kernels were recorded", "Nothing was compiled or launched while this was recorded.");
  if (path[0] !== undefined) return one(app, Number(path[0]), path.slice(1));
  const head = el("tr");
  const body = el("tbody");
  const filter = el("input", { class: "search", placeholder: "filter by name, device or line  ( / )", value: sorting.filter, style: { width: "320px" } });
  const shown = el("span", { class: "soft" });
  const total = index.kernels.reduce((s, k) => s + k.took, 0);
  // candidates of searches are found from their searches
  const all = index.kernels.map((k, i) => [k, i]).filter(([k]) => !k.candidate);
  const draw = () => {
    sorting.filter = filter.value;
    const column = COLUMNS.find((c) => c[0] === sorting.by);
    const value = column[2] || ((k) => share(index, k));
    const word = filter.value.toLowerCase();
    const rows = all.filter(([k]) => `${k.name} ${k.device} ${shortFile(k.line)}`.toLowerCase().includes(word));
    rows.sort((a, b) => {
      const [x, y] = [value(a[0]), value(b[0])];
      const c = x < y ? -1 : x > y ? 1 : 0;
      return (sorting.down ? -c : c) || a[1] - b[1];
    });
    shown.textContent = `${count(rows.length)} of ${count(all.length)} kernels · ${time(total)} on devices`;
    head.replaceChildren(...COLUMNS.map(([key, title, , , kind]) => el("th", { class: kind === "text" || kind === "name" ? "text" : "", onclick: () => order(key) }, title, el("span", { class: "dir" }, sorting.by === key ? (sorting.down ? " ↓" : " ↑") : ""))));
    body.replaceChildren(
      ...rows.map(([k, i]) =>
        el("tr", { onclick: () => app.go(`#/kernels/${i}`), tabindex: "0", onkeydown: (e) => e.key === "Enter" && app.go(`#/kernels/${i}`) },
          COLUMNS.map(([, , , text, kind]) => {
            if (kind !== "bar") return el("td", { class: kind || "", title: kind === "name" ? k.opts : undefined }, text(k));
            const s = share(index, k);
            return el("td", { class: "bar" }, el("i", { style: { width: `${Math.round(100 * Math.min(1, s))}%` } }), el("span", {}, s ? `${(100 * s).toFixed(0)}%` : "–"));
          })),
      ),
    );
  };
  const order = (key) => {
    if (sorting.by === key) sorting.down = !sorting.down;
    else Object.assign(sorting, { by: key, down: !["name", "device", "line"].includes(key) });
    draw();
  };
  filter.addEventListener("input", draw);
  app.keys = (key) => {
    if (key !== "/") return false;
    filter.focus();
    return true;
  };
  draw();
  return el("div", { class: "column fill" }, el("div", { class: "head" }, filter, shown), el("div", { class: "scroll" }, el("table", { class: "grid" }, el("thead", {}, head), body)));
}

function one(app, i, path) {
  const k = app.pack.index.kernels[i];
  if (!k) return empty("There is no such kernel", el("a", { href: "#/kernels" }, "all kernels"));
  const mode = path[0] === "code" ? "code" : "passes";
  const s = share(app.pack.index, k);
  const stats = [
    [count(k.launches), "launches"],
    [time(k.launches ? k.took / k.launches : 0), "mean"],
    [time(k.least), "least"],
    [rate(gflops(k)), "GFLOP/s"],
    [rate(gbytes(k)), "GB/s"],
    [s ? `${(100 * s).toFixed(0)}%` : "–", "of roofline"],
    [size(k.launches ? k.bytes / k.launches : 0), "moved"],
    [k.registers ? `${k.registers} / ${spilled(k)}` : "–", k.counted ? "registers / spilled, of a lane" : "vector registers / spills"],
    [time(k.ns), "compiled in"],
  ];
  const body = el("div", { class: "column fill" });
  const tabs = el("div", { class: "switch" }, ["passes", "code"].map((m) => el("button", { class: m === mode ? "on" : "", onclick: () => app.go(`#/kernels/${i}/${m}`) }, m)));
  const head = el("div", { class: "head" }, el("a", { href: "#/kernels" }, "Kernels"), el("span", { class: "faint" }, "/"), el("h2", { class: "mono whole", title: k.name }, k.name), el("span", { class: "pill" }, k.device), k.candidate ? el("a", { href: `#/search/${k.candidate[0]}` }, `candidate ${k.candidate[1]} of a search`) : null, el("span", { class: "soft mono", title: k.opts }, k.opts), el("span", { class: "space" }), k.line ? el("span", { class: "soft", title: `${k.line[0]}, run at ${where(k.line)}` }, k.line[0].includes(" at ") ? short(k.line[0]) : `${k.line[0]} at ${shortFile(k.line)}`) : null, tabs);
  const bar = el("div", { class: "stats" }, stats.map(([v, what]) => el("div", {}, el("b", {}, v), el("span", {}, what))));
  app.pack
    .json(k.part)
    .then((part) => body.replaceChildren(mode === "code" ? code(app, part, `#/kernels/${i}/code`, path.slice(1), !!k.candidate) : passes(app, part, `#/kernels/${i}/passes`, path.slice(1))))
    .catch((e) => body.replaceChildren(empty("This kernel cannot be shown", e.message)));
  return el("div", { class: "column fill" }, head, bar, body);
}
