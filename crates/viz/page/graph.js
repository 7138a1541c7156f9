// A graph on a canvas: laid out in a worker, drawn where it is in sight.
import { css, el } from "./dom.js";
import { Surface } from "./surface.js";

let worker;
let asked = 0;
const waiting = new Map();

function layoutWorker() {
  if (worker) return worker;
  const inline = document.getElementById("layout-worker");
  const url = inline ? URL.createObjectURL(new Blob([inline.textContent], { type: "text/javascript" })) : "layout.js";
  worker = new Worker(url);
  worker.onmessage = (m) => {
    const { id, result, error } = m.data;
    const w = waiting.get(id);
    waiting.delete(id);
    if (w) error ? w[1](new Error(error)) : w[0](result);
  };
  return worker;
}

function layOut(graph) {
  return new Promise((done, failed) => {
    const id = ++asked;
    waiting.set(id, [done, failed]);
    layoutWorker().postMessage({ id, graph });
  });
}

const CHAR = 6.7;
// Below this scale titles cannot be read.
const LEGIBLE = 0.5;

// The graph that was laid out last: who steps through the rules of a pass sees it again and again.
let last = null;

// What an op does, as a colour.
const GROUPS = [
  ["memory", "#6cb2ff", ["Param", "Buffer", "Define", "Load", "Store", "Index", "Stage", "After", "Copy", "Scatter", "Gather"]],
  ["loops", "#e3b341", ["Range", "End", "Special", "Sink", "Loop", "LoopIn", "LoopOut", "Barrier", "If"]],
  ["reductions", "#ef8d6c", ["Reduce", "ReduceAxis", "Scan", "ScanAxis", "Matrix", "Fold"]],
  ["movement", "#c58bf2", ["Reshape", "Permute", "Expand", "Pad", "Shrink", "Flip", "Stack", "Shuffle", "Lane", "LaneShuffle", "Contiguous", "Detach"]],
  ["arithmetic", "#54c08a", []],
];
const GROUP_OF = new Map(GROUPS.flatMap(([, c, ops]) => ops.map((o) => [o, c])));
export const opColour = (op) => GROUP_OF.get(op) || "#54c08a";
export const OP_LEGEND = GROUPS.map(([name, c]) => [name, c]);

export class GraphView extends Surface {
  // `onselect` is told which node was clicked, `about` gives lines for a node under the pointer.
  constructor({ onselect, about, hint }) {
    const legend = el("div", { class: "legend" });
    const busy = el("div", { class: "busy" });
    super("graph", hint || "drag to move · wheel to zoom · f to fit", legend, busy);
    Object.assign(this, { onselect, about, legend, busy });
    this.scale = 1;
    this.tx = this.ty = 0;
    this.marks = new Map();
    this.listen({
      wheel: (e, at) => this.zoom(Math.exp(-e.deltaY * (e.ctrlKey ? 0.01 : 0.0016)), at),
      grab: () => [this.tx, this.ty],
      drag: ([tx, ty], [x, y], [x0, y0]) => ([this.tx, this.ty] = [tx + x - x0, ty + y - y0]),
      click: (at) => {
        const n = this.nodeAt(at);
        this.selected = n === null ? null : this.nodes[n].id;
        this.draw();
        this.onselect?.(this.selected);
      },
      hover: (at) => {
        const n = this.nodeAt(at);
        return n === null ? null : this.about?.(this.nodes[n].id);
      },
    });
  }
  // What a key does wherever the page has the focus; whether it does something.
  key(key) {
    if (key === "f") this.fit();
    else if (key === "+" || key === "=") this.zoom(1.25);
    else if (key === "-") this.zoom(0.8);
    else return false;
    return true;
  }
  zoom(f, [px, py] = [this.box.clientWidth / 2, this.box.clientHeight / 2]) {
    const s = Math.min(3, Math.max(0.01, this.scale * f));
    this.tx = px - ((px - this.tx) * s) / this.scale;
    this.ty = py - ((py - this.ty) * s) / this.scale;
    this.scale = s;
    this.draw();
  }
  nodeAt([px, py]) {
    if (!this.placed) return null;
    const [x, y] = [(px - this.tx) / this.scale, (py - this.ty) / this.scale];
    const { xs, ys, height } = this.placed;
    for (let i = 0; i < this.nodes.length; i++) {
      if (Math.abs(y - ys[i]) <= height / 2 && Math.abs(x - xs[i]) <= this.widths[i] / 2) return i;
    }
    return null;
  }
  // Nodes are { id, title, sub, colour }, edges pairs of ids.
  // `key` names a graph: where it is shown again it stands as it did.
  async show(nodes, edges, legend, key) {
    const turn = (this.turn = (this.turn || 0) + 1);
    this.busy.textContent = "laying out…";
    this.legend.replaceChildren(...(legend || []).map(([name, c]) => el("span", {}, el("i", { style: { background: c } }), name)));
    const number = new Map(nodes.map((n, i) => [n.id, i]));
    const pairs = edges.map(([a, b]) => [number.get(a), number.get(b)]).filter(([a, b]) => a !== undefined && b !== undefined && a !== b);
    const widths = nodes.map((n) => Math.max(54, 22 + CHAR * Math.max(n.title.length, (n.sub || "").length * 0.9)));
    const begun = performance.now();
    let placed;
    try {
      placed = key && last?.key === key ? last.placed : await layOut({ widths, from: pairs.map((p) => p[0]), to: pairs.map((p) => p[1]) });
    } catch (e) {
      if (turn === this.turn) this.busy.textContent = `this graph cannot be laid out: ${e.message}`;
      return;
    }
    if (turn !== this.turn) return;
    this.layoutTime = performance.now() - begun;
    this.busy.textContent = nodes.length ? "" : "this graph is empty";
    Object.assign(this, { nodes, pairs, widths, placed, number });
    this.bounds = nodes.reduce((b, _, i) => [Math.min(b[0], placed.xs[i] - widths[i] / 2), Math.min(b[1], placed.ys[i] - placed.height / 2), Math.max(b[2], placed.xs[i] + widths[i] / 2), Math.max(b[3], placed.ys[i] + placed.height / 2)], [Infinity, Infinity, -Infinity, -Infinity]);
    if (key && last?.key === key) Object.assign(this, last.view.at);
    else this.open();
    this.draw();
    last = { key, placed, view: this };
  }
  get at() {
    return { scale: this.scale, tx: this.tx, ty: this.ty };
  }
  // All of it, or where that would be a thin line its beginning, so that it can be read.
  open() {
    this.fit();
    if (!this.nodes.length) return;
    const [x0, y0, x1] = this.bounds;
    if (this.scale >= LEGIBLE || (x1 - x0) * this.scale > this.box.clientWidth / 3) return;
    this.scale = LEGIBLE;
    const { xs, ys } = this.placed;
    const first = [...xs].filter((_, i) => ys[i] < y0 + this.box.clientHeight / this.scale).sort((a, b) => a - b);
    this.look(first[first.length >> 1], y0);
  }
  fit() {
    if (!this.placed || !this.nodes.length) return;
    const [x0, y0, x1, y1] = this.bounds;
    const [w, h] = [this.box.clientWidth, this.box.clientHeight];
    this.scale = Math.min(1.25, Math.max(0.02, 0.92 * Math.min(w / (x1 - x0 + 40), h / (y1 - y0 + 60))));
    this.tx = w / 2 - ((x0 + x1) / 2) * this.scale;
    this.ty = h / 2 - ((y0 + y1) / 2) * this.scale;
    this.draw();
  }
  // Nodes in sight, large enough to be read: all of them, or the one that matters most.
  focus(ids, first) {
    const all = ids.map((n) => this.number?.get(n)).filter((i) => i !== undefined);
    if (!all.length) return;
    const { xs, ys, height } = this.placed;
    const [w, h] = [this.box.clientWidth, this.box.clientHeight];
    const ends = (at, half) => [Math.min(...all.map((i) => at[i] - half(i))), Math.max(...all.map((i) => at[i] + half(i)))];
    const [[x0, x1], [y0, y1]] = [ends(xs, (i) => this.widths[i] / 2), ends(ys, () => height / 2)];
    const most = Math.min((w - 120) / (x1 - x0), (h - 140) / (y1 - y0));
    const inSight = x0 * this.scale + this.tx > 20 && x1 * this.scale + this.tx < w - 20 && y0 * this.scale + this.ty > 40 && y1 * this.scale + this.ty < h - 40;
    if (inSight && this.scale >= LEGIBLE) return;
    if (most < LEGIBLE) {
      this.centre(this.number.has(first) ? first : ids.find((n) => this.number.has(n)), LEGIBLE);
      return;
    }
    this.scale = Math.min(most, Math.max(this.scale, 0.85));
    this.look((x0 + x1) / 2, (y0 + y1) / 2);
  }
  // A place in the middle, as far as there is graph around it.
  look(x, y) {
    const [x0, y0, x1, y1] = this.bounds.map((b) => b * this.scale);
    const inside = (at, low, high, room) => (high - low <= room - 80 ? (room - low - high) / 2 : Math.min(40 - low, Math.max(room - 40 - high, room / 2 - at * this.scale)));
    this.tx = inside(x, x0, x1, this.box.clientWidth);
    this.ty = inside(y, y0, y1, this.box.clientHeight);
    this.draw();
  }
  centre(id, least = 0.55) {
    const i = this.number?.get(id);
    if (i === undefined) return false;
    this.scale = Math.max(this.scale, least);
    this.look(this.placed.xs[i], this.placed.ys[i]);
    return true;
  }
  mark(marks) {
    this.marks = marks;
    this.draw();
  }
  render(g, w, h) {
    if (!this.placed) return;
    const { xs, ys, points, height } = this.placed;
    const { scale, tx, ty, widths, marks } = this;
    const [x0, y0, x1, y1] = [-tx / scale, -ty / scale, (w - tx) / scale, (h - ty) / scale];
    g.translate(tx, ty);
    g.scale(scale, scale);
    const dims = marks.size > 0;
    const theme = { panel: css("--panel"), line: css("--strong"), text: css("--text"), soft: css("--soft"), accent: css("--accent") };
    g.lineWidth = Math.max(1, 0.7 / scale);
    const edge = (e, style, alpha) => {
      const [a, b] = this.pairs[e];
      const [ax, ay, bx, by] = [xs[a], ys[a] + height / 2, xs[b], ys[b] - height / 2];
      if (Math.min(ay, by) > y1 || Math.max(ay, by) < y0 || (Math.max(ax, bx) < x0 - 400 && !points[e].length)) return;
      g.globalAlpha = alpha;
      g.strokeStyle = style;
      g.beginPath();
      g.moveTo(ax, ay);
      let [px, py] = [ax, ay];
      for (const [qx, qy] of [...points[e], [bx, by]]) {
        const my = (py + qy) / 2;
        g.bezierCurveTo(px, my, qx, my, qx, qy);
        [px, py] = [qx, qy];
      }
      g.stroke();
    };
    const isDense = this.pairs.length > 4000;
    const isGhost = ([a, b]) => this.nodes[a].isGhost || this.nodes[b].isGhost;
    const markOf = (i) => marks.get(this.nodes[i].id);
    for (let e = 0; e < this.pairs.length; e++) edge(e, theme.line, isGhost(this.pairs[e]) ? 0.12 : dims ? 0.4 : isDense ? 0.45 : 0.9);
    if (dims) {
      g.lineWidth = Math.max(1.6, 1.2 / scale);
      for (let e = 0; e < this.pairs.length; e++) {
        const [a, b] = this.pairs[e].map(markOf);
        if (a && b) edge(e, b, 1);
      }
    }
    const sel = this.selected === null || this.selected === undefined ? -1 : this.number.get(this.selected) ?? -1;
    if (sel >= 0) {
      g.lineWidth = Math.max(1.6, 1.2 / scale);
      for (let e = 0; e < this.pairs.length; e++) if (this.pairs[e].includes(sel)) edge(e, theme.accent, 1);
    }
    g.textBaseline = "middle";
    const readable = scale > 0.38;
    for (let i = 0; i < this.nodes.length; i++) {
      const [wi, x, y] = [widths[i], xs[i], ys[i]];
      if (x + wi / 2 < x0 || x - wi / 2 > x1 || y + height / 2 < y0 || y - height / 2 > y1) continue;
      const n = this.nodes[i];
      const mark = marks.get(n.id);
      const alpha = mark ? 1 : n.isGhost ? 0.16 : dims ? 0.45 : 1;
      g.globalAlpha = alpha;
      const [l, t] = [x - wi / 2, y - height / 2];
      if (!readable) {
        g.fillStyle = mark || n.colour;
        g.fillRect(l, t, wi, height);
        continue;
      }
      g.beginPath();
      g.roundRect(l, t, wi, height, 5);
      g.fillStyle = theme.panel;
      g.fill();
      if (n.fill) {
        g.globalAlpha *= 0.22;
        g.fillStyle = n.fill;
        g.fill();
        g.globalAlpha = alpha;
      }
      g.lineWidth = mark || i === sel ? 2.4 : 1;
      g.strokeStyle = i === sel ? theme.accent : mark || theme.line;
      g.stroke();
      g.beginPath();
      g.roundRect(l + 1, t + 1, 4, height - 2, [4, 0, 0, 4]);
      g.fillStyle = n.colour;
      g.fill();
      g.font = "600 11.5px ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace";
      g.fillStyle = theme.text;
      g.fillText(n.title, l + 11, n.sub ? y - 6.5 : y);
      if (n.sub) {
        g.font = "10px ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace";
        g.fillStyle = theme.soft;
        g.fillText(n.sub, l + 11, y + 8);
      }
    }
    g.globalAlpha = 1;
  }
}

// The nodes below a root as a view takes them: constants stand where they are used.
const LONGEST = 34;
const clip = (t) => (t.length > LONGEST ? t.slice(0, LONGEST - 1) + "…" : t);

export function graphOf(nodes, order, extra) {
  const shown = order.filter((n) => !nodes.isConst(n) || order.length === 1);
  const edges = [];
  const cards = shown.map((n) => {
    const src = nodes.src(n);
    const constants = src.filter((s) => nodes.isConst(s)).map((s) => nodes.arg(s));
    for (const s of new Set(src)) if (!nodes.isConst(s)) edges.push([s, n]);
    const shape = nodes.shape(n);
    const few = constants.length && constants.length <= 3 && nodes.op(n) !== "Reshape" ? ` ${constants.join(" ")}` : "";
    const sub = [nodes.dtype(n) === "void" ? "" : nodes.dtype(n), shape && `[${shape}]`, nodes.arg(n)].filter(Boolean).join(" ");
    return { id: n, title: clip(nodes.op(n) + few), sub: clip(sub), colour: opColour(nodes.op(n)), ...(extra ? extra(n) : {}) };
  });
  return [cards, edges];
}

// Beyond this a graph is shown by groups.
export const MOST = 5000;

// A title without how many more there are in its group.
const plain = (title) => title.replace(/ \+\d+$/, "");

// Nodes of a group as one.
export function collapse(cards, edges, groupOf) {
  const groups = new Map();
  const of = new Map();
  for (const c of cards) {
    const key = groupOf(c.id) ?? c.id;
    of.set(c.id, key);
    const g = groups.get(key);
    if (!g) groups.set(key, { ...c, id: key, count: c.count ?? 1 });
    else {
      g.count += c.count ?? 1;
      // it is called as what reads the others, which comes last
      if (c.id === key) Object.assign(g, { ...c, id: key, count: g.count });
    }
  }
  const seen = new Set();
  const between = [];
  for (const [a, b] of edges) {
    const [x, y] = [of.get(a), of.get(b)];
    if (x === undefined || y === undefined || x === y || seen.has(`${x} ${y}`)) continue;
    seen.add(`${x} ${y}`);
    between.push([x, y]);
  }
  const all = [...groups.values()].map((g) => (g.count > 1 ? { ...g, title: clip(`${plain(g.title)} +${g.count - 1}`) } : g));
  return [all, between];
}

// A graph of at most so many cards: what only one card reads becomes part of that one, in groups that grow until it is enough;
// where that does not do it cards of one layer that do the same are one, and then whole layers are. Cards come before those that
// read them, and so do groups: no group reads itself through another, since what a layer reads is in earlier ones.
export function shrink(cards, edges, most) {
  const reader = new Map();
  for (const [a, b] of edges) reader.set(a, reader.has(a) && reader.get(a) !== b ? null : b);
  for (let largest = 8; cards.length > most && largest < 1e6; largest *= 8) {
    // the card that a group is part of, and how many each has
    const [into, size] = [new Map(), new Map(cards.map((c) => [c.id, 1]))];
    let left = cards.length;
    for (const { id } of cards) {
      const r = reader.get(id);
      if (r === undefined || r === null || size.get(id) + size.get(r) > largest) continue;
      into.set(id, r);
      size.set(r, size.get(id) + size.get(r));
      left--;
    }
    if (left > most && largest < 1e5) continue;
    const root = new Map();
    for (let i = cards.length - 1; i >= 0; i--) {
      const r = into.get(cards[i].id);
      root.set(cards[i].id, r === undefined ? cards[i].id : root.get(r));
    }
    [cards, edges] = collapse(cards, edges, (n) => root.get(n));
    [cards, edges] = sorted(cards, edges);
    break;
  }
  if (cards.length <= most) return [cards, edges];
  const depth = new Map();
  const sources = new Map(cards.map((c) => [c.id, []]));
  for (const [a, b] of edges) sources.get(b).push(a);
  for (const c of cards) depth.set(c.id, sources.get(c.id).reduce((d, s) => Math.max(d, 1 + depth.get(s)), 0));
  for (let width = 0; ; width = width ? 2 * width : 1) {
    const first = new Map();
    const group = new Map();
    for (const c of cards) {
      const key = width ? Math.floor(depth.get(c.id) / width) : `${depth.get(c.id)} ${plain(c.title)}`;
      if (!first.has(key)) first.set(key, c.id);
      group.set(c.id, first.get(key));
    }
    if (first.size > most) continue;
    return sorted(...collapse(cards, edges, (n) => group.get(n)));
  }
}

// The cards so that each comes after those it reads.
function sorted(cards, edges) {
  const [waits, readers] = [new Map(cards.map((c) => [c.id, 0])), new Map()];
  for (const [a, b] of edges) {
    waits.set(b, waits.get(b) + 1);
    if (!readers.has(a)) readers.set(a, []);
    readers.get(a).push(b);
  }
  const byId = new Map(cards.map((c) => [c.id, c]));
  const order = cards.filter((c) => !waits.get(c.id));
  for (let i = 0; i < order.length; i++) {
    for (const b of readers.get(order[i].id) || []) {
      waits.set(b, waits.get(b) - 1);
      if (!waits.get(b)) order.push(byId.get(b));
    }
  }
  return [order, edges];
}
