// A run: its trials, and what plots need of them. Touches nothing but its data.
class Run {
  constructor(data) {
    this.byNumber = new Map();
    this.update(data);
    this.hidden = new Set(); this.filter = null; this.isBest = false;
    this.setRanges([]);
  }
  // A trial that is as it was stays the same object, so what shows it need not be made again.
  update(data) {
    this.data = data;
    data.trials = this.trials = data.trials.map((trial) => {
      const known = this.byNumber.get(trial.number);
      return known && JSON.stringify(known) === JSON.stringify(trial) ? known : trial;
    });
    this.byNumber = new Map(this.trials.map((trial) => [trial.number, trial]));
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
    if (name === this.data.metric && !this.isBest || !this.isObjectiveShown) return this.byNumber.get(this.data.best);
    const value = (trial) => this.signShown * this.valueOf(trial);
    return this.scored.filter((trial) => kindOf(trial) !== "failed").reduce((a, b) => !a || value(b) < value(a) ? b : a, undefined);
  }
  get importances() { return this.data.importances[this.metricShown]; }
  get scored() { return this.trials.filter((trial) => isNumber(this.valueOf(trial))); }
  // One selection holds for all plots and the table: the states that are not switched off, the filter, and the ranges of
  // parallel coordinates.
  isChosen(trial) { return !this.hidden.has(kindOf(trial)) && (!this.filter || this.filter(trial)) && this.limits.every((has) => has(trial)); }
  get isFiltered() { return this.hidden.size > 0 || Boolean(this.filter) || this.limits.length > 0; }
  // Ranges are [name of the axis, low, high] in its coordinates. Those of an axis that is not there any more go.
  setRanges(ranges) {
    const axes = ranges.length ? parallelAxes(this) : [], axisOf = ([name]) => axes.find((axis) => axis.name === name);
    this.ranges = ranges.filter(axisOf);
    this.limits = this.ranges.map((range) => { const axis = axisOf(range), [, low, high] = range; return (trial) => { const at = axis.at(axis.of(trial)); return at >= low && at <= high; }; });
  }
  get shown() { return this.scored.filter((trial) => this.isChosen(trial)); }
  // The parameters that took more than one value, the most important one first.
  get params() {
    const varied = this.data.params.filter((name) => new Set(this.trials.map((trial) => text(trial.params[name]))).size > 1);
    const { shares } = this.importances || { shares: {} };
    return varied.sort((a, b) => (shares[b] ?? -1) - (shares[a] ?? -1));
  }
  // The two most important parameters that vary among trials with both.
  get pair() {
    const names = this.params;
    return names.flatMap((x, i) => names.slice(i + 1).map((y) => [x, y])).find((pair) => {
      const both = this.scored.filter((trial) => pair.every((name) => name in trial.params));
      return pair.every((name) => new Set(both.map((trial) => trial.params[name])).size > 1);
    }) || names;
  }
  // Why trials are missing in plots.
  get missing() {
    const odd = this.metricShown === this.data.metric ? this.trials.filter((trial) => trial.odd && !isNumber(this.valueOf(trial)) && this.isChosen(trial)).length : 0;
    return odd ? `${counted(odd, "trial")} without a finite ${this.data.metric}. ` : "";
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
// Levels of colour: 0 for the best trial, the last for the worst one. By rank, so that one diverged trial leaves the colours
// of the others apart.
function levelsOf(run, trials) {
  const scored = [...trials].sort((a, b) => run.signShown * (run.valueOf(a) - run.valueOf(b)));
  return new Map(scored.map((trial, rank) => [trial, Math.min(LEVELS - 1, Math.floor(rank / Math.max(1, scored.length - 1) * LEVELS))]));
}
const BY = [["trial", "trial"], ["end", "time"]];
const BY_NAMES = { trial: "trial", end: "last report of the trial" };
function positionsBy(run, by) {
  if (by === "trial") return new Map(run.trials.map((trial) => [trial, trial.number]));
  return new Map(run.trials.filter((trial) => trial.reported_s !== null).map((trial) => [trial, Math.max(0, trial.reported_s - run.data.begun_s)]));
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
// The axes of parallel coordinates: parameters, and the metric that is shown. `of` gives a trial's value.
function parallelAxes(run, names = run.params) {
  const values = run.scored.map((trial) => run.valueOf(trial));
  return [...names.map((name) => ({ ...paramAxis(run, name, run.scored), of: (trial) => trial.params[name] })),
    { ...valueAxis(run.metricShown, values, run.signShown), of: (trial) => run.valueOf(trial) }];
}
// The [iteration, value] pairs of a metric of a trial, or [seconds, value]. The seconds and other metrics than the objective are
// known at some positions of the curve.
function curveOf(run, trial, name, { isTimed, isSmooth } = {}) {
  const { at, seconds, values } = trial.courses, isObjective = name === run.data.metric, isWhole = !at || (isObjective && !isTimed);
  const placeOf = (i) => isWhole ? i : at[i], stepOf = (place) => trial.steps ? trial.steps[place] : place + 1;
  const found = !isObjective ? values[name] || [] : isWhole ? trial.curve : at.map((place) => trial.curve[place]);
  const points = found.map((value, i) => [isTimed ? seconds[i] : stepOf(placeOf(i)), value]).filter((point) => point.every(isNumber));
  return isSmooth ? smoothed(points) : points;
}
// The mean of a value and those before it, each of which counts 0.6 times as much as the one after it.
function smoothed(points) {
  let sum = 0, weight = 0;
  return points.map(([step, value]) => { sum = sum * 0.6 + value; weight = weight * 0.6 + 1; return [step, sum / weight]; });
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
// A layer for each state of trials.
const byKind = (trials, layer) => Object.keys(KINDS).map((kind) => ({ cls: KINDS[kind], ...layer(trials.filter((trial) => kindOf(trial) === kind), kind) }));
const markLayers = (run, trials, point) => byKind(trials, (of, kind) => ({
  kind: "points", style: `marks${trials.length > 600 ? " many" : ""}`, mark: kind, points: of.map(point),
}));
const ringLayer = (points) => ({ kind: "points", style: "thick", mark: "running", cls: "best", points });
const bestLayer = (run, point) => ringLayer(run.best && isNumber(run.valueOf(run.best)) ? [point(run.best)] : []);
const dominates = (a, b) => a.every((value, i) => value <= b[i]) && a.some((value, i) => value < b[i]);
const lastOf = (run, trial, name) => name === run.data.metric ? trial.value : trial.metrics[name];
// The value that counts: the last one, or the best one of an objective if the reader has chosen that.
const metricOf = (run, trial, name) => (run.isBest ? trial.bests[name] : undefined) ?? lastOf(run, trial, name);
function objectivesOf(run) {
  const names = Object.keys(run.data.objectives);
  return { names, complete: () => run.trials.filter((trial) => kindOf(trial) !== "failed" && names.every((name) => isNumber(lastOf(run, trial, name)))),
    scoresOf: (trial) => names.map((name) => (run.data.objectives[name] === "max" ? -1 : 1) * lastOf(run, trial, name)) };
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
