// The dialog with one trial. It touches nothing else.

const dialog = document.getElementById("trial");
dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
function copied(value, label = "copy") {
  const button = pushButton(label, () => copy(value, button));
  return button;
}
const withCopy = (value) => el("div.copy", {}, el("pre", {}, value), copied(value));
const trialButton = (run, trial, label = `trial ${trial.number}`) => pushButton(label, () => openTrial(run, trial));
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
  const charts = el("div.panels", {});
  const scrolled = dialog.scrollTop;
  const told = columnsOf(run).filter(({ name, isParam }) => !isParam && !["trial", "error", details.error ? "why" : ""].includes(name));
  const facts = { ...Object.fromEntries(told.map((column) => [column.name, cellText(column, trial)])), repeats: trial.repeats,
    attempt: details.attempt > 1 ? details.attempt : "", seed: details.seed, directory: details.directory };
  const config = details.config || trial.params;
  dialog.replaceChildren(
    el("header", {}, el("h2", {}, `Trial ${trial.number}`), pushButton("close", () => dialog.close())),
    definitions(facts), charts,
    el("h3", {}, "Configuration"), copyOf(config), el("pre", { id: "config" }, python(config)),
    ...(details.error ? [el("h3", {}, "Error"), el("pre", { id: "error" }, details.error)] : []),
    ...(details.decisions && details.decisions.length ? [el("h3", {}, "Decisions"), el("ul.decisions", {}, ...details.decisions.map((one) => el("li", {}, one)))] : []),
    ...(details.checkpoints && details.checkpoints.length ? [el("h3", {}, "Checkpoints"), ...details.checkpoints.map((one) => el("div", {}, el("div.quiet", {}, `after iteration ${text(one.iteration)}, ${one.bytes.toLocaleString()} bytes`), withCopy(one.path)))] : []),
    ...(details.output ? [el("h3", {}, "The end of its output"), el("pre", { id: "output" }, details.output)] : []));
  dialog.scrollTop = scrolled;
  // A small plot of each metric. That of the objective comes first.
  const kind = kindOf(trial), names = [...new Set([run.data.metric, ...Object.keys(trial.courses.values)])];
  const shown = names.map((name) => [name, curveOf(run, trial, name)]).filter(([, values]) => values.length > 1);
  const hosts = shown.map(([name]) => { const host = charts.appendChild(el("div.plot", {})); host.dataset.metric = name; return host; });
  shown.forEach(([name, values], index) => {  // once all are there, since a plot is as wide as what it stands in
    const x = stepAxis(values), y = numberAxis(name, values.map(([, value]) => value));
    new Chart(hosts[index]).draw({ x, y, height: 190, layers: [{ kind: "lines", style: "thick", cls: KINDS[kind], lines: [broken(trial, values)] }, { kind: "points", style: "marks", cls: KINDS[kind], points: values.length < 60 ? values : [] }],
      hits: values.map(([step, value]) => ({ x: step, y: value, text: () => `iteration ${number(step)}: ${number(value)}` })) });
  });
}
dialog.addEventListener("close", () => { opened = null; trialShown(false); });
function definitions(facts) {
  const list = el("dl.facts", {});
  for (const [name, value] of Object.entries(facts)) { if (value !== "" && value !== null && value !== undefined) list.append(el("dt", {}, name), el("dd", {}, String(value))); }
  return list;
}
