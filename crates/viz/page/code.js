// Listing, source and machine code side by side.
import { el, empty } from "./dom.js";

const TOKEN = /(%\d+|\{[^}]*\}|\/\/.*$|;.*$)|([A-Za-z_][\w.]*)/g;

// A line of code with its parts told apart; everything stays text.
export function coloured(text, first = "op") {
  const out = [];
  let last = 0;
  let words = 0;
  for (const m of text.matchAll(TOKEN)) {
    if (m.index > last) out.push(text.slice(last, m.index));
    const t = m[0];
    if (t[0] === "%") out.push(el("span", { class: "ref" }, t));
    else if (t[0] === "{") out.push(el("span", { class: "arg" }, t));
    else if (t.startsWith("//") || t[0] === ";") out.push(el("span", { class: "dim" }, t));
    else if (words++ === 0 && first) out.push(el("span", { class: first }, t));
    else out.push(t);
    last = m.index + t.length;
  }
  if (last < text.length) out.push(text.slice(last));
  return out;
}

// A text with numbered lines; `each` may add to a line.
export function codeBlock(lines, each) {
  const pre = el("pre", { class: "code" });
  const isLong = lines.length > 6000;
  lines.slice(0, 6000).forEach((line, i) => {
    const e = el("div", {}, el("u", {}, String(i + 1)), ...coloured(line));
    each?.(e, i);
    pre.append(e);
  });
  if (isLong) pre.append(el("div", { class: "soft" }, `      … ${lines.length - 6000} more lines`));
  return pre;
}

const split = (text) => {
  const lines = text.split("\n");
  if (lines[lines.length - 1] === "") lines.pop();
  return lines;
};

export function code(part, link) {
  const listing = [...part.passes].reverse().find((p) => p.text)?.text;
  const columns = [];
  if (listing) columns.push(["listing", "linear program after the last pass", split(listing)]);
  const sources = new Map();
  for (const [program, pass, text] of part.sources) sources.set(`${program} ${pass}`, [program, pass, text]);
  const last = [...sources.values()].pop();
  const stages = [...sources.values()].filter((s) => s[0] === last?.[0]);
  if (part.code) columns.push(["machine code", "as the device runs it", split(part.code)]);
  if (last) columns.splice(1, 0, ["source", stages.map((s) => s[1]).join(" → "), split(last[2])]);
  if (!columns.length) return empty("No code was recorded", "The kernel was not compiled while this was recorded.");
  const row = el("div", { class: "row fill" });
  const blocks = [];
  let marked = [];
  const select = (column, line) => {
    marked.forEach((e) => e.classList.remove("on"));
    marked = [];
    const share = line / Math.max(1, columns[column][2].length - 1);
    columns.forEach(([, , lines], c) => {
      const i = c === column ? line : partner(columns, column, line, c, share);
      const e = blocks[c].children[i];
      if (!e) return;
      e.classList.add("on");
      marked.push(e);
      if (c !== column) e.scrollIntoView({ block: "center" });
    });
    link?.(`${column}:${line}`);
  };
  columns.forEach(([name, about, lines], c) => {
    const block = codeBlock(lines, (e, i) => {
      e.classList.add("link");
      e.addEventListener("click", () => select(c, i));
    });
    blocks.push(block);
    row.append(el("div", { class: "column fill", style: c ? { "border-left": "1px solid var(--line)" } : {} }, el("div", { class: "head" }, el("h2", {}, name), el("span", { class: "soft" }, `${lines.length} lines · ${about}`)), el("div", { class: "scroll" }, block)));
  });
  return row;
}

const loopMark = /^\s*(for |open |loop|L\d+:|\.?L\w+:)|\b(jl|jge|jne|jl|jb|jnz|jg|jle|bra)\b/;

// The line of another column that goes with one: exactly where both have as many lines, else by the loops before it.
function partner(columns, from, line, to, share) {
  const [a, b] = [columns[from][2], columns[to][2]];
  if (a.length === b.length) return line;
  const marks = (lines) => lines.flatMap((l, i) => (loopMark.test(l) ? [i] : []));
  const [ma, mb] = [marks(a), marks(b)];
  if (ma.length && ma.length === mb.length) {
    const k = ma.filter((m) => m <= line).length;
    const [a0, a1] = [k ? ma[k - 1] : 0, k < ma.length ? ma[k] : a.length - 1];
    const [b0, b1] = [k ? mb[k - 1] : 0, k < mb.length ? mb[k] : b.length - 1];
    return Math.round(b0 + ((line - a0) / Math.max(1, a1 - a0)) * (b1 - b0));
  }
  return Math.round(share * (b.length - 1));
}
