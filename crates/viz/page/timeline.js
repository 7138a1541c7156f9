// Threads of the host, queues of devices and memory on one axis. Tracks are pyramids, so a frame draws about as many entries
// as there are pixels; blocks come when they come into sight.
import { colour, count, css, el, empty, hash, many, short, size, time } from "./dom.js";
import { Surface } from "./surface.js";

const LANE = 18;
const HEAD = 22;
const AXIS = 26;
const LEFT = 150;
const USE = 64;
const LIVES = 110;
// Rows of buffers: each is two pixels high at least.
const ROWS = 48;

class Level {
  constructor(pack, blocks, isFinest, redraw) {
    Object.assign(this, { pack, blocks, isFinest, redraw });
    this.loaded = new Map();
    this.total = blocks.reduce((s, b) => s + b[2], 0);
  }
  // How many entries are about in a range.
  within(t0, t1) {
    let n = 0;
    for (const [b0, b1, c] of this.blocks) {
      if (b1 < t0 || b0 > t1) continue;
      n += c * Math.min(1, (Math.min(b1, t1) - Math.max(b0, t0) + 1) / (b1 - b0 + 1));
    }
    return n;
  }
  block(i) {
    const known = this.loaded.get(i);
    if (known) return known.value;
    const entry = { value: null };
    this.loaded.set(i, entry);
    const [, , n, offset, length] = this.blocks[i];
    entry.ready = this.pack.part([offset, length]).then((buffer) => {
      entry.value = { n, at: new Float64Array(buffer, 0, n), ns: new Float64Array(buffer, 8 * n, n), name: new Uint32Array(buffer, 16 * n, n), of: new Uint32Array(buffer, 20 * n, n) };
      this.redraw();
      return entry.value;
    });
    return null;
  }
  // Shows the entries in a range to `each`; whether all of them are there.
  visit(t0, t1, each) {
    let whole = true;
    for (let i = 0; i < this.blocks.length; i++) {
      if (this.blocks[i][1] < t0 || this.blocks[i][0] > t1) continue;
      const b = this.block(i);
      if (!b) {
        whole = false;
        continue;
      }
      let [lo, hi] = [0, b.n];
      while (lo < hi) {
        const mid = (lo + hi) >> 1;
        if (b.at[mid] + b.ns[mid] < t0) lo = mid + 1;
        else hi = mid;
      }
      for (let k = lo; k < b.n && b.at[k] <= t1; k++) each(b, k);
    }
    return whole;
  }
  async all(t0, t1) {
    const wanted = this.blocks.map((b, i) => [b, i]).filter(([b]) => b[1] >= t0 && b[0] <= t1);
    for (const [, i] of wanted) {
      this.block(i);
      await this.loaded.get(i).ready;
    }
  }
}

export function timeline(app, path) {
  const t = app.pack.index.timeline;
  if (!t.tracks.length) return empty("Nothing ran", "No launch, copy or span was recorded.");
  return new Timeline(app, t, path).page;
}

class Timeline extends Surface {
  constructor(app, t, path) {
    super("timeline", "wheel to zoom · drag to move · shift-drag to select · w a s d · f to fit");
    Object.assign(this, { app, t, pack: app.pack });
    this.from = 0;
    this.to = Math.max(1, t.ns);
    const view = /^([\d.]+)-([\d.]+)$/.exec(path[0] || "");
    if (view && Number(view[2]) > Number(view[1])) [this.from, this.to] = [Number(view[1]), Number(view[2])];
    this.select = null;
    const redraw = () => this.draw();
    let y = AXIS;
    this.tracks = t.tracks.map((tr) => {
      const lanes = tr.lanes.map((levels) => levels.map((blocks, i) => new Level(app.pack, blocks, i === 0, redraw)));
      const track = { ...tr, lanes, y };
      y += HEAD + Math.max(1, lanes.length) * LANE + 8;
      return track;
    });
    this.memory = t.memory.map((m) => {
      const track = { ...m, y };
      y += HEAD + USE + LIVES + 10;
      app.pack.part(m.part).then((b) => {
        track.at = new Float64Array(b, 0, m.count);
        track.use = new Float64Array(b, 8 * m.count, m.count);
        redraw();
      }, () => {});
      if (m.buffers) {
        app.pack.part(m.lives).then((b) => {
          track.life = [0, 1, 2].map((c) => new Float64Array(b, 8 * c * m.buffers, m.buffers));
          track.rows = rowsOf(track.life);
          redraw();
        }, () => {});
      }
      return track;
    });
    this.height = y + 10;
    this.detail = el("div", { class: "side right", style: { width: "320px", display: "none" } });
    const events = t.tracks.reduce((s, tr) => s + tr.events, 0);
    const { replays } = app.pack.index.counts;
    this.range = el("span", { class: "soft" });
    this.page = el("div", { class: "column fill" }, el("div", { class: "head" }, el("h2", {}, "Timeline"), el("span", { class: "soft" }, `${count(events)} events over ${time(t.ns)}`), replays ? el("span", { class: "pill replays", title: "A graph that is launched as one has no times of its parts: while it is recorded a replay takes longer than it does else." }, `${many(replays, "replay")} ran kernel by kernel`) : null, el("span", { class: "space" }), this.range), el("div", { class: "row fill" }, this.box, this.detail));
    this.scrollY = 0;
    this.attend();
    app.themed = redraw;
    app.graph = this;
  }
  x(ns) {
    return LEFT + ((ns - this.from) / (this.to - this.from)) * (this.width - LEFT);
  }
  ns(x) {
    return this.from + ((x - LEFT) / (this.width - LEFT)) * (this.to - this.from);
  }
  zoom(f, at) {
    const middle = at ?? (this.from + this.to) / 2;
    const span = Math.min(1.2 * this.t.ns, Math.max(50, (this.to - this.from) * f));
    const share = (middle - this.from) / (this.to - this.from);
    this.from = middle - share * span;
    this.to = this.from + span;
    this.keep();
  }
  move(by) {
    const d = by * (this.to - this.from);
    this.from += d;
    this.to += d;
    this.keep();
  }
  keep() {
    const slack = 0.1 * this.t.ns;
    const span = this.to - this.from;
    this.from = Math.max(-slack, Math.min(this.from, this.t.ns + slack - span));
    this.to = this.from + span;
    clearTimeout(this.linkLater);
    this.linkLater = setTimeout(() => this.app.replace(`#/timeline/${Math.max(0, Math.round(this.from))}-${Math.round(this.to)}`), 300);
    this.draw();
  }
  attend() {
    this.listen({
      wheel: (e, [x]) => {
        if (e.shiftKey) this.move(Math.sign(e.deltaY || e.deltaX) * 0.1);
        else if (Math.abs(e.deltaX) > Math.abs(e.deltaY)) this.move(e.deltaX / 800);
        else this.zoom(Math.exp(e.deltaY * 0.0018), this.ns(Math.max(LEFT, x)));
      },
      grab: ([, y], e) => ({ from: this.from, to: this.to, scroll: this.scrollY, isSelecting: e.shiftKey || y < AXIS }),
      drag: (held, [x, y], [x0, y0]) => {
        if (held.isSelecting) {
          this.select = [this.ns(Math.min(x, x0)), this.ns(Math.max(x, x0))];
          return;
        }
        const d = ((x0 - x) / (this.width - LEFT)) * (held.to - held.from);
        [this.from, this.to] = [held.from + d, held.to + d];
        this.scrollY = Math.max(0, Math.min(this.height - this.box.clientHeight, held.scroll + y0 - y));
        this.keep();
      },
      drop: (held) => held.isSelecting && this.totals(),
      click: (at) => this.click(...at),
      hover: ([x, y]) => {
        const e = x > LEFT ? this.entryAt(x, y) : null;
        return e && this.words(e);
      },
    });
    this.app.keys = (key) => {
      if (key === "w" || key === "+") this.zoom(0.7);
      else if (key === "s" || key === "-") this.zoom(1.4);
      else if (key === "a" || key === "ArrowLeft") this.move(-0.15);
      else if (key === "d" || key === "ArrowRight") this.move(0.15);
      else if (key === "f") {
        [this.from, this.to] = [0, this.t.ns];
        this.keep();
      } else if (key === "Escape") {
        this.select = null;
        this.detail.style.display = "none";
        this.draw();
      } else return false;
      return true;
    };
  }
  // The finest level that has not many more entries in sight than pixels.
  levelOf(lane) {
    const most = 2 * (this.width - LEFT);
    return lane.find((l) => l.within(this.from, this.to) <= most) || lane[lane.length - 1];
  }
  entryAt(x, y) {
    const ns = this.ns(x);
    const slack = (2 / (this.width - LEFT)) * (this.to - this.from);
    for (const tr of this.tracks) {
      const lane = Math.floor((y + this.scrollY - tr.y - HEAD) / LANE);
      if (lane < 0 || lane >= tr.lanes.length) continue;
      const level = this.levelOf(tr.lanes[lane]);
      let found = null;
      level.visit(ns - slack, ns + slack, (b, k) => {
        if (b.at[k] <= ns + slack && b.at[k] + b.ns[k] >= ns - slack) found = { tr, level, b, k };
      });
      return found;
    }
    return null;
  }
  words({ level, b, k }) {
    if (!level.isFinest) return [`${count(b.name[k])} events`, `busy ${(b.of[k] / 10).toFixed(0)}% of ${time(b.ns[k])}`, "zoom in to see them"];
    const of = b.of[k];
    const detail = of & 0x80000000 ? this.t.names[of & 0x7fffffff] : of ? this.app.pack.index.kernels[of - 1]?.name : null;
    return [this.t.names[b.name[k]], time(b.ns[k]), detail, `at ${time(b.at[k])}`].filter(Boolean);
  }
  click(x, y) {
    const e = x > LEFT ? this.entryAt(x, y) : null;
    if (!e) {
      this.select = null;
      this.detail.style.display = "none";
      return this.draw();
    }
    if (!e.level.isFinest) {
      const [a, n] = [e.b.at[e.k], e.b.ns[e.k]];
      [this.from, this.to] = [a - 0.1 * n, a + 1.1 * n];
      return this.keep();
    }
    const of = e.b.of[e.k];
    this.detail.style.display = "";
    const facts = this.words(e);
    this.detail.replaceChildren(el("div", { class: "head" }, el("h2", { class: "mono" }, facts[0])), el("div", { class: "detail" }, el("dl", {}, el("dt", {}, "track"), el("dd", {}, e.tr.name), el("dt", {}, "begins"), el("dd", {}, time(e.b.at[e.k]) === "–" ? "0" : time(e.b.at[e.k])), el("dt", {}, "takes"), el("dd", {}, time(e.b.ns[e.k]))), of && !(of & 0x80000000) ? el("a", { href: `#/kernels/${of - 1}` }, "open the kernel") : null));
  }
  // What the selected range comes to, by name.
  async totals() {
    const [t0, t1] = this.select;
    this.detail.style.display = "";
    this.detail.replaceChildren(el("div", { class: "head" }, el("h2", {}, "adding up…")));
    const blocks = [el("div", { class: "head" }, el("h2", {}, `${time(t1 - t0)} selected`), el("span", { class: "space" }), el("span", { class: "faint" }, "Esc"))];
    const scroll = el("div", { class: "scroll" });
    for (const tr of this.tracks) {
      const lanes = [];
      for (const lane of tr.lanes) {
        const entries = [];
        await lane[0].all(t0, t1);
        lane[0].visit(t0, t1, (b, k) => {
          const [from, to] = [Math.max(t0, b.at[k]), Math.min(t1, b.at[k] + b.ns[k])];
          if (to >= from) entries.push([from, to, b.name[k]]);
        });
        lanes.push(entries);
      }
      const sums = ownTimes(lanes);
      if (!sums.size) continue;
      scroll.append(el("div", { class: "label", style: { padding: "10px 12px 4px" } }, tr.name));
      for (const [name, s] of [...sums].sort((a, b) => b[1].own - a[1].own).slice(0, 40)) {
        scroll.append(el("div", { class: "item slim", title: `${this.t.names[name]}: ${time(s.own)} of its own, ${time(s.ns)} with what is in it` }, el("div", { class: "top" }, el("b", { class: "mono" }, short(this.t.names[name])), el("span", { class: "num" }, `${time(s.own)} · ${count(s.n)}×`))));
      }
    }
    this.detail.replaceChildren(...blocks, scroll);
  }
  render(g, w, h) {
    this.width = w;
    const theme = { panel: css("--panel"), line: css("--line"), text: css("--text"), soft: css("--soft"), faint: css("--faint"), accent: css("--accent"), raised: css("--raised"), strong: css("--strong") };
    this.range.textContent = `${time(Math.max(0, this.from)) === "–" ? "0" : time(Math.max(0, this.from))} to ${time(this.to)}`;
    g.textBaseline = "middle";
    this.axis(g, theme, w, h);
    g.save();
    g.beginPath();
    g.rect(0, AXIS, w, h - AXIS);
    g.clip();
    for (const tr of this.tracks) this.track(g, theme, tr, w, h);
    for (const m of this.memory) this.memoryTrack(g, theme, m, w, h);
    g.restore();
    if (this.select) {
      const [a, b] = this.select.map((t) => this.x(t));
      g.fillStyle = theme.accent;
      g.globalAlpha = 0.14;
      g.fillRect(Math.max(LEFT, a), 0, b - Math.max(LEFT, a), h);
      g.globalAlpha = 1;
      g.fillRect(Math.max(LEFT, a), 0, 1, h);
      g.fillRect(b, 0, 1, h);
    }
  }
  axis(g, theme, w, h) {
    const span = this.to - this.from;
    let step = 10 ** Math.floor(Math.log10(span / 6));
    if (span / step > 24) step *= 5;
    else if (span / step > 12) step *= 2;
    g.font = "11px system-ui, sans-serif";
    g.textAlign = "left";
    for (let t = Math.ceil(this.from / step) * step; t <= this.to; t += step) {
      const x = this.x(t);
      if (x < LEFT) continue;
      g.fillStyle = theme.line;
      g.fillRect(Math.round(x), AXIS - 6, 1, h);
      g.fillStyle = theme.faint;
      g.fillText(Math.abs(t) < step / 2 ? "0" : time(t), x + 4, AXIS / 2);
    }
    g.fillStyle = theme.line;
    g.fillRect(0, AXIS - 1, w, 1);
  }
  track(g, theme, tr, w, h) {
    const y = tr.y - this.scrollY;
    const bottom = y + HEAD + tr.lanes.length * LANE;
    if (bottom < AXIS || y > h) return;
    g.font = "600 12px system-ui, sans-serif";
    g.fillStyle = theme.text;
    g.textAlign = "left";
    g.fillText(tr.name, 12, y + HEAD / 2 + 6, LEFT - 20);
    g.font = "11px system-ui, sans-serif";
    g.fillStyle = theme.faint;
    g.fillText(`${tr.kind} · ${count(tr.events)}`, 12, y + HEAD / 2 + 21, LEFT - 20);
    g.save();
    g.beginPath();
    g.rect(LEFT, Math.max(AXIS, y), w - LEFT, bottom - y + 8);
    g.clip();
    g.font = "11px ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace";
    tr.lanes.forEach((lane, d) => {
      const top = y + HEAD + d * LANE;
      const level = this.levelOf(lane);
      let lastX = -1;
      const whole = level.visit(this.from, this.to, (b, k) => {
        const a = this.x(b.at[k]);
        const width = Math.max(1, this.x(b.at[k] + b.ns[k]) - a);
        // several in one pixel are one
        if (width <= 1 && Math.floor(a) === lastX) return;
        lastX = Math.floor(a);
        if (level.isFinest) {
          const name = this.t.names[b.name[k]];
          g.fillStyle = colour(hash(name));
          g.globalAlpha = 0.85;
          g.fillRect(a, top, Math.max(1, width - (width > 3 ? 1 : 0)), LANE - 2);
          // the text stands in what is in sight of it
          const [from, room] = [Math.max(a, LEFT), Math.min(a + width, w) - Math.max(a, LEFT) - 8];
          const letters = Math.floor(room / 6.7);
          if (letters >= 4) {
            g.globalAlpha = 1;
            g.fillStyle = "#0b0e13";
            const of = b.of[k];
            const more = of & 0x80000000 ? this.t.names[of & 0x7fffffff] : "";
            const text = short(more && room > 110 ? `${name} ${more}` : name);
            g.fillText(text.length > letters ? `${text.slice(0, letters - 1)}…` : text, from + 4, top + LANE / 2 - 0.5);
          }
        } else {
          g.globalAlpha = 0.25 + 0.6 * Math.min(1, b.of[k] / 1000);
          g.fillStyle = theme.accent;
          g.fillRect(a, top, width, LANE - 2);
        }
        g.globalAlpha = 1;
      });
      if (!whole) {
        g.fillStyle = theme.faint;
        g.fillText("…", LEFT + 6, top + LANE / 2);
      }
    });
    g.restore();
    g.fillStyle = theme.line;
    g.fillRect(0, bottom + 5, w, 1);
  }
  memoryTrack(g, theme, m, w, h) {
    const y = m.y - this.scrollY;
    if (y > h) return;
    g.font = "600 12px system-ui, sans-serif";
    g.fillStyle = theme.text;
    g.textAlign = "left";
    g.fillText(`${m.device} memory`, 12, y + HEAD / 2 + 6, LEFT - 20);
    g.font = "11px system-ui, sans-serif";
    g.fillStyle = theme.faint;
    g.fillText(`at most ${size(m.peak)}`, 12, y + HEAD / 2 + 21);
    g.fillText("buffers", 12, y + HEAD + USE + 18);
    if (!m.at) return;
    g.save();
    g.beginPath();
    g.rect(LEFT, Math.max(AXIS, y), w - LEFT, HEAD + USE + LIVES);
    g.clip();
    const base = y + HEAD + USE;
    const Y = (v) => base - (v / Math.max(1, m.peak)) * (USE - 6);
    g.beginPath();
    g.moveTo(LEFT, base);
    let value = 0;
    for (const [at, most, last] of steps(m.at, m.use, this.from, this.to, 2 * w)) {
      const x = Math.max(LEFT, this.x(at));
      g.lineTo(x, Y(value));
      g.lineTo(x, Y(most));
      g.lineTo(x, Y(last));
      value = last;
    }
    g.lineTo(w, Y(value));
    g.lineTo(w, base);
    g.closePath();
    g.fillStyle = theme.accent;
    g.globalAlpha = 0.22;
    g.fill();
    g.globalAlpha = 1;
    g.strokeStyle = theme.accent;
    g.lineWidth = 1.2;
    g.stroke();
    if (m.rows) {
      const [from, to, bytes] = m.life;
      const most = m.rows.length;
      const high = Math.min(9, (LIVES - 12) / Math.max(1, most));
      m.rows.forEach((row, r) => {
        for (const i of row) {
          if (to[i] < this.from) continue;
          if (from[i] > this.to) break;
          const a = Math.max(LEFT, this.x(from[i]));
          g.fillStyle = colour(Math.round(Math.log2(bytes[i] + 1)));
          g.globalAlpha = 0.7;
          g.fillRect(a, base + 8 + r * high, Math.max(1, this.x(to[i]) - a), Math.max(1, high - 1));
        }
      });
      g.globalAlpha = 1;
    }
    g.restore();
  }
}

function upper(list, v) {
  let [lo, hi] = [0, list.length];
  while (lo < hi) {
    const mid = (lo + hi) >> 1;
    if (list[mid] <= v) lo = mid + 1;
    else hi = mid;
  }
  return lo;
}

// Buffers in rows, the largest first, so that where there is no room for all it is the small ones that are missing. A row is in
// the order of time.
export function rowsOf([from, to, bytes]) {
  const rows = [];
  const order = Array.from(from.keys()).sort((a, b) => bytes[b] - bytes[a] || from[a] - from[b]);
  for (const i of order) {
    const at = (row) => {
      let [lo, hi] = [0, row.length];
      while (lo < hi) {
        const mid = (lo + hi) >> 1;
        if (from[row[mid]] < from[i]) lo = mid + 1;
        else hi = mid;
      }
      const isFree = (lo === 0 || to[row[lo - 1]] <= from[i]) && (lo === row.length || to[i] <= from[row[lo]]);
      return isFree ? lo : -1;
    };
    let r = 0;
    let k = -1;
    while (r < rows.length && (k = at(rows[r])) < 0) r++;
    if (r < rows.length) rows[r].splice(k, 0, i);
    else if (r < ROWS) rows.push([i]);
  }
  return rows;
}

// What was in use in a range, a step for each of about so many places: each begins at a time, has the most that was in use in
// it, and what was in use at its end.
export function steps(at, use, from, to, places) {
  const [lo, hi] = [Math.max(0, upper(at, from) - 1), upper(at, to)];
  const stride = Math.max(1, Math.ceil((hi - lo) / places));
  const out = [];
  for (let k = lo; k < hi; k += stride) {
    const end = Math.min(hi, k + stride);
    let most = 0;
    for (let j = k; j < end; j++) most = Math.max(most, use[j]);
    out.push([at[k], most, use[end - 1]]);
  }
  return out;
}

// Time by name, each stretch of a track counted once: what is inside of another entry is not the other one's own time. `lanes`
// have entries [from, to, name] in order, each lane inside of those above it.
export function ownTimes(lanes) {
  const sums = new Map();
  const add = (name, ns, whole, n) => {
    const s = sums.get(name) || { own: 0, ns: 0, n: 0 };
    sums.set(name, { own: s.own + ns, ns: s.ns + whole, n: s.n + n });
  };
  lanes.forEach((lane, depth) => {
    for (const [from, to, name] of lane) {
      add(name, to - from, to - from, 1);
      for (let d = depth - 1; d >= 0; d--) {
        const above = lanes[d];
        let [lo, hi] = [0, above.length];
        while (lo < hi) {
          const mid = (lo + hi) >> 1;
          if (above[mid][0] <= from) lo = mid + 1;
          else hi = mid;
        }
        const outer = above[lo - 1];
        if (!outer || outer[1] <= from) continue;
        add(outer[2], -(Math.min(to, outer[1]) - from), 0, 0);
        break;
      }
    }
  });
  return sums;
}
