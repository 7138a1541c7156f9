// The page: tabs, links, keys.
import { count, el, empty, size } from "./dom.js";
import { kernels } from "./kernels.js";
import { passes } from "./passes.js";
import { programs } from "./programs.js";
import { roofline } from "./roofline.js";
import { search } from "./search.js";
import { findPack } from "./source.js";
import { timeline } from "./timeline.js";

const VIEWS = [
  ["programs", "Programs", programs, (x) => x.programs.length],
  ["kernels", "Kernels", kernels, (x) => x.kernels.filter((k) => !k.candidate).length],
  ["timeline", "Timeline", timeline, (x) => x.timeline.tracks.reduce((s, t) => s + t.events, 0)],
  ["roofline", "Roofline", roofline],
  ["search", "Search", search, (x) => x.searches.length],
];

const app = {
  pack: null,
  keys: null,
  graph: null,
  themed: null,
  go(link) {
    location.hash = link;
  },
  // Another link for what is shown; shown anew where that is asked for.
  replace(link, again) {
    history.replaceState(null, "", link);
    if (again) show();
  },
};
window.frit = app;

function schedulerPasses(path) {
  const i = Number(path[0]);
  const row = app.pack.index.programs[i];
  if (!row) return empty("There is no such program", el("a", { href: "#/programs" }, "all programs"));
  const body = el("div", { class: "column fill" });
  app.pack.json(row.part).then((part) => body.replaceChildren(passes(app, part, `#/programs/${i}/passes`, path.slice(2))), (e) => body.replaceChildren(empty("This program cannot be shown", e.message)));
  return el("div", { class: "column fill" }, el("div", { class: "head" }, el("a", { href: `#/programs/${i}` }, `program ${i + 1}`), el("span", { class: "faint" }, "/"), el("h2", {}, "passes of the scheduler")), body);
}

// A word of a link; one that nobody made is taken as it is.
function decoded(word) {
  try {
    return decodeURIComponent(word);
  } catch {
    return word;
  }
}

function show() {
  const path = location.hash.replace(/^#\/?/, "").split("/").filter(Boolean).map(decoded);
  const first = app.pack.index.programs.length ? "programs" : "timeline";
  const view = VIEWS.find((v) => v[0] === (path[0] || first)) || VIEWS[0];
  Object.assign(app, { keys: null, graph: null, themed: null });
  let made;
  try {
    made = path[0] === "programs" && path[2] === "passes" ? schedulerPasses(path.slice(1)) : view[2](app, path.slice(1));
  } catch (e) {
    made = empty("This cannot be shown", `${e.message}. `, el("a", { href: `#/${first}` }, "back"));
  }
  document.getElementById("view").replaceChildren(made);
  bar(view[0]);
  document.title = `frit viz · ${view[1]}`;
}

function theme(to) {
  document.documentElement.classList.toggle("light", to === "light");
  try {
    localStorage.setItem("frit-theme", to);
  } catch {}
  app.graph?.draw?.();
  app.themed?.();
}

function bar(on) {
  const x = app.pack.index;
  const isLight = document.documentElement.classList.contains("light");
  const parts = [
    el("span", { class: "mark" }, "frit", el("span", {}, " viz")),
    ...VIEWS.map(([key, title, , n]) => el("a", { class: `tab${key === on ? " on" : ""}`, href: `#/${key}` }, title, n ? el("span", { class: "count" }, count(n(x))) : null)),
    el("span", { class: "space" }),
    x.counts.lost ? el("span", { class: "warning" }, `the recording ends early: ${size(x.counts.lost)} could not be read`) : null,
    x.counts.left_out ? el("span", { class: "warning" }, `${count(x.counts.left_out)} records came too fast and were left out`) : null,
    el("span", { class: "facts" }, `${count(x.counts.nodes)} nodes · ${count(x.counts.rules)} rules · ${count(x.counts.launches)} launches`),
    el("button", { class: "quiet", style: { "margin-left": "12px" }, onclick: () => { theme(isLight ? "dark" : "light"); bar(on); } }, isLight ? "dark" : "light"),
  ];
  document.getElementById("bar").replaceChildren(...parts.filter(Boolean));
}

addEventListener("hashchange", show);
addEventListener("keydown", (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(e.target.tagName)) return;
  const n = Number(e.key);
  if (n >= 1 && n <= VIEWS.length) app.go(`#/${VIEWS[n - 1][0]}`);
  else if (!app.keys?.(e.key) && !app.graph?.key?.(e.key)) return;
  e.preventDefault();
});

let kept = null;
try {
  kept = localStorage.getItem("frit-theme");
} catch {}
theme(kept || (matchMedia("(prefers-color-scheme: light)").matches ? "light" : "dark"));
const begun = performance.now();
findPack().then(
  (pack) => {
    app.pack = pack;
    show();
    app.opened = performance.now() - begun;
  },
  (e) => document.getElementById("view").replaceChildren(empty("The recording cannot be opened", e.message)),
);
