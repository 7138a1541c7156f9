// Each kernel a point: operations a byte against operations a second, under what the machine allows.
import { colour, count, css, el, empty, hash, rate, time } from "./dom.js";
import { Surface } from "./surface.js";
import { peaks } from "./kernels.js";

export function roofline(app, path) {
  const index = app.pack.index;
  const devices = [...new Set(index.kernels.filter((k) => k.took && k.flops && k.bytes).map((k) => k.device))];
  if (!devices.length) return empty("No kernel that computes was launched", "The roofline needs launches with arithmetic in them.");
  const device = devices.includes(path[0]) ? path[0] : devices[0];
  const points = index.kernels.map((k, i) => ({ k, i })).filter(({ k }) => k.device === device && k.took && k.flops && k.bytes);
  const top = peaks(index, device);
  const surface = new Surface("roofline", "size: time on the device · above the slope: from caches · click opens the kernel");
  const most = Math.max(...points.map(({ k }) => k.took));
  const xs = points.map(({ k }) => k.flops / k.bytes);
  const ys = points.map(({ k }) => k.flops / k.took);
  const range = (v, ...also) => [Math.log10(Math.min(...v, ...also)) - 0.3, Math.log10(Math.max(...v, ...also)) + 0.3];
  const ridge = top.flops / top.bytes;
  const [x0, x1] = range(xs, ridge / 8, ridge * 4);
  const [y0, y1] = range(ys, top.flops);
  let place;
  surface.render = (g, w, h) => {
    const [left, right, up, down] = [70, 30, 30, 54];
    const X = (v) => left + ((Math.log10(v) - x0) / (x1 - x0)) * (w - left - right);
    const Y = (v) => h - down - ((Math.log10(v) - y0) / (y1 - y0)) * (h - up - down);
    g.font = "11px system-ui, sans-serif";
    g.strokeStyle = css("--line");
    g.fillStyle = css("--faint");
    g.lineWidth = 1;
    for (let e = Math.ceil(x0); e <= x1; e++) {
      g.beginPath();
      g.moveTo(X(10 ** e), up);
      g.lineTo(X(10 ** e), h - down);
      g.stroke();
      g.textAlign = "center";
      g.fillText(String(10 ** e < 1 ? +(10 ** e).toPrecision(1) : 10 ** e), X(10 ** e), h - down + 17);
    }
    for (let e = Math.ceil(y0); e <= y1; e++) {
      g.beginPath();
      g.moveTo(left, Y(10 ** e));
      g.lineTo(w - right, Y(10 ** e));
      g.stroke();
      g.textAlign = "right";
      g.fillText(String(10 ** e < 1 ? +(10 ** e).toPrecision(1) : 10 ** e), left - 9, Y(10 ** e) + 4);
    }
    g.textAlign = "center";
    g.fillStyle = css("--soft");
    g.fillText("operations a byte", (left + w - right) / 2, h - 14);
    g.save();
    g.translate(20, (up + h - down) / 2);
    g.rotate(-Math.PI / 2);
    g.fillText("GFLOP/s", 0, 0);
    g.restore();
    g.strokeStyle = css("--accent");
    g.lineWidth = 2;
    g.save();
    g.beginPath();
    g.rect(left, 0, w - left - right, h - down);
    g.clip();
    g.beginPath();
    g.moveTo(X(10 ** x0), Y(10 ** x0 * top.bytes));
    g.lineTo(X(ridge), Y(top.flops));
    g.lineTo(w - right, Y(top.flops));
    g.stroke();
    g.restore();
    g.fillStyle = css("--accent");
    g.textAlign = "left";
    g.fillText(`${rate(top.flops)} GFLOP/s · ${rate(top.bytes)} GB/s, ${top.measured ? "measured" : "the best seen here"}`, left + 8, Y(top.flops) - 8);
    place = points.map(({ k, i }, n) => ({ k, i, x: X(xs[n]), y: Y(ys[n]), r: 4 + 13 * Math.sqrt(k.took / most) }));
    for (const p of [...place].sort((a, b) => b.r - a.r)) {
      g.beginPath();
      g.arc(p.x, p.y, p.r, 0, 7);
      g.globalAlpha = 0.55;
      g.fillStyle = colour(hash(p.k.name));
      g.fill();
      g.globalAlpha = 1;
      g.strokeStyle = colour(hash(p.k.name));
      g.lineWidth = 1.3;
      g.stroke();
    }
    g.fillStyle = css("--text");
    g.textAlign = "left";
    g.font = "11px ui-monospace, monospace";
    // names of those that take most time, beside them where nothing else is
    const named = [];
    g.strokeStyle = css("--bg");
    g.lineWidth = 3;
    g.lineJoin = "round";
    for (const p of [...place].sort((a, b) => b.k.took - a.k.took).slice(0, 20)) {
      const wide = g.measureText(p.k.name).width;
      const isFree = ([x, y]) => {
        const [x0, x1, y0, y1] = [x - 3, x + wide + 3, y - 8, y + 8];
        const isOff = (q) => q.x + q.r < x0 || q.x - q.r > x1 || q.y + q.r < y0 || q.y - q.r > y1;
        return x0 > left && x1 < w - 4 && place.every((q) => q === p || isOff(q)) && named.every((n) => n[0] > x1 || n[1] < x0 || Math.abs(n[2] - y) > 14);
      };
      const middle = Math.min(p.x - wide / 2, w - wide - 8);
      const around = [[p.x + p.r + 5, p.y], [p.x - p.r - 5 - wide, p.y], [middle, p.y + p.r + 10], [middle, p.y - p.r - 10], [middle, p.y + p.r + 26]];
      const [x, y] = around.find(isFree) ?? [];
      if (x === undefined) continue;
      named.push([x, x + wide, y]);
      g.strokeText(p.k.name, x, y + 4);
      g.fillText(p.k.name, x, y + 4);
    }
  };
  const pointed = ([x, y]) => place?.filter((p) => Math.hypot(p.x - x, p.y - y) < p.r + 2).sort((a, b) => a.r - b.r)[0];
  surface.canvas.addEventListener("pointermove", (e) => {
    const p = pointed([e.offsetX, e.offsetY]);
    const k = p?.k;
    surface.canvas.style.cursor = p ? "pointer" : "default";
    surface.tip(p && [k.name, `${rate(k.flops / k.took)} GFLOP/s · ${rate(k.bytes / k.took)} GB/s`, `${count(k.launches)} launches, ${time(k.took)} in all`], e.offsetX, e.offsetY);
  });
  surface.canvas.addEventListener("click", (e) => {
    const p = pointed([e.offsetX, e.offsetY]);
    if (p) app.go(`#/kernels/${p.i}`);
  });
  app.themed = () => surface.draw();
  const about = index.devices.find((d) => d.name === device)?.about || "";
  const tabs = devices.length > 1 ? el("div", { class: "switch" }, devices.map((d) => el("button", { class: d === device ? "on" : "", onclick: () => app.go(`#/roofline/${encodeURIComponent(d)}`) }, d))) : null;
  return el("div", { class: "column fill" }, el("div", { class: "head" }, el("h2", {}, device), el("span", { class: "soft" }, about), el("span", { class: "space" }), tabs), surface.box);
}
