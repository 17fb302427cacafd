"""A tiny server for the page of a run while the run goes on: read only, for the user of this machine, on 127.0.0.1.

The page asks for `events`, a stream of server-sent events. Each event has the trials that have changed since the
version that the page knows. A browser whose connection breaks sends the last version again. The server only reads
files.

The address holds a random token, without which the page is not served. A page of another site gets nothing: requests
with another host (a name that was rebound to 127.0.0.1), from another origin, or with a method other than GET are
refused. Each open page has a thread and a connection, until it is closed.
"""

from __future__ import annotations

import hmac
import logging
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, quote, unquote_to_bytes, urlsplit

from minitune.base import json_text
from minitune.error import TuneError
from minitune.record.standing import RUNNING_RUN
from minitune.view.colors import DAMAGED
from minitune.view.facts import KEYS
from minitune.view.history import RunHistory
from minitune.view.runs import RunList
from minitune.visualization.page import (
    RunData,
    fill_page,
    page_data,
    read_histories,
    report_page,
    trial_details,
    with_parts,
)

logger = logging.getLogger("minitune")

_LOOK_S = 0.2
"""The interval between two looks at a run's journal."""
_TICK_S = 2.0
"""While a run goes on, a page gets the time, and an estimate of the rest, at least so often."""
_LIST_LOOK_S = 1.0
"""The interval between two looks at all runs."""
_WAIT_S = 60.0
"""The time in which the next bytes of a request must come, and those of an answer be taken."""
_OF_LISTED = (
    *("name", "state", "href", "begun_s", "opened_s", "earlier_s", "worked_s", "trials", "total", "ended", "failed"),
    *("counts", "metric", "mode", "best"),
)
"""What the page knows of a run in the list."""
_HOSTS = ("127.0.0.1", "localhost")
_HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}
"""Headers of each answer."""


class LiveRun:
    """A run that is read on, for any number of pages. Its methods may be called from any thread."""

    def __init__(self, path: str):
        self._lock = threading.Lock()
        self._history = RunHistory(path, needs_metric=False)
        self._data = RunData(self._history)

    def _read_on(self) -> None:
        if self._history.read_new():
            self._data.update()

    def page(self, up: str | None) -> bytes:
        """The page as of now; `up` is the address of the list of runs, if there is one."""
        with self._lock:
            self._read_on()
            page = page_data(is_served=True, version=self._data.version, up=up)
            text = with_parts(page, "runs", [self._data.text()])
            return fill_page(f"minitune: {self._history.name}", text, is_live=True)

    def events(self, since: int) -> Iterator[str | None]:
        """The events after a version, without an end: each with what has changed, or None if nothing has. Blocks.

        While the run goes on, there is an event without a trial now and then, for the time.
        """
        sent_s = time.monotonic()
        while True:
            with self._lock:
                self._read_on()
                version = self._data.version
                is_due = self._history.state.name == RUNNING_RUN and time.monotonic() - sent_s >= _TICK_S
                text = self._data.text(since) if version != since or is_due else None
            if text is not None:
                sent_s = time.monotonic()
            yield None if text is None else f"id: {version}\ndata: {text}\n\n"
            since = version
            time.sleep(_LOOK_S)

    def details(self, number: int) -> dict[str, Any] | None:
        """What the page shows of one trial alone; None if there is no such trial. Blocks."""
        with self._lock:
            self._read_on()
            for each in self._history.trials:
                if each.number == number:
                    return trial_details(self._history, each)
        return None


class LiveList:
    """The runs below a directory as a page. Its methods may be called from any thread; they block while runs are
    read.
    """

    def __init__(self, directory: str):
        self._directory = directory
        self._runs = RunList(directory)
        self._lock = threading.Lock()

    def paths(self) -> dict[str, str]:
        """The runs' directories by name."""
        return self._runs.paths()

    def rows(self) -> list[dict[str, Any]]:
        """A row for each run, the newest first. A damaged one has a name and a state only."""
        with self._lock:
            return list(map(self._shown, self._runs.rows()))

    def _shown(self, row: Mapping[str, Any]) -> dict[str, Any]:
        shown = {name: row.get(name) for name in _OF_LISTED}
        if row["state"] != DAMAGED:
            # A name is bytes that may be no UTF-8. `answer` decodes it.
            shown["href"] = f"run/{quote(os.fsencode(row['name']), safe='')}/"
            shown["counts"] = {word: row[key] for word, key in KEYS.items() if row[key]}
            for name in ("metric", "mode"):
                if isinstance(row[name], list):  # several objectives have no best trial
                    shown[name] = ", ".join(row[name])
        return shown

    def page(self) -> bytes:
        """The page that lists the runs."""
        text = json_text.dumps(page_data(listed=self.rows()))
        return fill_page(f"minitune: runs in {self._directory}", text, is_live=True)

    def events(self) -> Iterator[str | None]:
        """Events without an end: the rows when they have changed, or None. Blocks."""
        last = None
        while True:
            text = json_text.dumps(self.rows())
            yield None if text == last else f"data: {text}\n\n"
            last = text
            time.sleep(_LIST_LOOK_S)


class _Server(ThreadingHTTPServer):
    """A server that prints nothing."""

    request_queue_size = 128  # the system makes a connection wait for a second if the queue is full

    def handle_error(self, request: Any, client_address: Any) -> None:
        logger.debug("a request has failed", exc_info=True)


class PageServer:
    """Serves the page of one run, or the list of runs with the page of each.

    Raises:
        OSError: If the port is taken.
        FileNotFoundError, ValueError, TuneError: See `RunHistory`.
    """

    def __init__(self, path: str, *, is_list: bool = False, port: int = 0):
        self._list = LiveList(path) if is_list else None
        self._runs: dict[str, LiveRun] = {}
        self._lock = threading.Lock()
        self.is_closed = False
        if not is_list:
            self._runs[""] = LiveRun(path)
        token = secrets.token_urlsafe(18)
        self._server = _Server((_HOSTS[0], port), _handler_of(token, self))
        self.address = f"http://{_HOSTS[0]}:{self._server.server_address[1]}/{token}/"

    def serve(self) -> None:
        """Answer requests until `close`, or until an exception such as KeyboardInterrupt is raised. Blocks."""
        self._server.serve_forever()

    def close(self) -> None:
        """End it, if `serve` runs in another thread."""
        self._server.shutdown()
        self.release()

    def release(self) -> None:
        """Give the port back and end all streams, after `serve` has ended."""
        self.is_closed = True
        self._server.server_close()

    def run(self, name: str) -> LiveRun | None:
        """The run with this name, which is read on the first call; None if there is none. Blocks."""
        with self._lock:
            if name not in self._runs and self._list is not None:
                path = self._list.paths().get(name)  # no name leads out of the directory
                if path is not None:
                    self._runs[name] = LiveRun(path)
            return self._runs.get(name)

    def _compare(self, names: Sequence[str]) -> bytes | None:
        """The report of these runs side by side as they are now; None if one does not exist. Blocks."""
        assert self._list is not None
        paths = self._list.paths()
        if not all(name in paths for name in names):
            return None
        return report_page(read_histories([paths[name] for name in names]))

    def answer(self, path: list[str], since: int) -> bytes | Iterator[str | None] | None:
        """The answer to a request below the token: a body, a stream of events, or None.

        Raises:
            OSError, ValueError, TuneError: If a run cannot be read.
        """
        up = None
        name = ""
        if self._list is not None:
            if path == [""]:
                return self._list.page()
            if path == ["events"]:
                return self._list.events()
            if len(path) == 4 and path[0] == "compare" and path[3] == "":
                return self._compare([os.fsdecode(unquote_to_bytes(part)) for part in path[1:3]])
            if len(path) < 3 or path[0] != "run":
                return None
            name = os.fsdecode(unquote_to_bytes(path[1]))
            path = path[2:]
            up = "../../"
        run = self.run(name)
        if run is None:
            return None
        if path == [""]:
            return run.page(up)
        if path == ["events"]:
            return run.events(since)
        if len(path) == 2 and path[0] == "trial" and path[1].isdecimal():
            details = run.details(int(path[1]))
            return None if details is None else json_text.dumps(details).encode()
        return None


def _handler_of(token: str, server: PageServer) -> Callable[..., BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        """Refuses what is not the page's own request, and answers the others."""

        server_version = "minitune"
        sys_version = ""
        timeout = _WAIT_S

        def do_GET(self) -> None:
            """Answer a request."""
            url = urlsplit(self.path)
            path = url.path.split("/")[1:] or [""]
            refusal = self._refusal(path[0])
            if refusal is not None:
                self._refuse(*refusal)
                return
            since = self.headers.get("Last-Event-ID") or parse_qs(url.query).get("since", ["0"])[0]
            try:
                found = server.answer(path[1:], int(since) if since.isdecimal() else 0)
            except (OSError, ValueError, TuneError) as error:  # such as a run that was removed
                self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, str(error))
                return
            if found is None:
                self._refuse(HTTPStatus.NOT_FOUND, "there is no such page")
            elif isinstance(found, bytes):
                self._send(HTTPStatus.OK, "text/html" if path[-1] == "" else "application/json", found)
            else:
                self._stream(found)

        def _refusal(self, given: str) -> tuple[HTTPStatus, str] | None:
            """Why this request is refused; None if it is not. It repeats no text of the request."""
            host = self.headers.get("Host", "")
            if host.rpartition(":")[0] not in _HOSTS:
                return HTTPStatus.FORBIDDEN, "this host is not served"
            if self.headers.get("Origin", f"http://{host}") != f"http://{host}":
                return HTTPStatus.FORBIDDEN, "other origins are not served"
            if not hmac.compare_digest(given.encode(), token.encode()):
                return HTTPStatus.FORBIDDEN, "the address lacks the token"
            return None

        def _refuse(self, status: HTTPStatus, text: str) -> None:
            self._send(status, "text/plain", f"{text}\n".encode(errors="replace"))

        def _head(self, status: HTTPStatus, kind: str) -> None:
            self.send_response(status)
            self.send_header("Content-Type", f"{kind}; charset=utf-8")
            for name, value in _HEADERS.items():
                self.send_header(name, value)
            # The page names its policy itself, but a page cannot say that no other one may frame it.
            policy = "frame-ancestors 'none'"
            if kind != "text/html":
                policy += "; default-src 'none'"
            self.send_header("Content-Security-Policy", policy)

        def _send(self, status: HTTPStatus, kind: str, body: bytes) -> None:
            self._head(status, kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def _stream(self, events: Iterator[str | None]) -> None:
            """Send events until the page is closed."""
            self._head(HTTPStatus.OK, "text/event-stream")
            self.end_headers()
            try:
                for event in events:
                    if server.is_closed:
                        return
                    # A comment says nothing to the page, and raises an error once it is closed.
                    self.wfile.write((event or ":\n\n").encode())
            except (ConnectionError, TimeoutError):
                raise
            except (OSError, TuneError) as error:
                text = json_text.dumps(f"The run cannot be read: {error}")
                self.wfile.write(f"event: problem\ndata: {text}\n\n".encode())

        def log_message(self, format: str, *args: Any) -> None:
            """Says nothing: requests are no news to the user."""

    return Handler
