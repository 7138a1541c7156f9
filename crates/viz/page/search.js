// What searches tried: rounds as levels of a tree, each candidate with its time.
import { count, el, empty, time } from "./dom.js";

export function search(app, path) {
  const all = app.pack.index.searches;
  if (!all.length) return empty("No search was recorded", "Searches run with ", el("code", {}, "FRIT_BEAM=4"), " for kernels whose opts are not known yet.");
  const chosen = Math.min(all.length - 1, Number(path[0] || 0) || 0);
  const list = el("div", { class: "scroll" }, all.map((s, i) =>
    el("a", { class: `item${i === chosen ? " on" : ""}`, href: `#/search/${i}` },
      el("div", { class: "top" }, el("b", { class: "mono" }, s.name), el("span", { class: "num" }, s.after ? `${(s.before / s.after).toFixed(2)}×` : "–")),
      el("div", { class: "under" }, `${time(s.before)} → ${time(s.after)} · ${count(s.tried)} ways in ${time(s.ns)}`))));
  const s = all[chosen];
  const most = Math.max(...s.candidates.map((c) => c[2]), 1);
  const rounds = new Map();
  for (const c of s.candidates) {
    if (!rounds.has(c[0])) rounds.set(c[0], []);
    rounds.get(c[0]).push(c);
  }
  const tree = el("div", { class: "tree" });
  let best = Infinity;
  for (const [round, those] of rounds) {
    tree.append(el("div", { class: "round label" }, round ? `round ${round} · ${those.length} candidates` : "the heuristic's way"));
    const was = best;
    those.sort((a, b) => a[2] - b[2]);
    best = Math.min(best, those[0][2]);
    for (const [, opts, ns] of those.slice(0, 24)) {
      tree.append(
        el("div", { class: `step${ns === best && ns < was ? " best" : ""}`, style: { "margin-left": `${14 * Math.min(round, 8)}px` } },
          el("span", { class: "num" }, time(ns)), el("div", { class: "track" }, el("i", { style: { width: `${(100 * ns) / most}%` } })), el("span", { class: "faint num" }, was < Infinity ? `${(was / ns).toFixed(2)}× the best before` : ""), el("div", { class: "opts" }, opts || "no opts")),
      );
    }
    if (those.length > 24) tree.append(el("div", { class: "faint", style: { "margin-left": `${14 * Math.min(round, 8)}px` } }, `and ${those.length - 24} slower ones`));
  }
  const head = el("div", { class: "head" }, el("h2", { class: "mono" }, s.name), el("span", { class: "pill" }, s.device), el("span", { class: "soft" }, `chosen: ${s.opts || "the heuristic's way"}`), el("span", { class: "space" }), s.kernel === undefined ? null : el("a", { href: `#/kernels/${s.kernel}` }, "the kernel"));
  return el("div", { class: "row fill" }, el("div", { class: "side" }, el("div", { class: "head" }, el("h2", {}, "Searches")), list), el("div", { class: "column fill" }, head, el("div", { class: "scroll" }, tree)));
}
