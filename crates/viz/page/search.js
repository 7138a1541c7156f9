// What searches tried: a tree, in which each candidate hangs on the one that it was made of.
import { count, el, empty, time } from "./dom.js";

// Children that are shown of a candidate: the fastest.
const SHOWN = 12;

// Candidates as a tree: each says which one before it it was made of.
function beam(candidates) {
  const all = candidates.map(([round, opts, ns]) => ({ round, opts, ns, list: opts ? opts.split(", ") : [], children: [], parent: null }));
  all.forEach((c, i) => {
    const of = candidates[i][3] - 1;
    if (!(of >= 0 && of < i)) return;
    c.parent = all[of];
    c.parent.children.push(c);
  });
  return all;
}

// What a candidate has that its parent has not, and the other way round.
function change(c) {
  if (!c.parent) return c.opts || "no opts";
  const less = (a, b) => {
    const rest = [...b.list];
    return a.list.filter((o) => !(rest.includes(o) && rest.splice(rest.indexOf(o), 1)));
  };
  const [more, gone] = [less(c, c.parent), less(c.parent, c)];
  return [...more.map((o) => `+ ${o}`), ...gone.map((o) => `− ${o}`)].join("  ") || "the same in another order";
}

export function search(app, path) {
  const searches = app.pack.index.searches;
  if (!searches.length) return empty("No search was recorded", "Searches run with ", el("code", {}, "FRIT_BEAM=4"), " for kernels whose opts are not known yet.");
  const chosen = Math.max(0, Math.min(searches.length - 1, Math.floor(Number(path[0])) || 0));
  const list = el("div", { class: "scroll" }, searches.map((s, i) =>
    el("a", { class: `item${i === chosen ? " on" : ""}`, href: `#/search/${i}` },
      el("div", { class: "top" }, el("b", { class: "mono" }, s.name), el("span", { class: "num" }, s.after ? `${(s.before / s.after).toFixed(2)}×` : "–")),
      el("div", { class: "under" }, `${time(s.before)} → ${time(s.after)} · ${count(s.tried)} ways in ${time(s.ns)}`))));
  const s = searches[chosen];
  const most = Math.max(...s.candidates.map((c) => c[2]), 1);
  const all = beam(s.candidates);
  // passes of candidates, where they were asked for
  app.pack.index.kernels.forEach((k, i) => {
    if (k.candidate?.[0] === chosen && all[k.candidate[1] - 1]) all[k.candidate[1] - 1].kernel = i;
  });
  const fastest = [...all].sort((a, b) => a.ns - b.ns);
  const winner = fastest.find((c) => c.opts === s.opts) || fastest[0];
  const onPath = new Set();
  for (let c = winner; c; c = c.parent) onPath.add(c);
  const tree = el("div", { class: "tree" });
  const add = (c, depth) => {
    tree.append(
      el("div", { class: `step${onPath.has(c) ? " best" : ""}`, style: { "margin-left": `${18 * Math.min(depth, 12)}px` }, title: c.opts },
        el("span", { class: "num" }, time(c.ns)), el("div", { class: "track" }, el("i", { style: { width: `${(100 * c.ns) / most}%` } })), el("span", { class: "faint num" }, c.parent && c.ns ? `${(c.parent.ns / c.ns).toFixed(2)}× · round ${c.round}` : ""), el("div", { class: "opts" }, c.kernel === undefined ? change(c) : el("a", { href: `#/kernels/${c.kernel}` }, change(c)))),
    );
    // the way to the winner first, then the fastest
    const order = [...c.children].sort((a, b) => onPath.has(b) - onPath.has(a) || a.ns - b.ns);
    order.slice(0, SHOWN).forEach((d) => add(d, depth + 1));
    if (order.length > SHOWN) tree.append(el("div", { class: "faint", style: { "margin-left": `${18 * Math.min(depth + 1, 12)}px` } }, `and ${order.length - SHOWN} slower ones`));
  };
  all.filter((c) => !c.parent).sort((a, b) => a.ns - b.ns).forEach((c) => add(c, 0));
  const head = el("div", { class: "head" }, el("h2", { class: "mono" }, s.name), el("span", { class: "pill" }, s.device), el("span", { class: "soft" }, `chosen: ${s.opts || "the heuristic's way"}`), el("span", { class: "space" }), s.kernel === undefined ? null : el("a", { href: `#/kernels/${s.kernel}`, style: { "white-space": "nowrap" } }, "the kernel"));
  return el("div", { class: "row fill" }, el("div", { class: "side" }, el("div", { class: "head" }, el("h2", {}, "Searches")), list), el("div", { class: "column fill" }, head, el("div", { class: "scroll" }, tree)));
}
