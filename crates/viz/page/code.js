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
  let on = columns.map(() => -1);
  const select = (column, line) => {
    const share = line / Math.max(1, columns[column][2].length - 1);
    on = columns.map((_, c) => (c === column ? line : partner(columns, column, line, c, share)));
    blocks.forEach((b, c) => (c === column ? b.list.draw() : b.list.show(on[c])));
  };
  columns.forEach(([name, about, lines], c) => {
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

const loopMark = /^\s*(for |open |loop|L\d+:|\.?L\w+:)|\b(jl|jge|jne|jl|jb|jnz|jg|jle|bra)\b/;

// The line of another column that goes with one: exactly where both have as many lines, else by the loops before it.
function partner(columns, from, line, to, share) {
  const [a, b] = [columns[from][2], columns[to][2]];
  if (a.length === b.length) return line;
  const marks = (lines) => lines.flatMap((l, i) => (loopMark.test(l.text) ? [i] : []));
  const [ma, mb] = [marks(a), marks(b)];
  if (ma.length && ma.length === mb.length) {
    const k = ma.filter((m) => m <= line).length;
    const [a0, a1] = [k ? ma[k - 1] : 0, k < ma.length ? ma[k] : a.length - 1];
    const [b0, b1] = [k ? mb[k - 1] : 0, k < mb.length ? mb[k] : b.length - 1];
    return Math.round(b0 + ((line - a0) / Math.max(1, a1 - a0)) * (b1 - b0));
  }
  return Math.round(share * (b.length - 1));
}
