// A canvas that is looked around in: drawn once a frame at the screen's resolution, dragged, zoomed, with a tip under the
// pointer. Whoever extends it has `render(g, w, h)`, and says in `listen` what the pointer does.
import { el } from "./dom.js";

export class Surface {
  constructor(label, hint, ...over) {
    this.canvas = el("canvas", { tabindex: "0", "aria-label": label });
    this.tipBox = el("div", { class: "tip" });
    this.box = el("div", { class: "canvas" }, this.canvas, ...over, this.tipBox, el("div", { class: "hint" }, hint));
    this.frames = [];
    new ResizeObserver(() => this.draw()).observe(this.box);
  }
  // Places are pixels of the canvas. `drag` is told where it began, and what `grab` said then.
  listen({ wheel, grab, drag, drop, click, hover }) {
    const c = this.canvas;
    const at = (e) => {
      const r = c.getBoundingClientRect();
      return [e.clientX - r.left, e.clientY - r.top];
    };
    c.addEventListener("wheel", (e) => {
      e.preventDefault();
      wheel(e, at(e));
    }, { passive: false });
    let held = null;
    c.addEventListener("pointerdown", (e) => {
      held = { at: at(e), kept: grab(at(e), e), moved: false };
      c.setPointerCapture(e.pointerId);
      c.classList.add("dragging");
    });
    c.addEventListener("pointermove", (e) => {
      const [x, y] = at(e);
      if (!held) return this.tip(hover([x, y]), x, y);
      held.moved ||= Math.hypot(x - held.at[0], y - held.at[1]) > 4;
      drag(held.kept, [x, y], held.at);
      this.draw();
    });
    c.addEventListener("pointerup", (e) => {
      c.classList.remove("dragging");
      if (held?.moved) drop?.(held.kept);
      else if (held) click(at(e));
      held = null;
    });
    c.addEventListener("pointerleave", () => this.tip(null));
  }
  // Lines of text beside a place, the first in bold; none hide it.
  tip(lines, x, y) {
    this.tipBox.style.display = lines ? "block" : "none";
    if (!lines) return;
    this.tipBox.replaceChildren(...lines.map((l, i) => el("div", {}, i ? l : el("b", {}, l))));
    this.tipBox.style.left = `${Math.min(x + 14, this.box.clientWidth - this.tipBox.offsetWidth - 8)}px`;
    this.tipBox.style.top = `${Math.min(y + 14, this.box.clientHeight - this.tipBox.offsetHeight - 8)}px`;
  }
  draw() {
    if (this.pending) return;
    this.pending = requestAnimationFrame(() => {
      this.pending = 0;
      this.paint();
    });
  }
  paint() {
    const begun = performance.now();
    const [w, h, ratio] = [this.box.clientWidth, this.box.clientHeight, devicePixelRatio || 1];
    const c = this.canvas;
    if (c.width !== Math.round(w * ratio) || c.height !== Math.round(h * ratio)) [c.width, c.height] = [Math.round(w * ratio), Math.round(h * ratio)];
    const g = c.getContext("2d");
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    g.clearRect(0, 0, w, h);
    this.render(g, w, h);
    this.frames.push(performance.now() - begun);
    if (this.frames.length > 240) this.frames.shift();
  }
}
