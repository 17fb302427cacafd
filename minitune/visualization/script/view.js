// The page of a run, and several runs side by side. It touches the head of the page, its title and its address.

// The summary at the top has numbers as people say them. The tip, the copies and all tables have six digits or more.
const short = (value) => isNumber(value) ? number(value, 3) : text(value);
function configTable(params) {
  const names = Object.keys(params).sort(inOrder);
  if (!names.length) return null;
  return el("dl.facts.config", {}, ...names.map((name) => el("div", {}, el("dt", {}, name), el("dd", { title: text(params[name]) }, cut(short(params[name]), 80)))));
}
const copyOf = (config) => el("div.controls.copies", {}, copied(python(config), "copy as Python"));
// The trials of a run by state: ended ones full, running ones light, the others empty.
function progressBar(counts, label) {
  const bar = el("div.bar", { role: "img", ariaLabel: label });
  for (const state of Object.keys(KINDS)) {
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
    this.redraw = () => { for (const card of this.cards) card.mark(); if (this.table) this.table.refresh(); };
    this.cards = plotsOf(run, open, this.redraw, only);
    if (only) {
      // Not in the card, which is hidden while a metric has too few values.
      const isOfMetric = ["history", "curves", "contour", "slice", "parallel"].includes(only.view);
      host.append(isOfMetric ? el("div.controls", {}, new MetricChoice(run, () => {}).root) : "", el("div.cards.alone", {}, ...this.cards.map((card) => card.root)));
      return;
    }
    const part = (className) => el("section", { className });
    this.hero = part("best-of"); this.progress = part("progress"); this.facts = part("about");
    this.overview = el("section.card.wide.overview-card", { id: "overview" }, this.hero, el("div", {}, this.progress, this.facts));
    this.errors = el("section.card.wide", { id: "errors" });
    this.table = new TrialTable(run, open, this.isAlone);
    this.table.root.id = "trials";
    this.table.onSelect = () => { for (const card of this.cards) card.mark(); };
    const limit = (ranges) => { run.setRanges(ranges); this.redraw(); if (this.isAlone) this.remember(true); };
    for (const card of this.cards) card.onRange = limit;
    if (this.isAlone) this.metric = new MetricChoice(run, this.redraw);
    this.row = el("div.selection", {}, this.isAlone ? this.metric.root : null, this.table.input, this.table.count);
    host.append(...(this.isAlone ? [this.row, this.table.problem] : []), el("div.cards", {}, this.overview, this.errors, ...this.cards.map((card) => card.root), this.table.root));
    this.describe();
    if (!this.isAlone) return;
    trialShown = (isStep) => this.remember(isStep);
    addEventListener("keydown", (event) => { if (event.key === "Escape" && !opened && run.ranges.length) limit([]); });
    // A word typed in one go is one step.
    let isTyping = false;
    this.table.input.addEventListener("input", () => { this.remember(!isTyping); isTyping = true; });
    this.table.input.addEventListener("change", () => { isTyping = false; });
    addEventListener("popstate", (event) => this.recall(event.state));
    if (history.state || location.hash.length > 1) this.recall(history.state);
  }
  // What Back undoes: the filter, the ranges, and the open trial, which alone is in the address.
  remember(isStep) {
    if (this.isRecalling) return;
    const state = { words: this.table.input.value, ranges: this.run.ranges };
    const address = `${location.pathname}${location.search}${opened ? `#trial=${opened.trial.number}` : ""}`;
    try {
      if (isStep) history.pushState(state, "", address); else history.replaceState(state, "", address);
    } catch {}  // in a notebook's frame, the page has no address of its own
  }
  recall(state) {
    const { words, ranges } = state || { words: "", ranges: [] };
    const [, given] = /^#trial=(\d+)$/.exec(location.hash) || [], trial = given && this.run.byNumber.get(Number(given));
    this.isRecalling = true;
    this.table.input.value = words;
    this.run.setRanges(ranges);
    this.table.select();
    if (trial) openTrial(this.run, trial); else if (dialog.open) dialog.close();
    this.isRecalling = false;
  }
  describe() {
    const run = this.run, data = run.data, best = run.byNumber.get(data.best);
    const counts = { ...Object.fromEntries(Object.keys(KINDS).map((state) => [state, 0])), ...data.counts }, total = Object.values(counts).reduce((a, b) => a + b, 0);
    const ended = counts.finished + counts.stopped + counts.failed;
    if (this.isAlone) document.title = data.is_live ? `(${ended}/${data.total === null ? "∞" : total}) ${data.name}` : `minitune: ${data.name}`;
    this.describeBest(best);
    put(this.progress, JSON.stringify([data.state, counts, data.total, data.resume]), () => {
      const kinds = { running: "running", finished: "finished", failed: "failed", killed: "failed" };
      const bar = progressBar(counts, `${ended} of ${total} trials have ended`);
      this.time = el("span.time", {});
      return [el("div.overview", {}, el("span", { className: `badge ${kinds[data.state] || "stopped"}` }, data.state),
        counts.failed ? pushButton(`${counts.failed} failed`, () => this.errors.scrollIntoView(), { className: "badge failed" }) : null,
        el("b", {}, data.total === null && data.is_live ? counted(ended, "trial") : `${ended} of ${counted(total, "trial")}`), this.time), bar,
      el("p.counts", {}, Object.keys(KINDS).filter((state) => counts[state]).map((state) => `${counts[state]} ${state}`).join(" · ") || "no trial has started"),
      data.resume ? withCopy(data.resume) : null];
    });
    put(this.facts, JSON.stringify([data.state_text, data.objectives, data.is_live || data.worked_s]), () => [el("details", {}, el("summary", {}, "about this run"), definitions({
      state: data.state_text === data.state ? "" : data.state_text,
      objective: Object.keys(data.objectives).length ? Object.entries(data.objectives).map(([name, mode]) => `${name} (${mode})`).join(", ") : data.metric ? `${data.metric} (${data.mode})` : "none",
      trainable: data.trainable, begun: date(data.begun_s), duration: data.is_live ? "" : seconds(data.worked_s), seed: data.seed, directory: data.path }))]);
    this.describeErrors();
    if (this.metric) this.metric.fill();
    this.tick();
  }
  describeBest(best) {
    const run = this.run, data = run.data;
    const front = Object.keys(data.objectives).length > 1 ? frontOf(run) : null;
    put(this.hero, JSON.stringify([front && [front.trials.length, front.best.map((trial) => trial.number)], best && [best.number, best.value, best.status, data.best_config, best.params], data.is_live, data.metric, data.remark, data.confirmed]), () => {
      if (!best) {
        const why = !data.metric ? "The run has no objective." : data.is_live ? `No trial has reported ${data.metric} so far.` : `No trial has reported ${data.metric}.`;
        return [el("h3", {}, "Best"), el("p.quiet", {}, why)];
      }
      if (front && front.best.length) {
        const names = Object.keys(data.objectives);
        const leader = (i) => front.best.reduce((a, b) => front.scores.get(b)[i] < front.scores.get(a)[i] ? b : a);
        const line = (name, trial) => el("p.gain", {}, `best ${name}: `, trialButton(run, trial), ` ${names.map((one) => `${one} ${number(metricOf(run, trial, one))}`).join(", ")}`);
        return [el("div.name", {}, "Front", el("span.quiet", {}, ` (${names.map((name) => `${data.objectives[name]} ${name}`).join(", ")})`)),
          el("div.value", {}, `${front.best.length} of ${front.trials.length}`), ...names.map((name, i) => line(name, leader(i)))];
      }
      const aimed = data.confirmed ?? best.value;
      const aim = data.mode === "max" ? "largest" : "smallest";
      return [el("div.name", {}, `Best ${cut(data.metric, 48)}`, el("span.quiet", {}, ` (${aim})`)),
        el("div.value", { title: String(aimed) }, number(aimed, 4)),
        el("p.gain", {}, trialButton(run, best), el("span", { className: kindOf(best) === "failed" ? "failed" : "" }, ` ${best.ended}`)),
        data.remark ? el("p.note", {}, `${data.remark}.`) : null,
        configTable(best.params), data.best_config ? copyOf(data.best_config) : null];
    });
  }
  describeErrors() {
    const run = this.run, groups = run.data.errors || [];
    this.errors.hidden = !groups.length;
    put(this.errors, JSON.stringify(groups), () => [el("h3", {}, `Errors (${groups.reduce((sum, group) => sum + group.trials.length, 0)})`),
      ...groups.slice(0, 10).map((group) => el("div.error", {}, el("p", {}, el("b", {}, `${group.trials.length} × `), group.error),
        el("p.quiet", {}, "trials ", ...group.trials.slice(0, 12).flatMap((n, index) => [index ? ", " : "", trialButton(run, run.byNumber.get(n), String(n))]), group.trials.length > 12 ? ` and ${group.trials.length - 12} more` : ""),
        withCopy(group.rerun))),
      groups.length > 10 ? el("p.note", {}, `and ${groups.length - 10} more kinds: filter the table by failed`) : null]);
  }
  tick() {
    const run = this.run, data = run.data;
    if (!this.time) return;
    const left = data.rest_s === null ? "" : ` · about ${clockText(Math.max(1, data.rest_s))} to go`;
    tell(this.time, data.is_live ? `${clockText(data.worked_s)}${left}` : seconds(data.worked_s));
  }
  update() {
    if (!this.only) { this.describe(); this.table.refresh(); }
    for (const card of this.cards) card.mark();
    if (opened && opened.run === this.run) {
      const now = this.run.byNumber.get(opened.trial.number);
      if (now && now !== opened.trial) openTrial(this.run, now);
    }
  }
}

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
      card.legend.replaceChildren(...runs.map((run, index) => el("span", {}, el(`span.key.run${index % 8}`), run.data.name)));
      card.chart(0).draw({ x, y, layers: lines.map((line, index) => ({ kind: "lines", style: "thick", cls: `run${index % 8}`, isStep: true, lines: [axisPoints(x, y, line)] })),
        hits: lines.flatMap((line, index) => line.map(([at, value]) => ({ x: x.at(at), y: y.at(value), text: () => `${runs[index].data.name}: ${number(value)}` }))) });
    });
    card.select("by", own, "by", BY);
    const log = card.check("log", own, "isLog");
  }
  if (only) { host.append(el("div.cards.alone", {}, ...made.map((card) => card.root))); return; }
  // The same rows and texts as those of `minitune ls A B`.
  const names = [...new Set(runs.flatMap((run) => Object.keys(run.data.compared)))].filter((name) => runs.some((run) => run.data.compared[name]));
  const table = el("table.side", {}, el("thead", {}, el("tr", {}, el("th"), ...runs.map((run, index) => el("th", { scope: "col" }, el("span", { className: `key run${index % 8}` }), run.data.name)))),
    el("tbody", {}, ...names.map((name) => el("tr", {}, el("th", { scope: "row" }, name), ...runs.map((run) => el("td", {}, run.data.compared[name] ?? ""))))));
  host.append(el("h2", {}, "Side by side"), el("div.cards", {}, el("section.card.wide", {}, el("div.scroll", {}, table)), ...made.map((card) => card.root)));
}
