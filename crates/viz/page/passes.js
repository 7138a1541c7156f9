// The passes over a kernel or a program: the graph each left, its text, what differs, and the rules that were applied.
import { count, css, el, empty, many, time, virtual } from "./dom.js";
import { codeBlock } from "./code.js";
import { GraphView, MOST, OP_LEGEND, collapse, graphOf, shrink } from "./graph.js";
import { Nodes, diff, plainLines } from "./listing.js";

// Numbers of a rule that was applied: table, rule, file, node before and after, line.
const FIELDS = 6;

// `base` is the link of what the passes are over, `path` the words after it: pass, how, rule.
export function passes(app, part, base, path) {
  const nodes = new Nodes(part);
  const all = part.passes;
  if (!all.length) return empty("No passes were recorded", "It was compiled before the recording began.");
  const chosen = Math.min(all.length - 1, Math.max(0, Math.floor(Number(path[0])) || 0));
  const how = ["graph", "text", "diff"].includes(path[1]) ? path[1] : "graph";
  const rule = path[2] === undefined ? null : Math.max(0, Math.floor(Number(path[2])) || 0);
  const pass = all[chosen];
  const before = earlier(all, chosen) ?? { root: part.ast ?? part.graph };
  const go = (p, h, r) => app.replace(`${base}/${p}/${h}${r === null || r === undefined ? "" : `/${r}`}`, true);
  const list = el("div", { class: "scroll" });
  all.forEach((p, i) => {
    // where it is cut into programs, each has its turn
    const again = i - firstOf(all, i);
    list.append(
      el("a", { class: `item slim${i === chosen ? " on" : ""}`, href: `${base}/${i}/${how}` },
        el("div", { class: "top" }, el("b", {}, p.name), again ? el("span", { class: "faint" }, `program ${again + 1}`) : null, el("span", { class: "num faint" }, p.rules.length ? `${many(p.rules.length / FIELDS, "rule")} · ${time(p.ns)}` : time(p.ns)))),
    );
  });
  requestAnimationFrame(() => list.querySelector(".on")?.scrollIntoView({ block: "nearest" }));
  const side = el("div", { class: "side", style: { width: "230px" } }, el("div", { class: "head" }, el("h2", {}, "Passes"), el("span", { class: "space" }), el("span", { class: "faint" }, "[ and ]")), list);
  const modes = el("div", { class: "switch" }, ["graph", "text", "diff"].map((h) => el("button", { class: h === how ? "on" : "", onclick: () => go(chosen, h, rule) }, h)));
  const body = el("div", { class: "column fill" });
  const linesOf = (p) => (p.text ? plainLines(p.text) : nodes.has(p.root) ? nodes.listing(p.root) : []);
  const facts = el("span", { class: "soft" });
  const middle = el("div", { class: "column fill" }, el("div", { class: "head" }, el("h2", {}, pass.name), facts, el("span", { class: "space" }), modes), body);
  let view = null;
  if (how === "graph" && nodes.has(pass.root)) {
    const order = nodes.below(pass.root);
    const old = new Set(nodes.has(before.root) ? nodes.below(before.root) : []);
    const fresh = order.filter((n) => !old.has(n) && !nodes.isConst(n)).length;
    facts.textContent = `${count(order.length)} nodes, ${count(fresh)} of them new`;
    // while rules are stepped through, what came and went in the pass has its place too
    const gone = rule === null ? [] : passing(nodes, pass, order);
    const ghosts = new Set(order.length + gone.length <= MOST ? gone : []);
    let [cards, edges] = graphOf(nodes, [...order, ...ghosts], (n) => (ghosts.has(n) ? { isGhost: true } : old.has(n) ? {} : { fill: css("--good") }));
    if (cards.length > MOST) {
      const owner = owners(nodes, order);
      [cards, edges] = collapse(cards, edges, (n) => owner.get(n));
      facts.textContent += " · index arithmetic collapsed";
    }
    if (cards.length > MOST) {
      [cards, edges] = shrink(cards, edges, MOST);
      facts.textContent += ` · shown as ${count(cards.length)} groups`;
    }
    view = new GraphView({
      about: (n) => [nodes.op(n), [nodes.dtype(n), nodes.shape(n) && `[${nodes.shape(n)}]`, nodes.arg(n)].filter(Boolean).join(" "), nodes.expr(n, 2)],
      hint: "shaded: made by this pass · arrow keys step through its rules",
    });
    app.graph = view;
    body.append(view.box);
    view.show(cards, edges, OP_LEGEND, `${base} ${chosen} ${ghosts.size}`).then(() => stepper.show());
  } else if (how === "graph" || how === "text") {
    const lines = linesOf(pass);
    facts.textContent = `${count(lines.length)} lines${pass.text ? " · a list of steps" : ""}`;
    body.append(textBlock(lines));
  } else {
    const lines = diff(linesOf(before), linesOf(pass));
    const [added, gone] = ["add", "del"].map((m) => lines.filter((l) => l.mark === m).length);
    facts.textContent = `${count(added)} lines more, ${count(gone)} fewer than after ${before.name || "scheduling"}`;
    body.append(added + gone ? textBlock(lines) : empty("This pass changed nothing", "Its kernel is the one that it was given."));
  }
  const stepper = rules(app, part, nodes, pass, rule, () => view, (r) => go(chosen, how, r));
  app.keys = (key) => {
    if (key === "]" && chosen + 1 < all.length) go(chosen + 1, how);
    else if (key === "[" && chosen > 0) go(chosen - 1, how);
    else return stepper.key(key);
    return true;
  };
  return el("div", { class: "row fill" }, side, middle, stepper.box);
}

// Where the row of passes of one name begins that a pass is in.
function firstOf(all, i) {
  let first = i;
  while (first > 0 && all[first - 1].name === all[i].name) first--;
  return first;
}

// The pass before one, over the same program.
function earlier(all, chosen) {
  const first = firstOf(all, chosen);
  return first ? all[Math.min(firstOf(all, first - 1) + chosen - first, first - 1)] : null;
}

// What rules of a pass took and made that its graph has no more.
function passing(nodes, pass, order) {
  const seen = new Set(order);
  const out = [];
  for (let i = 0; i < pass.rules.length; i += FIELDS) {
    const stack = [pass.rules[i + 3], pass.rules[i + 4]];
    while (stack.length) {
      const n = stack.pop();
      if (!nodes.has(n) || seen.has(n)) continue;
      seen.add(n);
      out.push(n);
      stack.push(...nodes.src(n));
    }
    if (out.length > MOST) break;
  }
  return out;
}

function textBlock(lines) {
  const sign = { add: "+", del: "−" };
  return codeBlock(lines.map((l) => ({ ...l, first: "", sign: l.mark === undefined ? undefined : sign[l.mark] ?? "" }))).scroll;
}

// For nodes of index arithmetic the node that uses them in the end.
function owners(nodes, order) {
  const owner = new Map();
  for (let i = order.length - 1; i >= 0; i--) {
    const n = order[i];
    const mine = nodes.dtype(n) === "index" && owner.has(n) ? owner.get(n) : n;
    for (const s of nodes.src(n)) if (nodes.dtype(s) === "index" && nodes.src(s).length && !owner.has(s)) owner.set(s, mine);
  }
  return owner;
}

function rules(app, part, nodes, pass, chosen, view, go) {
  const total = pass.rules.length / FIELDS;
  const scroll = el("div", { class: "scroll" });
  const detail = el("div", { class: "detail", style: { "border-top": "1px solid var(--line)", flex: "none", "max-height": "62%" } });
  const at = (i) => pass.rules.slice(FIELDS * i, FIELDS * (i + 1));
  const text = (t) => part.texts[t];
  // what code replaces is told apart by its ops
  const name = (i) => {
    const [set, rule, , before, after] = at(i);
    return text(set) === pass.name ? `${nodes.op(before)} → ${nodes.op(after)}: ${text(rule)}` : text(rule);
  };
  const select = (i) => {
    chosen = i;
    go(i);
  };
  const box = el("div", { class: "side right" }, el("div", { class: "head" }, el("h2", {}, "Rules and replacements"), el("span", { class: "space" }), el("span", { class: "faint" }, total ? `${count(total)} · arrow keys` : "")), scroll, detail);
  let rows;
  if (total) rows = virtual(scroll, 26, total, (i) => el("div", { class: `rule${i === chosen ? " on" : ""}`, onclick: () => select(i), title: name(i) }, el("u", {}, String(i + 1)), name(i)));
  else scroll.append(empty("Nothing is replaced here", "This pass decides or orders; it applies no rules and replaces no nodes."));
  const show = () => {
    if (chosen === null || !(chosen < total)) {
      detail.replaceChildren();
      detail.style.display = "none";
      return;
    }
    detail.style.display = "";
    const [set, rule, file, before, after, line] = at(chosen);
    // a pass that is written as code says in words what it did
    const isCode = text(set) === pass.name;
    detail.replaceChildren(
      el("dl", {}, el("dt", {}, isCode ? "replaced by" : "rule"), el("dd", { class: isCode ? "" : "mono" }, text(rule)), el("dt", {}, isCode ? "pass" : "table"), el("dd", {}, el("span", { class: "mono" }, text(set)), el("span", { class: "faint" }, ` ${text(file)}${line ? `:${line}` : ""}`))),
      el("div", { class: "expr before" }, nodes.expr(before)),
      el("div", { class: "expr after" }, nodes.expr(after)),
    );
    rows.show(chosen);
    const v = view();
    if (!v?.number) return;
    const marks = new Map();
    const put = (n, c) => v.number.has(n) && !marks.has(n) && marks.set(n, c);
    // what only the one has, what only the other has, and what both stand on
    const [old, made] = [before, after].map((n) => new Set(nodes.below(n)));
    for (const n of made) if (!old.has(n) || n === after) put(n, css("--good"));
    for (const n of old) if (!made.has(n) || n === before) put(n, css("--bad"));
    const changed = [...marks.keys()];
    for (const n of changed) for (const s of nodes.src(n)) put(s, css("--warn"));
    v.mark(marks);
    v.focus(changed.length ? changed : [...marks.keys()], after);
  };
  const key = (k) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1, PageDown: 20, PageUp: -20 }[k];
    if (!step || !total) return false;
    select(chosen === null ? 0 : Math.max(0, Math.min(total - 1, chosen + step)));
    return true;
  };
  if (chosen !== null) requestAnimationFrame(show);
  else detail.style.display = "none";
  return { box, key, show };
}
