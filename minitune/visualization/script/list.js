// The list of runs, the home: sorted by a click, filtered; two that are ticked are compared. An update keeps all of that.
class RunList {
  constructor(host) {
    this.sort = null; this.isDown = false; this.ticked = new Set(); this.rows = [];
    this.input = el("input", { type: "search", placeholder: "filter: failed > 0 and adam", ariaLabel: "filter", oninput: () => this.paint() });
    this.problem = el("p.note.failed", { role: "alert", hidden: true });
    this.test = null;
    this.compare = el("a", { hidden: true });
    this.table = el("table.side.list", {});
    this.empty = el("p", { hidden: true }, "There are no runs.");
    host.append(el("div.tools", {}, this.input, this.compare), this.problem, el("div.scroll.card", {}, this.table), this.empty);
  }
  // Words are sought in the texts, since numbers are shown otherwise than they are kept.
  static columns = Object.entries({
    run: (row) => row.name, state: (row) => row.state, progress: (row) => row.trials == null ? null : row.ended / (row.total || row.trials || 1),
    failed: (row) => row.failed, metric: (row) => row.metric, best: (row) => row.best, duration: (row) => RunList.duration(row), age: (row) => row.begun_s ? Date.now() / 1000 - row.begun_s : null,
  }).map(([name, get]) => ({ name, get, isUntold: !["run", "state", "metric"].includes(name) }));
  static duration(row) { return row.trials == null ? null : row.state === "running" ? row.earlier_s + Math.max(0, Date.now() / 1000 - row.opened_s) : row.worked_s; }
  update(rows) {
    this.rows = rows;
    this.paint();
  }
  paint() {
    const read = readFilter(this.input, this.problem, RunList.columns, this.rows);
    if (read) this.test = read.test;
    const by = RunList.columns.find(({ name }) => name === this.sort), chosen = this.rows.filter((row) => !this.test || this.test(row));
    const found = by ? sortedBy(chosen, by.get, this.isDown) : chosen;
    const focus = document.activeElement && document.activeElement.dataset.key;
    const head = sortHeads(RunList.columns, by, this.isDown, (name, isDown) => { Object.assign(this, { sort: name, isDown }); this.paint(); });
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
    const progress = row.trials == null ? el("td") : el("td", {}, `${row.ended} of ${total}`, progressBar(row.counts, `${row.ended} of ${total} trials have ended`));
    const duration = RunList.duration(row);
    return el("tr", {}, el("td", {}, tick), el("td", {}, row.href ? el("a", { href: row.href }, row.name) : row.name),
      el("td", {}, el("span", { className: row.state === "running" ? "running" : isBad ? "failed" : "" }, row.state)), progress,
      el("td", { className: row.failed ? "failed" : "" }, String(row.failed || "")), el("td", {}, row.metric || ""),
      el("td", {}, isNumber(row.best) ? number(row.best) : ""), el("td", {}, duration === null ? "" : clockText(duration)),
      el("td", { title: date(row.begun_s) }, row.begun_s ? clockText(Math.max(0, Date.now() / 1000 - row.begun_s)) : ""));
  }
}
