// Graphs of a part as texts: a listing as the compiler prints it, expressions, and what differs between two listings.

export class Nodes {
  constructor(part) {
    this.part = part;
    this.texts = part.texts;
  }
  get count() {
    return this.part.nodes.length;
  }
  has(i) {
    return i !== undefined && i >= 0 && i < this.part.nodes.length;
  }
  op(i) {
    return this.has(i) ? this.texts[this.part.nodes[i][0]] : "missing";
  }
  dtype(i) {
    return this.has(i) ? this.texts[this.part.nodes[i][1]] : "";
  }
  shape(i) {
    return this.has(i) ? this.texts[this.part.nodes[i][2]] : "";
  }
  arg(i) {
    return this.has(i) ? this.texts[this.part.nodes[i][3]] : "";
  }
  src(i) {
    return this.has(i) ? this.part.nodes[i].slice(4) : [];
  }
  isConst(i) {
    return this.op(i) === "Const";
  }
  literal(i) {
    const d = this.dtype(i);
    return d === "index" || d === "bool" ? this.arg(i) : `${this.arg(i)}:${d}`;
  }
  // Everything below a node, sources first.
  below(root) {
    const order = [];
    const seen = new Uint8Array(this.count + 1);
    const stack = [[root, 0]];
    while (stack.length) {
      const top = stack[stack.length - 1];
      const [n, k] = top;
      if (k === 0) {
        if (!this.has(n) || seen[n]) {
          stack.pop();
          continue;
        }
        seen[n] = 1;
      }
      const src = this.src(n);
      if (k < src.length) {
        top[1]++;
        if (this.has(src[k]) && !seen[src[k]]) stack.push([src[k], 0]);
      } else {
        order.push(n);
        stack.pop();
      }
    }
    return order;
  }
  // Lines of a listing: text, node, and what a line is without its numbers.
  listing(root) {
    const names = new Map();
    const lines = [];
    for (const n of this.below(root)) {
      if (this.isConst(n) && n !== root) continue;
      const src = this.src(n).map((s) => (names.has(s) ? `%${names.get(s)}` : this.has(s) ? this.literal(s) : "?"));
      const arg = this.arg(n);
      const head = `${this.op(n)}:${this.dtype(n)}`;
      const tail = arg ? ` {${arg}}` : "";
      const shapes = this.src(n).map((s) => (this.isConst(s) ? this.literal(s) : this.op(s)));
      lines.push({ text: `%${lines.length} = ${head}${src.length ? " " + src.join(" ") : ""}${tail}`, node: n, key: `${head} ${shapes.join(" ")}${tail}` });
      names.set(n, names.size);
    }
    return lines;
  }
  // An expression down to some depth.
  expr(n, depth = 4) {
    if (!this.has(n)) return "?";
    if (this.isConst(n)) return this.literal(n);
    const arg = this.arg(n);
    const name = this.op(n) + (arg ? `{${arg}}` : "");
    const src = this.src(n);
    if (!src.length) return name;
    if (depth <= 0) return `${name}(…)`;
    const inner = src.map((s) => this.expr(s, depth - 1));
    const flat = `${name}(${inner.join(", ")})`;
    if (flat.length < 56 && !flat.includes("\n")) return flat;
    return `${name}(\n${inner.map((x) => x.replace(/^/gm, "  ")).join(",\n")})`;
  }
}

// Lines of the second with those that were added marked, and those of the first that are gone between them.
export function diff(a, b) {
  const n = a.length;
  const m = b.length;
  let from = 0;
  while (from < n && from < m && a[from].key === b[from].key) from++;
  let same = 0;
  while (same < n - from && same < m - from && a[n - 1 - same].key === b[m - 1 - same].key) same++;
  const A = a.slice(from, n - same);
  const B = b.slice(from, m - same);
  const out = b.slice(0, from).map((l) => ({ ...l, mark: "" }));
  out.push(...middle(A, B));
  out.push(...b.slice(m - same).map((l) => ({ ...l, mark: "" })));
  return out;
}

function middle(A, B) {
  const all = (lines, mark) => lines.map((l) => ({ ...l, mark }));
  if (A.length * B.length > 4e6) return [...all(A, "del"), ...all(B, "add")];
  const w = B.length + 1;
  const best = new Uint16Array((A.length + 1) * w);
  for (let i = A.length - 1; i >= 0; i--) {
    for (let j = B.length - 1; j >= 0; j--) {
      best[i * w + j] = A[i].key === B[j].key ? best[(i + 1) * w + j + 1] + 1 : Math.max(best[(i + 1) * w + j], best[i * w + j + 1]);
    }
  }
  const out = [];
  let [i, j] = [0, 0];
  while (i < A.length || j < B.length) {
    if (i < A.length && j < B.length && A[i].key === B[j].key) {
      out.push({ ...B[j], mark: "" });
      i++;
      j++;
    } else if (j >= B.length || (i < A.length && best[(i + 1) * w + j] >= best[i * w + j + 1])) out.push({ ...A[i++], mark: "del" });
    else out.push({ ...B[j++], mark: "add" });
  }
  return out;
}

// Lines of a plain text as those of a listing; numbers of values do not make a line another one.
export function plainLines(text) {
  const lines = text.split("\n");
  if (lines[lines.length - 1] === "") lines.pop();
  return lines.map((t) => ({ text: t, key: t.replace(/%\d+/g, "%") }));
}
