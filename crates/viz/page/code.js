// Listing, source and machine code side by side; a click shows what belongs together.
import { el, empty, virtual } from "./dom.js";
import { Links } from "./links.js";

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

// Why there is no machine code to show, or what its lines are not linked to; by what wrote the source.
function missing(program, isCandidate) {
  if (isCandidate) return "Machine code is recorded of the kernels that are launched, and this is a candidate of a search.";
  if (program.pass === "ptx") return "The driver compiles PTX for its GPU by itself, and does not give the machine code (SASS) back. The source beside this is the last form that frit writes; registers and spilled bytes are the driver's own.";
  if (program.pass === "bytecode") return "The interpreter runs the bytecode beside this: there is no machine code.";
  return "The device gave none back, or loaded the kernel before the recording began.";
}

// The programs of a kernel; `base` is the link of this view, `path` the words after it: program, column, line.
export function code(app, part, base, path, isCandidate = false) {
  const programs = part.programs;
  if (!programs.length) return empty("No code was recorded", "The kernel was not compiled while this was recorded.");
  const chosen = Math.max(0, Math.min(programs.length - 1, Math.floor(Number(path[0])) || 0));
  const program = programs[chosen];
  const listings = part.passes.filter((p) => p.text).map((p) => p.text);
  const listing = listings.findLast((t) => t.startsWith(`kernel ${program.name}\n`)) ?? "";
  const all = { listing: split(listing), source: split(program.text), code: split(program.code) };
  const links = new Links(all, program.steps, program.offsets);
  // a compiler of C does not say which of its instructions are for which line
  const isLinked = !all.code.length || program.offsets.length;
  const abouts = ["the list of steps after the last pass", `what ${program.pass} left`, isLinked ? "as the machine runs it" : "not linked to lines: the compiler names none"];
  const columns = ["listing", "source", "machine code"].map((name, c) => ({ name, about: abouts[c], lines: Object.values(all)[c], c })).filter(({ lines }) => lines.length);
  const row = el("div", { class: "row fill" });
  const blocks = [];
  let [at, marks] = [null, [new Map(), new Map(), new Map()]];
  const select = (c, line, isLink) => {
    [at, marks] = [[c, line], links.of(c, line)];
    if (!isLink) app.replace(`${base}/${chosen}/${c}/${line}`);
    columns.forEach((column) => {
      const own = [...marks[column.c]].filter(([, how]) => how === "on").map(([i]) => i);
      const first = Math.min(...own);
      if (own.length && (column.c !== c || isLink)) blocks[column.c].list.show(first);
      else if (column.c === c) blocks[column.c].list.show(line);
      else blocks[column.c].list.draw();
    });
  };
  columns.forEach(({ name, about, lines, c }, i) => {
    blocks[c] = codeBlock(lines, (e, i) => {
      e.classList.add("link");
      const how = marks[c].get(i);
      if (how) e.classList.add(how);
      if (at && at[0] === c && at[1] === i) e.classList.add("at");
      e.addEventListener("click", () => select(c, i));
    });
    row.append(el("div", { class: "column fill", style: i ? { "border-left": "1px solid var(--line)" } : {} }, el("div", { class: "head" }, el("h2", { style: { "flex-shrink": "0" } }, name), el("span", { class: "soft", title: about }, `${lines.length} lines · ${about}`)), blocks[c].scroll));
  });
  if (!all.code.length) row.append(el("div", { class: "column fill", style: { "border-left": "1px solid var(--line)" } }, el("div", { class: "head" }, el("h2", {}, "machine code")), empty("No machine code to show", missing(program, isCandidate))));
  app.keys = (key) => {
    const [c, line] = at ?? [columns[0].c, -1];
    const near = columns.findIndex((column) => column.c === c);
    if (key === "ArrowDown" || key === "ArrowUp") {
      const to = line + (key === "ArrowDown" ? 1 : -1);
      if (to >= 0 && to < columns[near].lines.length) select(c, to);
    } else if (key === "ArrowRight" || key === "ArrowLeft") {
      // to the line beside it, where it has one
      const next = columns[near + (key === "ArrowRight" ? 1 : -1)];
      const on = next ? [...marks[next.c]].filter(([, how]) => how === "on").map(([i]) => i) : [];
      if (on.length) select(next.c, Math.min(...on));
    } else return false;
    return true;
  };
  const linked = path[2] === undefined ? undefined : columns.find((column) => column.c === Number(path[1]));
  if (linked) requestAnimationFrame(() => select(linked.c, Math.max(0, Math.min(linked.lines.length - 1, Math.floor(Number(path[2])) || 0)), true));
  if (programs.length === 1) return row;
  const tabs = el("div", { class: "switch" }, programs.map((p, i) => el("button", { class: i === chosen ? "on" : "", onclick: () => app.go(`${base}/${i}`) }, p.name)));
  return el("div", { class: "column fill" }, el("div", { class: "head" }, el("span", { class: "soft" }, `${programs.length} programs, one after the other`), tabs), row);
}
