"use strict";
// Draws the page from the data that Python has put into it. See page.py. In this order: helpers, axes, the chart, the
// plots of a run, the table, one trial, several runs, the list of runs, and the live connection.
//
// Nothing here makes markup of a text: elements get their texts through textContent. The content security policy of the
// page allows no style attribute, so sizes that depend on data are set through element.style.

let DATA = null;
/** The data of the page: JSON, or JSON that is deflated and in base64, see `fill_page`. */
async function readData() {
  const { type, textContent } = document.getElementById("data");
  if (type === "application/json") return JSON.parse(textContent);
  const bytes = Uint8Array.from(atob(textContent), (letter) => letter.charCodeAt(0));
  const json = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(json).text());
}
const MOST_CURVES = 300, MOST_POINTS = 3000, MOST_LINES = 1000, LEVELS = 8, CELLS = 28, NONE = "(none)";
// The states of a trial, in the order of legends, and the class of each.
const KINDS = { finished: "finished", stopped: "stopped", failed: "failed", interrupted: "interrupted", running: "running", pending: "pending", "not started": "pending" };
const STATES = ["running", "pending", "finished", "stopped", "failed", "interrupted", "not started"];
const kindOf = (trial) => KINDS[trial.status] ? trial.status : "running";

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
  // A whole number is exact, unless there is room for a few digits only.
  if (Number.isInteger(value) && Math.abs(value) < (digits < 6 ? 1e6 : 1e15)) return String(value);
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
// The time that goes by, without parts that change too fast to be read.
function clockText(value) {
  const whole = Math.floor(value);
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  if (whole < 86400) return `${Math.floor(whole / 3600)} h ${Math.floor(whole / 60) % 60} min`;
  return `${Math.floor(whole / 86400)} d ${Math.floor(whole / 3600) % 24} h`;
}
const counted = (count, name) => `${count} ${name}${count === 1 ? "" : "s"}`;
const isSelected = (host) => { const now = getSelection(); return now && !now.isCollapsed && host.contains(now.anchorNode); };
// What an update shows anew: the content of `host`, if `key` differs from that of the last call. A selected text stays until
// the reader lets go of it.
const waiting = new Map();
function put(host, key, build) {
  waiting.delete(host);
  if (host.shownKey === key) return;
  if (isSelected(host)) { waiting.set(host, () => put(host, key, build)); return; }
  host.shownKey = key;
  host.replaceChildren(...build().filter((child) => child !== null && child !== undefined && child !== ""));
}
document.addEventListener("selectionchange", () => { for (const [host, show] of [...waiting]) { if (!isSelected(host)) show(); } });
function tell(host, value) { if (host.textContent !== value) host.textContent = value; }
const date = (at) => at ? new Date(at * 1000).toLocaleString() : "";
const cut = (value, most) => value.length > most ? `${value.slice(0, Math.max(1, most - 1))}…` : value;
const finite = (values) => values.filter(isNumber);
function range(values) {
  let low = Infinity, high = -Infinity;
  for (const value of values) { if (value < low) low = value; if (value > high) high = value; }
  return [low, high];
}
// At most `most` trials, in their order: one third are the best ones, the others are evenly spaced.
function thinned(run, trials, most) {
  if (trials.length <= most) return trials;
  const order = new Map(trials.map((trial) => { const value = run.valueOf(trial); return [trial, isNumber(value) ? run.signShown * value : Infinity]; }));
  const ranked = [...trials].sort((a, b) => order.get(a) - order.get(b));
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
  // So many digits that neighbours differ: a few for 2e+08 and 4e+08, all of them for time stamps.
  const digits = Math.min(8, Math.max(3, Math.ceil(Math.log10(Math.max(Math.abs(low), Math.abs(high)) / step)) + 1));
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) found.push([i * step, number(i * step, digits)]);
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
// The axis of values of which smaller ones are better if `sign` is 1. Its range is that of the better part, unless `isWhole`:
// one diverged trial must not squeeze the others. What is worse than that lies at the edge; `beyond` counts it.
function valueAxis(name, values, sign, { isLog = false, isWhole = false } = {}) {
  const bad = finite(values).map((value) => sign * value).sort((a, b) => a - b);
  const upper = bad[Math.floor((bad.length - 1) * 0.75)], limit = upper + 3 * (upper - bad[0]);
  const isCut = bad.length > 3 && limit > bad[0] && bad[bad.length - 1] > limit + 2 * (limit - bad[0]);
  if (isLog || !isCut) return Object.assign(numberAxis(name, values, { isLog }), { beyond: 0, isCut: false });
  const axis = numberAxis(name, values.filter((value) => sign * value <= limit));
  if (isWhole) return Object.assign(numberAxis(name, values), { beyond: 0, isCut: true });
  const edge = sign > 0 ? axis.high : axis.low;
  return { ...axis, at: (value) => sign * value > limit ? edge : value, beyond: bad.filter((value) => value > limit).length, isCut: true };
}
function categoryAxis(name, values) {
  const texts = [...new Set(values.map(text))];
  const indices = new Map(texts.map((label, index) => [label, index]));
  return {
    name, isLog: false, isCategory: true, low: -0.5, high: Math.max(texts.length, 1) - 0.5, kind: "category", texts,
    at: (value) => indices.get(text(value)) ?? NaN,
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
    if (!known.length) there.sort((a, b) => text(a).localeCompare(text(b), undefined, { numeric: true }));
    return categoryAxis(name, [...known, ...there, ...(isMissing ? [undefined] : [])]);
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
function save(name, content, type) {
  const link = el("a", { href: URL.createObjectURL(new Blob([content], { type })), download: name.replace(/[^\w.-]+/g, "_") });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
// A plot as a file of its own: the styles that it has here are written into its elements.
const DRAWN_STYLES = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-linecap", "stroke-linejoin", "opacity", "font-size", "font-family", "paint-order"];
function svgText(svg) {
  const copied = svg.cloneNode(true), from = [svg, ...svg.querySelectorAll("*")], to = [copied, ...copied.querySelectorAll("*")];
  from.forEach((one, index) => { const style = getComputedStyle(one); for (const name of DRAWN_STYLES) to[index].setAttribute(name, style.getPropertyValue(name)); });
  const [, , width, height] = svg.getAttribute("viewBox").split(" ");
  copied.setAttribute("xmlns", "http://www.w3.org/2000/svg"); copied.setAttribute("width", width); copied.setAttribute("height", height);
  copied.prepend(shape("rect", { width, height, fill: getComputedStyle(document.documentElement).getPropertyValue("--card").trim() }));
  return new XMLSerializer().serializeToString(copied);
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
    if (event.pointerType === "touch") { if (hit) showTip(event, hit.text()); }
    if (event.button !== 0) return;
    this.from = this.position(event); this.hit = hit; this.moved = false;
    const end = (last) => {
      window.removeEventListener("pointerup", end); window.removeEventListener("pointercancel", end);
      const from = this.from;
      this.from = null; this.over.setAttribute("d", "");
      if (last.type !== "pointerup") return;
      const to = this.position(last);
      const trial = this.hit && this.hit.trial, isTouch = event.pointerType === "touch";
      // A finger covers what it points at, so its first tap tells what it hits, and the next one opens that.
      if (this.moved && !isTouch && this.onRange) this.onRange(this.toX(from[0]), this.toY(from[1]), this.toY(to[1]));
      else if (this.moved && !isTouch && this.spec.zooms !== false) this.zoomTo(from, to);
      else if (trial && this.onOpen && (!isTouch || trial === this.tapped)) this.onOpen(trial);
      this.tapped = isTouch ? trial : null;
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
  constructor(view, title, render, { isWide = false, there = () => true } = {}) {
    this.render = render; this.there = there; this.isDirty = true; this.isSeen = false; this.charts = [];
    this.controls = el("div", { className: "controls" });
    this.legend = el("div", { className: "chips" });
    this.scale = el("div", { className: "scale", hidden: true });
    this.body = el("div", { className: "plot" });
    this.note = el("p", { className: "note" });
    this.title = el("h3", {}, title);
    this.back = el("button", { type: "button", hidden: true, onclick: () => this.charts.forEach((chart) => chart.reset()) }, "whole plot");
    this.root = el("section", { className: isWide ? "card wide" : "card" },
      el("div", { className: "head" }, this.title, this.controls, this.back,
      el("button", { type: "button", className: "svg", title: "download as SVG", onclick: () => this.charts.filter((chart) => chart.host.clientWidth).forEach((chart, index) => save(`${view}${index ? index + 1 : ""}.svg`, svgText(chart.svg), "image/svg+xml")) }, "SVG")), this.legend, this.scale, this.body, this.note);
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
  select(label, settings, name, options, onChange = () => this.mark()) {
    const choice = el("select", { onchange: () => { settings[name] = choice.value; this.zoomless(); onChange(); } });
    choice.dataset.name = name;
    const root = el("label", {}, label, choice);
    this.controls.append(root);
    const fill = (values) => {
      root.hidden = values.length < 2;
      if (values.some(([value]) => value === settings[name])) choice.value = settings[name];
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
  // The button that shows all values where a plot has outliers, see `valueAxis`.
  edge(axis, settings) {
    if (!this.all) {
      this.all = el("button", { type: "button", onclick: () => { settings.isWhole = !settings.isWhole; this.zoomless(); this.mark(); } });
      this.all.dataset.name = "isWhole";
      this.controls.append(this.all);
    }
    this.all.hidden = !axis.isCut;
    this.all.textContent = settings.isWhole ? "better part" : "all values";
    return axis.beyond ? `${axis.beyond} much worse ${axis.beyond === 1 ? "value lies" : "values lie"} at the edge. ` : "";
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
  levels(run, values) {
    const ordered = values.map((value) => run.signShown * value), ends = range(ordered).map((end, index) => `${run.endNames[index]} ${number(run.signShown * end, 4)}`);
    this.scale.hidden = false;
    this.scale.replaceChildren(ends[0], ...Array.from({ length: LEVELS }, (_, level) => el("i", { className: `c${level}` })), ends[1]);
  }
}
addEventListener("beforeprint", () => { for (const card of cards) card.refresh(true); for (const view of tables) view.showAll(true); });
addEventListener("afterprint", () => { for (const view of tables) view.showAll(false); });

// -- one run ----------------------------------------------------------------------------------------------------------
class Run {
  constructor(data, index) {
    this.index = index; this.data = data;
    this.trials = data.trials;
    this.byNumber = new Map(this.trials.map((trial) => [trial.number, trial]));
    this.hidden = new Set(); this.filter = null;
    this.hear();
  }
  // The time of the run's machine now. A file stands still; a page that is served goes on by the browser's own clock.
  hear() { this.heard = performance.now(); this.frozen = null; }
  get clock() {
    const goesOn = this.isServed && this.data.is_live;
    return this.data.now_s + (goesOn ? ((this.frozen ?? performance.now()) - this.heard) / 1000 : 0);
  }
  freeze() { if (this.frozen === null) this.frozen = performance.now(); }
  get elapsed() { return this.data.worked_s + this.clock - this.data.now_s; }
  quiet(trial) { return trial.reported_s === null ? null : Math.max(0, this.now - trial.reported_s); }
  update(data) {
    this.hear();
    for (const trial of data.trials) {
      const known = this.byNumber.get(trial.number);
      if (known) this.trials[this.trials.indexOf(known)] = trial;
      else this.trials.push(trial);
      this.byNumber.set(trial.number, trial);
    }
    this.trials.sort((a, b) => a.number - b.number);
    this.data = { ...data, trials: this.trials };
  }
  // The metric of all plots and of the order of parameters: the objective, unless another one was chosen.
  get metricNames() { return [...new Set([this.data.metric, ...this.data.metrics])].filter(Boolean); }
  get metricShown() { const { metric, metrics } = this.data; return this.metric && metrics.includes(this.metric) ? this.metric : metric || metrics[0] || ""; }
  signOf(name) { return name === this.data.metric ? this.sign : this.data.objectives[name] === "max" ? -1 : 1; }
  get sign() { return this.data.mode === "max" ? -1 : 1; }
  get signShown() { return this.signOf(this.metricShown); }
  valueOf(trial) { return metricOf(this, trial, this.metricShown); }
  // Of a metric that is no objective, nothing says what is better.
  get isObjectiveShown() { return this.metricShown === this.data.metric || this.metricShown in this.data.objectives; }
  get endNames() { return this.isObjectiveShown ? ["best", "worst"] : ["lowest", "highest"]; }
  // The best trial of the objective that is shown; beside another metric, that of the run.
  get best() {
    const name = this.metricShown;
    if (name === this.data.metric || !this.isObjectiveShown) return this.byNumber.get(this.data.best);
    const value = (trial) => this.signShown * this.valueOf(trial);
    return this.scored.filter((trial) => kindOf(trial) !== "failed").reduce((a, b) => !a || value(b) < value(a) ? b : a, undefined);
  }
  get aimed() { return this.trials.filter((trial) => isNumber(trial.value)); }  // those with a value of the run's objective
  get importances() { return this.data.importances[this.metricShown]; }
  get scored() { return this.trials.filter((trial) => isNumber(this.valueOf(trial))); }
  // One selection holds for all plots and the table: the states that are not switched off, and the filter.
  isChosen(trial) { return !this.hidden.has(kindOf(trial)) && (!this.filter || this.filter(trial)); }
  get isFiltered() { return this.hidden.size > 0 || Boolean(this.filter); }
  get shown() { return this.scored.filter((trial) => this.isChosen(trial)); }
  get now() { return Math.max(0, this.clock - this.data.first_s); }
  spans(trial) { return trial.working_s === null ? trial.spans : [...trial.spans, [trial.working_s, Math.max(trial.working_s, this.now)]]; }
  worked(trial) { return trial.counted_s + (trial.since_s === null ? 0 : Math.max(0, this.now - trial.since_s)); }
  // The parameters that took more than one value, the most important one first.
  get params() {
    const varied = this.data.params.filter((name) => new Set(this.trials.map((trial) => text(trial.params[name]))).size > 1);
    const { shares } = this.importances || { shares: {} };
    return varied.sort((a, b) => (shares[b] ?? -1) - (shares[a] ?? -1));
  }
  about(trial) {
    const data = this.data;
    const lines = [`trial ${trial.number} · ${trial.ended}`];
    for (const name of new Set([data.metric, ...Object.keys(data.objectives), this.metricShown])) {
      const value = metricOf(this, trial, name);
      if (isNumber(value)) lines.push(`${name}: ${number(value)}`);
    }
    for (const name of this.params.slice(0, 10)) { if (name in trial.params) lines.push(`${name}: ${cut(text(trial.params[name]), 60)}`); }
    if (trial.error) lines.push(cut(trial.error, 160));
    return lines.join("\n");
  }
}
// The choice of the metric, which holds for all plots and the order of the table. Runs that lack it show their own.
class MetricChoice {
  constructor(runs, onChange) {
    this.runs = runs;
    this.choice = el("select", { onchange: () => {
      for (const run of runs) run.metric = this.choice.value;
      for (const card of cards) { card.zoomless(); card.mark(); }
      onChange();
    } });
    this.choice.dataset.name = "metric";
    this.root = el("label", { className: "metric" }, el("span", {}, "metric"), this.choice);
    this.fill();
  }
  fill() {
    // Runs with different objectives begin with these.
    const isMixed = new Set(this.runs.map((run) => run.data.metric)).size > 1;
    const names = [...new Set([...(isMixed ? [""] : []), ...this.runs.flatMap((run) => run.metricNames)])], key = names.join("\n");
    this.root.hidden = names.length < 2;
    if (this.choice.dataset.key !== key) {
      this.choice.dataset.key = key;
      this.choice.replaceChildren(...names.map((name) => el("option", { value: name }, cut(name, 40) || "that of each run")));
    }
    this.choice.value = isMixed ? this.runs[0].metric || "" : this.runs[0].metricShown;
  }
}
// Levels of colour: 0 for the best trial, the last for the worst one. By rank, so that one diverged trial leaves the colours
// of the others apart, or by value.
function levelsOf(run, trials, by, valueOf = (trial) => run.valueOf(trial)) {
  const sign = run.signShown, scored = [...trials].sort((a, b) => sign * (valueOf(a) - valueOf(b)));
  const [low, high] = range(trials.map((trial) => sign * valueOf(trial)));
  return new Map(scored.map((trial, rank) => {
    const share = by === "rank" ? rank / Math.max(1, scored.length - 1) : (sign * valueOf(trial) - low) / ((high - low) || 1);
    return [trial, Math.min(LEVELS - 1, Math.floor(share * LEVELS))];
  }));
}
// The values of trials at one step, so that a trial that was stopped early is not compared with one that went on: the last
// step that half of them have reached. `step` is null if their last values are at the same step anyway.
function comparable(run, trials) {
  const last = (trial) => trial.steps ? trial.steps[trial.steps.length - 1] : trial.curve.length;
  const ends = trials.map(last).sort((a, b) => a - b), own = () => new Map(trials.map((trial) => [trial, run.valueOf(trial)]));
  const step = ends[Math.floor((ends.length - 1) / 2)];
  if (!ends.length || ends[0] === ends[ends.length - 1]) return { step: null, values: own() };
  const at = (trial) => (curveOf(run, trial, run.metricShown).findLast(([own]) => own === step) || [])[1];
  const values = new Map(trials.map((trial) => [trial, at(trial)]).filter(([, value]) => isNumber(value)));
  // Trials that report at different steps have none in common.
  return 2 * values.size < trials.length ? { step: null, values: own() } : { step, values };
}
const BY = [["trial", "trial"], ["start", "start"], ["end", "end"], ["work", "work spent"]];
const BY_NAMES = { trial: "trial", start: "start of the trial", end: "end of the trial", work: "work of all trials until its end" };
function positionsBy(run, by) {
  if (by === "trial") return new Map(run.trials.map((trial) => [trial, trial.number]));
  const begun = run.trials.map((trial) => [trial, run.spans(trial)]).filter(([, spans]) => spans.length);
  if (by === "start") return new Map(begun.map(([trial, spans]) => [trial, Math.max(0, spans[0][0])]));
  const ends = begun.map(([trial, spans]) => [trial, Math.max(0, spans[spans.length - 1][1])]).sort((a, b) => a[1] - b[1]);
  if (by === "end") return new Map(ends);
  let spent = 0;
  return new Map(ends.map(([trial]) => [trial, spent += run.worked(trial)]));
}
function bestSoFar(run, positions) {
  const line = [], sign = run.signShown;
  let best = Infinity;
  for (const trial of run.scored.filter((one) => positions.has(one) && !one.repeats).sort((a, b) => positions.get(a) - positions.get(b))) {
    best = Math.min(best, sign * run.valueOf(trial));
    line.push([positions.get(trial), sign * best]);
  }
  return line;
}
function kindChips(card, run, redraw) {
  const counts = {};
  for (const trial of run.trials) counts[kindOf(trial)] = (counts[kindOf(trial)] || 0) + 1;
  card.chips(Object.keys(KINDS).filter((kind) => counts[kind]).map((kind) => [kind, `${kind} ${counts[kind]}`, KINDS[kind], !run.hidden.has(kind)]),
    (kind) => { if (!run.hidden.delete(kind)) run.hidden.add(kind); redraw(); });
}
// The [step, value] pairs of a metric of a trial.
function curveOf(run, trial, name) {
  const stepAt = (i) => trial.steps ? trial.steps[i] : i + 1;
  if (name === run.data.metric) return trial.curve.map((value, i) => [stepAt(i), value]).filter(([, value]) => isNumber(value));
  const values = trial.others && trial.others.values[name];
  if (!values) return [];
  return values.map((value, i) => [stepAt(trial.others.at ? trial.others.at[i] : i), value]).filter(([, value]) => isNumber(value));
}
// The steps after which a trial went on from the checkpoint of another one.
const exploitsOf = (trial) => trial.copies.filter(([donor]) => donor !== trial.number).map(([, step]) => step);
// Whether a point is the first one after an exploit. The other checkpoint may be of an earlier step.
const isNewBegin = (exploits, points, index) => index > 0 && (exploits.includes(points[index - 1][0]) || points[index][0] <= points[index - 1][0]);
// The points of a curve with a gap at each exploit: no line leads from one training to another.
function broken(trial, points) {
  const exploits = exploitsOf(trial);
  if (!exploits.length) return points;
  return points.flatMap((point, index) => isNewBegin(exploits, points, index) ? [[NaN, NaN], point] : [point]);
}
const axisPoints = (x, y, pairs) => pairs.map(([a, b]) => [x.at(a), y.at(b)]);
const hit = (run, x, y, trial) => ({ x, y, trial, text: () => run.about(trial) });
const markLayers = (run, trials, point) => Object.keys(KINDS).map((kind) => ({
  kind: "points", style: `marks${trials.length > 600 ? " many" : ""}`, mark: kind, cls: KINDS[kind],
  points: trials.filter((trial) => kindOf(trial) === kind).map(point),
}));
const bestLayer = (run, point) => {
  const best = run.best;
  return { kind: "points", style: "thick", mark: "running", cls: "best", points: best && isNumber(run.valueOf(best)) ? [point(best)] : [] };
};

function plotsOf(run, open, redraw, only) {
  const settings = { by: "trial", isLog: false, ...(only || {}) };
  const made = [];
  const add = (view, title, render, options) => { if (!only || only.view === view) made.push(new Card(view, title, render, options)); return made[made.length - 1]; };
  const wants = (view) => !only || only.view === view;

  if (wants("history")) {
    const card = add("history", "History", () => {
      const positions = positionsBy(run, settings.by);
      const isObjective = run.isObjectiveShown, valueOf = (trial) => run.valueOf(trial);
      const trials = run.shown.filter((trial) => positions.has(trial));
      const isTime = settings.by !== "trial";
      log.disabled = !(range(run.scored.map(valueOf))[0] > 0);
      log.title = log.disabled ? "some values are not positive" : "";
      const line = isObjective ? bestSoFar(run, positions) : [];
      const x = numberAxis(BY_NAMES[settings.by], [...positions.values()], { isTime, isInteger: !isTime, fromZero: isTime });
      const y = valueAxis(run.metricShown, [...trials.map(valueOf), ...line.slice(-1).map(([, value]) => value)], run.signShown, { isLog: settings.isLog && !log.disabled, isWhole: settings.isWhole });
      const point = (trial) => [x.at(positions.get(trial)), y.at(valueOf(trial))];
      const best = run.best;
      kindChips(card, run, redraw);
      card.chart(0, open).draw({ x, y, hits: trials.map((trial) => hit(run, ...point(trial), trial)), layers: [
        ...markLayers(run, trials, point), { kind: "lines", style: "thick", cls: "best", isStep: true, lines: line.length ? [axisPoints(x, y, line)] : [] },
        { kind: "points", style: "thick", mark: "running", cls: "best", points: best && positions.has(best) && isNumber(valueOf(best)) ? [point(best)] : [] }] });
      card.note.textContent = `${card.edge(y, settings)}${isObjective ? `The line is the best so far.${run.isFiltered ? " It counts trials that are not selected, too." : ""}` : ""}`;
    }, { there: () => run.scored.length > 0 });
    card.select("by", settings, "by", BY);
    const log = card.check("log", settings, "isLog");
  }

  if (wants("curves")) {
    const own = {};
    const card = add("curves", "Learning curves", () => {
      const name = run.metricShown;
      const allowed = run.trials.filter((trial) => run.isChosen(trial) && curveOf(run, trial, name).length);
      const trials = thinned(run, allowed, MOST_CURVES), best = run.best;
      const curves = new Map(trials.map((trial) => [trial, curveOf(run, trial, name)]));
      const values = [...curves.values()].flat();
      log.disabled = !(range(values.map(([, value]) => value))[0] > 0);
      const x = numberAxis("training iteration", values.map(([step]) => step), { isInteger: true });
      const y = valueAxis(name, values.map(([, value]) => value), run.signShown, { isLog: settings.isLogCurves && !log.disabled, isWhole: own.isWhole });
      const layers = Object.keys(KINDS).map((kind) => ({
        kind: "lines", style: `lines${trials.length > 60 ? " many" : ""}`, cls: KINDS[kind], lines: trials.filter((trial) => kindOf(trial) === kind).map((trial) => axisPoints(x, y, broken(trial, curves.get(trial)))) }));
      const ends = (kind) => trials.filter((trial) => kindOf(trial) === kind).map((trial) => axisPoints(x, y, curves.get(trial).slice(-1))[0]);
      for (const kind of ["stopped", "failed"]) layers.push({ kind: "points", style: "marks", mark: kind, cls: kind, points: trials.length <= 100 ? ends(kind) : [] });
      if (best && curves.has(best)) layers.push({ kind: "lines", style: "thick", cls: "best", lines: [axisPoints(x, y, broken(best, curves.get(best)))] });
      const hits = trials.flatMap((trial) => curves.get(trial).map(([step, value]) => ({ x: x.at(step), y: y.at(value), trial,
        text: () => `iteration ${number(step)}: ${number(value)}\n${run.about(trial)}${trial.why ? `\n${cut(trial.why, 160)}` : ""}` })));
      kindChips(card, run, redraw);
      const breaks = trials.filter((trial) => exploitsOf(trial).length).flatMap((trial) => curves.get(trial).filter((_, index, all) => isNewBegin(exploitsOf(trial), all, index)));
      if (breaks.length) layers.push({ kind: "points", style: "marks", mark: "interrupted", cls: "best", points: axisPoints(x, y, breaks) });
      card.chart(0, open).draw({ x, y, layers, hits });
      card.note.textContent = `${card.edge(y, own)}${breaks.length ? "A line ends where its trial took over the checkpoint of another one, and starts again at the diamond. " : ""}${trials.length < allowed.length ? `${trials.length} of ${allowed.length} curves: the best third, and an even choice of the others. ` : ""}${best ? `The thick line is the best trial, ${best.number}.` : ""}`;
    }, { there: () => run.trials.some((trial) => curveOf(run, trial, run.metricShown).length > (only ? 0 : 1)) });
    settings.isLogCurves = false;
    const log = card.check("log", settings, "isLogCurves");
  }

  if (wants("front") && Object.keys(run.data.objectives).length > 1) addFront(run, open, add, settings, redraw);
  if (wants("importances")) {
    const card = add("importances", "What matters", () => {
      const importances = run.importances;
      card.note.textContent = importances.note;
      const names = Object.keys(importances.shares).slice(0, 20);
      card.body.hidden = !names.length;
      if (!names.length) return;
      const y = categoryAxis("", [...names].reverse());
      const x = numberAxis(`importance for ${run.metricShown} (shares of 1)`, names.map((name) => importances.shares[name]), { fromZero: true });
      const hits = names.map((name) => { const at = y.at(name), to = importances.shares[name];
        return { x: to, y: at, box: [0, at - 0.35, Math.max(to, x.high * 0.02), at + 0.35], text: () => `${name}: ${to.toFixed(2)}` }; });
      card.chart(0).draw({ x, y, zooms: false, height: 75 + 30 * names.length, hits,
        layers: [{ kind: "bars", cls: "finished", boxes: names.map((name) => [0, y.at(name) - 0.32, importances.shares[name], y.at(name) + 0.32]) }] });
    }, { there: () => run.importances && (only || Object.keys(run.importances.shares).length) });
  }

  if (wants("contour")) {
    const own = { colour: settings.colour || "rank", isChosen: Boolean(settings.params), metric: run.metricShown, x: (settings.params || [])[0], y: (settings.params || [])[1] };
    const card = add("contour", "Two parameters", () => {
      const names = run.params;
      if (!own.isChosen && own.metric !== run.metricShown) { own.x = names[0]; own.y = names[1]; }
      own.metric = run.metricShown;
      if (!own.y) own.y = names[1];
      const options = names.map((name) => [name, name]);
      fillX(options); fillY(options);
      const { step, values } = comparable(run, run.shown.filter((trial) => kindOf(trial) !== "failed" && own.x in trial.params && own.y in trial.params));
      const trials = thinned(run, [...values.keys()], MOST_POINTS);
      if (!trials.length) { card.scale.hidden = true; return card.none(); }
      const x = paramAxis(run, own.x, trials), y = paramAxis(run, own.y, trials);
      const levels = levelsOf(run, trials, own.colour, (trial) => values.get(trial));
      const isStrip = x.isCategory || y.isCategory;
      // Points of one category lie beside each other, always at the same position.
      const spread = (axis, trial, share) => axis.isCategory ? ((trial.number * share) % 1 - 0.5) * 0.6 : 0;
      const point = (trial) => [x.at(trial.params[own.x]) + spread(x, trial, 0.618034), y.at(trial.params[own.y]) + spread(y, trial, 0.754878)];
      const points = trials.map((trial) => [...point(trial), levels.get(trial), trial]);
      const layers = isStrip ? [] : surface(x, y, points);
      if (isStrip) for (let level = LEVELS - 1; level >= 0; level--) layers.push({ kind: "points", style: "seen", cls: `c${level}`, mark: "dot", points: points.filter(([, , of]) => of === level) });
      else layers.push({ kind: "points", style: `seen ring${points.length > 300 ? " many" : ""}`, mark: "dot", points }, { kind: "points", style: `seen inner${points.length > 300 ? " many" : ""}`, mark: "dot", points });
      layers.push({ kind: "points", style: "thick", mark: "running", cls: "best", points: values.has(run.best) ? [point(run.best)] : [] });
      card.chart(0, open).draw({ x, y, layers, hits: points.map(([a, b, , trial]) => hit(run, a, b, trial)) });
      card.levels(run, trials.map((trial) => values.get(trial)));
      const left = run.shown.length - values.size;
      card.note.textContent = `${isStrip ? "Each point is a trial" : "The colour is a weighted mean of the trials near it; the points are the trials"}${step === null ? "" : `, by their values at iteration ${number(step)}`}.${left > 0 ? ` ${counted(left, "trial")} without both parameters${step === null ? "" : " or that iteration"}, or failed, ${left === 1 ? "is" : "are"} not there.` : ""}`;
    }, { there: () => run.params.length > 1 && run.scored.length > 2 });
    const names = run.params.map((name) => [name, name]);
    const choose = () => { own.isChosen = true; card.mark(); };
    const fillX = card.select("x", own, "x", names, choose);
    if (!own.y) own.y = run.params[1];
    const fillY = card.select("y", own, "y", names, choose);
    card.select("colour by", own, "colour", [["rank", "rank"], ["value", "value"]]);
  }

  if (wants("slice")) {
    const whole = {};
    settings.slices = settings.params ? new Set(settings.params) : null;
    const card = add("slice", "Slices", () => {
      const names = run.params, trials = thinned(run, run.shown, MOST_POINTS), values = trials.map((trial) => run.valueOf(trial));
      for (const name of settings.params || []) { if (!names.includes(name)) names.push(name); }
      const chosen = settings.slices || new Set(names.slice(0, 3));
      card.legend.classList.add("choose");
      card.chips(names.slice(0, 40).map((name) => [name, name, "", chosen.has(name)]), (name) => {
        settings.slices = new Set(chosen);
        if (!settings.slices.delete(name)) settings.slices.add(name);
        card.mark();
      });
      card.body.className = "panels";
      const y = valueAxis(run.metricShown, values, run.signShown, { isLog: settings.isLog && range(values)[0] > 0, isWhole: whole.isWhole });
      names.filter((name) => chosen.has(name)).forEach((name, index) => {
        if (!card.panels[index]) { card.panels[index] = card.body.appendChild(el("div", { className: "plot" })); card.panelNames[index] = name; }
        card.panels[index].hidden = false;
        const chart = card.chart(index, open, card.panels[index]);
        if (card.panelNames[index] !== name) { chart.zoom = null; card.panelNames[index] = name; }
        const x = paramAxis(run, name, trials);
        const point = (trial) => [x.at(trial.params[name]), y.at(run.valueOf(trial))];
        chart.draw({ x, y, height: 250, layers: [...markLayers(run, trials, point), bestLayer(run, point)], hits: trials.map((trial) => hit(run, ...point(trial), trial)) });
      });
      const count = names.filter((name) => chosen.has(name)).length;
      card.panels.forEach((panel, index) => { panel.hidden = index >= count; });
      card.note.textContent = count ? card.edge(y, whole) : "Choose a parameter.";
    }, { isWide: true, there: () => run.scored.length > 0 && (run.params.length > 0 || settings.params) });
    card.panels = []; card.panelNames = [];
  }

  if (wants("parallel")) {
    const card = add("parallel", "Parallel coordinates", () => {
      let names = settings.params || run.params;
      const trials = thinned(run, run.shown, MOST_LINES);
      if (!trials.length) return card.none();
      const room = Math.max(2, Math.floor(card.body.clientWidth / 84) - 1), all = names.length;
      names = names.slice(0, room);
      // Of all trials, so that a range that was dragged can be made wider.
      const axes = names.map((name) => paramAxis(run, name, run.scored)), values = run.scored.map((trial) => run.valueOf(trial));
      const objective = valueAxis(run.metricShown, values, run.signShown, { isLog: settings.isLog && range(values)[0] > 0 });
      drawParallel(card, run, open, [...axes, objective], names, trials);
      card.levels(run, trials.map((trial) => run.valueOf(trial)));
      card.note.textContent = `${all > names.length ? `The ${names.length} most important of ${all} parameters fit here. ` : ""}${trials.length < run.shown.length ? `${trials.length} of ${run.shown.length} trials: the best third, and an even choice of the others.` : ""}`;
    }, { isWide: true, there: () => run.scored.length > 0 && (settings.params || run.params).length > (only ? 0 : 1) });
  }

  if (wants("timeline")) {
    const card = add("timeline", "Workers", () => {
      const rows = workers(run);
      const count = Math.max(...rows.map((row) => row.worker)) + 1;
      const x = numberAxis("since the first trial began", rows.map((row) => row.end), { isTime: true, fromZero: true });
      const y = { ...numberAxis("worker", [0, count - 1], { isInteger: true }), low: -0.6, high: count - 0.4 };
      kindChips(card, run, redraw);
      const bars = rows.filter((row) => run.isChosen(row.trial));
      const box = (row) => [row.begin, row.worker - 0.4, row.end, row.worker + 0.4];
      card.chart(0, open).draw({ x, y, height: Math.max(150, Math.min(420, 80 + 26 * count)),
        layers: Object.keys(KINDS).map((kind) => ({ kind: "bars", cls: KINDS[kind], boxes: bars.filter((row) => kindOf(row.trial) === kind).map(box) })),
        hits: bars.map((row) => ({ x: row.begin, y: row.worker, trial: row.trial, box: box(row), text: () => `${seconds(row.end - row.begin)}\n${run.about(row.trial)}` })) });
    }, { isWide: true, there: () => run.trials.some((trial) => trial.spans.length || trial.working_s !== null) });
  }

  if (only && wants("edf")) addEdf([run], add);
  const copiesOf = () => run.trials.flatMap((trial) => trial.copies.filter(([donor]) => donor !== trial.number).map(([donor, step]) => [donor, step, trial.number]));
  if (wants("lineage")) {
    const card = add("lineage", "Lineage of the population", () => {
      const copies = copiesOf();
      const trials = run.trials.filter((trial) => trial.curve.length);
      const last = (trial) => trial.steps ? trial.steps[trial.steps.length - 1] : trial.curve.length;
      const x = numberAxis("training iteration", [0, ...trials.map(last)], { isInteger: true });
      const y = numberAxis("trial", trials.map((trial) => trial.number), { isInteger: true });
      card.legend.replaceChildren(el("span", { className: "quiet" }, "grey: training; blue: a copy of another trial's checkpoint"));
      card.chart(0, open).draw({ x, y, layers: [
        { kind: "lines", cls: "faint", lines: trials.map((trial) => [[0, trial.number], [last(trial), trial.number]]) },
        { kind: "lines", style: "thick", cls: "finished", lines: copies.map(([donor, step, own]) => [[step, donor], [step, own]]) },
        { kind: "points", style: "marks", mark: "running", cls: "finished", points: copies.map(([, step, own]) => [step, own]) }],
        hits: [...copies.map(([donor, step, own]) => ({ x: step, y: own, trial: run.byNumber.get(own), text: () => `trial ${own} continued from trial ${donor} after iteration ${number(step)}` })),
          ...trials.map((trial) => hit(run, last(trial), trial.number, trial))] });
    }, { there: () => only || copiesOf().length > 0 });
  }
  return made;
}
const FAR = 0.12 ** 2;  // of the plot, squared: from there on, no trial says what the colour would be
// The colour of each cell is the mean level of the trials near it, weighted by their distance.
function surface(x, y, points) {
  const columns = CELLS, rows = CELLS;
  const width = (x.high - x.low) / columns, height = (y.high - y.low) / rows;
  const near = 2 / CELLS ** 2 * 3;
  const boxes = Array.from({ length: LEVELS }, () => []);
  const placed = points.filter(([a, b]) => isNumber(a) && isNumber(b));
  for (let column = 0; column < columns; column++) {
    for (let row = 0; row < rows; row++) {
      const cx = x.low + (column + 0.5) * width, cy = y.low + (row + 0.5) * height;
      let weight = 0, sum = 0, nearest = Infinity;
      for (const [a, b, level] of placed) {
        const dx = (a - cx) / (x.high - x.low), dy = (b - cy) / (y.high - y.low);
        nearest = Math.min(nearest, dx * dx + dy * dy);
        const own = 1 / (near / 6 + dx * dx + dy * dy) ** 2;
        weight += own; sum += own * level;
      }
      if (weight && nearest < FAR) boxes[Math.round(sum / weight)].push([x.low + column * width, y.low + row * height, x.low + (column + 1) * width, y.low + (row + 1) * height]);
    }
  }
  return boxes.map((of, level) => ({ kind: "cells", cls: `c${level}`, boxes: of }));
}
function drawParallel(card, run, open, axes, names, trials) {
  const levels = levelsOf(run, trials, "rank");
  const share = (axis, value) => (axis.at(value) - axis.low) / ((axis.high - axis.low) || 1);
  const last = axes.length - 1;
  const lineOf = (trial) => axes.map((axis, index) => [index, share(axis, index < last ? trial.params[names[index]] : run.valueOf(trial))]);
  const byLevel = Array.from({ length: LEVELS }, () => []);
  const lines = new Map(trials.map((trial) => [trial, lineOf(trial)]));
  for (const [trial, line] of lines) byLevel[levels.get(trial)].push(line);
  const plain = (low, high) => ({ low, high, hidden: true, ticks: () => [], name: "" });
  const chart = card.chart(0, open);
  chart.draw({ x: plain(-0.45, last + 0.45), y: plain(-0.06, 1.12), height: 330, zooms: false,
    layers: [{ kind: "lines", style: "grid", lines: axes.map((_, index) => [[index, 0], [index, 1]]) },
      ...byLevel.map((of, level) => ({ kind: "lines", cls: `c${level}`, lines: of })).reverse()],
    hits: trials.flatMap((trial) => lines.get(trial).map(([x, y]) => hit(run, x, y, trial))) });
  // A range that is dragged along an axis becomes a part of the filter.
  chart.onRange = card.onRange && ((x, from, to) => {
    const index = Math.round(x), axis = axes[index];
    if (!axis || Math.abs(x - index) > 0.3) return;
    const [low, high] = [Math.min(from, to), Math.max(from, to)].map((at) => axis.low + at * (axis.high - axis.low));
    const name = /^[^\s()<>=!,"']+$/.test(axis.name) ? axis.name : `"${axis.name}"`;
    if (axis.isCategory) {
      const [inside, outside] = [true, false].map((isIn) => axis.texts.filter((_, category) => (category >= low && category <= high) === isIn));
      if (inside.length) card.onRange(name, inside.length > 1 ? outside.map((one) => `${name} != "${one}"`).join(" ") : `${name} = "${inside[0]}"`);
    } else {
      const [least, most] = [low, high].map((at) => number(axis.isLog ? 10 ** at : at, 4));
      card.onRange(name, `${name} >= ${least} ${name} <= ${most}`);
    }
  });
  const { box } = chart, span = chart.xHigh - chart.xLow;
  const px = (at) => box.left + (at - chart.xLow) / span * box.width, py = (at) => box.top + box.height * (1 - (at - chart.yLow) / (chart.yHigh - chart.yLow));
  const room = Math.floor(box.width / axes.length / 7);
  axes.forEach((axis, index) => {
    const name = shape("text", { x: px(index), y: 14, "text-anchor": "middle" }, cut(axis.name, room));
    name.append(shape("title", {}, axis.name));
    chart.svg.append(name);
    for (const [at, label] of axis.ticks(axis.low, axis.high, axis.isCategory ? 12 : 4)) {
      const share = (at - axis.low) / ((axis.high - axis.low) || 1);
      if (share < 0 || share > 1) continue;
      chart.svg.append(shape("text", { class: "tick", x: px(index) + 4, y: py(share) + 4 }, cut(label, Math.max(4, room - 2))));
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
// The objective of runs that are compared; of different ones, all.
const metricsOf = (runs) => [...new Set(runs.map((run) => run.metricShown))].join(", ");
function addEdf(runs, add) {
  const card = add("edf", "Share of trials up to a value", () => {
    const scored = runs.map((run) => run.scored.map((trial) => run.valueOf(trial)).sort((a, b) => a - b));
    const all = scored.flat();
    const x = valueAxis(metricsOf(runs), all, runs[0].signShown, { isLog: own.isLog && range(all)[0] > 0, isWhole: own.isWhole });
    card.note.textContent = card.edge(x, own);
    const y = numberAxis("share of trials", [0, 1]);
    card.chart(0).draw({ x, y, layers: scored.map((values, index) => ({ kind: "lines", style: "thick", cls: runs.length > 1 ? `run${index % 8}` : "finished", isStep: true,
      lines: [values.map((value, i) => [x.at(value), (i + 1) / values.length])] })),
      hits: scored.flatMap((values, index) => values.map((value, i) => ({ x: x.at(value), y: (i + 1) / values.length, text: () => `${runs.length > 1 ? `${runs[index].data.name}\n` : ""}${number((i + 1) / values.length * 100, 3)}% of trials are at most ${number(value)}` }))) });
  }, { there: () => runs.some((run) => run.scored.length > 1) });
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
const metricOf = (run, trial, name) => name === run.data.metric ? trial.value : trial.metrics[name];
function objectivesOf(run) {
  const names = Object.keys(run.data.objectives);
  return { names, complete: () => run.trials.filter((trial) => kindOf(trial) !== "failed" && names.every((name) => isNumber(metricOf(run, trial, name)))),
    scoresOf: (trial) => names.map((name) => (run.data.objectives[name] === "max" ? -1 : 1) * metricOf(run, trial, name)) };
}
// The trials that no other one beats in all objectives. Equal ones are on the front together.
function frontOf(run) {
  const { complete, scoresOf } = objectivesOf(run);
  const trials = complete(), scores = new Map(trials.map((trial) => [trial, scoresOf(trial)]));
  let best = [];
  for (const trial of trials) {
    if (best.some((other) => dominates(scores.get(other), scores.get(trial)))) continue;
    best = [...best.filter((other) => !dominates(scores.get(trial), scores.get(other))), trial];
  }
  return { trials, scores, best };
}
// The ends of a front, and its knee: the trial that is nearest to the best value of each objective, on scales from 0 to 1.
function kneeOf(run, best, scores) {
  const names = Object.keys(run.data.objectives);
  const ranges = names.map((_, i) => range(best.map((trial) => scores.get(trial)[i])));
  const far = (trial) => Math.hypot(...scores.get(trial).map((value, i) => (value - ranges[i][0]) / ((ranges[i][1] - ranges[i][0]) || 1)));
  const least = (of) => best.reduce((a, b) => of(b) < of(a) ? b : a);
  return { ends: names.map((_, i) => least((trial) => scores.get(trial)[i])), knee: least(far) };
}
function kneeText(run, best, scores, names) {
  if (best.length < 3) return "";
  const { ends, knee } = kneeOf(run, best, scores);
  return ` Best ${names.map((name, i) => `${name} in trial ${ends[i].number}`).join(", best ")}; the knee is trial ${knee.number}.`;
}
function addFront(run, open, add, settings, redraw) {
  const names = Object.keys(run.data.objectives);
  const { complete, scoresOf } = objectivesOf(run);
  const own = { x: names[0], y: names[1], isWhole: false };
  const front = add("front", "Front", () => {
    const { trials, scores, best } = frontOf(run);
    const axisOf = (name) => {
      const mode = run.data.objectives[name];
      return valueAxis(`${name} (${mode})`, trials.map((trial) => metricOf(run, trial, name)), mode === "max" ? -1 : 1, { isWhole: own.isWhole });
    };
    const x = axisOf(own.x), y = axisOf(own.y);
    const atEdge = front.edge({ isCut: x.isCut || y.isCut, beyond: x.beyond + y.beyond }, own);
    const point = (trial) => [x.at(metricOf(run, trial, own.x)), y.at(metricOf(run, trial, own.y))];
    const shown = trials.filter((trial) => run.isChosen(trial));
    const line = best.map(point).sort((a, b) => a[0] - b[0] || a[1] - b[1]);
    kindChips(front, run, redraw);
    front.chart(0, open).draw({ x, y, layers: [...markLayers(run, shown, point), ...(names.length === 2 ? [{ kind: "lines", cls: "best", lines: [line] }] : []),
      { kind: "points", style: "thick", mark: "running", cls: "best", points: line }],
      hits: shown.map((trial) => ({ ...hit(run, ...point(trial), trial), text: () => `${best.includes(trial) ? "on the front: " : ""}${names.map((name) => `${name} ${number(metricOf(run, trial, name))}`).join(", ")}\n${run.about(trial)}` })) });
    front.note.textContent = atEdge + (best.length ? `On the front: ${best.length} of ${trials.length} trials (${cut(best.map((trial) => trial.number).join(", "), 120)}).${kneeText(run, best, scores, names)}` : "");
  }, { there: () => complete().length > 0 });
  if (names.length > 2) for (const name of ["x", "y"]) front.select(name, own, name, names.map((one) => [one, one]));
  if (settings.view) return;
  const volume = add("hypervolume", "Hypervolume", () => {
    const trials = complete();
    const scores = trials.map(scoresOf);
    // One diverged trial must not decide the volume.
    const axes = names.map((name, i) => valueAxis(name, scores.map((score) => score[i]), 1));
    const worst = axes.map((axis, i) => axis.isCut ? axis.high : range(scores.map((score) => score[i]))[1]);
    let best = [], now = 0;
    const line = trials.map((trial, i) => {
      if (!best.some((other) => dominates(other, scores[i]) || other.every((value, k) => value === scores[i][k]))) {
        best = [...best.filter((other) => !dominates(scores[i], other)), scores[i]];
        now = hypervolume(best, worst);
      }
      return [trial.number, now];
    });
    const x = numberAxis("trial", line.map(([at]) => at), { isInteger: true }), y = numberAxis("hypervolume", line.map(([, value]) => value), { fromZero: true });
    volume.chart(0, open).draw({ x, y, layers: [{ kind: "lines", style: "thick", cls: "finished", isStep: true, lines: [line] }],
      hits: line.map(([at, value], i) => ({ x: at, y: value, trial: trials[i], text: () => `after trial ${at}: ${number(value)}` })) });
    volume.note.textContent = `The part of the space of objectives, up to the worst value of each${axes.some((axis) => axis.isCut) ? " that is not far beyond the others" : ""}, that the front dominates.`;
  }, { there: () => complete().length > 1 });
}

// -- the table of trials ----------------------------------------------------------------------------------------------
const ROW = 28;
const NEAR = 12;  // so many rows above and below the window are there at least
const PEN = document.createElement("canvas").getContext("2d");  // measures texts of the table
PEN.font = `600 12.75px ${getComputedStyle(document.body).fontFamily}`;

// -- the filter -------------------------------------------------------------------------------------------------------
// The language of `minitune ls --filter`, see `conditions.py`: `name < value` and words, joined by spaces or `and`. A name is
// that of a column in any case, or its last part if that is unique. Other texts stand in quotes. One table of cases tests both
// readers.
class FilterError extends Error {}
const ORDERS = { __proto__: null, "<": (a, b) => a < b, "<=": (a, b) => a <= b, ">": (a, b) => a > b, ">=": (a, b) => a >= b };
const SIGNS = { __proto__: null, ...ORDERS, "=": (a, b) => a === b, "==": (a, b) => a === b, "!=": (a, b) => a !== b };
const VALUES_SHOWN = 10;
// A column has a name, `get` for the value of a row, perhaps `told` for its cell, and `also`, further names. A parameter that
// is None has a value; another value that is null is missing.
const isThere = (column, value) => value !== undefined && value !== "" && !Number.isNaN(value) && (value !== null || Boolean(column.isParam));
const cellText = (column, row) => { const value = (column.told || column.get)(row); return isThere(column, value) ? text(value) : ""; };
function columnNamed(name, columns) {
  const lower = name.toLowerCase(), also = (one) => one.also || [];
  for (const fits of [(one) => one.name === name, (one) => also(one).includes(name),
    (one) => [one.name, ...also(one)].some((each) => each.toLowerCase() === lower), (one) => one.name.toLowerCase().endsWith(`/${lower}`)]) {
    const found = columns.filter(fits);
    if (found.length > 1 && found[0].name !== found[1].name) throw new FilterError(`${name} is ${found.map((one) => one.name).join(" or ")}: write more of its name`);
    if (found.length) return found[0];
  }
  throw new FilterError(`there is no column '${name}'; there are ${[...new Set(columns.map((one) => one.name))].join(", ")}`);
}
// The text of a word, or between quotes.
function textIn(token) {
  if (token.length > 1 && `"'`.includes(token[0])) return token.slice(1, -1);
  if (token in SIGNS) throw new FilterError(`a name is missing before ${token}`);
  if (/^(or|not|in|.*[(),!"'].*)$/i.test(token)) throw new FilterError(`${token} cannot be read: a filter is \`name < value\` and words, joined by spaces or \`and\`; other texts need quotes`);
  return token;
}
function numberIn(words) {
  if (/^[+-]?inf(inity)?$/i.test(words)) return words[0] === "-" ? -Infinity : Infinity;
  return /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(words) ? Number(words) : null;
}
// Compares numbers with a number, and texts in small letters. A missing value is equal to nothing.
function comparison(column, sign, words, there) {
  const limit = numberIn(words), isCounted = (value) => typeof value === "number" || typeof value === "boolean";
  // A text can only be compared with a column of numbers by mistake. An empty table would hide it.
  if (limit === null && there.length && there.every((value) => typeof value === "number")) throw new FilterError(`${column.name} holds numbers, and ${words} is none`);
  return (row) => {
    const value = column.get(row);
    if (!isThere(column, value)) return sign === "!=";
    if (limit !== null && isCounted(value)) return SIGNS[sign](Number(value), limit);
    if (sign in ORDERS && (limit !== null || isCounted(value))) return false;
    return SIGNS[sign](text(value).toLowerCase(), words.toLowerCase());
  };
}
// What a filter's words ask of rows: `{ test, notes }`. Throws a FilterError with a sentence for what cannot be read.
function filterOf(words, columns, rows) {
  const tokens = words.match(/"[^"]*"|'[^']*'|[<>!=]=|[<>=]|[^\s<>=!"']+|\S/g) || [], tests = [], notes = [];
  while (tokens.length) {
    const first = tokens.shift();
    if (first.toLowerCase() === "and") continue;
    if (!(tokens[0] in SIGNS)) {
      const word = textIn(first).toLowerCase(), sought = columns.filter((column) => !column.isUntold);
      tests.push((row) => sought.some((column) => cellText(column, row).toLowerCase().includes(word)));
      continue;
    }
    const sign = tokens.shift(), column = columnNamed(textIn(first), columns);
    if (!tokens.length || tokens[0] in SIGNS || tokens[0].toLowerCase() === "and") throw new FilterError(`a value is missing after ${first} ${sign}`);
    const value = textIn(tokens.shift()), there = rows.map((row) => column.get(row)).filter((one) => isThere(column, one));
    tests.push(comparison(column, sign, value, there));
    const known = [...new Set(there.map(text))];
    if (!(sign in ORDERS) && numberIn(value) === null && known.length && !known.some((one) => one.toLowerCase() === value.toLowerCase())) notes.push(`no row has ${column.name} == ${value}; there are ${known.slice(0, VALUES_SHOWN).join(", ")}${known.length > VALUES_SHOWN ? ` and ${known.length - VALUES_SHOWN} more` : ""}`);
  }
  return { test: tests.length ? (row) => tests.every((test) => test(row)) : null, notes };
}
// Reads a filter and shows in `problem` what is wrong with it. Null if it cannot be read.
function readFilter(input, problem, columns, rows) {
  let found = null, wrong = "";
  try {
    found = filterOf(input.value, columns, rows);
  } catch (error) {
    if (!(error instanceof FilterError)) throw error;
    wrong = error.message;
  }
  problem.textContent = wrong || found.notes.join("; ");
  problem.hidden = !problem.textContent;
  problem.classList.toggle("failed", Boolean(wrong));
  input.classList.toggle("wrong", Boolean(wrong));
  input.setAttribute("aria-invalid", String(Boolean(wrong)));
  return found;
}

// As in the tables of Python: a trial without a report has neither.
const iterationOf = (trial) => !trial.curve.length ? undefined : trial.steps ? trial.steps[trial.steps.length - 1] : trial.curve.length;
// As in `minitune ls`: how a trial has ended is there once it has, and its cell is empty if that says no more than its status.
const endOf = (trial) => ["running", "pending"].includes(kindOf(trial)) ? undefined : trial.ended;
const totalTimeOf = (run, trial) => trial.since_s !== null ? Math.round(run.worked(trial)) : trial.curve.length ? trial.counted_s : undefined;

const tables = [];
class TrialTable {
  constructor(run, open, isAlone) {
    this.run = run; this.open = open; this.sort = null; this.isDown = false; this.chosen = null; this.isWhole = false;
    this.input = el("input", { type: "search", placeholder: `filter: ${run.data.metric || "iter"} ${run.sign < 0 ? ">" : "<"} 0.9 and finished`, ariaLabel: "filter", oninput: () => { this.rows.scrollTop = 0; this.select(); } });
    this.problem = el("p", { className: "note failed", role: "alert", hidden: true });
    this.count = el("span", { className: "quiet count" });
    this.list = el("div", { className: "columns" });
    this.head = el("tr"); this.body = el("tbody"); this.widths = el("colgroup");
    this.lines = new Map();  // the rows that are there, by their position in `found`
    this.above = el("tr", { className: "pad" }, el("td")); this.below = el("tr", { className: "pad" }, el("td"));
    this.table = el("table", {}, this.widths, el("thead", {}, this.head), this.body);
    this.rows = el("div", { className: "rows", tabIndex: 0, onscroll: () => this.paint() }, this.table);
    this.root = el("section", { className: "card wide table" }, el("div", { className: "tools" }, el("h3", {}, "Trials"), ...(isAlone ? [] : [this.input, this.count]),
      el("details", {}, el("summary", {}, "columns"), this.list),
      el("button", { type: "button", onclick: () => save(`${run.data.name}.csv`, this.csv(), "text/csv") }, "CSV"), el("button", { type: "button", onclick: () => save(`${run.data.name}.json`, JSON.stringify(this.found.map((trial) => this.record(trial)), null, 1), "application/json") }, "JSON")), ...(isAlone ? [] : [this.problem]), this.rows);
    this.body.addEventListener("click", (event) => { const row = event.target.closest("tr"); if (row && row.trial) open(row.trial); });
    this.body.addEventListener("keydown", (event) => { const row = event.target.closest("tr"); if (event.key === "Enter" && row && row.trial) open(row.trial); });
    tables.push(this);
    this.refresh();
  }
  // The filter holds for the table and all plots. What cannot be read changes nothing.
  select() {
    const found = readFilter(this.input, this.problem, this.allColumns(), this.run.trials);
    if (found) this.run.filter = found.test;
    this.refresh();
    if (this.onSelect) this.onSelect();
  }
  record(trial) { return Object.fromEntries(this.allColumns().map((column) => [column.name, column.get(trial)]).filter(([, value]) => value !== undefined && value !== "")); }
  csv() {
    const columns = this.allColumns(), field = (value) => { const told = value === undefined || value === null ? "" : String(value); return /[",\n\r]/.test(told) ? `"${told.replaceAll('"', '""')}"` : told; };
    return [columns.map((column) => field(column.name)).join(","), ...this.found.map((trial) => columns.map((column) => field(column.get(trial))).join(","))].join("\r\n") + "\r\n";
  }
  allColumns() {
    const isNarrow = innerWidth < 600;  // a phone shows few columns: the parameters say more than how a trial has ended
    const data = this.run.data, of = (name, get, isQuiet) => ({ name, get, isQuiet });
    const metrics = data.metrics.filter((name) => name !== data.metric);
    const params = data.params.map((name) => ({ ...of(name, (trial) => trial.params[name]), also: [`config/${name}`], isParam: true }));
    return [
      of("trial", (trial) => trial.number), ...(data.metric ? [of(data.metric, (trial) => trial.value)] : []),
      ...metrics.filter((name) => name in data.objectives).map((name) => of(name, (trial) => trial.metrics[name])),
      ...(isNarrow ? params : []),
      of("status", kindOf), { ...of("ended", endOf), told: (trial) => endOf(trial) === kindOf(trial) ? undefined : endOf(trial) },
      ...metrics.filter((name) => !(name in data.objectives)).map((name) => of(name, (trial) => trial.metrics[name], true)),
      ...(isNarrow ? [] : params),
      { ...of("iter", iterationOf), also: ["training_iteration"] }, { ...of("total time (s)", (trial) => totalTimeOf(this.run, trial)), also: ["total time", "time_total_s"] },
      ...(data.is_live ? [{ also: ["last report"], ...of("last report (s ago)", (trial) => { const quiet = this.run.quiet(trial); return quiet === null ? undefined : Math.floor(quiet); }) }] : []),
      of("rank", (trial) => trial.facts.rank === undefined ? undefined : `${trial.facts.rank} of ${trial.facts.of}`, true),
      of("cutoff", (trial) => trial.facts.cutoff, true),
      of("why", (trial) => trial.why, true), of("error", (trial) => trial.error), of("name", (trial) => trial.name, true),
    ];
  }
  refresh() {
    const all = this.allColumns(), run = this.run;
    const isUsed = (column) => run.trials.some((trial) => ![undefined, null, ""].includes((column.told || column.get)(trial)));
    const shown = all.filter((column) => this.chosen ? this.chosen.has(column.name) : (!column.isQuiet || column.name === run.metricShown) && isUsed(column));
    const key = all.map((column) => column.name).join("|") + shown.map((column) => column.name).join("|");
    if (key !== this.key) {
      this.key = key;
      this.list.replaceChildren(...all.map((column) => el("label", {}, el("input", { type: "checkbox", checked: shown.includes(column), onchange: (event) => {
        this.chosen = new Set(shown.map((one) => one.name));
        if (event.target.checked) this.chosen.add(column.name); else this.chosen.delete(column.name);
        this.refresh();
      } }), ` ${cut(column.name, 40)}`)));
    }
    this.columns = shown;
    const by = all.find((column) => column.name === (this.sort ?? run.metricShown));
    const isDown = this.sort === null ? run.signShown < 0 : this.isDown, sign = isDown ? -1 : 1;
    const missing = (value) => value === undefined || value === null || value === "";
    this.found = run.trials.filter((trial) => this.run.isChosen(trial));
    if (by) {
      const keyed = this.found.map((trial) => [by.get(trial), trial]);
      keyed.sort(([a], [b]) => {  // equal ones stay in the order of their numbers
        if (missing(a) || missing(b)) return missing(a) - missing(b);
        if (typeof a === "number" && typeof b === "number") return sign * (a - b);
        return sign * text(a).localeCompare(text(b), undefined, { numeric: true });
      });
      this.found = keyed.map(([, trial]) => trial);
    }
    this.count.textContent = `${this.found.length} of ${run.trials.length} trials`;
    const every = Math.ceil(this.found.length / 200);
    const measured = this.found.filter((_, index) => index % every === 0);
    const widths = shown.map((column) => {
      let longest = "";
      for (const trial of measured) { const cell = cellText(column, trial); if (cell.length > longest.length) longest = cell; }
      const widest = Math.max(...[`${column.name} ▾`, longest].map((one) => PEN.measureText(cut(one, 34)).width));
      return Math.ceil(widest) + 24 + (column.name === "status" ? 16 : 0);
    });
    const whole = widths.reduce((a, b) => a + b, 0);
    // In shares, since the table is as wide as the paper when it is printed. The text shrinks with it, as far as it is legible.
    this.widths.replaceChildren(...widths.map((width) => { const col = el("col"); col.style.width = `${width / whole * 100}%`; return col; }));
    this.table.style.width = `${whole}px`;
    this.table.style.setProperty("--printed", `${Math.max(6, Math.min(11, 12 * 700 / whole))}px`);
    this.head.replaceChildren(...shown.map((column) => {
      const isSorted = column === by;
      const head = el("th", { scope: "col" }, el("button", { type: "button", title: column.name, onclick: () => {
        this.isDown = isSorted ? !isDown : false;
        this.sort = column.name;
        this.rows.scrollTop = 0;
        this.refresh();
      } }, column.name + (isSorted ? isDown ? " ▾" : " ▴" : "")));
      if (isSorted) head.setAttribute("aria-sort", isDown ? "descending" : "ascending");
      return head;
    }));
    for (const pad of [this.above, this.below]) pad.firstChild.colSpan = Math.max(1, shown.length);
    const focused = this.body.contains(document.activeElement) && document.activeElement.trial;
    this.paint(true);
    const line = focused && [...this.lines.values()].find((one) => one.trial.number === focused.number);
    if (line) line.focus({ preventScroll: true });
  }
  // The time goes on: the cells that show it change, and nothing else.
  tick() {
    const running = this.columns.map((column, index) => [column, index]).filter(([column]) => column.name.endsWith(")") && /^(total time|last report)/.test(column.name));
    for (const line of this.lines.values()) {
      if (line.trial.since_s === null) continue;
      for (const [column, index] of running) tell(line.cells[index], cellText(column, line.trial));
    }
  }
  update() {
    if (isSelected(this.body)) { waiting.set(this.body, () => this.update()); return; }
    waiting.delete(this.body);
    this.refresh();
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
      const value = cellText(column, trial);
      const cell = el("td", { title: value.length > 30 ? value : "" });
      if (column.name === "status") cell.append(el("span", { className: `key ${KINDS[kindOf(trial)]}` }));
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
// As YAML 1.1 and 1.2 read it: a text that could be something else is in quotes, which are those of JSON.
function yamlScalar(value) {
  if (value !== null && typeof value === "object") return JSON.stringify(value);  // an empty one
  if (typeof value !== "string") return value === null ? "null" : isNumber(value) ? String(value).replace(/^(-?\d+)e/, "$1.0e") : String(value);
  return /^[A-Za-z_][\w./-]*$/.test(value) && !/^(true|false|yes|no|on|off|y|n|null)$/i.test(value) ? value : JSON.stringify(value);
}
function yaml(value, indent = "") {
  if (Array.isArray(value)) return value.length ? value.map((one) => `${indent}- ${isNested(one) ? yaml(one, `${indent}  `).trimStart() : yamlScalar(one)}`).join("\n") + (indent ? "" : "\n") : "[]";
  const members = Object.entries(value);
  if (!members.length) return "{}";
  return members.map(([name, one]) => `${indent}${yamlScalar(name)}:${isNested(one) ? `\n${yaml(one, `${indent}  `)}` : ` ${yamlScalar(one)}`}`).join("\n") + (indent ? "" : "\n");
}
const isNested = (value) => value !== null && typeof value === "object" && Object.keys(value).length > 0;
const quoted = (word) => /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'"'"'`)}'`;
function commandLine(config, before = "") {
  return Object.entries(config).map(([name, value]) => isNested(value) && !Array.isArray(value) ? commandLine(value, `${before}${name}.`)
    : `${quoted(`--${before}${name}`)} ${quoted(typeof value === "string" ? value : JSON.stringify(value))}`).join(" ");
}
function copied(value, label = "copy") {
  const button = el("button", { type: "button", onclick: () => copy(value, button) }, label);
  return button;
}
const withCopy = (value) => el("div", { className: "copy" }, el("pre", {}, value), copied(value));
let opened = null;
let trialShown = () => {};  // told when another trial is shown, or none
async function openTrial(run, trial) {
  const isUpdate = opened && opened.run === run && opened.trial.number === trial.number;
  const isFirst = !opened;
  opened = { run, trial };
  if (!isUpdate) trialShown(isFirst);
  if (!dialog.open) { dialog.replaceChildren(); dialog.showModal(); }
  let details = trial.details;
  if (!details && run.isServed) {
    try {
      details = await (await fetch(`trial/${trial.number}`)).json();
    } catch {
      details = { error: "the server does not answer any more" };
    }
    if (!opened || opened.trial !== trial) return;
  }
  details = details || {};
  const charts = el("div", { className: "panels" });
  const scrolled = dialog.scrollTop;
  const scrolls = isUpdate ? [...dialog.querySelectorAll("pre[id]")].map((one) => [one.id, one.scrollTop]) : [];
  const totalTime = totalTimeOf(run, trial);
  const facts = { name: trial.name, status: trial.ended, repeats: trial.repeats || "", why: details.error ? "" : trial.why, [run.data.metric || "value"]: isNumber(trial.value) ? number(trial.value) : "",
    ...Object.fromEntries(Object.entries(trial.metrics).map(([name, value]) => [name, text(value)])),
    rank: trial.facts.rank === undefined ? "" : `${trial.facts.rank} of ${trial.facts.of}${trial.facts.rung === undefined ? "" : ` at ${text(trial.facts.rung)}`}`,
    cutoff: trial.facts.cutoff === undefined ? "" : text(trial.facts.cutoff), iter: iterationOf(trial), "total time (s)": totalTime === undefined ? "" : number(totalTime), cpu_s: isNumber(details.cpu_s) ? number(details.cpu_s) : "", peak_bytes: details.peak_bytes, "last report": trial.reported_s === null ? "" : `${clockText(run.quiet(trial))} ago`, attempt: details.attempt > 1 ? details.attempt : "",
    seed: details.seed, directory: details.directory };
  const near = (step) => { const order = tables.find((one) => one.run === run); const list = order ? order.found : run.trials; return list[list.indexOf(trial) + step]; };
  const turn = (label, step, title) => el("button", { type: "button", title, disabled: !near(step), onclick: () => openTrial(run, near(step)) }, label);
  const config = details.config || trial.params;
  dialog.replaceChildren(
    el("header", {}, el("h2", {}, `Trial ${trial.number}`), turn("‹", -1, "the one before in the table"), turn("›", 1, "the next one in the table"), el("button", { type: "button", onclick: () => dialog.close() }, "close")),
    definitions(facts), charts,
    el("h3", {}, "Configuration"), copies(config), el("pre", { id: "config" }, python(config)),
    ...(details.error ? [el("h3", {}, "Error"), el("pre", { id: "error" }, details.error)] : []),
    ...(details.decisions && details.decisions.length ? [el("h3", {}, "Decisions"), el("ul", { className: "errors" }, ...details.decisions.map((one) => el("li", {}, one)))] : []),
    ...(details.checkpoints && details.checkpoints.length ? [el("h3", {}, "Checkpoints"), ...details.checkpoints.map((one) => el("div", {}, el("div", { className: "quiet" }, `after iteration ${text(one.iteration)}, ${one.bytes.toLocaleString()} bytes`), withCopy(one.path)))] : []),
    ...(details.output ? [el("h3", {}, "The end of its output"), el("pre", { id: "output" }, details.output)] : []),
    ...Object.entries(details.commands || {}).flatMap(([what, command]) => [el("h3", {}, `To ${what.startsWith("its") ? `see ${what}` : what}`), withCopy(command)]));
  dialog.scrollTop = scrolled;
  for (const [id, top] of scrolls) { const now = document.getElementById(id); if (now) now.scrollTop = top; }
  // A small plot of each metric. That of the objective comes first.
  const kind = kindOf(trial), names = [...new Set([run.data.metric, ...Object.keys(trial.others ? trial.others.values : {})])];
  const shown = names.map((name) => [name, curveOf(run, trial, name)]).filter(([, values]) => values.length > 1);
  const hosts = shown.map(([name]) => { const host = charts.appendChild(el("div", { className: "plot" })); host.dataset.metric = name; return host; });
  shown.forEach(([name, values], index) => {  // once all are there, since a plot is as wide as what it stands in
    const x = numberAxis("training iteration", values.map(([step]) => step), { isInteger: true }), y = numberAxis(name, values.map(([, value]) => value));
    new Chart(hosts[index]).draw({ x, y, height: 190, layers: [{ kind: "lines", style: "thick", cls: KINDS[kind], lines: [broken(trial, values)] }, { kind: "points", style: "marks", cls: KINDS[kind], points: values.length < 60 ? values : [] }],
      hits: values.map(([step, value]) => ({ x: step, y: value, text: () => `iteration ${number(step)}: ${number(value)}` })) });
  });
}
dialog.addEventListener("close", () => { opened = null; trialShown(false); });
// Keys: / goes to the filter, and ← → go through the trials in the order of the table.
addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest?.("input, select, textarea")) return;
  const input = document.querySelector("[type=search]");
  if (event.key === "/" && input && !dialog.open) { event.preventDefault(); input.focus(); input.select(); }
  if (dialog.open && (event.key === "ArrowLeft" || event.key === "ArrowRight")) dialog.querySelectorAll("header button")[event.key === "ArrowLeft" ? 0 : 1]?.click();
});
function definitions(facts) {
  const list = el("dl", { className: "facts" });
  for (const [name, value] of Object.entries(facts)) { if (value !== "" && value !== null && value !== undefined) list.append(el("dt", {}, name), el("dd", {}, String(value))); }
  return list;
}

// -- the page of a run ------------------------------------------------------------------------------------------------
function gainOver(run, best, first, value) {
  if (!first || first === best) return run.aimed.length > 1 ? ", the first one" : "";
  const change = (value - first.value) / Math.abs(first.value);
  const share = Number.isFinite(change) && value * first.value > 0 && Math.abs(change) < 100 ? `: ${number(Math.abs(change) * 100, 3)} % ${change < 0 ? "lower" : "higher"}` : "";
  return `, from ${number(first.value, 4)} in the first trial${share}`;
}
// The summary at the top has numbers as people say them. The tip, the copies and all tables have six digits or more.
const short = (value) => isNumber(value) ? number(value, 3) : text(value);
function configTable(params) {
  const names = Object.keys(params);
  if (!names.length) return null;
  return el("dl", { className: "facts config" }, ...names.slice(0, 24).flatMap((name) => [el("dt", {}, name), el("dd", { title: text(params[name]) }, cut(short(params[name]), 80))]),
    ...(names.length > 24 ? [el("dt", {}, "..."), el("dd", {}, `${names.length - 24} more`)] : []));
}
function copies(config) {
  const forms = { Python: python(config), JSON: JSON.stringify(config, null, 2), YAML: yaml(config), "command line": commandLine(config) };
  return el("div", { className: "controls copies" }, el("span", { className: "quiet" }, "copy as"), ...Object.entries(forms).map(([name, value]) => copied(value, name)));
}
// The trials of a run by state: ended ones full, running ones light, the others empty.
function progressBar(counts, label) {
  const bar = el("div", { className: "bar", role: "img", ariaLabel: label });
  for (const state of ["finished", "stopped", "failed", "interrupted", "running", "pending", "not started"]) {
    if (!counts[state]) continue;
    const piece = el("i", { className: KINDS[state], title: `${counts[state]} ${state}` });
    piece.style.flexGrow = counts[state];
    bar.append(piece);
  }
  return bar;
}
class RunView {
  constructor(run, host, only, isAlone) {
    this.run = run; this.only = only; this.isAlone = isAlone;
    const open = (trial) => openTrial(run, trial);
    this.redraw = () => { for (const card of this.cards) card.mark(); if (this.table) { this.table.refresh(); this.remember(); } };
    this.cards = plotsOf(run, open, this.redraw, only);
    if (only) {
      // Not in the card, which is hidden while a metric has too few values.
      const isOfMetric = ["history", "curves", "contour", "slice", "parallel", "edf"].includes(only.view);
      host.append(isOfMetric ? el("div", { className: "controls" }, new MetricChoice([run], () => {}).root) : "", el("div", { className: "cards alone" }, ...this.cards.map((card) => card.root)));
      return;
    }
    const part = (className) => el("section", { className });
    this.hero = part("best-of"); this.progress = part("progress"); this.facts = part("about");
    this.overview = el("section", { className: "card wide overview-card", id: "overview" }, this.hero, el("div", {}, this.progress, this.facts));
    this.errors = el("section", { className: "card wide", id: "errors" });
    this.table = new TrialTable(run, open, this.isAlone);
    this.table.root.id = "trials";
    this.table.onSelect = () => { for (const card of this.cards) card.mark(); this.remember(); };
    for (const card of this.cards) if (card.root.dataset.view === "parallel") card.onRange = (name, words) => this.narrow(name, words);
    this.links = el("span", { className: "links" });
    if (this.isAlone) this.metric = new MetricChoice([run], this.redraw);
    this.row = el("nav", { className: "sections" }, this.links, this.isAlone ? this.metric.root : null, this.table.input, this.table.count);
    host.append(...(this.isAlone ? [this.row, this.table.problem] : []), el("div", { className: "cards" }, this.overview, this.errors, ...this.cards.map((card) => card.root), this.table.root));
    this.describe();
    if (!this.isAlone) return;
    trialShown = (isStep) => this.remember(isStep);
    addEventListener("popstate", () => this.recall());
    if (location.hash.length > 1) this.recall();
  }
  // Adds conditions to the filter, in place of the range of the same name.
  narrow(name, words) {
    const input = this.table.input, safe = name.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
    const rest = input.value.replace(new RegExp(`(^|\\s)(and\\s+)?${safe} [<>!]?= ("[^"]*"|\\S+)`, "g"), "");
    input.value = `${rest} ${words}`.trim();
    this.table.select();
  }
  // The address holds the filter, the states that are switched off, the metric and the open trial.
  remember(isStep = false) {
    if (!this.isAlone || this.isRecalling) return;
    const parts = new URLSearchParams();
    if (this.table.input.value) parts.set("filter", this.table.input.value);
    if (this.run.hidden.size) parts.set("hide", [...this.run.hidden].join());
    if (this.run.metric && this.run.metric !== this.run.data.metric) parts.set("metric", this.run.metric);
    if (opened && opened.run === this.run) parts.set("trial", opened.trial.number);
    const address = `${location.pathname}${location.search}${parts.size ? `#${parts}` : ""}`;
    if (address === `${location.pathname}${location.search}${location.hash}`) return;
    try {
      if (isStep) history.pushState(null, "", address); else history.replaceState(null, "", address);
    } catch {}  // in a notebook's frame, the page has no address of its own
  }
  recall() {
    const parts = new URLSearchParams(location.hash.slice(1)), run = this.run;
    this.isRecalling = true;
    this.table.input.value = parts.get("filter") || "";
    run.hidden = new Set((parts.get("hide") || "").split(",").filter((kind) => KINDS[kind]));
    run.metric = parts.get("metric") || run.metricNames[0];
    this.table.select();
    this.metric.fill();
    for (const card of this.cards) card.mark();
    const trial = parts.has("trial") && run.byNumber.get(Number(parts.get("trial")));
    if (trial) openTrial(run, trial); else if (dialog.open) dialog.close();
    this.isRecalling = false;
  }
  describe() {
    const run = this.run, data = run.data, best = run.byNumber.get(data.best);
    const counts = { ...Object.fromEntries(STATES.map((state) => [state, 0])), ...data.counts }, total = Object.values(counts).reduce((a, b) => a + b, 0);
    const ended = counts.finished + counts.stopped + counts.failed;
    if (this.isAlone) document.title = data.is_live ? `(${ended}/${data.total === null ? "∞" : total}) ${data.name}` : `minitune: ${data.name}`;
    this.describeBest(best);
    put(this.progress, JSON.stringify([data.state, counts, data.total, data.resume]), () => {
      const kinds = { running: "running", finished: "finished", failed: "failed", killed: "failed" };
      const bar = progressBar(counts, `${ended} of ${total} trials have ended`);
      this.time = el("span", { className: "time" });
      return [el("div", { className: "overview" }, el("span", { className: `badge ${kinds[data.state] || "stopped"}` }, data.state),
        counts.failed ? el("button", { type: "button", className: "badge failed", onclick: () => this.errors.scrollIntoView() }, `${counts.failed} failed`) : null,
        el("b", {}, data.total === null && data.is_live ? counted(ended, "trial") : `${ended} of ${counted(total, "trial")}`), this.time), bar,
      el("p", { className: "counts" }, STATES.filter((state) => counts[state]).map((state) => `${counts[state]} ${state}`).join(" · ") || "no trial has started"),
      data.resume ? withCopy(data.resume) : null];
    });
    put(this.facts, JSON.stringify([data.state_text, data.objectives, data.is_live || data.worked_s]), () => [el("details", {}, el("summary", {}, "about this run"), definitions({
      state: data.state_text === data.state ? "" : data.state_text,
      objective: Object.keys(data.objectives).length ? Object.entries(data.objectives).map(([name, mode]) => `${name} (${mode})`).join(", ") : data.metric ? `${data.metric} (${data.mode})` : "none",
      trainable: data.trainable, begun: date(data.begun_s), duration: data.is_live ? "" : seconds(data.worked_s), seed: data.seed, directory: data.path }))]);
    this.describeErrors();
    if (this.metric) this.metric.fill();
    const groups = [["Overview", this.overview], ["Curves", this.first("history", "curves")], ["Parameters", this.first("importances", "contour", "slice", "parallel")],
      ["Trials", this.table.root], [`Errors (${counts.failed})`, counts.failed ? this.errors : null]].filter(([, root]) => root);
    put(this.links, groups.map(([name]) => name).join(), () => groups.map(([name, root]) => el("button", { type: "button", onclick: () => root.scrollIntoView() }, name)));
    this.tick();
  }
  first(...views) { const card = this.cards.find((one) => views.includes(one.root.dataset.view) && !one.root.hidden); return card && card.root; }
  describeBest(best) {
    const run = this.run, data = run.data;
    const [first] = run.aimed;
    const front = Object.keys(data.objectives).length > 1 ? frontOf(run) : null;
    put(this.hero, JSON.stringify([front && [front.trials.length, front.best.map((trial) => trial.number)], best && [best.number, best.value, best.status, data.best_config, best.params], data.is_live, data.metric, first && first.value, data.earlier_best, data.remark, data.confirmed, run.aimed.length > 1]), () => {
      if (!best) {
        const why = !data.metric ? "The run has no objective." : data.is_live ? `No trial has reported ${data.metric} so far.` : `No trial has reported ${data.metric}.`;
        return [el("h3", {}, "Best"), el("p", { className: "quiet" }, why)];
      }
      if (front && front.best.length) {
        const names = Object.keys(data.objectives), { ends, knee } = kneeOf(run, front.best, front.scores);
        const values = (trial) => names.map((name) => `${name} ${number(metricOf(run, trial, name))}`).join(", ");
        const line = (title, trial) => el("p", { className: "gain" }, `${title}: `, el("button", { type: "button", onclick: () => openTrial(run, trial) }, `trial ${trial.number}`), ` ${values(trial)}`);
        return [el("div", { className: "name" }, "Front", el("span", { className: "quiet" }, ` (${Object.entries(data.objectives).map(([name, mode]) => `${mode} ${name}`).join(", ")})`)),
          el("div", { className: "value" }, `${front.best.length} of ${front.trials.length}`), ...names.map((name, i) => line(`best ${name}`, ends[i])), line("knee", knee), configTable(knee.params)];
      }
      const aimed = data.confirmed ?? best.value;
      const aim = data.mode === "max" ? "largest" : "smallest";
      return [el("div", { className: "name" }, `Best ${cut(data.metric, 48)}`, el("span", { className: "quiet" }, ` (${aim})`)),
        el("div", { className: "value", title: String(aimed) }, number(aimed, 4)),
        el("p", { className: "gain" }, el("button", { type: "button", onclick: () => openTrial(run, best) }, `trial ${best.number}`), ` ${best.ended}`, gainOver(run, best, first, aimed)),
        data.remark ? el("p", { className: "note" }, `${data.remark}.`) : null,
        data.earlier_best ? el("p", { className: "note" }, `Earlier in its course, ${data.earlier_best}.`) : null,
        configTable(best.params), data.best_config ? copies(data.best_config) : null];
    });
  }
  describeErrors() {
    const run = this.run, groups = run.data.errors || [];
    this.errors.hidden = !groups.length;
    put(this.errors, JSON.stringify(groups), () => [el("h3", {}, `Errors (${groups.reduce((sum, group) => sum + group.trials.length, 0)})`),
      ...groups.slice(0, 10).map((group) => el("div", { className: "error" }, el("p", {}, el("b", {}, `${group.trials.length} × `), group.error),
        el("p", { className: "quiet" }, "trials ", ...group.trials.slice(0, 12).flatMap((n, index) => [index ? ", " : "", el("button", { type: "button", onclick: () => openTrial(run, run.byNumber.get(n)) }, String(n))]), group.trials.length > 12 ? ` and ${group.trials.length - 12} more` : ""),
        withCopy(group.rerun))),
      groups.length > 10 ? el("p", { className: "note" }, `and ${groups.length - 10} more kinds: filter the table by failed`) : null]);
  }
  tick() {
    const run = this.run, data = run.data;
    if (!this.time) return;
    const gone = clockText(run.elapsed);
    const left = data.rest_s === null ? "" : ` · about ${clockText(Math.max(1, data.rest_s - (run.clock - data.now_s)))} to go`;
    tell(this.time, data.is_live ? `${gone}${left}` : seconds(data.worked_s));
    if (data.is_live) this.table.tick();
  }
  update() {
    if (!this.only) { this.describe(); this.table.update(); }
    for (const card of this.cards) card.mark();
    if (opened && opened.run === this.run) {
      const now = this.run.byNumber.get(opened.trial.number);
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
      const positions = runs.map((run) => positionsBy(run, own.by)), isTime = own.by !== "trial";
      const lines = runs.map((run, index) => bestSoFar(run, positions[index]));
      const all = lines.flat();
      log.disabled = !(range(all.map(([, value]) => value))[0] > 0);
      const x = numberAxis(BY_NAMES[own.by], all.map(([at]) => at), { isTime, isInteger: !isTime, fromZero: isTime });
      const y = numberAxis(metricsOf(runs), all.map(([, value]) => value), { isLog: own.isLog });
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
  // The same rows and texts as those of `minitune compare`.
  const names = [...new Set(runs.flatMap((run) => Object.keys(run.data.compared)))].filter((name) => runs.some((run) => run.data.compared[name]));
  const table = el("table", { className: "side" }, el("thead", {}, el("tr", {}, el("th"), ...runs.map((run, index) => el("th", { scope: "col" }, el("span", { className: `key run${index % 8}` }), run.data.name)))),
    el("tbody", {}, ...names.map((name) => el("tr", {}, el("th", { scope: "row" }, name), ...runs.map((run) => el("td", {}, run.data.compared[name] ?? ""))))));
  const metric = new MetricChoice(runs, () => { for (const table of tables) table.refresh(); });
  host.append(el("h2", {}, "Side by side"), el("div", { className: "controls" }, metric.root), el("div", { className: "cards" }, el("section", { className: "card wide" }, el("div", { className: "scroll" }, table)), ...made.map((card) => card.root)));
}

// -- the list of runs -------------------------------------------------------------------------------------------------
// The home: sorted by a click, filtered; two that are ticked are compared. An update keeps all of that.
class RunList {
  constructor(host) {
    this.sort = null; this.isDown = false; this.ticked = new Set(); this.rows = [];
    this.input = el("input", { type: "search", placeholder: "filter: failed > 0 and adam", ariaLabel: "filter", oninput: () => this.paint() });
    this.problem = el("p", { className: "note failed", role: "alert", hidden: true });
    this.test = null;
    this.compare = el("a", { hidden: true });
    this.table = el("table", { className: "side list" });
    this.empty = el("p", { hidden: true }, "There are no runs.");
    host.append(el("div", { className: "tools" }, this.input, this.compare), this.problem, el("div", { className: "scroll card" }, this.table), this.empty);
  }
  static columns = [
    ["run", (row) => row.name], ["state", (row) => row.state], ["progress", (row) => row.trials === null ? null : row.ended / (row.total || row.trials || 1)],
    ["failed", (row) => row.failed], ["metric", (row) => row.metric], ["best", (row) => row.best], ["duration", (row) => RunList.duration(row)], ["age", (row) => row.begun_s ? Date.now() / 1000 - row.begun_s : null],
  ];
  static duration(row) { return row.trials === null ? null : row.state === "running" ? row.earlier_s + Math.max(0, Date.now() / 1000 - row.opened_s) : row.worked_s; }
  update(rows) {
    this.rows = rows;
    if (isSelected(this.table)) waiting.set(this.table, () => { waiting.delete(this.table); this.paint(); }); else this.paint();
  }
  paint() {
    // Words are sought in the texts, since numbers are shown otherwise than they are kept.
    const columns = RunList.columns.map(([name, get]) => ({ name, get, isUntold: !["run", "state", "metric"].includes(name) }));
    const read = readFilter(this.input, this.problem, columns, this.rows);
    if (read) this.test = read.test;
    const found = this.rows.filter((row) => !this.test || this.test(row));
    const by = RunList.columns.find(([name]) => name === this.sort);
    if (by) {
      const missing = (value) => value === null || value === undefined;
      found.sort((a, b) => {
        const [x, y] = [by[1](a), by[1](b)];
        if (missing(x) || missing(y)) return missing(x) - missing(y);
        return (this.isDown ? -1 : 1) * (isNumber(x) && isNumber(y) ? x - y : String(x).localeCompare(String(y), undefined, { numeric: true }));
      });
    }
    const focus = document.activeElement && document.activeElement.dataset.key;
    const head = RunList.columns.map(([name]) => {
      const isSorted = name === this.sort;
      const cell = el("th", { scope: "col" }, el("button", { type: "button", onclick: () => { this.isDown = isSorted ? !this.isDown : false; this.sort = name; this.paint(); } }, name + (isSorted ? this.isDown ? " ▾" : " ▴" : "")));
      cell.firstChild.dataset.key = `sort ${name}`;
      if (isSorted) cell.setAttribute("aria-sort", this.isDown ? "descending" : "ascending");
      return cell;
    });
    this.table.replaceChildren(el("thead", {}, el("tr", {}, el("th"), ...head)), el("tbody", {}, ...found.map((row) => this.line(row))));
    if (focus) [...this.table.querySelectorAll("[data-key]")].find((one) => one.dataset.key === focus)?.focus();
    this.empty.hidden = this.rows.length > 0;
    const two = this.rows.filter((row) => this.ticked.has(row.name));
    this.compare.hidden = two.length !== 2;
    if (two.length === 2) { this.compare.href = `compare/${two.map((row) => row.href.slice(4)).join("")}`; this.compare.textContent = `compare ${two.map((row) => row.name).join(" and ")}`; }
  }
  line(row) {
    const tick = row.href ? el("input", { type: "checkbox", checked: this.ticked.has(row.name), ariaLabel: `compare ${row.name}`, onchange: (event) => {
      if (event.target.checked) this.ticked.add(row.name); else this.ticked.delete(row.name);
      this.paint();
    } }) : null;
    if (tick) tick.dataset.key = `tick ${row.name}`;
    const isBad = row.state === "damaged" || row.state === "killed" || row.state === "failed", total = row.total || row.trials;
    const progress = row.trials === null ? el("td") : el("td", {}, `${row.ended} of ${total}`, progressBar(row.counts, `${row.ended} of ${total} trials have ended`));
    const duration = RunList.duration(row);
    return el("tr", {}, el("td", {}, tick), el("td", {}, row.href ? el("a", { href: row.href }, row.name) : row.name),
      el("td", {}, el("span", { className: row.state === "running" ? "running" : isBad ? "failed" : "" }, row.state)), progress,
      el("td", { className: row.failed ? "failed" : "" }, String(row.failed || "")), el("td", {}, row.metric ? `${row.metric} (${row.mode})` : ""),
      el("td", {}, isNumber(row.best) ? number(row.best) : ""), el("td", {}, duration === null ? "" : duration < 60 ? seconds(duration) : clockText(duration)),
      el("td", { title: date(row.begun_s) }, row.begun_s ? clockText(Math.max(0, Date.now() / 1000 - row.begun_s)) : ""));
  }
}

// -- the page, and its connection to a server -------------------------------------------------------------------------
const main = document.getElementById("page");
const banner = el("p", { className: "banner", hidden: true });
function listen(since, onMessage, onBreak) {
  const source = new EventSource(`events?since=${since}`);  // after a break, the browser itself sends the last event's id
  source.onopen = () => { banner.hidden = true; };
  source.onmessage = (event) => onMessage(JSON.parse(event.data));
  source.addEventListener("problem", (event) => { banner.textContent = JSON.parse(event.data); banner.hidden = false; });
  source.onerror = () => { banner.textContent = "Not connected: the server has ended, or the machine does not answer. This page shows the last state that it knows."; banner.hidden = false; if (onBreak) onBreak(); };
}
async function start() {
  DATA = await readData();
  if (DATA.listed) {
    const host = el("div");
    main.replaceChildren(el("h1", {}, document.title), banner, host);
    const list = new RunList(host);
    list.update(DATA.listed);
    listen(0, (rows) => list.update(rows));
    setInterval(() => { if (list.rows.some((row) => row.state === "running")) list.update(list.rows); }, 5000);
    return;
  }
  const runs = DATA.runs.map((data, index) => new Run(data, index));
  main.replaceChildren(...(DATA.only ? [] : [el("h1", {}, document.title)]), banner);
  const overview = DATA.only && runs.length > 1;
  if (runs.length > 1) sideBySide(runs, main, DATA.only);
  const views = overview ? [] : runs.map((run) => {
    if (runs.length > 1) main.append(el("h2", {}, run.data.name));
    return new RunView(run, main, DATA.only, runs.length === 1 && !DATA.only);
  });
  if (DATA.is_served) {
    runs[0].isServed = true;
    if (DATA.up) main.prepend(el("a", { href: DATA.up }, "all runs"));
    let waits = false;
    setInterval(() => {
      if (!runs[0].data.is_live) return;
      views[0].tick();
      for (const card of cards) if (card.root.dataset.view === "timeline") card.mark();  // its bars grow
    }, 1000);
    listen(DATA.version, (data) => {
      const isNews = data.trials.length || data.state !== runs[0].data.state || JSON.stringify(data.importances) !== JSON.stringify(runs[0].data.importances);
      runs[0].update(data);
      if (!isNews) { views[0].tick(); return; }
      if (waits) return;
      waits = true;
      setTimeout(() => { waits = false; views[0].update(); }, 100);  // one drawing for messages that come together
    }, () => runs[0].freeze());
  }
  settle();
}
// Draws each card once, one after the other: an empty one has another height, so the places that links lead to would move.
function settle() {
  const next = cards.find((card) => !card.charts.length && !card.isSettled && !card.root.hidden);
  if (!next) return;
  next.isSettled = true;
  next.refresh(true);
  setTimeout(settle);
}
start();
