// Layers for a graph, in a worker: sources above users, edges as straight as a few sweeps make them. Nearly linear.
//
// In: widths, and edges as pairs of numbers. Out: where each node is, and the points of each edge. A layer that is much wider
// than the whole is high (those of an unrolled loop are) is wrapped: its nodes take turns in several rows, so that each row
// goes over all of the layer's order and neighbours stay near.

const HEIGHT = 34;
const GAP_X = 18;
const GAP_Y = 36;
const SWEEPS = 6;
// Between rows of one layer, and how many times as wide as high a graph may be.
const GAP_WRAP = 12;
const SHAPE = 1.8;

function layersOf(n, from, to) {
  const indegree = new Int32Array(n);
  const out = Array.from({ length: n }, () => []);
  for (let e = 0; e < from.length; e++) {
    out[from[e]].push(to[e]);
    indegree[to[e]]++;
  }
  const left = indegree.slice();
  const layer = new Int32Array(n);
  const queue = [];
  for (let i = 0; i < n; i++) if (!left[i]) queue.push(i);
  for (let q = 0; q < queue.length; q++) {
    const v = queue[q];
    for (const u of out[v]) {
      layer[u] = Math.max(layer[u], layer[v] + 1);
      if (--left[u] === 0) queue.push(u);
    }
  }
  // what has few sources lies right above the first that uses it
  for (let q = queue.length - 1; q >= 0; q--) {
    const v = queue[q];
    if (!out[v].length || (indegree[v] > 1 && indegree[v] > out[v].length)) continue;
    let first = Infinity;
    for (const u of out[v]) first = Math.min(first, layer[u]);
    layer[v] = Math.max(layer[v], first - 1);
  }
  return layer;
}

function layout({ widths, from, to }) {
  const n = widths.length;
  const layer = layersOf(n, from, to);
  const width = Array.from(widths);
  const level = Array.from(layer);
  const up = Array.from({ length: n }, () => []);
  const down = Array.from({ length: n }, () => []);
  const chains = [];
  // an edge over several layers gets a place in each, as long as there are not too many of them
  let budget = 4 * n + 2000;
  const byLength = Array.from(from.keys()).sort((a, b) => layer[to[a]] - layer[from[a]] - (layer[to[b]] - layer[from[b]]));
  for (const e of byLength) {
    const chain = [];
    const span = layer[to[e]] - layer[from[e]];
    let last = from[e];
    if (span > 1 && budget >= span) {
      budget -= span;
      for (let l = layer[from[e]] + 1; l < layer[to[e]]; l++) {
        const v = width.length;
        width.push(6);
        level.push(l);
        up.push([last]);
        down.push([]);
        down[last].push(v);
        chain.push(v);
        last = v;
      }
    }
    up[to[e]].push(last);
    down[last].push(to[e]);
    chains[e] = chain;
  }
  const rows = [];
  for (let v = 0; v < width.length; v++) (rows[level[v]] ||= []).push(v);
  for (let l = 0; l < rows.length; l++) rows[l] ||= [];
  const at = new Float64Array(width.length);
  for (const row of rows) row.forEach((v, i) => (at[v] = i));
  const mean = (list) => {
    let s = 0;
    for (const u of list) s += at[u];
    return s / list.length;
  };
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    const isDown = sweep % 2 === 0;
    for (let k = 0; k < rows.length; k++) {
      const row = rows[isDown ? k : rows.length - 1 - k];
      const near = isDown ? up : down;
      const key = new Map(row.map((v) => [v, near[v].length ? mean(near[v]) : at[v]]));
      row.sort((a, b) => key.get(a) - key.get(b));
      row.forEach((v, i) => (at[v] = i));
    }
  }
  const x = new Float64Array(width.length);
  const y = new Float64Array(width.length);
  const wrapped = wrap(rows, width, y);
  for (const row of wrapped) {
    let pos = 0;
    for (const v of row) {
      x[v] = pos + width[v] / 2;
      pos += width[v] + GAP_X;
    }
  }
  const sides = (list) => {
    let s = 0;
    for (const u of list) s += x[u];
    return s / list.length;
  };
  for (let round = 0; round < 8; round++) {
    for (let k = 0; k < wrapped.length; k++) {
      const row = wrapped[round % 2 ? wrapped.length - 1 - k : k];
      const near = round % 2 ? down : up;
      place(row, row.map((v) => (near[v].length ? sides(near[v]) : x[v])), width, x);
    }
  }
  const xs = new Float32Array(n);
  const ys = new Float32Array(n);
  for (let v = 0; v < n; v++) {
    xs[v] = x[v];
    ys[v] = y[v];
  }
  const points = chains.map((chain) => chain.map((v) => [x[v], y[v]]));
  return { xs, ys, points, height: HEIGHT };
}

// Layers as rows that are not too wide, in order; how deep each node lies goes to `y`.
function wrap(rows, width, y) {
  const wide = rows.map((row) => row.reduce((s, v) => s + width[v] + GAP_X, 0));
  const area = wide.reduce((s, w) => s + w, 0) * (HEIGHT + GAP_Y);
  const most = Math.max(1600, Math.sqrt(area * SHAPE));
  const out = [];
  let deep = 0;
  rows.forEach((row, l) => {
    const n = Math.max(1, Math.ceil(wide[l] / most));
    const parts = Array.from({ length: n }, () => []);
    row.forEach((v, i) => {
      parts[i % n].push(v);
      y[v] = deep + (i % n) * (HEIGHT + GAP_WRAP);
    });
    out.push(...parts);
    deep += n * (HEIGHT + GAP_WRAP) - GAP_WRAP + GAP_Y;
  });
  return out;
}

// As near to where they want to be as the order and the widths allow: neighbours that collide become one block.
function place(row, wanted, width, x) {
  const blocks = [];
  for (let i = 0; i < row.length; i++) {
    const v = row[i];
    const gap = i ? (width[row[i - 1]] + width[v]) / 2 + (width[v] > 6 || width[row[i - 1]] > 6 ? GAP_X : 10) : 0;
    let block = { first: i, offset: [0], sum: wanted[i], count: 1, end: 0 };
    block.pos = wanted[i];
    block.gap = gap;
    blocks.push(block);
    while (blocks.length > 1) {
      const b = blocks[blocks.length - 1];
      const a = blocks[blocks.length - 2];
      if (a.pos + a.end + b.gap <= b.pos) break;
      const shift = a.end + b.gap;
      for (const o of b.offset) a.offset.push(o + shift);
      a.sum += b.sum - shift * b.count;
      a.count += b.count;
      a.end = shift + b.end;
      a.pos = a.sum / a.count;
      blocks.pop();
    }
  }
  for (const b of blocks) b.offset.forEach((o, k) => (x[row[b.first + k]] = b.pos + o));
}

if (typeof WorkerGlobalScope !== "undefined" && self instanceof WorkerGlobalScope) {
  onmessage = (m) => {
    const { id, graph } = m.data;
    try {
      postMessage({ id, result: layout(graph) });
    } catch (e) {
      postMessage({ id, error: String(e) });
    }
  };
}
