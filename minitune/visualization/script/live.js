// The start of the page, and its connection to a server.

const DATA = JSON.parse(document.getElementById("data").textContent);
const main = document.getElementById("page");
const banner = el("p.banner", { hidden: true });
// Asks the server again and again, after a second, or later if the answer takes long; tells what differs from the answer before.
async function follow(addressOf, onNews) {
  for (let known = "";;) {
    const begin = Date.now();
    const [isThere, answer] = await fetch(addressOf()).then(async (response) => [response.ok, await response.text()])
      .catch(() => [false, "Not connected: the server has ended, or the machine does not answer. This page shows the last state that it knows."]);
    banner.hidden = isThere;
    if (!isThere) banner.textContent = answer;
    else if (answer !== known) { known = answer; onNews(JSON.parse(answer)); }
    await new Promise((done) => setTimeout(done, Math.max(1000, 10 * (Date.now() - begin))));
  }
}
function start() {
  if (DATA.listed) {
    const host = el("div");
    main.replaceChildren(el("h1", {}, document.title), banner, host);
    const list = new RunList(host);
    list.update(DATA.listed);
    follow(() => "data", (rows) => list.update(rows));
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
    follow(() => `data/${runs[0].data.version}`, (data) => {
      if (data.trials) { runs[0].update(data); views[0].update(); } else { Object.assign(runs[0].data, data); views[0].tick(); }
    });
  }
}
start();
