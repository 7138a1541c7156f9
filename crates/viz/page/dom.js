// Elements and how numbers are shown. Texts of a recording reach the page as text nodes only.

export function el(tag, props, ...children) {
  const e = document.createElement(tag);
  for (const [k, v] of Object.entries(props || {})) {
    if (v === undefined || v === null || v === false) continue;
    if (k === "class") e.className = v;
    else if (k.startsWith("on")) e.addEventListener(k.slice(2), v);
    else if (k === "style") for (const [p, w] of Object.entries(v)) e.style.setProperty(p, w);
    else e.setAttribute(k, v);
  }
  e.append(...children.flat().filter((c) => c !== undefined && c !== null && c !== false));
  return e;
}

export function empty(title, ...text) {
  return el("div", { class: "empty" }, el("h3", {}, title), el("div", {}, ...text));
}

const digits = (x) => (x >= 100 ? x.toFixed(0) : x >= 10 ? x.toFixed(1) : x.toFixed(2));

export function time(ns) {
  if (!ns) return "–";
  if (ns < 1e3) return `${Math.round(ns)} ns`;
  if (ns < 1e6) return `${digits(ns / 1e3)} µs`;
  if (ns < 1e9) return `${digits(ns / 1e6)} ms`;
  return `${digits(ns / 1e9)} s`;
}

export function size(bytes) {
  if (!bytes) return "–";
  if (bytes < 1e3) return `${bytes} B`;
  if (bytes < 1e6) return `${digits(bytes / 1e3)} kB`;
  if (bytes < 1e9) return `${digits(bytes / 1e6)} MB`;
  return `${digits(bytes / 1e9)} GB`;
}

export const rate = (x) => (x ? digits(x) : "–");
export const many = (n, what) => `${count(n)} ${what}${n === 1 ? "" : "s"}`;
export const count = (n) => n.toLocaleString("en");
export const where = (line) => (line ? `${line[1]}:${line[2]}` : "");
export const shortFile = (line) => (line ? `${line[1].split("/").pop()}:${line[2]}` : "");

// Without the folders of the files that a text names.
export const short = (text) => text.replace(/\S*\/(?=[^/\s]+:\d)/g, "");

export const PALETTE = ["#6cb2ff", "#54c08a", "#e3b341", "#c58bf2", "#ef8d6c", "#4fc4cf", "#f27ba5", "#a3c644", "#8f9dff", "#d9a06b", "#5fd3a6", "#e06c9f"];
export const colour = (i) => PALETTE[((i % PALETTE.length) + PALETTE.length) % PALETTE.length];

export function hash(text) {
  let h = 7;
  for (let i = 0; i < text.length; i++) h = (h * 31 + text.charCodeAt(i)) | 0;
  return h >>> 0;
}

export function css(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

// A long list of equally high rows, of which only those in sight exist.
export function virtual(scroll, height, total, row) {
  const inner = el("div", { class: "virtual", style: { height: `${height * total}px` } });
  const draw = () => {
    const first = Math.max(0, Math.floor(scroll.scrollTop / height) - 8);
    const last = Math.min(total, Math.ceil((scroll.scrollTop + scroll.clientHeight) / height) + 8);
    const rows = [];
    for (let i = first; i < last; i++) {
      const e = row(i);
      e.style.setProperty("top", `${i * height}px`);
      rows.push(e);
    }
    inner.replaceChildren(...rows);
  };
  scroll.replaceChildren(inner);
  scroll.onscroll = draw;
  requestAnimationFrame(draw);
  return {
    draw,
    show(i) {
      const [top, margin] = [i * height, 2 * height];
      if (top < scroll.scrollTop + margin || top + height + margin > scroll.scrollTop + scroll.clientHeight) scroll.scrollTop = top - scroll.clientHeight / 2;
      draw();
    },
  };
}
