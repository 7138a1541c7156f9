// Tensor graphs of what was run, coloured by kernel; a node shows its line, its kernel and why it is stored or fused.
import { colour, count, css, el, empty, many, shortFile, size, time, where } from "./dom.js";
import { GraphView, MOST, collapse, graphOf } from "./graph.js";
import { Nodes } from "./listing.js";

// Ops that compute nothing: memory and numbers, and what only says where elements are.
const FREE = new Set(["Reshape", "Permute", "Expand", "Pad", "Shrink", "Flip", "Const", "Param", "Cast", "Detach", "After"]);

export function programs(app, path) {
  const all = app.pack.index.programs;
  if (!all.length) return empty("No program was recorded", "Nothing was scheduled while this was recorded: either nothing ran, or only runs were recorded.");
  const chosen = Math.max(0, Math.min(all.length - 1, Math.floor(Number(path[0])) || 0));
  const list = el("div", { class: "scroll" });
  all.forEach((p, i) => {
    list.append(
      el("a", { class: `item${i === chosen ? " on" : ""}`, href: `#/programs/${i}` },
        el("div", { class: "top" }, el("b", {}, p.line ? `${p.line[0]} · ${shortFile(p.line)}` : `program ${i + 1}`), el("span", { class: "num" }, many(p.calls, "kernel"))),
        el("div", { class: "under" }, `${p.device} · ${p.runs === 1 ? "run once" : `run ${count(p.runs)} times`} · scheduled in ${time(p.ns)}`)),
    );
  });
  requestAnimationFrame(() => list.querySelector(".on")?.scrollIntoView({ block: "nearest" }));
  const middle = el("div", { class: "column fill" });
  const detail = el("div", { class: "side right" });
  const side = el("div", { class: "side" }, el("div", { class: "head" }, el("h2", {}, "Programs")), list);
  app.pack.json(all[chosen].part).then((part) => showProgram(app, all[chosen], chosen, part, middle, detail, path)).catch((e) => middle.replaceChildren(empty("This program cannot be shown", e.message)));
  return el("div", { class: "row fill" }, side, middle, detail);
}

function showProgram(app, row, index, part, middle, detail, path) {
  const nodes = new Nodes(part);
  const calls = new Map();
  // stored, and what would have been, had its readers not come into its kernel
  const [stored, held] = [new Set(), new Set()];
  for (let i = 0; i < part.placed.length; i += 3) {
    const [n, call, how] = part.placed.slice(i, i + 3);
    if (!calls.has(n)) calls.set(n, new Set());
    calls.get(n).add(call);
    if (how) (how === 1 ? stored : held).add(n);
  }
  const joined = new Map();
  for (let i = 0; i < part.joined.length; i += 2) joined.set(part.joined[i], (joined.get(part.joined[i]) || new Set()).add(part.texts[part.joined[i + 1]]));
  const lines = new Map();
  // calls that made a node: several, where the program was run for several lines
  for (let i = 0; i < part.lines.length; i += 5) {
    const [n, op, file, line, span] = part.lines.slice(i, i + 5);
    const name = part.texts[span] ? `${part.texts[op]} in ${part.texts[span]}` : part.texts[op];
    lines.set(n, [...(lines.get(n) || []), [name, part.texts[file], line]]);
  }
  const placeOf = (l) => `${l[1]}:${l[2]}`;
  const linesOf = (n) => lines.get(n) || [];
  const why = new Map();
  for (let i = 0; i < part.reasons.length; i += 3) why.set(part.reasons[i], part.texts[part.reasons[i + 2]]);
  // the graph that was cut into kernels: what the last pass before that left
  const cut = part.passes.findIndex((p) => p.name === "rangeify");
  const root = cut > 0 ? part.passes[cut - 1].root : part.graph;
  const order = nodes.below(root).filter((n) => nodes.dtype(n) !== "index" || nodes.op(n) === "Variable");
  const first = (n) => {
    const c = calls.get(n);
    return c ? Math.min(...c) : undefined;
  };
  let [cards, edges] = graphOf(nodes, order, (n) => {
    const c = first(n);
    return c === undefined ? {} : { colour: colour(c), fill: colour(c) };
  });
  const isCollapsed = cards.length > MOST;
  if (isCollapsed) {
    [cards, edges] = collapse(cards, edges, (n) => {
      const c = first(n);
      return c === undefined ? undefined : `kernel ${c}`;
    });
    cards.forEach((c) => typeof c.id === "string" && (c.title = part.calls[Number(c.id.slice(7))].name));
  }
  const select = (n) => {
    if (typeof n === "string") n = order.find((m) => first(m) === Number(n.slice(7)));
    const mates = n === null || n === undefined ? undefined : first(n);
    const marks = new Map();
    if (mates !== undefined) for (const m of order) if (first(m) === mates) marks.set(m, colour(mates));
    view.mark(marks);
    detail.replaceChildren(...about(n));
  };
  const about = (n) => {
    const head = el("div", { class: "head" }, el("h2", {}, n === null || n === undefined ? "Kernels of this program" : `${nodes.op(n)} ${nodes.arg(n)}`));
    if (n === null || n === undefined) {
      const rows = part.calls.map((c, i) =>
        el("a", { class: "item slim", href: c.kernel === undefined ? undefined : `#/kernels/${c.kernel}`, onmouseenter: () => view.mark(new Map(order.filter((m) => calls.get(m)?.has(i)).map((m) => [m, colour(i)]))), onmouseleave: () => view.mark(new Map()) },
          el("div", { class: "top" }, el("i", { style: { display: "inline-block", width: "9px", height: "9px", "border-radius": "2px", background: colour(i), flex: "none" } }), el("b", { class: "mono whole" }, c.name), el("span", { class: "args mono", title: c.args }, c.args.replaceAll("temporary ", "t")))),
      );
      return [head, el("div", { class: "scroll" }, rows)];
    }
    const own = [...(calls.get(n) || [])];
    const facts = [
      ["type", nodes.dtype(n)],
      ["shape", nodes.shape(n) ? `[${nodes.shape(n)}]` : "scalar"],
      ["made by", lines.has(n) ? linesOf(n).map((l) => el("div", {}, el("b", {}, l[0]), " at ", el("a", { href: `#/programs/${index}/line/${encodeURIComponent(placeOf(l))}` }, placeOf(l)))) : "no call that was recorded"],
      ["computed by", own.length ? own.map((c) => el("div", {}, part.calls[c]?.kernel === undefined ? part.calls[c]?.name : el("a", { href: `#/kernels/${part.calls[c].kernel}` }, part.calls[c].name))) : "no kernel: it is memory, or part of an index"],
      ["in memory", stored.has(n) ? (why.get(n) ?? "the program keeps it") : held.has(n) ? "no: whoever reads it is in its kernel" : `no${own.length > 1 ? `, ${own.length} kernels compute it` : ""}: ${why.get(n) ?? "it is fused into its kernel"}`],
    ];
    return [head, el("div", { class: "detail" }, el("dl", {}, facts.flatMap(([k, v]) => [el("dt", {}, k), el("dd", {}, v)])), el("div", { class: "label" }, "expression"), el("div", { class: "expr" }, nodes.expr(n, 3)))];
  };
  // Why the operations of a line became these kernels: as `frit explain` says it.
  const explained = (here) => {
    const own = order.filter((n) => linesOf(n).some((l) => placeOf(l) === here));
    const head = el("div", { class: "head" }, el("h2", {}, here.split("/").pop()), el("span", { class: "space" }), el("a", { href: `#/programs/${index}` }, "all"));
    if (!own.length) return [head, empty("This line computed nothing here", "Another program may have its operations.")];
    view.mark(new Map(own.map((n) => [n, first(n) === undefined ? css("--accent") : colour(first(n))])));
    view.focus(own, own[own.length - 1]);
    const named = (ns, at) => [...new Set(ns.flatMap((n) => linesOf(n).filter((l) => placeOf(l) === at).map((l) => l[0])))].sort().join(", ");
    // what costs nothing is told where there is nothing else
    const ops = (ns) => {
      const dear = ns.filter((n) => !FREE.has(nodes.op(n)));
      const counts = new Map();
      for (const n of dear.length ? dear : ns) counts.set(nodes.op(n), (counts.get(nodes.op(n)) || 0) + 1);
      return [...counts].sort().map(([op, k]) => (k > 1 ? `${k} ${op}` : op)).join(", ");
    };
    const kernels = new Map();
    for (const n of own) for (const c of calls.get(n) || []) kernels.set(c, (kernels.get(c) || new Set()).add(n));
    // kernels that only read what it moved are told where there are no others
    const dear = [...kernels].filter(([, mine]) => [...mine].some((n) => !FREE.has(nodes.op(n))));
    const facts = [];
    for (const [c, mine] of (dear.length ? dear : [...kernels]).sort((a, b) => a[0] - b[0])) {
      const others = new Map();
      for (const n of order) {
        const at = linesOf(n).map(placeOf);
        // a node that this line made, too, was made by another one in another run
        if (at.includes(here) || !calls.get(n)?.has(c)) continue;
        for (const place of at) others.set(place, [...(others.get(place) || []), n]);
      }
      const call = part.calls[c];
      facts.push(el("dt", {}, "kernel"), el("dd", {}, call?.kernel === undefined ? call?.name : el("a", { href: `#/kernels/${call.kernel}` }, call.name), el("div", { class: "soft" }, `computes ${named([...mine], here)}: ${ops([...mine])}`), el("div", { class: "soft" }, others.size ? "fused with" : "and nothing of other lines"), [...others].slice(0, 6).map(([at, ns]) => el("div", {}, `${named(ns, at)} at `, el("a", { href: `#/programs/${index}/line/${encodeURIComponent(at)}` }, at.split("/").pop()))), others.size > 6 ? el("div", { class: "faint" }, `and ${others.size - 6} more lines`) : null, [...(joined.get(c) || [])].map((why) => el("div", { class: "soft" }, `kernels became one: ${why}`))));
    }
    for (const n of own.filter((n) => stored.has(n))) facts.push(el("dt", {}, "stored"), el("dd", {}, `${nodes.op(n)} [${nodes.shape(n)}]: ${why.get(n) ?? "the program keeps it, or a kernel stores it anyway"}`));
    // what is not stored, by the reason
    const fused = new Map();
    for (const n of own) if (!stored.has(n) && !held.has(n) && why.has(n) && !FREE.has(nodes.op(n)) && calls.get(n)?.size) fused.set(why.get(n), [...(fused.get(why.get(n)) || []), n]);
    for (const [reason, ns] of fused) facts.push(el("dt", {}, "fused"), el("dd", {}, `${ops(ns)}: ${reason}`));
    for (const n of own.filter((n) => held.has(n) && !stored.has(n))) facts.push(el("dt", {}, "not stored"), el("dd", {}, `${nodes.op(n)} [${nodes.shape(n)}]: whoever reads it is in its kernel`));
    return [head, el("div", { class: "detail" }, el("div", { class: "soft" }, `${many(own.length, "operation")} in ${many(kernels.size, "kernel")}`), el("dl", {}, facts))];
  };
  const view = new GraphView({
    onselect: (n) => {
      app.replace(n === null ? `#/programs/${index}` : `#/programs/${index}/node/${n}`);
      select(n);
    },
    about: (n) => {
      if (typeof n === "string") return [n];
      const c = first(n);
      return [`${nodes.op(n)} ${nodes.arg(n)}`, `${nodes.dtype(n)} [${nodes.shape(n)}]`, ...linesOf(n).slice(0, 3).map((l) => `${l[0]} at ${placeOf(l)}`), c === undefined ? null : `in ${part.calls[c]?.name}`].filter(Boolean);
    },
  });
  app.graph = view;
  const facts = `${count(order.length)} nodes · ${many(part.calls.length, "kernel")} · ${row.arena ? size(row.arena) : "nothing"} of temporaries${isCollapsed ? " · shown by kernel" : ""}`;
  middle.replaceChildren(el("div", { class: "head" }, el("h2", { title: row.line ? where(row.line) : undefined }, row.line ? `${row.line[0]} at ${shortFile(row.line)}` : `program ${index + 1}`), el("span", { class: "soft" }, facts), el("span", { class: "space" }), el("a", { class: "pill", href: `#/programs/${index}/passes` }, "passes of the scheduler")), view.box);
  view.show(cards, edges).then(() => {
    if (path[1] === "line") detail.replaceChildren(...explained(path[2] || ""));
    if (path[1] === "node" && nodes.has(Number(path[2]))) {
      view.selected = Number(path[2]);
      view.centre(view.selected);
      select(view.selected);
    }
  });
  detail.replaceChildren(...about(null));
}
