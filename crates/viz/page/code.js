// Listing, source and machine code side by side.
import { el, empty, virtual } from "./dom.js";

const TOKEN = /(^\s*[0-9a-f]+:|%\d+|\{[^}]*\}|\/\/.*$|;.*$)|([A-Za-z_][\w.]*)/g;

// A line of code with its parts told apart; everything stays text.
export function coloured(text, first = "op") {
  const out = [];
  let last = 0;
  let words = 0;
  for (const m of text.matchAll(TOKEN)) {
    if (m.index > last) out.push(text.slice(last, m.index));
    const t = m[0];
    if (t.endsWith(":")) out.push(el("span", { class: "dim" }, t));
    else if (t[0] === "%") out.push(el("span", { class: "ref" }, t));
    else if (t[0] === "{") out.push(el("span", { class: "arg" }, t));
    else if (t.startsWith("//") || t[0] === ";") out.push(el("span", { class: "dim" }, t));
    else if (words++ === 0 && first) out.push(el("span", { class: first }, t));
    else out.push(t);
    last = m.index + t.length;
  }
  if (last < text.length) out.push(text.slice(last));
  return out;
}

// A text with numbered lines in a box that scrolls; only lines in sight exist. `each` may add to a line.
export function codeBlock(lines, each) {
  const scroll = el("div", { class: "scroll code" });
  const list = virtual(scroll, 19, lines.length, (i) => {
    const e = el("div", { class: "line" }, el("u", {}, lines[i].sign ?? String(i + 1)), ...coloured(lines[i].text, lines[i].first ?? "op"));
    if (lines[i].mark) e.classList.add(lines[i].mark);
    each?.(e, i);
    return e;
  });
  return { scroll, list };
}

const split = (text) => {
  const lines = text.split("\n");
  if (lines[lines.length - 1] === "") lines.pop();
  return lines.map((t) => ({ text: t }));
};

export function code(part) {
  const listing = [...part.passes].reverse().find((p) => p.text)?.text;
  const columns = [];
  if (listing) columns.push({ name: "listing", about: "linear program after the last pass", lines: split(listing) });
  const sources = new Map();
  for (const [program, pass, text] of part.sources) sources.set(`${program} ${pass}`, [program, pass, text]);
  const last = [...sources.values()].pop();
  const stages = [...sources.values()].filter((s) => s[0] === last?.[0]);
  if (part.code) columns.push({ name: "machine code", about: "as the device runs it", lines: split(part.code) });
  if (last) columns.splice(listing ? 1 : 0, 0, { name: "source", about: stages.map((s) => s[1]).join(" → "), lines: split(last[2]) });
  if (!columns.length) return empty("No code was recorded", "The kernel was not compiled while this was recorded.");
  const row = el("div", { class: "row fill" });
  const blocks = [];
  let on = columns.map(() => -1);
  const known = new Map();
  const other = (from, line, to) => {
    const key = `${from} ${to}`;
    const both = [columns[from], columns[to]];
    if (!known.has(key)) known.set(key, pairs(...both));
    return partner(known.get(key), line, both);
  };
  const select = (column, line) => {
    // a step at a time: neighbours are more alike than the first and the last
    on = columns.map(() => -1);
    on[column] = line;
    for (let c = column - 1; c >= 0; c--) on[c] = other(c + 1, on[c + 1], c);
    for (let c = column + 1; c < columns.length; c++) on[c] = other(c - 1, on[c - 1], c);
    blocks.forEach((b, c) => (c === column ? b.list.draw() : b.list.show(on[c])));
  };
  columns.forEach(({ name, about, lines }, c) => {
    const block = codeBlock(lines, (e, i) => {
      e.classList.add("link");
      if (on[c] === i) e.classList.add("on");
      e.addEventListener("click", () => select(c, i));
    });
    blocks.push(block);
    row.append(el("div", { class: "column fill", style: c ? { "border-left": "1px solid var(--line)" } : {} }, el("div", { class: "head" }, el("h2", {}, name), el("span", { class: "soft" }, `${lines.length} lines · ${about}`)), block.scroll));
  });
  return row;
}

// What a line does, in words that a listing, a writer's program and machine code share; null where none has an opposite.
const WORDS = [
  [/^\s*for |^\s*[.$]?L\w*:/, "open"],
  [/^\s*\}\s*$|\b(jl|jb|jne|jnz|jle|jbe|bra)\b/, "close"],
  [/prefetch/, "prefetch"],
  [/= Load\b|\bld\.|\bv?p?(broadcast|gather|insr)\w*\b.*\[|= v?mov\w* \[|\bv?mov\w* +[xyzr]\w*(\{\w+\})*, *\[/, "load"],
  [/= Store\b|\bst\.|^\s*([0-9a-f]+:\s*)?v?mov\w* +\[/, "store"],
  [/= (MulAcc|Fma)\b|\bv?fn?m(add|sub)\w*|\bfma\./, "fma"],
  [/= Mul\b|\bv?p?i?mul\w*/, "mul"],
  [/= (Add|Sub|Neg)\b|\bv?p?(add|sub)\w*|\blea\b/, "add"],
  [/= (Max|Min)\b|\bv?p?(max|min)\w*/, "max"],
  [/= (Div|Recip)\b|\bv?i?(div|rcp)\w*/, "div"],
  [/= (Cast|Bitcast)\b|\bv?cvt\w*/, "cast"],
  [/= (Where|Lt|Ne|Eq)\b|\bv?(p?cmp|blend)\w*/, "select"],
];
const word = (text) => WORDS.find(([w]) => w.test(text))?.[1] ?? null;

// An instruction as both a writer's program (`v49|1.z = vmovups [i46|9 +2304]`) and machine code (`66: vmovups zmm1,[rbx+900h]`)
// have it: what it is called, whether it reads or writes memory, and how far from the address.
const OWN = { argument: "mov", move: "mov", "v move": "vmovaps", zero: "xor", "v zero": "vpxor" };
function instruction(text) {
  const [, target, rest] = /^\s*(?:[0-9a-f]+:\s*)?(?:([iv])\d+\S* = )?(.*)$/.exec(text);
  const name = /^(v?[a-z][a-z0-9]*)\b/.exec(rest)?.[1];
  if (!name) return null;
  const own = OWN[target === "v" ? `v ${name}` : name] ?? name;
  const place = /\[([^\]]*)\]/.exec(rest)?.[1];
  if (place === undefined || own === "nop") return own;
  const isFixed = place.startsWith("constants") || /^[0-9A-F]+h$/.test(place);
  const [, sign, hex, plain] = /([+-])\s*(?:([0-9A-F]+)h|(\d+))$/.exec(place) || [];
  const far = sign ? `${sign}${hex ? parseInt(hex, 16) : plain}` : "";
  return `${own}${/^\S+\s+\[/.test(rest) && !target ? " to" : ""} ${isFixed ? "constant" : far}`;
}

// For lines of one column those of another that do the same: the longest row of pairs in which both are in order.
function pairs(a, b) {
  const isCode = a.name !== "listing" && b.name !== "listing";
  const of = (lines) => lines.map((l, i) => [isCode ? instruction(l.text) : word(l.text), i]).filter(([w]) => w);
  const [x, y] = [of(a.lines), of(b.lines)];
  if (x.length * y.length > 1.6e7) return [];
  const w = y.length + 1;
  const best = new Uint16Array((x.length + 1) * w);
  for (let i = x.length - 1; i >= 0; i--) {
    for (let j = y.length - 1; j >= 0; j--) best[i * w + j] = x[i][0] === y[j][0] ? best[(i + 1) * w + j + 1] + 1 : Math.max(best[(i + 1) * w + j], best[i * w + j + 1]);
  }
  const out = [];
  for (let [i, j] = [0, 0]; i < x.length && j < y.length; ) {
    if (x[i][0] === y[j][0]) out.push([x[i++][1], y[j++][1]]);
    else if (best[(i + 1) * w + j] >= best[i * w + j + 1]) i++;
    else j++;
  }
  return out;
}

// The line of another column that goes with one: its pair, else between those around it.
function partner(known, line, [a, b]) {
  let [p, q] = [[0, 0], [a.lines.length - 1, b.lines.length - 1]];
  for (const pair of known) {
    if (pair[0] <= line) p = pair;
    else {
      q = pair;
      break;
    }
  }
  return p[0] === line ? p[1] : Math.round(p[1] + ((line - p[0]) / Math.max(1, q[0] - p[0])) * (q[1] - p[1]));
}
