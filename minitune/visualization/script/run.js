// A run: its trials, and what plots need of them. Touches nothing but its data.
class Run {
  constructor(data) {
    this.data = data;
    this.trials = data.trials;
    this.byNumber = new Map(this.trials.map((trial) => [trial.number, trial]));
    this.hidden = new Set(); this.filter = null;
  }
  // The time of the run's machine since the first trial began, as of the last message.
  get now() { return Math.max(0, this.data.now_s - this.data.first_s); }
  quiet(trial) { return trial.reported_s === null ? null : Math.max(0, this.now - trial.reported_s); }
  update(data) {
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
  spans(trial) { return trial.working_s === null ? trial.spans : [...trial.spans, [trial.working_s, Math.max(trial.working_s, this.now)]]; }
  worked(trial) { return trial.counted_s + (trial.since_s === null ? 0 : Math.max(0, this.now - trial.since_s)); }
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
    const odd = this.metricShown === this.data.metric ? this.trials.filter((trial) => trial.odd && this.isChosen(trial)).length : 0;
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
// of the others apart, or by value.
function levelsOf(run, trials, by) {
  const sign = run.signShown, valueOf = (trial) => run.valueOf(trial), scored = [...trials].sort((a, b) => sign * (valueOf(a) - valueOf(b)));
  const [low, high] = range(trials.map((trial) => sign * valueOf(trial)));
  return new Map(scored.map((trial, rank) => {
    const share = by === "rank" ? rank / Math.max(1, scored.length - 1) : (sign * valueOf(trial) - low) / ((high - low) || 1);
    return [trial, Math.min(LEVELS - 1, Math.floor(share * LEVELS))];
  }));
}
const BY = [["trial", "trial"], ["end", "time"]];
const BY_NAMES = { trial: "trial", end: "end of the trial" };
function positionsBy(run, by) {
  if (by === "trial") return new Map(run.trials.map((trial) => [trial, trial.number]));
  const begun = run.trials.map((trial) => [trial, run.spans(trial)]).filter(([, spans]) => spans.length);
  return new Map(begun.map(([trial, spans]) => [trial, Math.max(0, spans[spans.length - 1][1])]));
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
// A layer for each state of trials.
const byKind = (trials, layer) => Object.keys(KINDS).map((kind) => ({ cls: KINDS[kind], ...layer(trials.filter((trial) => kindOf(trial) === kind), kind) }));
const markLayers = (run, trials, point) => byKind(trials, (of, kind) => ({
  kind: "points", style: `marks${trials.length > 600 ? " many" : ""}`, mark: kind, points: of.map(point),
}));
const ringLayer = (points) => ({ kind: "points", style: "thick", mark: "running", cls: "best", points });
const bestLayer = (run, point) => ringLayer(run.best && isNumber(run.valueOf(run.best)) ? [point(run.best)] : []);
const dominates = (a, b) => a.every((value, i) => value <= b[i]) && a.some((value, i) => value < b[i]);
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
function gainOver(run, best, first) {
  if (!first || first === best) return run.aimed.length > 1 ? ", the first one" : "";
  return `, from ${number(first.value, 4)} in the first trial`;
}
