"""The server of `minitune watch --web`: whom it answers, what it sends, and that it only reads."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import pickle
import shutil
import signal
import socket
import threading
from urllib.parse import urlsplit

import pytest
from kit import fit, journal_of, listening, report_n, run_path

from minitune import grid_search
from minitune.base import clock
from minitune.base.clock import VirtualClock
from minitune.executors.devices import Machine
from minitune.executors.inline import InlineTrialExecutor
from minitune.record.reading import read_run
from minitune.record.standing import Standing
from minitune.view.runs import RunList
from minitune.visualization import server
from minitune.visualization.server import PageServer, listed

OBJECTIVE = {"metric": "score", "mode": "max"}


class Client:
    """Asks a server that runs in a thread."""

    def __init__(self, path, **choices):
        self.server = PageServer(str(path), **choices)
        self.thread = threading.Thread(target=self.server.serve)
        self.thread.start()
        url = urlsplit(self.server.address)
        self.port = url.port
        self.root = url.path

    def connect(self):
        """A connection that sends what the test wants."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=60)

    def ask(self, path="", *, method="GET", **headers):
        """The status, the body and the headers of the answer to a request below the token."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            target = path if path.startswith("/") else self.root + path
            connection.request(method, target, headers={k.replace("_", "-"): v for k, v in headers.items()})
            answer = connection.getresponse()
            return answer.status, answer.read().decode(), dict(answer.getheaders())
        finally:
            connection.close()

    def data(self, since=0):
        """What the page gets that knows this version."""
        return json.loads(self.ask(f"data/{since}")[1])

    def close(self):
        ending = threading.Thread(target=self.server.close)
        ending.start()
        with contextlib.suppress(OSError), self.connect():  # ends the server's wait of half a second
            ending.join()
        ending.join()
        self.thread.join()


def rows():
    """The rows of the list of this test's runs."""
    return [listed(row) for row in RunList(str(run_path().parent)).rows()]


@pytest.fixture
def client():
    """A server of a run with two trials."""
    fit(report_n(2, score=1), {"i": grid_search([0, 1])}, **OBJECTIVE)
    client = Client(run_path())
    yield client
    client.close()


def test_the_page_its_data_and_one_trial_are_served(client):
    status, page, headers = client.ask()
    assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert "connect-src 'self'" in page
    assert headers["Cache-Control"] == "no-store"
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
    assert [trial["number"] for trial in client.data()["trials"]] == [0, 1]
    assert "details" not in client.data()["trials"][0]
    status, body, headers = client.ask("trial/1")
    assert (status, json.loads(body)["config"]) == (200, {"i": 1})
    assert headers["Content-Type"] == "application/json; charset=utf-8"
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert client.ask(Host=f"localhost:{client.port}")[0] == 200


@pytest.mark.parametrize("path", ["nothing", "trial/2", "trial/x", "data/x", "run/a/", "trial/", "../", "%2e%2e/"])
def test_other_paths_are_not_there(client, path):
    assert client.ask(path)[0] == 404


@pytest.mark.parametrize("path", ["/", "/wrong/", "/%C3%A9/", "/wrong/data/0"])
def test_without_the_token_nothing_is_served(client, path):
    status, body, _ = client.ask(path)
    assert (status, "score" in body) == (403, False)


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example:80"},
        {"Host": "127.0.0.1.evil.example:80"},
        {"Host": ""},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
    ],
    ids=str,
)
def test_other_hosts_and_origins_are_refused(client, headers):
    status, body, _ = client.ask(**headers)
    assert (status, "score" in body) == (403, False)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "HEAD", "PATCH", "TRACE"])
def test_other_methods_are_refused(client, method):
    assert client.ask(method=method)[0] == 501


@pytest.mark.parametrize(
    "line",
    ["GET x HTTP/1.1", "GET * HTTP/1.1", "GET http://[ HTTP/1.1", "GET", "GET / HTTP/x", "GET / HTTP/9.9", "\x16\x03"],
)
def test_nonsense_is_refused_and_prints_nothing(client, line, capfd):
    with client.connect() as stranger:
        stranger.sendall(f"{line}\r\nHost: 127.0.0.1:{client.port}\r\n\r\n".encode())
        answer = b"".join(iter(lambda: stranger.recv(9999), b""))

    assert client.ask()[0] == 200
    assert capfd.readouterr() == ("", "")
    assert b" 200 " not in answer


def data_in(page):
    """The data in a page."""
    return json.loads(page.partition('id="data">')[2].partition("</script>")[0])


def test_a_page_gets_the_run_again_if_it_has_changed():
    fit(report_n(2, score=1), {"i": grid_search([0, 1])}, **OBJECTIVE)
    journal = run_path() / "journal"
    lines = journal.read_bytes().splitlines(keepends=True)
    last = max(number for number, record in enumerate(journal_of()) if record["type"] == "result")
    journal.write_bytes(b"".join(lines[:last]))  # as if the driver had been killed before the last result
    client = Client(run_path())
    try:
        (known,) = data_in(client.ask()[1])["runs"]
        assert client.data(known["version"]).keys() == {"worked_s", "rest_s"}
        with open(journal, "ab") as file:
            file.write(lines[last])

        new = client.data(known["version"])
        assert [trial["curve"] for trial in (known["trials"][1], new["trials"][1])] == [[1], [1, 1]]
        assert client.data(new["version"]).keys() == {"worked_s", "rest_s"}
    finally:
        client.close()


def test_a_run_that_is_removed_is_told(client):
    shutil.rmtree(run_path())
    for path in ("data/1", ""):
        status, text, _ = client.ask(path)
        assert (status, str(run_path()) in text) == (503, True)


def test_nothing_in_the_directory_is_unpickled_or_changed(client, tmp_path):
    class Bomb:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "exploded"),)

    for file in run_path().rglob("*.pkl"):
        file.write_bytes(pickle.dumps(Bomb()))
    before = {str(file): file.stat().st_mtime_ns for file in run_path().rglob("*")}

    client.ask()
    client.data()
    client.ask("trial/0")

    assert not (tmp_path / "exploded").exists()
    assert {str(file): file.stat().st_mtime_ns for file in run_path().rglob("*")} == before


def test_the_list_names_all_runs_and_leads_nowhere_else(tmp_path):
    fit(report_n(1, score=1), name="project/one", **OBJECTIVE)
    fit(report_n(1, score=1), name="two", **OBJECTIVE)
    client = Client(run_path().parent, is_list=True)
    try:
        page = client.ask()[1]
        shown = data_in(page)["listed"]
        assert [(row["name"], row["state"], row["href"]) for row in shown] == [
            ("two", "finished", "run/two/"),
            ("project/one", "finished", "run/project%2Fone/"),
        ]
        assert client.ask("run/project%2Fone/")[0] == 200
        assert client.ask("run/project%2Fone/trial/0")[0] == 200
        for outside in ("run/..%2F..%2Fetc/", "run/none/", "run/two", "run/%2Fetc/", "other/two/"):
            assert client.ask(outside)[0] == 404
        for nothing in (
            "compare/two/two",
            "other/two/two/",
            "compare/two/",
            "run/two/trial/9",
            "run/two/x/0",
            "trial/0",
        ):
            assert client.ask(nothing)[0] == 404
    finally:
        client.close()


def test_the_list_tells_the_states_of_runs(monkeypatch):
    def fails(config):
        clock.current.sleep(9)
        if config["i"]:
            raise ValueError("no")

    with clock.use(VirtualClock(1e9)):
        executor = InlineTrialExecutor(Machine({"CPU": 1}, ()), clock.current)
        fit(fails, {"i": grid_search([0, 1, 1])}, executor=executor, name="one", max_concurrent_trials=1)
    fit(report_n(1, score=1), name="bad")
    (run_path("bad") / "journal").write_bytes(b"?")
    one, bad = rows()
    assert (
        one.items()
        >= {
            "name": "one",
            "href": "run/one/",
            "state": "finished",
            "trials": 3,
            "failed": 2,
            "begun_s": 1e9,
            "ended": 3,
            "total": 3,
            "opened_s": 1e9,
            "earlier_s": 0.0,
            "worked_s": 27.0,
            "metric": None,
            "best": None,
        }.items()
    )
    assert one["counts"] == {"finished": 1, "failed": 2}
    assert (bad["name"], bad["state"], bad["href"]) == ("bad", "damaged", None)


def test_the_list_counts_the_trials_of_an_interrupted_run():
    interrupts = listening(on_trial_result=lambda **info: os.kill(os.getpid(), signal.SIGINT))
    fit(report_n(9, score=1), {"i": grid_search([0, 1, 2])}, callbacks=[interrupts], max_concurrent_trials=1)
    (row,) = rows()
    assert (row["state"], row["counts"]) == ("interrupted", {"interrupted": 1, "not started": 2})


def test_the_list_tells_the_best_value_of_runs():
    fit(lambda config: {"loss": config["i"]}, {"i": grid_search([3, 1, 2])}, metric="loss", mode="min")
    (row,) = rows()
    assert (row["metric"], row["best"], row["ended"], row["total"]) == ("loss (min)", 1, 3, 3)


def test_the_list_names_several_objectives():
    fit(lambda config: {"a": 1.0, "b": 2.0}, {}, metric=["a", "b"], mode=["min", "max"])
    (row,) = rows()
    assert (row["metric"], row.get("best")) == ("a (min), b (max)", None)


def test_two_runs_of_the_list_are_compared():
    for name in ("a b", "c"):
        fit(lambda config: {"loss": 1.0}, {}, name=name, metric="loss", mode="min")
    pages = server.PageServer(str(run_path().parent), is_list=True)
    try:
        found = pages.answer(["compare", "a%20b", "c", ""])
        assert isinstance(found, bytes)
        assert b"<title>minitune: a b, c</title>" in found
        assert pages.answer(["compare", "a%20b", "..", ""]) is None
    finally:
        pages.release()


def test_the_list_looks_again_at_runs_that_go_on(monkeypatch):
    fit(report_n(1, score=1))
    states = ["running", "killed"]  # the journal of a driver that is killed stays as it is
    monkeypatch.setattr("minitune.view.runs.read_standing", lambda path: (read_run(path), Standing(states.pop(0), "")))
    runs = RunList(str(run_path().parent))
    assert [runs.rows()[0]["state"] for _ in range(3)] == ["running", "killed", "killed"]


def test_the_page_of_a_listed_run_leads_back_to_the_list(client):
    assert data_in(client.ask()[1])["up"] is None
    listed = Client(run_path().parent, is_list=True)
    try:
        assert data_in(listed.ask(f"run/{run_path().name}/")[1])["up"] == "../../"
    finally:
        listed.close()


def test_a_name_that_is_no_utf_8_takes_away_no_run(tmp_path):
    fit(report_n(1, score=1), name="one", **OBJECTIVE)
    fit(report_n(1, score=1), name="two", **OBJECTIVE)
    strange = os.fsdecode(b"two\xff")
    run_path("two").rename(run_path().parent / strange)
    client = Client(run_path().parent, is_list=True)
    try:
        status, page, _ = client.ask()
        shown = data_in(page)["listed"]
        assert status == 200
        assert {(row["name"], row["href"]) for row in shown} == {("one", "run/one/"), (strange, "run/two%FF/")}
        assert client.ask("run/two%FF/")[0] == 200
        assert client.ask("run/two%FF/trial/0")[0] == 200
    finally:
        client.close()


def test_ctrl_c_ends_the_server_and_leaves_the_run(script):
    fit(report_n(1, score=1), name="mine", **OBJECTIVE)
    process = script.start_minitune("watch", str(run_path("mine")), "--web")
    line = process.stdout.readline()
    assert line.startswith("http://127.0.0.1:")
    process.send_signal(signal.SIGINT)
    assert process.wait() == 0
