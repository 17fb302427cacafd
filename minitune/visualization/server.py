"""A tiny server for the page of a run while the run goes on: read only, for the user of this machine, on 127.0.0.1.

The page asks for `data/N` about every second, or less often if the answer takes long. `N` is the version of the run
that it has. If that is the present one, the answer has only the time, and otherwise the run. The server only reads
files.

The address holds a random token, without which the page is not served. A page of another site gets nothing: requests
with another host (a name that was rebound to 127.0.0.1), from another origin, or with a method other than GET are
refused.
"""

from __future__ import annotations

import hmac
import logging
import os
import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import quote, unquote_to_bytes, urlsplit

from minitune.base import json_text
from minitune.error import TuneError
from minitune.view.colors import DAMAGED
from minitune.view.facts import KEYS
from minitune.view.history import RunHistory
from minitune.view.pace import times_of
from minitune.view.runs import RunList, goal_of_row
from minitune.visualization.page import fill_page, page_data, read_histories, report_page, run_data, trial_details

logger = logging.getLogger("minitune")

_WAIT_S = 60.0
"""The time in which the next bytes of a request must come, and those of an answer be taken."""
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
        self._version = 1

    def data(self, since: int = 0) -> dict[str, Any]:
        """The run as of now with its version, or only its times if the version is still `since`. Blocks."""
        with self._lock:
            history = self._history
            self._version += history.read_new()
            if since == self._version:
                worked_s, rest_s = times_of(history.story, history.state)
                return {"worked_s": worked_s, "rest_s": rest_s}
            return {**run_data(history), "version": self._version}

    def page(self, up: str | None) -> bytes:
        """The page as of now; `up` is the address of the list of runs, if there is one."""
        data = page_data(is_served=True, up=up, runs=[self.data()])
        return fill_page(f"minitune: {self._history.name}", data, is_live=True)

    def details(self, number: int) -> dict[str, Any] | None:
        """What the page shows of one trial alone; None if there is no such trial. Blocks."""
        with self._lock:
            self._history.read_new()
            for each in self._history.trials:
                if each.number == number:
                    return trial_details(self._history, each)
        return None


def listed(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of a `RunList` as the page shows it."""
    if row["state"] == DAMAGED:
        return {**row, "href": None}
    # A name is bytes that may be no UTF-8. `answer` decodes it.
    href = f"run/{quote(os.fsencode(row['name']), safe='')}/"
    counts = {word: row[key] for word, key in KEYS.items() if row[key]}
    return {**row, "href": href, "counts": counts, "metric": goal_of_row(row)}


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
        self._path = path
        self._list = RunList(path) if is_list else None
        self._runs: dict[str, LiveRun] = {}
        self._lock = threading.Lock()
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
        """Give the port back, after `serve` has ended."""
        self._server.server_close()

    def run(self, name: str) -> LiveRun | None:
        """The run with this name, which is read on the first call; None if there is none. Blocks."""
        with self._lock:
            if name not in self._runs and self._list is not None:
                path = self._list.paths().get(name)  # no name leads out of the directory
                if path is not None:
                    self._runs[name] = LiveRun(path)
            return self._runs.get(name)

    def _rows(self, runs: RunList) -> list[dict[str, Any]]:
        with self._lock:
            return list(map(listed, runs.rows()))

    def _compare(self, names: Sequence[str]) -> bytes | None:
        """The report of these runs side by side as they are now; None if one does not exist. Blocks."""
        assert self._list is not None
        paths = self._list.paths()
        if not all(name in paths for name in names):
            return None
        return report_page(read_histories([paths[name] for name in names]))

    def answer(self, path: list[str]) -> Any:
        """The answer to a request below the token: a page, data, or None.

        Raises:
            OSError, ValueError, TuneError: If a run cannot be read.
        """
        up = None
        name = ""
        if self._list is not None:
            if path == [""]:
                data = page_data(listed=self._rows(self._list))
                return fill_page(f"minitune: runs in {self._path}", data, is_live=True)
            if path == ["data"]:
                return self._rows(self._list)
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
        if len(path) == 2 and path[1].isdecimal():
            if path[0] == "data":
                return run.data(int(path[1]))
            if path[0] == "trial":
                return run.details(int(path[1]))
        return None


def _handler_of(token: str, server: PageServer) -> Callable[..., BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        """Refuses what is not the page's own request, and answers the others."""

        server_version = "minitune"
        sys_version = ""
        timeout = _WAIT_S

        def do_GET(self) -> None:
            """Answer a request."""
            path = urlsplit(self.path).path.split("/")[1:] or [""]
            refusal = self._refusal(path[0])
            if refusal is not None:
                self._refuse(*refusal)
                return
            try:
                found = server.answer(path[1:])
            except (OSError, ValueError, TuneError) as error:  # such as a run that was removed
                self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, f"The run cannot be read: {error}")
                return
            if found is None:
                self._refuse(HTTPStatus.NOT_FOUND, "there is no such page")
            elif isinstance(found, bytes):
                self._send(HTTPStatus.OK, "text/html", found)
            else:
                self._send(HTTPStatus.OK, "application/json", json_text.dumps(found).encode())

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

        def _send(self, status: HTTPStatus, kind: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", f"{kind}; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            for name, value in _HEADERS.items():
                self.send_header(name, value)
            # The page names its policy itself, but a page cannot say that no other one may frame it.
            policy = "frame-ancestors 'none'"
            if kind != "text/html":
                policy += "; default-src 'none'"
            self.send_header("Content-Security-Policy", policy)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Says nothing: requests are no news to the user."""

    return Handler
