// The plots of a run, a card for each. They touch their cards, and what a run has selected.

// The choice of the metric, which holds for all plots of a run and the order of its table.
class MetricChoice {
  constructor(run, onChange) {
    this.run = run;
    this.choice = el("select", { onchange: () => {
      run.metric = this.choice.value;
      for (const card of cards) { card.zoomless(); card.mark(); }
      onChange();
    } });
    this.choice.dataset.name = "metric";
    this.root = el("label.metric", {}, el("span", {}, "metric"), this.choice);
    this.fill();
  }
  fill() {
    const names = this.run.metricNames;
    this.root.hidden = names.length < 2;
    put(this.choice, names.join("\n"), () => names.map((name) => el("option", { value: name }, cut(name, 40))));
    this.choice.value = this.run.metricShown;
  }
}
function kindChips(card, run, redraw) {
  const counts = {};
  for (const trial of run.trials) counts[kindOf(trial)] = (counts[kindOf(trial)] || 0) + 1;
  card.chips(Object.keys(KINDS).filter((kind) => counts[kind]).map((kind) => [kind, `${kind} ${counts[kind]}`, KINDS[kind], !run.hidden.has(kind)]),
    (kind) => { if (!run.hidden.delete(kind)) run.hidden.add(kind); redraw(); });
}
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
      const line = isObjective ? bestSoFar(run, positions) : [];
      const x = numberAxis(BY_NAMES[settings.by], [...positions.values()], { isTime, isInteger: !isTime, fromZero: isTime });
      const y = valueAxis(run.metricShown, [...trials.map(valueOf), ...line.slice(-1).map(([, value]) => value)], run.signShown, settings);
      const point = (trial) => [x.at(positions.get(trial)), y.at(valueOf(trial))];
      const best = run.best;
      kindChips(card, run, redraw);
      card.chart(0, open).draw({ x, y, hits: trials.map((trial) => hit(run, ...point(trial), trial)), layers: [
        ...markLayers(run, trials, point), { kind: "lines", style: "thick", cls: "best", isStep: true, lines: line.length ? [axisPoints(x, y, line)] : [] },
        bestLayer(run, point)] });
      card.note.textContent = `${run.missing}${card.edge(y, settings)}${isObjective ? `The line is the best so far.${run.isFiltered ? " It counts trials that are not selected, too." : ""}` : ""}`;
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
      const x = stepAxis(values);
      const y = valueAxis(name, values.map(([, value]) => value), run.signShown, { isLog: settings.isLogCurves && !log.disabled, isWhole: own.isWhole });
      const layers = byKind(trials, (of) => ({ kind: "lines", style: `lines${trials.length > 60 ? " many" : ""}`, lines: of.map((trial) => axisPoints(x, y, broken(trial, curves.get(trial)))) }));
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

  if (wants("front") && Object.keys(run.data.objectives).length > 1) addFront(run, open, add, redraw);
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
      if (!own.isChosen && own.metric !== run.metricShown) { [own.x, own.y] = run.pair; }
      own.metric = run.metricShown;
      if (!own.y) [own.x, own.y] = run.pair;
      const options = names.map((name) => [name, name]);
      fillX(options); fillY(options);
      const placed = run.shown.filter((trial) => kindOf(trial) !== "failed" && own.x in trial.params && own.y in trial.params);
      const trials = thinned(run, placed, MOST_POINTS);
      if (!trials.length) { card.scale.hidden = true; return card.none(); }
      const x = paramAxis(run, own.x, trials), y = paramAxis(run, own.y, trials);
      const levels = levelsOf(run, trials, own.colour);
      // Points of one category lie beside each other, always at the same position.
      const spread = (axis, trial, share) => axis.isCategory ? ((trial.number * share) % 1 - 0.5) * 0.6 : 0;
      const point = (trial) => [x.at(trial.params[own.x]) + spread(x, trial, 0.618034), y.at(trial.params[own.y]) + spread(y, trial, 0.754878)];
      const points = trials.map((trial) => [...point(trial), levels.get(trial), trial]), layers = [];
      for (let level = LEVELS - 1; level >= 0; level--) layers.push({ kind: "points", style: "seen", cls: `c${level}`, mark: "dot", points: points.filter(([, , of]) => of === level) });
      layers.push(ringLayer(placed.includes(run.best) ? [point(run.best)] : []));
      card.chart(0, open).draw({ x, y, layers, hits: points.map(([a, b, , trial]) => hit(run, a, b, trial)) });
      card.levels(run, trials.map((trial) => run.valueOf(trial)));
      const left = run.shown.length - placed.length;
      card.note.textContent = `Each point is a trial.${left ? ` ${counted(left, "trial")} without both parameters, or failed, ${left === 1 ? "is" : "are"} not there.` : ""}`;
    }, { there: () => run.params.length > 1 && run.scored.length > 2 });
    const names = run.params.map((name) => [name, name]);
    const choose = () => { own.isChosen = true; card.mark(); };
    const fillX = card.select("x", own, "x", names, choose);
    if (!own.y) [own.x, own.y] = run.pair;
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
      const y = valueAxis(run.metricShown, values, run.signShown, { isLog: settings.isLog, isWhole: whole.isWhole });
      names.filter((name) => chosen.has(name)).forEach((name, index) => {
        if (!card.panels[index]) { card.panels[index] = card.body.appendChild(el("div.plot", {})); card.panelNames[index] = name; }
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
      const objective = valueAxis(run.metricShown, values, run.signShown, { isLog: settings.isLog });
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
  return made;
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
  const { box, px, py } = chart;
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
// The objective of runs that are compared; of different ones, all.
const metricsOf = (runs) => [...new Set(runs.map((run) => run.metricShown))].join(", ");
function addEdf(runs, add) {
  const card = add("edf", "Share of trials up to a value", () => {
    const scored = runs.map((run) => run.scored.map((trial) => run.valueOf(trial)).sort((a, b) => a - b));
    const all = scored.flat();
    const x = valueAxis(metricsOf(runs), all, runs[0].signShown, own);
    card.note.textContent = card.edge(x, own);
    const y = numberAxis("share of trials", [0, 1]);
    card.chart(0).draw({ x, y, layers: scored.map((values, index) => ({ kind: "lines", style: "thick", cls: runs.length > 1 ? `run${index % 8}` : "finished", isStep: true,
      lines: [values.map((value, i) => [x.at(value), (i + 1) / values.length])] })),
      hits: scored.flatMap((values, index) => values.map((value, i) => ({ x: x.at(value), y: (i + 1) / values.length, text: () => `${runs.length > 1 ? `${runs[index].data.name}\n` : ""}${number((i + 1) / values.length * 100, 3)}% of trials are at most ${number(value)}` }))) });
  }, { there: () => runs.some((run) => run.scored.length > 1) });
  const own = { isWhole: false };
}
function addFront(run, open, add, redraw) {
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
      ringLayer(line)],
      hits: shown.map((trial) => ({ ...hit(run, ...point(trial), trial), text: () => `${best.includes(trial) ? "on the front: " : ""}${names.map((name) => `${name} ${number(metricOf(run, trial, name))}`).join(", ")}\n${run.about(trial)}` })) });
    front.note.textContent = atEdge + (best.length ? `On the front: ${best.length} of ${trials.length} trials (${cut(best.map((trial) => trial.number).join(", "), 120)}).` : "");
  }, { there: () => complete().length > 0 });
  if (names.length > 2) for (const name of ["x", "y"]) front.select(name, own, name, names.map((one) => [one, one]));
}
