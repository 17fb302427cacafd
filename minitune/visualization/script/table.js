// The table of trials. It touches what its run has selected.

// Rows by one of their values: numbers as such, texts by the numbers in them. Missing ones are last; equal ones keep their order.
function sortedBy(rows, get, isDown) {
  const sign = isDown ? -1 : 1, missing = (value) => value === undefined || value === null || value === "";
  const keyed = rows.map((row) => [get(row), row]).sort(([a], [b]) => {
    if (missing(a) || missing(b)) return missing(a) - missing(b);
    return sign * (typeof a === "number" && typeof b === "number" ? a - b : text(a).localeCompare(text(b), undefined, { numeric: true }));
  });
  return keyed.map(([, row]) => row);
}
// The heads of columns, which sort by a click, and in the other direction by the next one.
function sortHeads(columns, by, isDown, onSort) {
  return columns.map((column) => {
    const isSorted = column === by;
    const button = el("button", { type: "button", title: column.name, onclick: () => onSort(column.name, isSorted && !isDown) }, column.name + (isSorted ? isDown ? " ▾" : " ▴" : ""));
    button.dataset.key = `sort ${column.name}`;
    const head = el("th", { scope: "col" }, button);
    if (isSorted) head.setAttribute("aria-sort", isDown ? "descending" : "ascending");
    return head;
  });
}

// As in the tables of Python: a trial without a report has neither.
const iterationOf = (trial) => !trial.curve.length ? undefined : trial.steps ? trial.steps[trial.steps.length - 1] : trial.curve.length;
// As in `minitune ls`: how a trial has ended is there once it has, and its cell is empty if that says no more than its status.
const endOf = (trial) => ["running", "pending"].includes(kindOf(trial)) ? undefined : trial.ended;

// The columns of the table. The facts of one trial are the same, but for its parameters.
function columnsOf(run) {
  const data = run.data, of = (name, get, isQuiet) => ({ name, get, isQuiet });
  const metrics = data.metrics.filter((name) => name !== data.metric);
  const params = data.params.map((name) => ({ ...of(name, (trial) => trial.params[name]), also: [`config/${name}`], isParam: true }));
  return [
    of("trial", (trial) => trial.number), ...(data.metric ? [{ ...of(data.metric, (trial) => metricOf(run, trial, data.metric)), told: (trial) => metricOf(run, trial, data.metric) ?? trial.odd }] : []),
    ...metrics.filter((name) => name in data.objectives).map((name) => of(name, (trial) => metricOf(run, trial, name))),
    of("status", kindOf), of("repeats", (trial) => trial.repeats), { ...of("ended", endOf), told: (trial) => endOf(trial) === kindOf(trial) ? undefined : endOf(trial) },
    ...metrics.filter((name) => !(name in data.objectives)).map((name) => of(name, (trial) => trial.metrics[name], true)),
    ...params,
    { ...of("iter", iterationOf), also: ["training_iteration"] }, { ...of("total time (s)", (trial) => trial.curve.length ? trial.total_s : undefined), also: ["total time", "time_total_s"] },
    ...(data.is_live ? [{ ...of("last report", (trial) => kindOf(trial) === "running" ? trial.reported_s : undefined), told: (trial) => kindOf(trial) === "running" && trial.reported_s ? new Date(trial.reported_s * 1000).toLocaleTimeString() : undefined }] : []),
    of("rank", (trial) => trial.facts.rank === undefined ? undefined : `${trial.facts.rank} of ${trial.facts.of}${trial.facts.rung === undefined ? "" : ` at ${text(trial.facts.rung)}`}`, true),
    of("cutoff", (trial) => trial.facts.cutoff, true),
    of("why", (trial) => trial.why, true), of("error", (trial) => trial.error), of("name", (trial) => trial.name, true),
  ];
}

const tables = [];
class TrialTable {
  constructor(run, open, isAlone) {
    this.run = run; this.open = open; this.sort = null; this.isDown = false; this.chosen = null; this.isWhole = false;
    this.input = el("input", { type: "search", placeholder: `filter: ${run.data.metric || "iter"} ${run.sign < 0 ? ">" : "<"} 0.9 and finished`, ariaLabel: "filter", oninput: () => { this.rows.scrollTop = 0; this.isWhole = false; this.select(); } });
    this.problem = el("p.note.failed", { role: "alert", hidden: true });
    this.count = el("span.quiet.count", {});
    this.list = el("div.columns", {});
    this.head = el("tr"); this.body = el("tbody"); this.lines = [];
    this.rows = el("div.rows", { tabIndex: 0 }, el("table", {}, el("thead", {}, this.head), this.body));
    this.all = pushButton("", () => this.showAll(true));
    this.root = el("section.card.wide.table", {}, el("div.tools", {}, el("h3", {}, "Trials"), ...(isAlone ? [] : [this.input, this.count]),
      el("details", {}, el("summary", {}, "columns"), this.list),
      pushButton("CSV", () => save(`${run.data.name}.csv`, this.csv(), "text/csv"))), ...(isAlone ? [] : [this.problem]), this.rows, this.all);
    this.body.addEventListener("click", (event) => { const row = event.target.closest("tr"); if (row && row.trial) open(row.trial); });
    this.body.addEventListener("keydown", (event) => { const row = event.target.closest("tr"); if (event.key === "Enter" && row && row.trial) open(row.trial); });
    tables.push(this);
    this.refresh();
  }
  // The filter holds for the table and all plots. What cannot be read changes nothing.
  select() {
    const found = readFilter(this.input, this.problem, columnsOf(this.run), this.run.trials);
    if (found) this.run.filter = found.test;
    this.refresh();
    if (this.onSelect) this.onSelect();
  }
  csv() {
    const columns = columnsOf(this.run), field = (value) => { const told = value === undefined || value === null ? "" : String(value); return /[",\n\r]/.test(told) ? `"${told.replaceAll('"', '""')}"` : told; };
    return [columns.map((column) => field(column.name)).join(","), ...this.found.map((trial) => columns.map((column) => field(column.get(trial))).join(","))].join("\r\n") + "\r\n";
  }
  refresh() {
    const all = columnsOf(this.run), run = this.run;
    const isUsed = (column) => run.trials.some((trial) => ![undefined, null, ""].includes((column.told || column.get)(trial)));
    const shown = all.filter((column) => this.chosen ? this.chosen.has(column.name) : (!column.isQuiet || column.name === run.metricShown) && isUsed(column));
    put(this.list, [...all, "", ...shown].map((column) => column.name).join("|"), () => all.map((column) => el("label", {}, el("input", { type: "checkbox", checked: shown.includes(column), onchange: (event) => {
      this.chosen = new Set(shown.map((one) => one.name));
      if (event.target.checked) this.chosen.add(column.name); else this.chosen.delete(column.name);
      this.refresh();
    } }), ` ${cut(column.name, 40)}`)));
    this.columns = shown;
    const by = all.find((column) => column.name === (this.sort ?? run.metricShown));
    const isDown = this.sort === null ? run.signShown < 0 : this.isDown;
    this.found = run.trials.filter((trial) => run.isChosen(trial));
    if (this.sort === null && !run.isBest && run.metricShown === run.data.metric) {  // as all views rank trials
      const places = new Map(run.data.order.map((number, index) => [number, index]));
      this.found = sortedBy(this.found, (trial) => places.get(trial.number), false);
    } else if (by) this.found = sortedBy(this.found, by.get, isDown);
    this.count.textContent = `${this.found.length} of ${run.trials.length} trials`;
    this.head.replaceChildren(...sortHeads(shown, by, isDown, (name, isDown) => { Object.assign(this, { sort: name, isDown }); this.rows.scrollTop = 0; this.refresh(); }));
    const focused = this.body.contains(document.activeElement) && document.activeElement.trial;
    this.paint();
    const line = focused && this.lines.find((one) => one.trial.number === focused.number);
    if (line) line.focus({ preventScroll: true });
  }
  showAll(isWhole) { this.isWhole = isWhole; this.paint(); }
  paint() {
    const count = this.isWhole ? this.found.length : Math.min(MOST_ROWS, this.found.length);
    this.lines = Array.from({ length: count }, (_, index) => this.line(index));
    this.body.replaceChildren(...this.lines);
    this.all.hidden = count === this.found.length;
    this.all.textContent = `show all ${this.found.length} rows`;
  }
  line(index) {
    const trial = this.found[index], line = el("tr", { tabIndex: 0 });
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
