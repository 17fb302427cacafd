// A chart, and the card that it stands in. Touches the element that it is given, the tip, and the window while the mouse drags.

function save(name, content, type) {
  const link = el("a", { href: URL.createObjectURL(new Blob([content], { type })), download: name.replace(/[^\w.-]+/g, "_") });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
const MARKS = {
  finished: (x, y) => `M${x - 3} ${y}a3 3 0 1 0 6 0a3 3 0 1 0-6 0`,
  stopped: (x, y) => `M${x - 4} ${y - 3}h8l-4 7z`,
  failed: (x, y) => `M${x - 3.5} ${y - 3.5}l7 7m0-7l-7 7`,
  dot: (x, y) => `M${x} ${y}h0`,
  interrupted: (x, y) => `M${x - 4} ${y}l4-4l4 4l-4 4z`,
  running: (x, y) => `M${x - 4.5} ${y}a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0-9 0`,
};
MARKS.pending = MARKS["not started"] = MARKS.running;
const tip = document.getElementById("tip");
addEventListener("pointerdown", () => { tip.hidden = true; }, true);
function showTip(event, value) {
  tip.textContent = value;
  tip.hidden = false;
  const left = Math.min(event.pageX + 14, window.scrollX + document.documentElement.clientWidth - tip.offsetWidth - 6);
  const above = event.clientY + 20 + tip.offsetHeight > window.innerHeight;
  tip.style.left = `${Math.max(window.scrollX + 4, left)}px`;
  tip.style.top = `${above ? event.pageY - tip.offsetHeight - 12 : event.pageY + 16}px`;
}
// One chart in an element. `draw` takes {x, y, height, layers, hits}; a layer is {kind, cls, ...} in coordinates of the axes.
// All points of a layer are one path, and so are all lines: a browser is quick with few elements, however long they are.
class Chart {
  constructor(host, onOpen) {
    this.host = host; this.onOpen = onOpen; this.zoom = null; this.spec = null;
    this.svg = host.appendChild(shape("svg", { role: "img" }));
    this.svg.addEventListener("pointermove", (event) => this.hover(event));
    this.svg.addEventListener("pointerleave", (event) => { this.leave(); });
    this.svg.addEventListener("pointerdown", (event) => this.begin(event));
    this.svg.addEventListener("dblclick", () => this.reset());
  }
  reset() { this.zoom = null; this.draw(this.spec); if (this.onZoom) this.onZoom(); }
  draw(spec) {
    this.spec = spec;
    const width = this.host.clientWidth, height = spec.height || Math.max(260, Math.min(400, width * 0.62));
    const { x, y } = spec;
    const [xLow, xHigh] = this.zoom ? this.zoom.x : [x.low, x.high];
    const [yLow, yHigh] = this.zoom ? this.zoom.y : [y.low, y.high];
    const yTicks = y.hidden ? [] : y.ticks(yLow, yHigh, Math.max(3, Math.floor(height / (y.isCategory ? 18 : 40)))).filter(([at]) => at >= yLow && at <= yHigh);
    const longest = Math.max(2, ...yTicks.map(([, label]) => label.length));
    const most = Math.min(longest, Math.floor(width / 26));
    const left = y.hidden ? 10 : 16 + most * 7.8, right = 12, top = 20, bottom = x.hidden ? 10 : 40;
    const box = { left, top, width: Math.max(40, width - left - right), height: height - top - bottom };
    const px = (at) => Math.round((box.left + (at - xLow) / ((xHigh - xLow) || 1) * box.width) * 10) / 10;
    const py = (at) => Math.round((box.top + box.height - (at - yLow) / ((yHigh - yLow) || 1) * box.height) * 10) / 10;
    Object.assign(this, { box, px, py, xLow, xHigh, yLow, yHigh, width, height });
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.svg.setAttribute("aria-label", `${y.name || ""} over ${x.name || ""}`);
    const made = [];
    const id = this.host.dataset.clip = this.host.dataset.clip || `clip${Chart.count++}`;
    const clip = shape("clipPath", { id });
    clip.append(shape("rect", { x: box.left - 5, y: box.top - 5, width: box.width + 10, height: box.height + 10 }));
    made.push(clip);
    let grid = "";
    for (const [at, label] of yTicks) {
      grid += `M${box.left} ${py(at)}h${box.width}`;
      const mark = shape("text", { class: "tick", x: box.left - 6, y: py(at) + 4, "text-anchor": "end" }, cut(label, most));
      if (label.length > most) mark.append(shape("title", {}, label));
      made.push(mark);
    }
    if (!x.hidden) {
      const count = Math.max(2, Math.floor(box.width / 55));
      const ticks = x.ticks(xLow, xHigh, count).filter(([at]) => at >= xLow && at <= xHigh);
      const room = Math.max(3, Math.floor(box.width / Math.max(ticks.length, 1) / 7));
      let end = -Infinity;
      for (const [at, label] of ticks) {
        const shown = cut(label, room), half = shown.length * 3.4;
        const middle = Math.min(Math.max(px(at), half + 2), width - half - 2);
        grid += `M${px(at)} ${box.top}v${box.height}`;
        if (middle - half < end + 3) continue;
        end = middle + half;
        const mark = shape("text", { class: "tick", x: middle, y: box.top + box.height + 16, "text-anchor": "middle" }, shown);
        if (shown !== label) mark.append(shape("title", {}, label));
        made.push(mark);
      }
      made.push(shape("text", { x: box.left + box.width / 2, y: height - 5, "text-anchor": "middle" }, cut(x.name, Math.floor(box.width / 7))));
    }
    if (!y.hidden && y.name) made.push(shape("text", { x: 2, y: 12 }, cut(y.name, Math.floor(width / 7))));
    made.push(shape("path", { class: "grid", d: grid }));
    const inside = shape("g", { "clip-path": `url(#${id})` });
    for (const layer of spec.layers) {
      const path = Chart.path(layer, px, py);
      if (path) inside.append(shape("path", { class: `${layer.style || layer.kind} ${layer.cls || ""}`, d: path }));
    }
    this.over = shape("path", { class: "over", d: "" });
    inside.append(this.over);
    made.push(inside);
    this.svg.replaceChildren(...made);
    this.hits = (spec.hits || []).map((hit) => ({ ...hit, px: px(hit.x), py: py(hit.y) })).filter((hit) => isNumber(hit.px) && isNumber(hit.py));
  }
  static path(layer, px, py) {
    const parts = [];
    if (layer.kind === "points") {
      const mark = MARKS[layer.mark || "finished"];
      for (const [x, y] of layer.points) { if (isNumber(x) && isNumber(y)) parts.push(mark(px(x), py(y))); }
    } else if (layer.kind === "lines") {
      for (const line of layer.lines) {
        let pen = "M";
        for (const [x, y] of line) {
          if (!isNumber(x) || !isNumber(y)) { pen = "M"; continue; }
          parts.push(layer.isStep && pen === "L" ? `H${px(x)}V${py(y)}` : `${pen}${px(x)} ${py(y)}`);
          pen = "L";
        }
        if (line.length === 1) parts.push("h0");
      }
    } else {
      for (const [x, y, toX, toY] of layer.boxes) parts.push(`M${px(x)} ${py(y)}H${px(toX)}V${py(toY)}H${px(x)}z`);
    }
    return parts.join("");
  }
  position(event) {
    const rect = this.svg.getBoundingClientRect(), scale = this.width / rect.width;
    return [(event.clientX - rect.left) * scale, (event.clientY - rect.top) * scale];
  }
  nearest(event) {
    const [x, y] = this.position(event);
    let best = null, least = event.pointerType === "touch" ? 900 : 300;
    for (const hit of this.hits || []) {
      let dx = hit.px - x, dy = hit.py - y;
      if (hit.box) {  // a bar: anywhere in it
        const [from, low, to, high] = hit.box;
        const [a, b] = [this.toX(x), this.toY(y)];
        if (a >= from && a <= to && b >= low && b <= high) return hit;
        continue;
      }
      const distance = dx * dx + dy * dy;
      if (distance < least) { least = distance; best = hit; }
    }
    return best;
  }
  toX(x) { return this.xLow + (x - this.box.left) / this.box.width * (this.xHigh - this.xLow); }
  toY(y) { return this.yLow + (this.box.top + this.box.height - y) / this.box.height * (this.yHigh - this.yLow); }
  hover(event) {
    if (this.from) return this.drag(event);
    const hit = this.nearest(event);
    this.svg.style.cursor = hit && hit.trial ? "pointer" : "";
    if (!hit) return this.leave();
    this.over.setAttribute("d", hit.box ? "" : MARKS.running(hit.px, hit.py));
    showTip(event, hit.text());
  }
  leave() { tip.hidden = true; if (this.over && !this.from) this.over.setAttribute("d", ""); }
  begin(event) {
    const hit = this.nearest(event);
    if (event.button !== 0) return;
    this.from = this.position(event); this.hit = hit; this.moved = false;
    const end = (last) => {
      window.removeEventListener("pointerup", end); window.removeEventListener("pointercancel", end);
      const from = this.from;
      this.from = null; this.over.setAttribute("d", "");
      if (last.type !== "pointerup") return;
      const to = this.position(last);
      const trial = this.hit && this.hit.trial;
      if (this.moved && this.onRange) this.onRange(this.toX(from[0]), this.toY(from[1]), this.toY(to[1]));
      else if (this.moved && this.spec.zooms !== false) this.zoomTo(from, to);
      else if (trial && this.onOpen) this.onOpen(trial);
    };
    window.addEventListener("pointerup", end); window.addEventListener("pointercancel", end);
  }
  drag(event) {
    const [x, y] = this.position(event), [fromX, fromY] = this.from;
    if (Math.abs(x - fromX) + Math.abs(y - fromY) < 8 || event.pointerType === "touch") return;
    this.moved = true;
    tip.hidden = true;
    if (this.onRange) this.over.setAttribute("d", `M${fromX - 6} ${fromY}h12V${y}h-12z`);
    else if (this.spec.zooms !== false) this.over.setAttribute("d", `M${fromX} ${fromY}H${x}V${y}H${fromX}z`);
  }
  zoomTo([x0, y0], [x1, y1]) {
    if (Math.abs(x1 - x0) < 6 || Math.abs(y1 - y0) < 6) return;
    const sorted = (a, b) => a < b ? [a, b] : [b, a];
    this.zoom = { x: sorted(this.toX(x0), this.toX(x1)), y: sorted(this.toY(y0), this.toY(y1)) };
    this.draw(this.spec);
    if (this.onZoom) this.onZoom();
  }
}
Chart.count = 0;

const cards = [];
const seen = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    const card = entry.target.card;
    card.isSeen = entry.isIntersecting;
    card.refresh();
  }
}, { rootMargin: "300px" });
const resized = new ResizeObserver((entries) => {
  for (const entry of entries) { entry.target.card.isDirty = true; entry.target.card.refresh(); }
});
class Card {
  constructor(view, title, render, { isWide = false, there = () => true } = {}) {
    this.render = render; this.there = there; this.isDirty = true; this.isSeen = false; this.charts = []; this.places = [];
    this.controls = el("div.controls", {});
    this.legend = el("div.chips", {});
    this.scale = el("div.scale", { hidden: true });
    this.body = el("div.plot", {});
    this.note = el("p.note", {});
    this.title = el("h3", {}, title);
    this.back = pushButton("whole plot", () => this.charts.forEach((chart) => chart.reset()), { hidden: true });
    this.root = el("section", { className: isWide ? "card wide" : "card" },
      el("div.head", {}, this.title, this.controls, this.back), this.legend, this.scale, this.body, this.note);
    this.root.dataset.view = view; this.root.card = this; this.body.card = this;
    this.root.hidden = !there();  // known before it is drawn, so nothing jumps; the next report may change it
    cards.push(this); seen.observe(this.root); resized.observe(this.body);
  }
  // Nothing is selected; the card stays, since the reader may change that.
  none() { for (const chart of this.charts) { chart.svg.replaceChildren(); chart.hits = []; } this.note.textContent = "No trial is selected."; }
  mark() { this.isDirty = true; this.root.hidden = !this.there(); this.refresh(); }
  refresh(isAnyway = false) {  // anyway: though the reader does not see it
    if (!this.isDirty || this.root.hidden || !(this.isSeen || isAnyway) || !this.root.isConnected) return;
    this.isDirty = false;
    this.render(this);
  }
  chart(index, onOpen, host = this.body) {
    if (!this.charts[index]) {
      const chart = this.charts[index] = new Chart(host, onOpen);
      chart.onZoom = () => { this.back.hidden = !this.charts.some((one) => one.zoom); };
    }
    return this.charts[index];
  }
  // A chart for each of these names, side by side. All places are there before one is drawn, since they share the width.
  panels(names, onOpen) {
    this.body.className = "panels";
    while (this.places.length < names.length) this.places.push(this.body.appendChild(el("div.plot")));
    this.places.forEach((place, index) => { place.hidden = index >= names.length; });
    return names.map((name, index) => {
      const chart = this.chart(index, onOpen, this.places[index]);
      if (chart.of !== name) { chart.zoom = null; chart.of = name; }
      return chart;
    });
  }
  select(label, settings, name, options, onChange = () => this.mark()) {
    const choice = el("select", { onchange: () => { settings[name] = choice.value; this.zoomless(); onChange(); } });
    choice.dataset.name = name;
    const root = el("label", {}, label, choice);
    this.controls.append(root);
    const fill = (values) => {
      root.hidden = values.length < 2;
      if (values.some(([value]) => value === settings[name])) choice.value = settings[name];
      put(choice, values.join("|"), () => values.map(([value, title]) => el("option", { value }, cut(title, 40))));
      if (!values.some(([value]) => value === settings[name])) settings[name] = values.length ? values[0][0] : "";
      choice.value = settings[name];
    };
    fill(options);
    return fill;
  }
  check(label, settings, name) {
    const box = el("input", { type: "checkbox", checked: settings[name], onchange: () => { settings[name] = box.checked; this.zoomless(); this.mark(); } });
    box.dataset.name = name;
    this.controls.append(el("label", {}, box, label));
    return box;
  }
  // An axis has other coordinates now, so the old ones of a zoom mean nothing.
  zoomless() { for (const chart of this.charts) chart.zoom = null; this.back.hidden = true; }
  // Chips that switch things on and off: [[key, label, class, isOn]].
  chips(entries, onToggle) {
    put(this.legend, JSON.stringify(entries), () => entries.map(([name, label, cls, isOn]) => {
      const chip = el("button", { type: "button", title: label, onclick: () => onToggle(name) }, cls ? el("span", { className: `key ${cls}` }) : null, cut(label, 48));
      chip.setAttribute("aria-pressed", String(isOn));
      chip.dataset.name = name;
      return chip;
    }));
  }
  levels(run, values) {
    const ordered = values.map((value) => run.signShown * value), ends = range(ordered).map((end, index) => `${run.endNames[index]} ${number(run.signShown * end, 4)}`);
    this.scale.hidden = false;
    this.scale.replaceChildren(ends[0], ...Array.from({ length: LEVELS }, (_, level) => el("i", { className: `c${level}` })), ends[1]);
  }
}
addEventListener("beforeprint", () => { for (const card of cards) card.refresh(true); for (const view of tables) { view.wasWhole = view.isWhole; view.showAll(true); } });
addEventListener("afterprint", () => { for (const view of tables) view.showAll(view.wasWhole); });
