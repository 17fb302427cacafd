"use strict";
// Helpers and axes. Only `el`, `shape`, `put`, `tell` and `copy` touch the page; the others take values and give values.
//
// Nothing in these files makes markup of a text: elements get their texts through textContent. The content security policy
// of the page allows no style attribute, so sizes that depend on data are set through element.style.

const MOST_CURVES = 300, MOST_SMALL_CURVES = 60, MOST_POINTS = 3000, MOST_LINES = 1000, MOST_ROWS = 500, LEVELS = 8, NONE = "(none)";
// The states of a trial, in the order of legends, and the class of each.
const KINDS = { finished: "finished", stopped: "stopped", failed: "failed", interrupted: "interrupted", running: "running", pending: "pending", "not started": "pending" };
const kindOf = (trial) => KINDS[trial.status] ? trial.status : "running";

// An element such as "p.note", with these properties or attributes, and children; those that are nothing are left out.
function el(name, properties, ...children) {
  const [tag, ...classes] = name.split("."), made = document.createElement(tag);
  made.className = classes.join(" ");
  for (const [key, value] of Object.entries(properties || {})) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (key in made && key !== "list") made[key] = value;
    else made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
  return made;
}
const pushButton = (label, onclick, more) => el("button", { type: "button", onclick, ...more }, label);
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
// Names as people count: p2 is before p10.
const inOrder = (a, b) => a.localeCompare(b, undefined, { numeric: true });
const counted = (count, name) => `${count} ${name}${count === 1 ? "" : "s"}`;
// What an update shows anew: the content of `host`, if `key` differs from that of the last call.
function put(host, key, build) {
  if (host.shownKey === key) return;
  host.shownKey = key;
  host.replaceChildren(...build().filter((child) => child !== null && child !== undefined && child !== ""));
}
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
function python(value, indent = "") {
  const inner = `${indent}    `;
  if (Array.isArray(value)) return value.some((one) => one && typeof one === "object") ? `[\n${value.map((one) => `${inner}${python(one, inner)},\n`).join("")}${indent}]` : `[${value.map((one) => python(one)).join(", ")}]`;
  if (value && typeof value === "object") {
    const members = Object.entries(value).map(([name, one]) => `${inner}${JSON.stringify(name)}: ${python(one, inner)},\n`);
    return members.length ? `{\n${members.join("")}${indent}}` : "{}";
  }
  return typeof value === "string" ? JSON.stringify(value) : value === null ? "None" : value === true ? "True" : value === false ? "False" : String(value);
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
  };
}
// The axis of values of which smaller ones are better if `sign` is 1. Its range is that of the better part, unless it is
// logarithmic: one diverged trial must not squeeze the others. Worse values lie at the edge, and `edge` counts it.
function valueAxis(name, values, sign, { isLog = false } = {}) {
  isLog = isLog && range(finite(values))[0] > 0;
  const bad = finite(values).map((value) => sign * value).sort((a, b) => a - b);
  const upper = bad[Math.floor((bad.length - 1) * 0.75)], limit = upper + 3 * (upper - bad[0]);
  const isCut = bad.length > 3 && limit > bad[0] && bad[bad.length - 1] > limit + 2 * (limit - bad[0]);
  if (isLog || !isCut) return { ...numberAxis(name, values, { isLog }), edge: "" };
  const axis = numberAxis(name, values.filter((value) => sign * value <= limit));
  const edge = sign > 0 ? axis.high : axis.low, beyond = bad.filter((value) => value > limit).length;
  return { ...axis, at: (value) => sign * value > limit ? edge : value, edge: `${beyond} much worse ${beyond === 1 ? "value lies" : "values lie"} at the edge. ` };
}
// The axis of a learning curve: training iterations, or seconds of training.
const stepAxis = (points, isTimed) => numberAxis(isTimed ? "training time" : "training iteration", points.map(([step]) => step), { isInteger: !isTimed, isTime: isTimed, fromZero: isTimed });
function categoryAxis(name, values) {
  const texts = [...new Set(values.map(text))];
  const indices = new Map(texts.map((label, index) => [label, index]));
  return {
    name, isLog: false, isCategory: true, low: -0.5, high: Math.max(texts.length, 1) - 0.5, texts,
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
