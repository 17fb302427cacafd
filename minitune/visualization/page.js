"use strict";
// Draws the page from the data that Python has put into it. See page.py. In this order: helpers, axes, the chart, the
// plots of a run, the table, one trial, several runs, the list of runs, and the live connection.
//
// Nothing here makes markup of a text: elements get their texts through textContent. The content security policy of the
// page allows no style attribute, so sizes that depend on data are set through element.style.

const DATA = JSON.parse(document.getElementById("data").textContent);
const MOST_CURVES = 300, MOST_POINTS = 3000, MOST_LINES = 1000, LEVELS = 8, CELLS = 28, NONE = "(none)";
const KINDS = { finished: "finished", stopped: "stopped", failed: "failed", live: "not ended" };
const kindOf = (trial) => ({ finished: "finished", failed: "failed", stopped: "stopped", "cut short": "stopped" })[trial.way] || "live";

// -- helpers ----------------------------------------------------------------------------------------------------------
function el(name, properties, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(properties || {})) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (key in made && key !== "list") made[key] = value;
    else made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
  return made;
}
function shape(name, attributes, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}
const isNumber = (value) => typeof value === "number" && Number.isFinite(value);
// As `number_text` in Python, so that all views show the same text.
function number(value, digits = 6) {
  if (Number.isInteger(value) && Math.abs(value) < 1e15) return String(value);
  const [mantissa, exponent] = value.toExponential(digits - 1).split("e");
  if (exponent < -4 || exponent >= Math.max(6, digits)) return `${Number(mantissa)}e${exponent[0]}${exponent.slice(1).padStart(2, "0")}`;
  return String(Number(value.toPrecision(digits)));
}
function text(value) {
  if (value === undefined) return NONE;
  if (value === null) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  return isNumber(value) ? number(value) : String(value);
}
function seconds(value) {
  if (value < 120) return `${number(value, 3)} s`;
  if (value < 7200) return `${number(value / 60, 3)} min`;
  return `${number(value / 3600, 3)} h`;
}
const date = (at) => at ? new Date(at * 1000).toLocaleString() : "";
const cut = (value, most) => value.length > most ? `${value.slice(0, Math.max(1, most - 1))}…` : value;
const finite = (values) => values.filter(isNumber);
function range(values) {
  let low = Infinity, high = -Infinity;
  for (const value of values) { if (value < low) low = value; if (value > high) high = value; }
  return [low, high];
}
// At most `most` trials, in their order: one third are the best ones, the others are evenly spaced.
function thinned(trials, sign, most) {
  if (trials.length <= most) return trials;
  const ranked = [...trials].sort((a, b) => (isNumber(a.value) ? sign * a.value : Infinity) - (isNumber(b.value) ? sign * b.value : Infinity));
  const chosen = new Set(ranked.slice(0, Math.floor(most / 3)));
  const rest = ranked.slice(chosen.size), room = most - chosen.size;
  for (let i = 0; i < room; i++) chosen.add(rest[Math.floor(i * rest.length / room)]);
  return trials.filter((trial) => chosen.has(trial));
}
async function copy(value, button) {
  try {
    await navigator.clipboard.writeText(value);
  } catch {  // an old browser, or a page without the permission
    const area = el("textarea", { value });
    button.after(area); area.select(); document.execCommand("copy"); area.remove();
  }
  const before = button.textContent;
  button.textContent = "copied";
  setTimeout(() => { button.textContent = before; }, 1200);
}

// -- axes -------------------------------------------------------------------------------------------------------------
// An axis places a value at a coordinate (`at`), which is a logarithm to base 10 on a logarithmic axis and an index on one
// of categories. `low` and `high` are the coordinates of its ends, and `ticks` gives [coordinate, text] pairs.
function niceStep(span, count, steps = [1, 2, 5, 10]) {
  const power = 10 ** Math.floor(Math.log10(span / count));
  return power * steps.find((step) => power * step >= span / count * 0.999);
}
function linearTicks(low, high, count, isInteger) {
  if (!(high > low)) return [[low, number(low)]];
  let step = niceStep(high - low, count);
  if (isInteger) step = Math.max(1, Math.round(step));
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) found.push([i * step, number(i * step, 8)]);
  return found;
}
function power(exponent) {
  return exponent >= -3 && exponent <= 4 ? number(10 ** exponent) : `1e${exponent}`;
}
function logTicks(low, high, count, isInteger) {
  const found = [], decades = Math.floor(high) - Math.ceil(low) + 1;
  if (decades >= 2) {
    const step = Math.max(1, Math.ceil(decades / count));
    for (let e = Math.ceil(low - 1e-9); e <= high + 1e-9; e += step) found.push([e, power(e)]);
    return found;
  }
  for (const [value, label] of linearTicks(10 ** low, 10 ** high, count, isInteger)) {
    if (value > 0) found.push([Math.log10(value), label]);
  }
  return found;
}
function timeTicks(low, high, count) {
  const unit = high < 120 ? 1 : high < 7200 ? 60 : 3600, name = { 1: "s", 60: "min", 3600: "h" }[unit];
  return linearTicks(low / unit, high / unit, count).map(([at, label]) => [at * unit, `${label} ${name}`]);
}
function numberAxis(name, values, { isLog = false, isInteger = false, isTime = false, low, high, fromZero = false } = {}) {
  const [least, most] = range(values);
  low = Math.min(low ?? least, least); high = Math.max(high ?? most, most);
  if (fromZero) low = Math.min(0, low);
  if (!Number.isFinite(low)) { low = 0; high = 1; }
  isLog = isLog && low > 0;
  if (isLog) { low = Math.log10(low); high = Math.log10(high); }
  const margin = (high - low) * 0.03 || (isLog ? 0.3 : Math.abs(high) * 0.1 || 0.5);
  const ticks = isTime ? timeTicks : isLog ? logTicks : linearTicks;
  return {
    name, isLog, low: fromZero && low === 0 ? 0 : low - margin, high: high + margin,
    at: isLog ? (value) => value > 0 ? Math.log10(value) : NaN : (value) => value,
    ticks: (from, to, count) => ticks(from, to, count, isInteger),
    kind: `${isLog ? "log" : "linear"}${isInteger ? " integer" : ""}`,
  };
}
function categoryAxis(name, values) {
  const texts = [...new Set(values.map(text))];
  const places = new Map(texts.map((label, index) => [label, index]));
  return {
    name, isLog: false, isCategory: true, low: -0.5, high: Math.max(texts.length, 1) - 0.5, kind: "category", texts,
    at: (value) => places.get(text(value)) ?? NaN,
    ticks: (from, to, count) => {
      const step = Math.max(1, Math.ceil(texts.length / Math.max(count, 1)));
      return texts.map((label, index) => [index, label]).filter(([index]) => index % step === 0 && index >= from && index <= to);
    },
  };
}
// The axis of a parameter: as the search space says, and for a value that it does not describe, as the values are.
function paramAxis(run, name, trials) {
  const values = trials.map((trial) => trial.params[name]);
  const there = values.filter((value) => value !== undefined);
  const isMissing = there.length < values.length;
  const numbers = there.filter(isNumber);
  const scale = run.data.scales[name];
  if ((scale && scale.kind === "category") || numbers.length < there.length || !numbers.length) {
    const known = scale && scale.values || [];
    const others = there.filter((value) => !known.some((one) => text(one) === text(value)));
    if (!known.length) others.sort((a, b) => text(a).localeCompare(text(b), undefined, { numeric: true }));
    return categoryAxis(name, [...known, ...others, ...(isMissing ? [undefined] : [])]);
  }
  let axis;
  if (scale) {
    const settings = { isLog: scale.kind.endsWith("log"), isInteger: scale.kind.startsWith("integer"), low: scale.low, high: scale.high };
    axis = numberAxis(name, numbers, settings);
  } else {
    const [low, high] = range(numbers);
    axis = numberAxis(name, numbers, { isLog: low > 0 && high / low >= 100, isInteger: numbers.every(Number.isInteger) });
  }
  if (!isMissing) return axis;
  const below = axis.low - 0.12 * (axis.high - axis.low), inner = axis.low;
  return {
    ...axis, low: below - 0.05 * (axis.high - axis.low), at: (value) => value === undefined ? below : axis.at(value),
    ticks: (from, to, count) => [[below, NONE], ...axis.ticks(Math.max(from, inner), to, count)],
  };
}

// -- the chart --------------------------------------------------------------------------------------------------------
const MARKS = {
  finished: (x, y) => `M${x} ${y}h0`,
  stopped: (x, y) => `M${x - 4} ${y - 3}h8l-4 7z`,
  failed: (x, y) => `M${x - 3.5} ${y - 3.5}l7 7m0-7l-7 7`,
  live: (x, y) => `M${x - 4} ${y}a4 4 0 1 0 8 0a4 4 0 1 0-8 0`,
};
const tip = document.getElementById("tip");
addEventListener("pointerdown", () => { tip.hidden = true; }, true);  // a tip of a touch stays until the next one
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
    this.svg.addEventListener("pointerleave", (event) => { if (event.pointerType !== "touch") this.leave(); });
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
    Object.assign(this, { box, xLow, xHigh, yLow, yHigh, width, height });
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.svg.setAttribute("aria-label", `${y.name || ""} over ${x.name || ""}`);
    this.svg.dataset.x = x.kind || ""; this.svg.dataset.y = y.kind || "";
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
        const place = Math.min(Math.max(px(at), half + 2), width - half - 2);
        grid += `M${px(at)} ${box.top}v${box.height}`;
        if (place - half < end + 3) continue;
        end = place + half;
        const mark = shape("text", { class: "tick", x: place, y: box.top + box.height + 16, "text-anchor": "middle" }, shown);
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
  place(event) {
    const rect = this.svg.getBoundingClientRect(), scale = this.width / rect.width;
    return [(event.clientX - rect.left) * scale, (event.clientY - rect.top) * scale];
  }
  nearest(event) {
    const [x, y] = this.place(event);
    let best = null, least = event.pointerType === "touch" ? 900 : 300;
    for (const hit of this.hits || []) {
      let dx = hit.px - x, dy = hit.py - y;
      if (hit.box) {  // a bar: any place in it
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
    this.over.setAttribute("d", hit.box ? "" : MARKS.live(hit.px, hit.py));
    showTip(event, hit.text());
  }
  leave() { tip.hidden = true; if (this.over && !this.from) this.over.setAttribute("d", ""); }
  begin(event) {
    const hit = this.nearest(event);
    if (event.pointerType === "touch") { if (hit) showTip(event, hit.text()); }
    if (event.button !== 0) return;
    this.from = this.place(event); this.hit = hit; this.moved = false;
    const end = (last) => {
      window.removeEventListener("pointerup", end); window.removeEventListener("pointercancel", end);
      const from = this.from;
      this.from = null; this.over.setAttribute("d", "");
      if (last.type !== "pointerup") return;
      const to = this.place(last);
      const trial = this.hit && this.hit.trial, isTouch = event.pointerType === "touch";
      // A finger covers what it points at, so its first tap tells what it hits, and the next one opens that.
      if (this.moved && !isTouch && this.spec.zooms !== false) this.zoomTo(from, to);
      else if (trial && this.onOpen && (!isTouch || trial === this.tapped)) this.onOpen(trial);
      this.tapped = isTouch ? trial : null;
    };
    window.addEventListener("pointerup", end); window.addEventListener("pointercancel", end);
  }
  drag(event) {
    const [x, y] = this.place(event), [fromX, fromY] = this.from;
    if (Math.abs(x - fromX) + Math.abs(y - fromY) < 8 || event.pointerType === "touch") return;
    this.moved = true;
    tip.hidden = true;
    if (this.spec.zooms !== false) this.over.setAttribute("d", `M${fromX} ${fromY}H${x}V${y}H${fromX}z`);
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

// -- a card: a plot with its title, its settings and its legend -------------------------------------------------------
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
  constructor(view, title, render, { isWide = false } = {}) {
    this.render = render; this.isDirty = true; this.isSeen = false; this.charts = [];
    this.controls = el("div", { className: "controls" });
    this.legend = el("div", { className: "chips" });
    this.scale = el("div", { className: "scale", hidden: true });
    this.body = el("div", { className: "plot" });
    this.note = el("p", { className: "note" });
    this.title = el("h3", {}, title);
    this.back = el("button", { type: "button", hidden: true, onclick: () => this.charts.forEach((chart) => chart.reset()) }, "whole plot");
    this.root = el("section", { className: isWide ? "card wide" : "card" },
      el("div", { className: "head" }, this.title, this.controls, this.back), this.legend, this.scale, this.body, this.note);
    this.root.dataset.view = view; this.root.card = this; this.body.card = this;
    cards.push(this); seen.observe(this.root); resized.observe(this.body);
  }
  mark() { this.isDirty = true; this.refresh(); }
  refresh(isPrinted = false) {
    // An empty card is hidden, so it is never in sight; the next report may fill it.
    if (!this.isDirty || !(this.isSeen || this.root.hidden || isPrinted) || !this.root.isConnected) return;
    this.isDirty = false;
    this.root.hidden = false;  // first, since a plot is as wide as its place
    this.root.hidden = this.render(this) === false;
  }
  chart(index, onOpen, host = this.body) {
    if (!this.charts[index]) {
      const chart = this.charts[index] = new Chart(host, onOpen);
      chart.onZoom = () => { this.back.hidden = !this.charts.some((one) => one.zoom); };
    }
    return this.charts[index];
  }
  select(label, settings, name, options) {
    const choice = el("select", { onchange: () => { settings[name] = choice.value; this.zoomless(); this.mark(); } });
    choice.dataset.name = name;
    this.controls.append(el("label", {}, label, choice));
    const fill = (values) => {
      const key = values.map((one) => one.join("=")).join("|");
      if (choice.dataset.key === key) return;
      choice.dataset.key = key;
      choice.replaceChildren(...values.map(([value, title]) => el("option", { value }, cut(title, 40))));
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
    const key = JSON.stringify(entries);
    if (this.legend.dataset.key === key) return;
    this.legend.dataset.key = key;
    this.legend.replaceChildren(...entries.map(([name, label, cls, isOn]) => {
      const chip = el("button", { type: "button", title: label, onclick: () => onToggle(name) });
      chip.setAttribute("aria-pressed", String(isOn));
      chip.dataset.name = name;
      if (cls) chip.append(el("span", { className: `key ${cls}` }));
      chip.append(cut(label, 48));
      return chip;
    }));
  }
  levels(low, high) {
    this.scale.hidden = false;
    this.scale.replaceChildren(low, ...Array.from({ length: LEVELS }, (_, level) => el("i", { className: `c${level}` })), high);
  }
}
addEventListener("beforeprint", () => { for (const card of cards) card.refresh(true); for (const view of tables) view.showAll(true); });
addEventListener("afterprint", () => { for (const view of tables) view.showAll(false); });

// -- one run ----------------------------------------------------------------------------------------------------------
class Run {
  constructor(data, index) {
    this.index = index; this.data = data;
    this.trials = data.trials;
    this.byNumber = new Map(this.trials.map((trial) => [trial.n, trial]));
    this.hidden = new Set();
  }
  update(data) {
    for (const trial of data.trials) {
      const known = this.byNumber.get(trial.n);
      if (known) this.trials[this.trials.indexOf(known)] = trial;
      else this.trials.push(trial);
      this.byNumber.set(trial.n, trial);
    }
    this.trials.sort((a, b) => a.n - b.n);
    this.data = { ...data, trials: this.trials };
  }
  get sign() { return this.data.mode === "max" ? -1 : 1; }
  get scored() { return this.trials.filter((trial) => isNumber(trial.value)); }
  get shown() { return this.scored.filter((trial) => !this.hidden.has(kindOf(trial))); }
  get now() { return Math.max(0, this.data.updated - this.data.first); }
  spans(trial) { return trial.working === null ? trial.spans : [...trial.spans, [trial.working, Math.max(trial.working, this.now)]]; }
  worked(trial) { return this.spans(trial).reduce((sum, [begin, end]) => sum + Math.max(0, end - begin), 0); }
  // The parameters that took more than one value, the most important one first.
  get params() {
    const varied = this.data.params.filter((name) => new Set(this.trials.map((trial) => text(trial.params[name]))).size > 1);
    const mean = (this.data.importances || {}).mean || {};
    return varied.sort((a, b) => (mean[b] ?? -1) - (mean[a] ?? -1));
  }
  about(trial) {
    const run = this.data;
    const lines = [`trial ${trial.n} · ${trial.ended}`];
    if (isNumber(trial.value)) lines.push(`${run.metric}: ${number(trial.value)}`);
    for (const name of this.params.slice(0, 10)) { if (name in trial.params) lines.push(`${name}: ${cut(text(trial.params[name]), 60)}`); }
    if (trial.error) lines.push(cut(trial.error, 160));
    return lines.join("\n");
  }
}
// Levels of colour: 0 for the best trial, the last for the worst one. By rank, so that one diverged trial leaves the colours
// of the others apart, or by value.
function levelsOf(run, trials, by) {
  const scored = [...trials].sort((a, b) => run.sign * (a.value - b.value));
  const [low, high] = range(trials.map((trial) => run.sign * trial.value));
  return new Map(scored.map((trial, rank) => {
    const share = by === "rank" ? rank / Math.max(1, scored.length - 1) : (run.sign * trial.value - low) / ((high - low) || 1);
    return [trial, Math.min(LEVELS - 1, Math.floor(share * LEVELS))];
  }));
}
const BY = [["trial", "trial"], ["start", "start"], ["end", "end"], ["work", "work spent"]];
const BY_NAMES = { trial: "trial", start: "start of the trial", end: "end of the trial", work: "work of all trials until its end" };
function placesBy(run, by) {
  if (by === "trial") return new Map(run.trials.map((trial) => [trial, trial.n]));
  const begun = run.trials.map((trial) => [trial, run.spans(trial)]).filter(([, spans]) => spans.length);
  if (by === "start") return new Map(begun.map(([trial, spans]) => [trial, Math.max(0, spans[0][0])]));
  const ends = begun.map(([trial, spans]) => [trial, Math.max(0, spans[spans.length - 1][1])]).sort((a, b) => a[1] - b[1]);
  if (by === "end") return new Map(ends);
  let spent = 0;
  return new Map(ends.map(([trial]) => [trial, spent += run.worked(trial)]));
}
function bestSoFar(run, places) {
  const line = [];
  let best = Infinity;
  for (const trial of run.scored.filter((one) => places.has(one)).sort((a, b) => places.get(a) - places.get(b))) {
    if (run.sign * trial.value < best) best = run.sign * trial.value;
    line.push([places.get(trial), run.sign * best]);
  }
  return line;
}
function kindChips(card, run, redraw) {
  const counts = {};
  for (const trial of run.trials) counts[kindOf(trial)] = (counts[kindOf(trial)] || 0) + 1;
  card.chips(Object.keys(KINDS).filter((kind) => counts[kind]).map((kind) => [kind, `${KINDS[kind]} ${counts[kind]}`, kind, !run.hidden.has(kind)]),
    (kind) => { if (!run.hidden.delete(kind)) run.hidden.add(kind); redraw(); });
}
const axisPoints = (x, y, pairs) => pairs.map(([a, b]) => [x.at(a), y.at(b)]);
const hit = (run, x, y, trial) => ({ x, y, trial, text: () => run.about(trial) });
const markLayers = (run, trials, point) => Object.keys(KINDS).map((kind) => ({
  kind: "points", style: kind === "finished" ? "dots" : "marks", mark: kind, cls: kind,
  points: trials.filter((trial) => kindOf(trial) === kind).map(point),
}));
const bestLayer = (run, point) => {
  const best = run.byNumber.get(run.data.best);
  return { kind: "points", style: "thick", mark: "live", cls: "best", points: best && isNumber(best.value) ? [point(best)] : [] };
};

function plotsOf(run, open, redraw, only) {
  const settings = { by: "trial", isLog: false, ...(only || {}) };
  const made = [];
  const add = (view, title, render, options) => { if (!only || only.view === view) made.push(new Card(view, title, render, options)); return made[made.length - 1]; };
  const data = () => run.data;
  const wants = (view) => !only || only.view === view;

  if (wants("history")) {
    const card = add("history", "History", () => {
      const places = placesBy(run, settings.by);
      const trials = run.shown.filter((trial) => places.has(trial));
      if (!run.data.metric) return false;
      const isTime = settings.by !== "trial";
      const least = range(run.scored.map((trial) => trial.value))[0];
      log.disabled = !(least > 0);
      log.title = log.disabled ? "some values are not positive" : "";
      const line = bestSoFar(run, places);
      const x = numberAxis(BY_NAMES[settings.by], [...places.values()], { isTime, isInteger: !isTime, fromZero: isTime });
      const y = numberAxis(run.data.metric, [...trials.map((trial) => trial.value), ...line.map(([, value]) => value)], { isLog: settings.isLog && !log.disabled });
      const point = (trial) => [x.at(places.get(trial)), y.at(trial.value)];
      kindChips(card, run, redraw);
      card.chart(0, open).draw({ x, y, hits: trials.map((trial) => hit(run, ...point(trial), trial)), layers: [
        ...markLayers(run, trials, point), { kind: "lines", style: "thick", cls: "best", isStep: true, lines: [axisPoints(x, y, line)] }, bestLayer(run, point)] });
      card.note.textContent = trials.length ? `The line is the best so far.${run.hidden.size ? " It counts trials that are switched off, too." : ""}` : "No trial has a value yet.";
    });
    card.select("by", settings, "by", BY);
    const log = card.check("log", settings, "isLog");
  }

  if (wants("curves")) {
    const card = add("curves", "Learning curves", () => {
      const withCurve = run.trials.filter((trial) => trial.curve.some(isNumber));
      if (!only && !withCurve.some((trial) => trial.curve.length > 1)) return false;
      const allowed = withCurve.filter((trial) => !run.hidden.has(kindOf(trial)));
      const trials = thinned(allowed, run.sign, MOST_CURVES);
      const best = run.byNumber.get(run.data.best);
      const points = (trial) => trial.curve.map((value, i) => [trial.steps ? trial.steps[i] : i + 1, value]).filter(([, value]) => isNumber(value));
      const curves = new Map(trials.map((trial) => [trial, points(trial)]));
      const values = [...curves.values()].flat();
      log.disabled = !(range(values.map(([, value]) => value))[0] > 0);
      const x = numberAxis("training iteration", values.map(([step]) => step), { isInteger: true });
      const y = numberAxis(run.data.metric, values.map(([, value]) => value), { isLog: settings.isLogCurves && !log.disabled });
      const layers = Object.keys(KINDS).map((kind) => ({
        kind: "lines", cls: kind, lines: trials.filter((trial) => kindOf(trial) === kind).map((trial) => axisPoints(x, y, curves.get(trial))) }));
      const ends = (kind) => trials.filter((trial) => kindOf(trial) === kind).map((trial) => axisPoints(x, y, curves.get(trial).slice(-1))[0]);
      for (const kind of ["stopped", "failed"]) layers.push({ kind: "points", style: "marks", mark: kind, cls: kind, points: trials.length <= 100 ? ends(kind) : [] });
      if (best && curves.has(best)) layers.push({ kind: "lines", style: "thick", cls: "best", lines: [axisPoints(x, y, curves.get(best))] });
      const hits = trials.flatMap((trial) => curves.get(trial).map(([step, value]) => ({ x: x.at(step), y: y.at(value), trial,
        text: () => `step ${number(step)}: ${number(value)}\n${run.about(trial)}${trial.why ? `\n${cut(trial.why, 160)}` : ""}` })));
      kindChips(card, run, redraw);
      card.chart(0, open).draw({ x, y, layers, hits });
      card.note.textContent = `${trials.length < allowed.length ? `${trials.length} of ${allowed.length} curves: the best third, and an even choice of the others. ` : ""}${best ? `The thick line is the best trial, ${best.n}.` : ""}`;
    });
    settings.isLogCurves = false;
    const log = card.check("log", settings, "isLogCurves");
  }

  if (wants("front") && Object.keys(run.data.objectives).length > 1) addFront(run, open, add, settings);
  if (wants("importances")) {
    const card = add("importances", "What matters", () => {
      const found = data().importances;
      if (!found) return false;
      card.note.textContent = found.confidence || found.why;
      if (!found.mean) { card.body.hidden = true; return true; }
      card.body.hidden = false;
      const names = Object.keys(found.mean).slice(0, 20);
      const y = categoryAxis("", [...names].reverse());
      const x = numberAxis(`importance for ${data().metric} (shares of 1)`, names.map((name) => Math.min(1, found.mean[name] + found.std[name])), { fromZero: true });
      const hits = names.map((name) => { const at = y.at(name), to = found.mean[name];
        return { x: to, y: at, box: [0, at - 0.35, Math.max(to, x.high * 0.02), at + 0.35], text: () => `${name}: ${found.mean[name].toFixed(2)} ± ${found.std[name].toFixed(2)}` }; });
      card.chart(0).draw({ x, y, zooms: false, height: 75 + 30 * names.length, hits, layers: [
        { kind: "bars", cls: "finished", boxes: names.map((name) => [0, y.at(name) - 0.32, found.mean[name], y.at(name) + 0.32]) },
        { kind: "lines", style: "thick", cls: "faint", lines: names.map((name) => [[Math.max(0, found.mean[name] - found.std[name]), y.at(name)], [Math.min(1, found.mean[name] + found.std[name]), y.at(name)]]) }] });
      return true;
    });
  }

  if (wants("contour")) {
    const own = { colour: settings.colour || "rank", x: (settings.params || [])[0], y: (settings.params || [])[1] };
    const card = add("contour", "Two parameters", () => {
      const names = run.params, trials = thinned(run.shown, run.sign, MOST_POINTS);
      if (names.length < 2 || trials.length < 3) return false;
      if (!own.y) own.y = names[1];
      const options = names.map((name) => [name, name]);
      fillX(options); fillY(options);
      const x = paramAxis(run, own.x, trials), y = paramAxis(run, own.y, trials);
      const levels = levelsOf(run, trials, own.colour);
      const points = trials.map((trial) => [x.at(trial.params[own.x]), y.at(trial.params[own.y]), levels.get(trial), trial]);
      const layers = surface(x, y, points);
      layers.push({ kind: "points", style: "seen", points }, { kind: "points", style: "seen inner", points }, bestLayer(run, (trial) => [x.at(trial.params[own.x]), y.at(trial.params[own.y])]));
      card.chart(0, open).draw({ x, y, layers, hits: points.map(([a, b, , trial]) => hit(run, a, b, trial)) });
      const ranked = [...trials].sort((a, b) => run.sign * (a.value - b.value));
      card.levels(`best ${number(ranked[0].value, 4)}`, `worst ${number(ranked[ranked.length - 1].value, 4)}`);
      card.note.textContent = "The colour is a weighted mean of the trials near it; the points are the trials.";
    });
    const names = run.params.map((name) => [name, name]);
    const fillX = card.select("x", own, "x", names);
    if (!own.y) own.y = run.params[1];
    const fillY = card.select("y", own, "y", names);
    card.select("colour by", own, "colour", [["rank", "rank"], ["value", "value"]]);
  }

  if (wants("slice")) {
    settings.slices = settings.params ? new Set(settings.params) : null;
    const card = add("slice", "Slices", () => {
      const names = run.params, trials = thinned(run.shown, run.sign, MOST_POINTS);
      for (const name of settings.params || []) { if (!names.includes(name)) names.push(name); }
      if (!names.length || !trials.length) return false;
      const chosen = settings.slices || new Set(names.slice(0, 3));
      card.legend.classList.add("choose");
      card.chips(names.slice(0, 40).map((name) => [name, name, "", chosen.has(name)]), (name) => {
        settings.slices = new Set(chosen);
        if (!settings.slices.delete(name)) settings.slices.add(name);
        card.mark();
      });
      card.body.className = "panels";
      const y = numberAxis(data().metric, trials.map((trial) => trial.value), { isLog: settings.isLog && range(trials.map((trial) => trial.value))[0] > 0 });
      names.filter((name) => chosen.has(name)).forEach((name, index) => {
        if (!card.panels[index]) { card.panels[index] = card.body.appendChild(el("div", { className: "plot" })); card.panelNames[index] = name; }
        card.panels[index].hidden = false;
        const chart = card.chart(index, open, card.panels[index]);
        if (card.panelNames[index] !== name) { chart.zoom = null; card.panelNames[index] = name; }
        const x = paramAxis(run, name, trials);
        const point = (trial) => [x.at(trial.params[name]), y.at(trial.value)];
        chart.draw({ x, y, height: 250, layers: [...markLayers(run, trials, point), bestLayer(run, point)], hits: trials.map((trial) => hit(run, ...point(trial), trial)) });
      });
      const count = names.filter((name) => chosen.has(name)).length;
      card.panels.forEach((panel, index) => { panel.hidden = index >= count; });
      card.note.textContent = count ? "" : "Choose a parameter.";
    }, { isWide: true });
    card.panels = []; card.panelNames = [];
  }

  if (wants("parallel")) {
    const card = add("parallel", "Parallel coordinates", () => {
      let names = settings.params || run.params;
      const trials = thinned(run.shown, run.sign, MOST_LINES);
      if (!names.length || !trials.length || (!only && names.length < 2)) return false;
      const room = Math.max(2, Math.floor(card.body.clientWidth / 84) - 1), all = names.length;
      names = names.slice(0, room);
      const axes = names.map((name) => paramAxis(run, name, trials));
      const objective = numberAxis(data().metric, trials.map((trial) => trial.value), { isLog: settings.isLog && range(trials.map((trial) => trial.value))[0] > 0 });
      drawParallel(card, run, open, [...axes, objective], names, trials);
      const [low, high] = range(trials.map((trial) => run.sign * trial.value));
      card.levels(`best ${number(run.sign * low, 4)}`, `worst ${number(run.sign * high, 4)}`);
      card.note.textContent = `${all > names.length ? `The ${names.length} most important of ${all} parameters fit here. ` : ""}${trials.length < run.shown.length ? `${trials.length} of ${run.shown.length} trials: the best third, and an even choice of the others.` : ""}`;
    }, { isWide: true });
  }

  if (wants("timeline")) {
    const card = add("timeline", "Workers", () => {
      const rows = workers(run);
      if (!rows.length) return false;
      const count = Math.max(...rows.map((row) => row.worker)) + 1;
      const x = numberAxis("since the first trial began", rows.map((row) => row.end), { isTime: true, fromZero: true });
      const y = { ...numberAxis("worker", [0, count - 1], { isInteger: true }), low: -0.6, high: count - 0.4 };
      kindChips(card, run, redraw);
      const bars = rows.filter((row) => !run.hidden.has(kindOf(row.trial)));
      const box = (row) => [row.begin, row.worker - 0.4, row.end, row.worker + 0.4];
      card.chart(0, open).draw({ x, y, height: Math.max(150, Math.min(420, 80 + 26 * count)),
        layers: Object.keys(KINDS).map((kind) => ({ kind: "bars", cls: kind, boxes: bars.filter((row) => kindOf(row.trial) === kind).map(box) })),
        hits: bars.map((row) => ({ x: row.begin, y: row.worker, trial: row.trial, box: box(row), text: () => `${seconds(row.end - row.begin)}\n${run.about(row.trial)}` })) });
    }, { isWide: true });
  }

  if (only && wants("edf")) addEdf([run], add);
  if (wants("lineage")) {
    const card = add("lineage", "Lineage of the population", () => {
      const copies = run.trials.flatMap((trial) => trial.copies.filter(([donor]) => donor !== trial.n).map(([donor, step]) => [donor, step, trial.n]));
      if (!only && !copies.length) return false;
      const trials = run.trials.filter((trial) => trial.curve.length);
      const last = (trial) => trial.steps ? trial.steps[trial.steps.length - 1] : trial.curve.length;
      const x = numberAxis("training iteration", [0, ...trials.map(last)], { isInteger: true });
      const y = numberAxis("trial", trials.map((trial) => trial.n), { isInteger: true });
      card.legend.replaceChildren(el("span", { className: "quiet" }, "grey: training; red: a copy of another trial's checkpoint"));
      card.chart(0, open).draw({ x, y, layers: [
        { kind: "lines", cls: "faint", lines: trials.map((trial) => [[0, trial.n], [last(trial), trial.n]]) },
        { kind: "lines", style: "thick", cls: "failed", lines: copies.map(([donor, step, own]) => [[step, donor], [step, own]]) },
        { kind: "points", style: "marks", mark: "live", cls: "failed", points: copies.map(([, step, own]) => [step, own]) }],
        hits: [...copies.map(([donor, step, own]) => ({ x: step, y: own, trial: run.byNumber.get(own), text: () => `trial ${own} continued from trial ${donor} after step ${number(step)}` })),
          ...trials.map((trial) => hit(run, last(trial), trial.n, trial))] });
    });
  }
  return made;
}
// The colour of each cell is the mean level of the trials near it, weighted by their distance. Categories do not mix.
function surface(x, y, points) {
  const columns = x.isCategory ? Math.round(x.high - x.low) : CELLS, rows = y.isCategory ? Math.round(y.high - y.low) : CELLS;
  const width = (x.high - x.low) / columns, height = (y.high - y.low) / rows;
  const near = 2 / CELLS ** 2 * 3;
  const boxes = Array.from({ length: LEVELS }, () => []);
  const placed = points.filter(([a, b]) => isNumber(a) && isNumber(b));
  for (let column = 0; column < columns; column++) {
    for (let row = 0; row < rows; row++) {
      const cx = x.low + (column + 0.5) * width, cy = y.low + (row + 0.5) * height;
      let weight = 0, sum = 0;
      for (const [a, b, level] of placed) {
        const dx = (a - cx) / (x.high - x.low), dy = (b - cy) / (y.high - y.low);
        if ((x.isCategory && Math.round(a) !== Math.round(cx)) || (y.isCategory && Math.round(b) !== Math.round(cy))) continue;
        const own = 1 / (near / 6 + dx * dx + dy * dy) ** 2;
        weight += own; sum += own * level;
      }
      if (weight) boxes[Math.round(sum / weight)].push([x.low + column * width, y.low + row * height, x.low + (column + 1) * width, y.low + (row + 1) * height]);
    }
  }
  return boxes.map((of, level) => ({ kind: "cells", cls: `c${level}`, boxes: of }));
}
function drawParallel(card, run, open, axes, names, trials) {
  const levels = levelsOf(run, trials, "rank");
  const share = (axis, value) => (axis.at(value) - axis.low) / ((axis.high - axis.low) || 1);
  const last = axes.length - 1;
  const lineOf = (trial) => axes.map((axis, index) => [index, share(axis, index < last ? trial.params[names[index]] : trial.value)]);
  const byLevel = Array.from({ length: LEVELS }, () => []);
  const lines = new Map(trials.map((trial) => [trial, lineOf(trial)]));
  for (const [trial, line] of lines) byLevel[levels.get(trial)].push(line);
  const plain = (low, high) => ({ low, high, hidden: true, ticks: () => [], name: "" });
  const chart = card.chart(0, open);
  chart.draw({ x: plain(-0.45, last + 0.45), y: plain(-0.06, 1.12), height: 330, zooms: false,
    layers: [{ kind: "lines", style: "grid", lines: axes.map((_, index) => [[index, 0], [index, 1]]) },
      ...byLevel.map((of, level) => ({ kind: "lines", cls: `c${level}`, lines: of })).reverse()],
    hits: trials.flatMap((trial) => lines.get(trial).map(([x, y]) => hit(run, x, y, trial))) });
  const { box } = chart, span = chart.xHigh - chart.xLow;
  const px = (at) => box.left + (at - chart.xLow) / span * box.width, py = (at) => box.top + box.height * (1 - (at - chart.yLow) / (chart.yHigh - chart.yLow));
  const room = Math.floor(box.width / axes.length / 7);
  axes.forEach((axis, index) => {
    const name = shape("text", { x: px(index), y: 14, "text-anchor": "middle" }, cut(axis.name, room));
    name.append(shape("title", {}, axis.name));
    chart.svg.append(name);
    for (const [at, label] of axis.ticks(axis.low, axis.high, axis.isCategory ? 12 : 4)) {
      const place = (at - axis.low) / ((axis.high - axis.low) || 1);
      if (place < 0 || place > 1) continue;
      chart.svg.append(shape("text", { class: "tick", x: px(index) + 4, y: py(place) + 4 }, cut(label, Math.max(4, room - 2))));
    }
  });
}
function workers(run) {
  const spans = run.trials.flatMap((trial) => run.spans(trial).map(([begin, end]) => ({ trial, begin: Math.max(0, begin), end: Math.max(0, begin, end) })));
  spans.sort((a, b) => a.begin - b.begin || a.end - b.end);
  const free = [];  // by worker, since when it is free
  for (const span of spans) {
    let worker = free.findIndex((since) => since <= span.begin);
    if (worker < 0) worker = free.length;
    free[worker] = span.end;
    span.worker = worker;
  }
  return spans;
}
function addEdf(runs, add) {
  const card = add("edf", "Share of trials up to a value", () => {
    const scored = runs.map((run) => run.scored.map((trial) => trial.value).sort((a, b) => a - b));
    if (!scored.some((values) => values.length > 1)) return false;
    const all = scored.flat();
    const x = numberAxis(runs[0].data.metric, all, { isLog: own.isLog && range(all)[0] > 0 });
    const y = numberAxis("share of trials", [0, 1]);
    card.chart(0).draw({ x, y, layers: scored.map((values, index) => ({ kind: "lines", style: "thick", cls: runs.length > 1 ? `run${index % 8}` : "finished", isStep: true,
      lines: [values.map((value, i) => [x.at(value), (i + 1) / values.length])] })),
      hits: scored.flatMap((values, index) => values.map((value, i) => ({ x: x.at(value), y: (i + 1) / values.length, text: () => `${runs.length > 1 ? `${runs[index].data.name}\n` : ""}${number((i + 1) / values.length * 100, 3)}% of trials are at most ${number(value)}` }))) });
  });
  const own = { isLog: false };
  card.check("log", own, "isLog");
}

// -- several objectives -----------------------------------------------------------------------------------------------
const dominates = (a, b) => a.every((value, i) => value <= b[i]) && a.some((value, i) => value < b[i]);
// The volume that `points` dominate up to `worst`, by slices along the last objective. Smaller values are better.
function hypervolume(points, worst) {
  const dimension = worst.length - 1;
  const inside = points.filter((point) => point.every((value, i) => value < worst[i]));
  if (!inside.length) return 0;
  if (!dimension) return worst[0] - range(inside.map((point) => point[0]))[0];
  inside.sort((a, b) => a[dimension] - b[dimension]);
  let volume = 0;
  for (let i = 0; i < inside.length; i++) {
    const to = i + 1 < inside.length ? inside[i + 1][dimension] : worst[dimension];
    const depth = to - inside[i][dimension];
    if (depth > 0) volume += depth * hypervolume(inside.slice(0, i + 1).map((point) => point.slice(0, dimension)), worst.slice(0, dimension));
  }
  return volume;
}
function addFront(run, open, add, settings) {
  const names = Object.keys(run.data.objectives);
  const valueOf = (trial, name) => name === run.data.metric ? trial.value : trial.metrics[name];
  const scoresOf = (trial) => names.map((name) => (run.data.objectives[name] === "max" ? -1 : 1) * valueOf(trial, name));
  const complete = () => run.trials.filter((trial) => names.every((name) => isNumber(valueOf(trial, name))));
  const own = { x: names[0], y: names[1] };
  const front = add("front", "Front", () => {
    const trials = complete(), scores = new Map(trials.map((trial) => [trial, scoresOf(trial)]));
    let best = [];
    for (const trial of trials) {  // equal trials are on the front together
      if (best.some((other) => dominates(scores.get(other), scores.get(trial)))) continue;
      best = [...best.filter((other) => !dominates(scores.get(trial), scores.get(other))), trial];
    }
    const x = numberAxis(`${own.x} (${run.data.objectives[own.x]})`, trials.map((trial) => valueOf(trial, own.x)));
    const y = numberAxis(`${own.y} (${run.data.objectives[own.y]})`, trials.map((trial) => valueOf(trial, own.y)));
    const point = (trial) => [x.at(valueOf(trial, own.x)), y.at(valueOf(trial, own.y))];
    const shown = trials.filter((trial) => !run.hidden.has(kindOf(trial)));
    const line = best.map(point).sort((a, b) => a[0] - b[0] || a[1] - b[1]);
    kindChips(front, run, () => front.mark());
    front.chart(0, open).draw({ x, y, layers: [...markLayers(run, shown, point), ...(names.length === 2 ? [{ kind: "lines", cls: "best", lines: [line] }] : []),
      { kind: "points", style: "thick", mark: "live", cls: "best", points: line }],
      hits: shown.map((trial) => ({ ...hit(run, ...point(trial), trial), text: () => `${best.includes(trial) ? "on the front: " : ""}${names.map((name) => `${name} ${number(valueOf(trial, name))}`).join(", ")}\n${run.about(trial)}` })) });
    front.note.textContent = best.length ? `On the front: ${best.length} of ${trials.length} trials (${cut(best.map((trial) => trial.n).join(", "), 120)}).` : "No trial has all objectives yet.";
  });
  if (names.length > 2) for (const name of ["x", "y"]) front.select(name, own, name, names.map((one) => [one, one]));
  if (settings.view) return;
  const volume = add("hypervolume", "Hypervolume", () => {
    const trials = complete();
    if (trials.length < 2) return false;
    const scores = trials.map(scoresOf);
    const worst = names.map((_, i) => range(scores.map((score) => score[i]))[1]);
    let best = [], now = 0;
    const line = trials.map((trial, i) => {
      if (!best.some((other) => dominates(other, scores[i]) || other.every((value, k) => value === scores[i][k]))) {
        best = [...best.filter((other) => !dominates(scores[i], other)), scores[i]];
        now = hypervolume(best, worst);
      }
      return [trial.n, now];
    });
    const x = numberAxis("trial", line.map(([at]) => at), { isInteger: true }), y = numberAxis("hypervolume", line.map(([, value]) => value), { fromZero: true });
    volume.chart(0, open).draw({ x, y, layers: [{ kind: "lines", style: "thick", cls: "finished", isStep: true, lines: [line] }],
      hits: line.map(([at, value], i) => ({ x: at, y: value, trial: trials[i], text: () => `after trial ${at}: ${number(value)}` })) });
    volume.note.textContent = "The part of the space of objectives, up to the worst value of each, that the front dominates.";
  });
}

// -- the table of trials ----------------------------------------------------------------------------------------------
const ROW = 28;
const NEAR = 12;  // so many rows above and below the window are there at least
const PEN = document.createElement("canvas").getContext("2d");  // measures texts of the table
PEN.font = `600 12.75px ${getComputedStyle(document.body).fontFamily}`;
const SIGNS = { "<=": (a, b) => a <= b, ">=": (a, b) => a >= b, "!=": (a, b) => a !== b, "==": (a, b) => a === b,
  "<": (a, b) => a < b, ">": (a, b) => a > b, "=": (a, b) => a === b };
const tables = [];
class TrialTable {
  constructor(run, open) {
    this.run = run; this.open = open; this.sort = null; this.isDown = false; this.chosen = null; this.isWhole = false;
    this.input = el("input", { type: "search", placeholder: "filter: words, or a condition such as lr < 0.01", ariaLabel: "filter", oninput: () => { this.rows.scrollTop = 0; this.refresh(); } });
    this.count = el("span", { className: "quiet count" });
    this.list = el("div", { className: "columns" });
    this.head = el("tr"); this.body = el("tbody"); this.widths = el("colgroup");
    this.lines = new Map();  // the rows that are there, by their place in `found`
    this.above = el("tr", { className: "pad" }, el("td")); this.below = el("tr", { className: "pad" }, el("td"));
    this.table = el("table", {}, this.widths, el("thead", {}, this.head), this.body);
    this.rows = el("div", { className: "rows", tabIndex: 0, onscroll: () => this.paint() }, this.table);
    this.root = el("section", { className: "card wide table" }, el("div", { className: "tools" }, el("h3", {}, "Trials"), this.input, this.count,
      el("details", {}, el("summary", {}, "columns"), this.list)), this.rows);
    this.body.addEventListener("click", (event) => { const row = event.target.closest("tr"); if (row && row.trial) open(row.trial); });
    this.body.addEventListener("keydown", (event) => { const row = event.target.closest("tr"); if (event.key === "Enter" && row && row.trial) open(row.trial); });
    tables.push(this);
    this.refresh();
  }
  allColumns() {
    const run = this.run.data, of = (name, get, isQuiet) => ({ name, get, isQuiet });
    const metrics = run.metrics.filter((name) => name !== run.metric);
    return [
      of("trial", (trial) => trial.n), ...(run.metric ? [of(run.metric, (trial) => trial.value)] : []),
      ...metrics.filter((name) => name in run.objectives).map((name) => of(name, (trial) => trial.metrics[name])),
      of("ended", (trial) => trial.ended),
      ...metrics.filter((name) => !(name in run.objectives)).map((name) => of(name, (trial) => trial.metrics[name], true)),
      ...run.params.map((name) => of(name, (trial) => trial.params[name])),
      of("iterations", (trial) => trial.steps ? trial.steps[trial.steps.length - 1] : trial.curve.length),
      of("worked (s)", (trial) => Math.round(this.run.worked(trial) * 1000) / 1000),
      of("rank", (trial) => trial.facts.rank === undefined ? undefined : `${trial.facts.rank} of ${trial.facts.of}`, true),
      of("cutoff", (trial) => trial.facts.cutoff, true),
      of("why", (trial) => trial.why, true), of("error", (trial) => trial.error), of("name", (trial) => trial.name, true),
    ];
  }
  refresh() {
    const all = this.allColumns(), run = this.run;
    const isUsed = (column) => run.trials.some((trial) => ![undefined, null, ""].includes(column.get(trial)));
    const shown = all.filter((column) => this.chosen ? this.chosen.has(column.name) : !column.isQuiet && isUsed(column));
    const key = all.map((column) => column.name).join("|") + shown.map((column) => column.name).join("|");
    if (this.sort === null && run.data.metric) { this.sort = run.data.metric; this.isDown = run.data.mode === "max"; }
    if (key !== this.key) {
      this.key = key;
      this.list.replaceChildren(...all.map((column) => el("label", {}, el("input", { type: "checkbox", checked: shown.includes(column), onchange: (event) => {
        this.chosen = new Set(shown.map((one) => one.name));
        if (event.target.checked) this.chosen.add(column.name); else this.chosen.delete(column.name);
        this.refresh();
      } }), ` ${cut(column.name, 40)}`)));
    }
    this.columns = shown;
    const by = all.find((column) => column.name === this.sort);
    const sign = this.isDown ? -1 : 1;
    const missing = (value) => value === undefined || value === null || value === "";
    const test = this.test(all);
    this.found = run.trials.filter(test);
    if (by) {
      const keyed = this.found.map((trial) => [by.get(trial), trial]);
      keyed.sort(([a, s], [b, t]) => {
        if (missing(a) || missing(b)) return missing(a) - missing(b) || s.n - t.n;
        if (typeof a === "number" && typeof b === "number") return sign * (a - b) || s.n - t.n;
        return sign * text(a).localeCompare(text(b), undefined, { numeric: true }) || s.n - t.n;
      });
      this.found = keyed.map(([, trial]) => trial);
    }
    this.count.textContent = `${this.found.length} of ${run.trials.length} trials`;
    const every = Math.ceil(this.found.length / 200);
    const measured = this.found.filter((_, index) => index % every === 0);
    const widths = shown.map((column) => {
      let longest = `${column.name} ▾`;
      for (const trial of measured) { const cell = this.cell(column, trial); if (cell.length > longest.length) longest = cell; }
      return Math.ceil(PEN.measureText(cut(longest, 34)).width) + 24 + (column.name === "ended" ? 16 : 0);
    });
    const whole = widths.reduce((a, b) => a + b, 0);
    // In shares, since the table is as wide as the paper when it is printed. The text shrinks with it, as far as it is legible.
    this.widths.replaceChildren(...widths.map((width) => { const col = el("col"); col.style.width = `${width / whole * 100}%`; return col; }));
    this.table.style.width = `${whole}px`;
    this.table.style.setProperty("--printed", `${Math.max(6, Math.min(11, 12 * 700 / whole))}px`);
    this.head.replaceChildren(...shown.map((column) => {
      const isSorted = column.name === this.sort;
      const head = el("th", { scope: "col" }, el("button", { type: "button", title: column.name, onclick: () => {
        this.isDown = isSorted ? !this.isDown : false;
        this.sort = column.name;
        this.rows.scrollTop = 0;
        this.refresh();
      } }, column.name + (isSorted ? this.isDown ? " ▾" : " ▴" : "")));
      if (isSorted) head.setAttribute("aria-sort", this.isDown ? "descending" : "ascending");
      return head;
    }));
    for (const pad of [this.above, this.below]) pad.firstChild.colSpan = Math.max(1, shown.length);
    const focused = this.body.contains(document.activeElement) && document.activeElement.trial;
    this.paint(true);
    const line = focused && [...this.lines.values()].find((one) => one.trial.n === focused.n);
    if (line) line.focus({ preventScroll: true });
  }
  cell(column, trial) {
    const value = column.get(trial);
    return value === undefined || (value === null && !(column.name in trial.params)) ? "" : text(value);
  }
  test(columns) {
    const words = this.input.value.trim();
    const match = words.match(/^(.+?)\s*(<=|>=|!=|==|<|>|=)\s*(.+?)$/);
    const column = match && columns.find((one) => one.name === match[1]);
    if (column) {
      const asNumber = Number(match[3]);
      return (trial) => {
        const value = column.get(trial);
        if (value === undefined || value === null) return false;
        if (typeof value === "number" && !Number.isNaN(asNumber)) return SIGNS[match[2]](value, asNumber);
        return SIGNS[match[2]](text(value), match[3]);
      };
    }
    const parts = words.toLowerCase().split(/\s+/).filter(Boolean);
    if (!parts.length) return () => true;
    return (trial) => { const all = columns.map((one) => this.cell(one, trial)).join(" ").toLowerCase(); return parts.every((part) => all.includes(part)); };
  }
  showAll(isWhole) { this.isWhole = isWhole; this.paint(); }
  // Only the rows near the window of the table are there, between two empty ones of the height of all others. They change
  // by a dozen, and rows that stay are not made again: scrolling costs only the rows that come near.
  paint(isAnew = false) {
    // These are read while the old rows are there: a browser scrolls an empty table to its top.
    const count = this.found.length, view = this.rows.clientHeight || 600;
    const top = Math.min(this.rows.scrollTop, Math.max(0, (count + 1) * ROW - view));
    const near = Math.floor(top / ROW / NEAR) * NEAR;
    const first = this.isWhole ? 0 : Math.max(0, Math.min(near - NEAR, count - 1));
    const last = this.isWhole ? count : Math.min(count, near + Math.ceil(view / ROW) + 2 * NEAR);
    const key = `${first} ${last}`;
    if (this.painted === key && !isAnew) return;
    this.painted = key;
    if (isAnew) { this.body.replaceChildren(); this.lines.clear(); }
    this.above.remove();
    this.below.remove();
    for (const [index, line] of this.lines) {
      if (index < first || index >= last) { line.remove(); this.lines.delete(index); }
    }
    let next = this.body.firstChild;
    for (let index = first; index < last; index++) {
      const line = this.lines.get(index);
      if (line) { next = line.nextSibling; continue; }
      const made = this.line(index);
      this.lines.set(index, made);
      this.body.insertBefore(made, next);
    }
    this.above.style.height = `${first * ROW}px`;
    this.below.style.height = `${(count - last) * ROW}px`;
    if (first) this.body.prepend(this.above);
    if (last < count) this.body.append(this.below);
  }
  line(index) {
    const trial = this.found[index], line = el("tr", { tabIndex: 0, className: index % 2 ? "odd" : "" });
    line.trial = trial;
    for (const column of this.columns) {
      const value = this.cell(column, trial);
      const cell = el("td", { title: value.length > 30 ? value : "" });
      if (column.name === "ended") cell.append(el("span", { className: `key ${kindOf(trial)}` }));
      cell.append(value);
      line.append(cell);
    }
    return line;
  }
}

// -- one trial --------------------------------------------------------------------------------------------------------
const dialog = document.getElementById("trial");
dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
function python(value, indent = "") {
  const inner = `${indent}    `;
  if (Array.isArray(value)) return value.some((one) => one && typeof one === "object") ? `[\n${value.map((one) => `${inner}${python(one, inner)},\n`).join("")}${indent}]` : `[${value.map((one) => python(one)).join(", ")}]`;
  if (value && typeof value === "object") {
    const members = Object.entries(value).map(([name, one]) => `${inner}${JSON.stringify(name)}: ${python(one, inner)},\n`);
    return members.length ? `{\n${members.join("")}${indent}}` : "{}";
  }
  return typeof value === "string" ? JSON.stringify(value) : value === null ? "None" : value === true ? "True" : value === false ? "False" : String(value);
}
function copied(value, label = "copy") {
  const button = el("button", { type: "button", onclick: () => copy(value, button) }, label);
  return button;
}
const withCopy = (value) => el("div", { className: "copy" }, el("pre", {}, value), copied(value));
let opened = null;
async function openTrial(run, trial) {
  const isUpdate = opened && opened.run === run && opened.trial.n === trial.n;
  opened = { run, trial };
  if (!dialog.open) { dialog.replaceChildren(); dialog.showModal(); }
  let details = trial.details;
  if (!details && run.isServed) {
    try {
      details = await (await fetch(`trial/${trial.n}`)).json();
    } catch {
      details = { error: "the server does not answer any more" };
    }
    if (!opened || opened.trial !== trial) return;
  }
  details = details || {};
  const chart = el("div", { className: "plot" });
  const scrolled = dialog.scrollTop;
  const places = isUpdate ? [...dialog.querySelectorAll("pre[id]")].map((one) => [one.id, one.scrollTop]) : [];
  const facts = { name: trial.name, ended: trial.ended, why: details.error ? "" : trial.why, [run.data.metric || "value"]: isNumber(trial.value) ? number(trial.value, 9) : "",
    ...Object.fromEntries(Object.entries(trial.metrics).map(([name, value]) => [name, text(value)])),
    rank: trial.facts.rank === undefined ? "" : `${trial.facts.rank} of ${trial.facts.of}${trial.facts.rung === undefined ? "" : ` at ${text(trial.facts.rung)}`}`,
    cutoff: trial.facts.cutoff === undefined ? "" : text(trial.facts.cutoff), worked: seconds(run.worked(trial)), attempt: details.attempt > 1 ? details.attempt : "",
    seed: details.seed, directory: details.directory };
  const near = (step) => { const order = tables.find((one) => one.run === run); const list = order ? order.found : run.trials; return list[list.indexOf(trial) + step]; };
  const turn = (label, step, title) => el("button", { type: "button", title, disabled: !near(step), onclick: () => openTrial(run, near(step)) }, label);
  const config = details.config || trial.params;
  dialog.replaceChildren(
    el("header", {}, el("h2", {}, `Trial ${trial.n}`), turn("‹", -1, "the one before in the table"), turn("›", 1, "the next one in the table"), el("button", { type: "button", onclick: () => dialog.close() }, "close")),
    definitions(facts), chart,
    el("h3", {}, "Configuration"), el("div", { className: "controls" }, copied(python(config), "copy as Python"), copied(JSON.stringify(config, null, 2), "copy as JSON")), el("pre", { id: "config" }, python(config)),
    ...(details.error ? [el("h3", {}, "Error"), el("pre", { id: "error" }, details.error)] : []),
    ...(details.decisions && details.decisions.length ? [el("h3", {}, "Decisions"), el("ul", { className: "errors" }, ...details.decisions.map((one) => el("li", {}, one)))] : []),
    ...(details.checkpoints && details.checkpoints.length ? [el("h3", {}, "Checkpoints"), ...details.checkpoints.map((one) => el("div", {}, el("div", { className: "quiet" }, `after iteration ${text(one.iteration)}, ${one.bytes.toLocaleString()} bytes`), withCopy(one.path)))] : []),
    ...(details.output ? [el("h3", {}, "The end of its output"), el("pre", { id: "output" }, details.output)] : []),
    ...Object.entries(details.commands || {}).flatMap(([what, command]) => [el("h3", {}, `To ${what.startsWith("its") ? `see ${what}` : what}`), withCopy(command)]));
  dialog.scrollTop = scrolled;
  for (const [id, top] of places) { const now = document.getElementById(id); if (now) now.scrollTop = top; }
  const values = trial.curve.map((value, i) => [trial.steps ? trial.steps[i] : i + 1, value]).filter(([, value]) => isNumber(value));
  if (values.length > 1) {
    const x = numberAxis("training iteration", values.map(([step]) => step), { isInteger: true }), y = numberAxis(run.data.metric, values.map(([, value]) => value));
    new Chart(chart).draw({ x, y, height: 220, layers: [{ kind: "lines", style: "thick", cls: kindOf(trial), lines: [values] }, { kind: "points", style: "dots", cls: kindOf(trial), points: values.length < 200 ? values : [] }],
      hits: values.map(([step, value]) => ({ x: step, y: value, text: () => `step ${number(step)}: ${number(value)}` })) });
  }
}
dialog.addEventListener("close", () => { opened = null; });
function definitions(facts) {
  const list = el("dl", { className: "facts" });
  for (const [name, value] of Object.entries(facts)) { if (value !== "" && value !== null && value !== undefined) list.append(el("dt", {}, name), el("dd", {}, String(value))); }
  return list;
}

// -- the page of a run ------------------------------------------------------------------------------------------------
class RunView {
  constructor(run, host, only) {
    this.run = run; this.only = only;
    const open = (trial) => openTrial(run, trial);
    this.redraw = () => { for (const card of this.cards) card.mark(); };
    this.cards = plotsOf(run, open, this.redraw, only);
    if (only) { host.append(el("div", { className: "cards alone" }, ...this.cards.map((card) => card.root))); return; }
    this.summary = el("section", { className: "card" }); this.best = el("section", { className: "card" });
    this.errors = el("section", { className: "card wide" });
    this.table = new TrialTable(run, open);
    host.append(el("div", { className: "cards" }, this.summary, this.best, ...this.cards.map((card) => card.root), this.errors, this.table.root));
    this.describe();
  }
  describe() {
    const run = this.run, data = run.data, best = run.byNumber.get(data.best);
    const counts = new Map();
    for (const kind of Object.keys(KINDS)) {
      for (const trial of run.trials.filter((one) => kindOf(one) === kind)) counts.set(trial.way, [(counts.get(trial.way) || [0])[0] + 1, kind]);
    }
    const parts = [...counts].map(([way, [count, kind]]) => [count, way, kind]);
    if (data.notDrawn) parts.push([data.notDrawn, "not drawn yet", "open"]);
    const bar = el("div", { className: "bar" }, ...parts.map(([count, , kind]) => { const part = el("i", { className: kind }); part.style.flexGrow = count; return part; }));
    const kinds = { running: "live", finished: "finished", failed: "failed", killed: "failed" };
    this.summary.replaceChildren(
      el("div", { className: "overview" }, el("span", { className: `badge ${kinds[data.state] || "stopped"}` }, data.state), el("b", {}, `${run.trials.length} trials`)), bar,
      definitions({ state: data.stateText === data.state ? "" : data.stateText, trials: parts.map(([count, way]) => `${count} ${way}`).join(", ") || "none yet",
        objective: Object.keys(data.objectives).length ? Object.entries(data.objectives).map(([name, mode]) => `${name} (${mode})`).join(", ") : data.metric ? `${data.metric} (${data.mode})` : "none",
        trainable: data.trainable, begun: date(data.begun), "worked for": seconds(data.worked), seed: data.seed, directory: data.path }));
    if (data.resume) this.summary.append(withCopy(data.resume));
    this.best.replaceChildren(el("div", { className: "overview" }, el("h3", {}, best ? "Best" : "Best trial: none yet"),
      ...(best ? [el("b", {}, `${cut(data.metric, 40)} ${number(best.value)}`), el("button", { type: "button", onclick: () => openTrial(run, best) }, `trial ${best.n}`)] : [])));
    if (best) {
      this.best.append(definitions({ ended: best.ended, "once better": data.onceBetter,
        ...Object.fromEntries(Object.entries(best.params).map(([name, value]) => [name, text(value)])) }));
    }
    const failed = run.trials.filter((trial) => kindOf(trial) === "failed");
    this.errors.hidden = !failed.length;
    this.errors.replaceChildren(el("h3", {}, `Errors (${failed.length})`), el("ul", { className: "errors" },
      ...failed.slice(0, 20).map((trial) => el("li", {}, el("button", { type: "button", onclick: () => openTrial(run, trial) }, `trial ${trial.n}`), `: ${trial.error}`))),
      failed.length > 20 ? el("p", { className: "note" }, `and ${failed.length - 20} more: filter the table by failed`) : "");
  }
  update() {
    if (!this.only) { this.describe(); this.table.refresh(); }
    this.redraw();
    if (opened && opened.run === this.run) {
      const now = this.run.byNumber.get(opened.trial.n);
      if (now && now !== opened.trial) openTrial(this.run, now);
    }
  }
}

// -- several runs -----------------------------------------------------------------------------------------------------
function sideBySide(runs, host, only) {
  const own = { by: "trial", ...(only || {}), isLog: false };
  const made = [];
  const add = (view, title, render, options) => { const card = new Card(view, title, render, options); made.push(card); return card; };
  if (!only || only.view === "history") {
    const card = add("history", "Best so far", () => {
      const places = runs.map((run) => placesBy(run, own.by)), isTime = own.by !== "trial";
      const lines = runs.map((run, index) => bestSoFar(run, places[index]));
      const all = lines.flat();
      log.disabled = !(range(all.map(([, value]) => value))[0] > 0);
      const x = numberAxis(BY_NAMES[own.by], all.map(([at]) => at), { isTime, isInteger: !isTime, fromZero: isTime });
      const y = numberAxis(runs[0].data.metric, all.map(([, value]) => value), { isLog: own.isLog && !log.disabled });
      card.chips(runs.map((run, index) => [String(index), run.data.name, `run${index % 8}`, !hidden.has(index)]), (name) => { if (!hidden.delete(Number(name))) hidden.add(Number(name)); card.mark(); });
      card.chart(0).draw({ x, y, layers: lines.map((line, index) => ({ kind: "lines", style: "thick", cls: `run${index % 8}`, isStep: true, lines: hidden.has(index) ? [] : [axisPoints(x, y, line)] })),
        hits: lines.flatMap((line, index) => hidden.has(index) ? [] : line.map(([at, value]) => ({ x: x.at(at), y: y.at(value), text: () => `${runs[index].data.name}: ${number(value)}` }))) });
    });
    const hidden = new Set();
    card.select("by", own, "by", BY);
    const log = card.check("log", own, "isLog");
  }
  if (!only || only.view === "edf") addEdf(runs, add);
  if (only) { host.append(el("div", { className: "cards alone" }, ...made.map((card) => card.root))); return; }
  const rows = { state: (run) => run.data.state, trainable: (run) => run.data.trainable, begun: (run) => date(run.data.begun), objective: (run) => `${run.data.metric} (${run.data.mode})`, trials: (run) => run.trials.length,
    failed: (run) => run.trials.filter((trial) => kindOf(trial) === "failed").length, "not drawn": (run) => run.data.notDrawn || "",
    reports: (run) => run.trials.reduce((sum, trial) => sum + trial.curve.length, 0), "work of trials": (run) => seconds(run.trials.reduce((sum, trial) => sum + run.worked(trial), 0)),
    "best value": (run) => run.data.best === null ? "" : number(run.byNumber.get(run.data.best).value), "best trial": (run) => run.data.best ?? "", "once better": (run) => run.data.onceBetter };
  const params = [...new Set(runs.flatMap((run) => run.data.params))];
  const bestParam = (run, name) => { const best = run.byNumber.get(run.data.best); return best && name in best.params ? text(best.params[name]) : ""; };
  const lines = [...Object.entries(rows), ...params.map((name) => [name, (run) => bestParam(run, name)])]
    .filter(([, of]) => runs.some((run) => of(run) !== ""));
  const table = el("table", { className: "side" }, el("thead", {}, el("tr", {}, el("th"), ...runs.map((run, index) => el("th", { scope: "col" }, el("span", { className: `key run${index % 8}` }), run.data.name)))),
    el("tbody", {}, ...lines.map(([name, of]) => el("tr", {}, el("th", { scope: "row" }, name), ...runs.map((run) => el("td", {}, String(of(run))))))));
  host.append(el("h2", {}, "Side by side"), el("div", { className: "cards" }, el("section", { className: "card wide" }, el("div", { className: "scroll" }, table)), ...made.map((card) => card.root)));
}

// -- the list of runs -------------------------------------------------------------------------------------------------
function showList(host, rows) {
  host.replaceChildren(el("div", { className: "scroll card" }, el("table", { className: "side list" },
    el("thead", {}, el("tr", {}, ...["run", "state", "trials", "failed", "begun", "last updated"].map((name) => el("th", { scope: "col" }, name)))),
    el("tbody", {}, ...rows.map((row) => el("tr", {}, el("td", {}, row.href ? el("a", { href: row.href }, row.name) : row.name),
      el("td", {}, el("span", { className: row.state === "running" ? "live" : row.state === "damaged" || row.state === "killed" ? "failed" : "" }, row.state)),
      el("td", {}, String(row.trials ?? "")), el("td", {}, String(row.failed || "")), el("td", {}, date(row.begun)), el("td", {}, date(row.updated))))))));
  if (!rows.length) host.append(el("p", {}, "There are no runs yet."));
}

// -- the page, and its connection to a server -------------------------------------------------------------------------
const main = document.getElementById("page");
const banner = el("p", { className: "banner", hidden: true });
function listen(since, onMessage) {
  const source = new EventSource(`events?since=${since}`);  // after a break, the browser itself sends the last event's id
  source.onopen = () => { banner.hidden = true; };
  source.onmessage = (event) => onMessage(JSON.parse(event.data));
  source.addEventListener("problem", (event) => { banner.textContent = JSON.parse(event.data); banner.hidden = false; });
  source.onerror = () => { banner.textContent = "Not connected: the server has ended, or the machine does not answer. This page shows the last state that it knows."; banner.hidden = false; };
}
function start() {
  if (DATA.list) {
    const host = el("div");
    main.replaceChildren(el("h1", {}, document.title), banner, host);
    showList(host, DATA.list);
    listen(0, (rows) => showList(host, rows));
    return;
  }
  const runs = DATA.runs.map((data, index) => new Run(data, index));
  main.replaceChildren(...(DATA.only ? [] : [el("h1", {}, document.title)]), banner);
  const overview = DATA.only && runs.length > 1;
  if (runs.length > 1) sideBySide(runs, main, DATA.only);
  const views = overview ? [] : runs.map((run) => {
    if (runs.length > 1) main.append(el("h2", {}, run.data.name));
    return new RunView(run, main, DATA.only);
  });
  if (DATA.isServed) {
    runs[0].isServed = true;
    if (DATA.up) main.prepend(el("a", { href: DATA.up }, "all runs"));
    let waits = false;
    listen(DATA.version, (data) => {
      runs[0].update(data);
      if (waits) return;
      waits = true;
      setTimeout(() => { waits = false; views[0].update(); }, 100);  // one drawing for messages that come together
    });
  }
}
start();
