// The start of the page, and its connection to a server.

const DATA = JSON.parse(document.getElementById("data").textContent);
const main = document.getElementById("page");
const banner = el("p.banner", { hidden: true });
function listen(since, onMessage) {
  const source = new EventSource(`events?since=${since}`);  // after a break, the browser itself sends the last event's id
  source.onopen = () => { banner.hidden = true; };
  source.onmessage = (event) => onMessage(JSON.parse(event.data));
  source.addEventListener("problem", (event) => { banner.textContent = JSON.parse(event.data); banner.hidden = false; });
  source.onerror = () => { banner.textContent = "Not connected: the server has ended, or the machine does not answer. This page shows the last state that it knows."; banner.hidden = false; };
}
function start() {
  if (DATA.listed) {
    const host = el("div");
    main.replaceChildren(el("h1", {}, document.title), banner, host);
    const list = new RunList(host);
    list.update(DATA.listed);
    listen(0, (rows) => list.update(rows));
    setInterval(() => { if (list.rows.some((row) => row.state === "running")) list.update(list.rows); }, 5000);
    return;
  }
  const runs = DATA.runs.map((data) => new Run(data));
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
    listen(DATA.version, (data) => {
      const isNews = data.trials.length || data.state !== runs[0].data.state || JSON.stringify(data.importances) !== JSON.stringify(runs[0].data.importances);
      runs[0].update(data);
      if (!isNews) { views[0].tick(); return; }
      if (waits) return;
      waits = true;
      setTimeout(() => { waits = false; views[0].update(); }, 100);  // one drawing for messages that come together
    });
  }
}
start();
