// The plots of a run, a card for each. They touch their cards, and what a run has selected.

// The choice of the metric and of the value that counts, which hold for all plots of a run and the order of its table.
class MetricChoice {
  constructor(run, onChange) {
    this.run = run;
    const choice = (name, choose) => {
      const made = el("select", { onchange: () => {
        choose(made.value);
        run.setRanges(run.ranges);
        for (const card of cards) { card.zoomless(); card.mark(); }
        onChange();
      } });
      made.dataset.name = name;
      return made;
    };
    this.choice = choice("metric", (name) => { run.metric = name; });
    this.counts = choice("counts", (which) => { run.isBest = which === "best"; });
    this.counts.append(el("option", {}, "last"), el("option", {}, "best"));
    this.ofMetric = el("label.metric", {}, el("span", {}, "metric"), this.choice);
    this.ofValue = el("label.metric", {}, el("span", {}, "value"), this.counts);
    this.root = el("span.choices", {}, this.ofMetric, this.ofValue);
    this.fill();
  }
  fill() {
    const names = this.run.metricNames;
    this.ofMetric.hidden = names.length < 2;
    put(this.choice, names.join("\n"), () => names.map((name) => el("option", { value: name }, cut(name, 40))));
    this.choice.value = this.run.metricShown;
    this.ofValue.hidden = !this.run.trials.some((trial) => Object.keys(trial.bests).length);
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
      card.note.textContent = `${run.missing}${y.edge}${isObjective ? `The line is the best so far.${run.isFiltered ? " It counts trials that are not selected, too." : ""}` : ""}`;
    }, { there: () => run.scored.length > 0 });
    card.select("by", settings, "by", BY);
    const log = card.check("log", settings, "isLog");
  }

  if (wants("curves")) {
    const own = { by: "iteration", isSmooth: false, isLog: false };
    const card = add("curves", "Learning curves", () => {
      const { y, breaks, trials, allowed, best } = drawCurves(card.chart(0, open), run, run.metricShown, own, MOST_CURVES);
      log.disabled = !y.isPositive;
      kindChips(card, run, redraw);
      card.note.textContent = `${y.edge}${breaks.length ? "A line ends where its trial took over the checkpoint of another one, and starts again at the diamond. " : ""}${trials.length < allowed.length ? `${trials.length} of ${allowed.length} curves: the best third, and an even choice of the others. ` : ""}${best ? `The thick line is the best trial, ${best.number}.` : ""}`;
    }, { there: () => run.trials.some((trial) => curveOf(run, trial, run.metricShown).length > (only ? 0 : 1)) });
    card.select("by", own, "by", [["iteration", "iteration"], ["seconds", "seconds"]]);
    card.check("smooth", own, "isSmooth");
    const log = card.check("log", own, "isLog");
  }
  if (!only) {
    const names = () => run.metricNames.filter((name) => run.trials.some((trial) => curveOf(run, trial, name).length > 1));
    const card = add("metrics", "All metrics", () => {
      const shown = names();
      card.panels(shown, open).forEach((chart, index) => drawCurves(chart, run, shown[index], {}, MOST_SMALL_CURVES, 190));
    }, { isWide: true, there: () => names().length > 1 });
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
    const own = { isChosen: Boolean(settings.params), metric: run.metricShown, x: (settings.params || [])[0], y: (settings.params || [])[1] };
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
      const levels = levelsOf(run, trials);
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
  }

  if (wants("slice")) {
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
      const y = valueAxis(run.metricShown, values, run.signShown, { isLog: settings.isLog });
      const shown = names.filter((name) => chosen.has(name));
      card.panels(shown, open).forEach((chart, index) => {
        const name = shown[index], x = paramAxis(run, name, trials);
        const point = (trial) => [x.at(trial.params[name]), y.at(run.valueOf(trial))];
        chart.draw({ x, y, height: 250, layers: [...markLayers(run, trials, point), bestLayer(run, point)], hits: trials.map((trial) => hit(run, ...point(trial), trial)) });
      });
      card.note.textContent = shown.length ? y.edge : "Choose a parameter.";
    }, { isWide: true, there: () => run.scored.length > 0 && (run.params.length > 0 || settings.params) });
  }

  if (wants("parallel")) {
    const card = add("parallel", "Parallel coordinates", () => {
      const all = settings.params || run.params, room = Math.max(2, Math.floor(card.body.clientWidth / 84) - 1), names = all.slice(0, room);
      const trials = thinned(run, run.shown, MOST_LINES);
      // The axes are those of all trials, so that a range can be made wider.
      drawParallel(card, run, open, parallelAxes(run, names), trials);
      clear.hidden = !run.ranges.length;
      card.scale.hidden = !trials.length;
      if (!trials.length) { card.note.textContent = "No trial is selected."; return; }
      card.levels(run, trials.map((trial) => run.valueOf(trial)));
      card.note.textContent = `${all.length > names.length ? `The ${names.length} most important of ${all.length} parameters fit here. ` : ""}${trials.length < run.shown.length ? `${trials.length} of ${run.shown.length} trials: the best third, and an even choice of the others.` : ""}`;
    }, { isWide: true, there: () => run.scored.length > 0 && (settings.params || run.params).length > (only ? 0 : 1) });
    const clear = pushButton("no ranges", () => card.onRange([]), { hidden: true });
    card.controls.append(clear);
  }

  return made;
}
// The learning curves of the chosen trials, of at most so many. Returns what they are, and the axis of their values.
function drawCurves(chart, run, name, { by, isSmooth, isLog }, most, height) {
  const isTimed = by === "seconds", courseOf = (trial) => curveOf(run, trial, name, { isTimed, isSmooth });
  const allowed = run.trials.filter((trial) => run.isChosen(trial) && courseOf(trial).length);
  const trials = thinned(run, allowed, most), curves = new Map(trials.map((trial) => [trial, courseOf(trial)]));
  const points = [...curves.values()].flat(), values = points.map(([, value]) => value);
  const x = stepAxis(points, isTimed), y = valueAxis(name, values, run.signOf(name), { isLog });
  const layers = byKind(trials, (of) => ({ kind: "lines", style: `lines${trials.length > 60 ? " many" : ""}`, lines: of.map((trial) => axisPoints(x, y, broken(trial, curves.get(trial)))) }));
  const ends = (kind) => trials.filter((trial) => kindOf(trial) === kind).map((trial) => axisPoints(x, y, curves.get(trial).slice(-1))[0]);
  for (const kind of ["stopped", "failed"]) layers.push({ kind: "points", style: "marks", mark: kind, cls: kind, points: trials.length <= 100 ? ends(kind) : [] });
  const best = curves.has(run.best) ? run.best : null;
  if (best) layers.push({ kind: "lines", style: "thick", cls: "best", lines: [axisPoints(x, y, broken(best, curves.get(best)))] });
  const breaks = trials.filter((trial) => exploitsOf(trial).length).flatMap((trial) => curves.get(trial).filter((_, index, all) => isNewBegin(exploitsOf(trial), all, index)));
  if (breaks.length) layers.push({ kind: "points", style: "marks", mark: "interrupted", cls: "best", points: axisPoints(x, y, breaks) });
  const hits = trials.flatMap((trial) => curves.get(trial).map(([step, value]) => ({ x: x.at(step), y: y.at(value), trial,
    text: () => `${isTimed ? seconds(step) : `iteration ${number(step)}`}: ${number(value)}\n${run.about(trial)}${trial.why ? `\n${cut(trial.why, 160)}` : ""}` })));
  chart.draw({ x, y, layers, hits, height });
  return { y: { ...y, isPositive: range(values)[0] > 0 }, breaks, trials, allowed, best };
}
function drawParallel(card, run, open, axes, trials) {
  const levels = levelsOf(run, trials);
  const shareAt = (axis, at) => (at - axis.low) / ((axis.high - axis.low) || 1);
  const lines = new Map(trials.map((trial) => [trial, axes.map((axis, index) => [index, shareAt(axis, axis.at(axis.of(trial)))])]));
  const byLevel = Array.from({ length: LEVELS }, () => []);
  for (const [trial, line] of lines) byLevel[levels.get(trial)].push(line);
  const marks = run.ranges.flatMap(([name, low, high]) => { const index = axes.findIndex((axis) => axis.name === name);
    return index < 0 ? [] : [[index - 0.06, shareAt(axes[index], low), index + 0.06, shareAt(axes[index], high)]]; });
  const plain = (low, high) => ({ low, high, hidden: true, ticks: () => [], name: "" });
  const chart = card.chart(0, open);
  chart.draw({ x: plain(-0.45, axes.length - 0.55), y: plain(-0.06, 1.12), height: 330, zooms: false,
    layers: [{ kind: "lines", style: "grid", lines: axes.map((_, index) => [[index, 0], [index, 1]]) },
      ...byLevel.map((of, level) => ({ kind: "lines", cls: `c${level}`, lines: of })).reverse(), { kind: "bars", style: "range", boxes: marks }],
    hits: trials.flatMap((trial) => lines.get(trial).map(([x, y]) => hit(run, x, y, trial))) });
  // A range that is dragged along an axis limits the selection.
  chart.onRange = card.onRange && ((x, from, to) => {
    const index = Math.round(x), axis = axes[index];
    if (!axis || Math.abs(x - index) > 0.3) return;
    const ends = [Math.min(from, to), Math.max(from, to)].map((share) => axis.low + share * (axis.high - axis.low));
    card.onRange([...run.ranges.filter(([name]) => name !== axis.name), [axis.name, ...ends]]);
  });
  const { box, px, py } = chart;
  const room = Math.floor(box.width / axes.length / 7);
  axes.forEach((axis, index) => {
    const name = shape("text", { x: px(index), y: 14, "text-anchor": "middle" }, cut(axis.name, room));
    name.append(shape("title", {}, axis.name));
    chart.svg.append(name);
    for (const [at, label] of axis.ticks(axis.low, axis.high, axis.isCategory ? 12 : 4)) {
      const share = shareAt(axis, at);
      if (share < 0 || share > 1) continue;
      chart.svg.append(shape("text", { class: "tick", x: px(index) + 4, y: py(share) + 4 }, cut(label, Math.max(4, room - 2))));
    }
  });
}
// The objective of runs that are compared; of different ones, all.
const metricsOf = (runs) => [...new Set(runs.map((run) => run.metricShown))].join(", ");
function addFront(run, open, add, redraw) {
  const names = Object.keys(run.data.objectives);
  const { complete, scoresOf } = objectivesOf(run);
  const own = { x: names[0], y: names[1] };
  const front = add("front", "Front", () => {
    const { trials, scores, best } = frontOf(run);
    const axisOf = (name) => {
      const mode = run.data.objectives[name];
      return valueAxis(`${name} (${mode})`, trials.map((trial) => lastOf(run, trial, name)), mode === "max" ? -1 : 1);
    };
    const x = axisOf(own.x), y = axisOf(own.y);
    const point = (trial) => [x.at(lastOf(run, trial, own.x)), y.at(lastOf(run, trial, own.y))];
    const shown = trials.filter((trial) => run.isChosen(trial));
    const line = best.map(point).sort((a, b) => a[0] - b[0] || a[1] - b[1]);
    kindChips(front, run, redraw);
    front.chart(0, open).draw({ x, y, layers: [...markLayers(run, shown, point), ...(names.length === 2 ? [{ kind: "lines", cls: "best", lines: [line] }] : []),
      ringLayer(line)],
      hits: shown.map((trial) => ({ ...hit(run, ...point(trial), trial), text: () => `${best.includes(trial) ? "on the front: " : ""}${names.map((name) => `${name} ${number(lastOf(run, trial, name))}`).join(", ")}\n${run.about(trial)}` })) });
    front.note.textContent = (x.edge || y.edge) + (best.length ? `On the front: ${best.length} of ${trials.length} trials (${cut(best.map((trial) => trial.number).join(", "), 120)}).` : "");
  }, { there: () => complete().length > 0 });
  if (names.length > 2) for (const name of ["x", "y"]) front.select(name, own, name, names.map((one) => [one, one]));
}
