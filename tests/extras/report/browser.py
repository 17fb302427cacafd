"""A Chromium without a window, driven through its DevTools protocol over a pair of pipes (`--remote-debugging-pipe`).

Each message is JSON and ends with a NUL. That needs neither a port nor a library. `Page.run` evaluates JavaScript in
the page and returns its value; `Page.errors` has whatever the page's console complained about.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
_FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--remote-debugging-pipe",
    "--no-first-run",
    "--mute-audio",
)


class ProtocolError(RuntimeError):
    """The browser refused a call, or the page that it was for has gone."""


class Browser:
    """A Chromium with a profile of its own. Close it, or use it as a context.

    Args:
        profile: The directory of the profile.
        limit_s: The time limit of each call.
    """

    def __init__(self, profile: Path, limit_s: float):
        assert BROWSER is not None
        self.limit_s = limit_s
        from_us, self._in = os.pipe()
        self._out, to_us = os.pipe()
        words = [str(BROWSER), *_FLAGS, f"--user-data-dir={profile}", "about:blank"]
        script = f'exec "$@" 3<&{from_us} 4>&{to_us}'  # Chromium reads descriptor 3 and writes descriptor 4
        self._process = subprocess.Popen(
            ["bash", "-c", script, "bash", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(from_us, to_us),
        )
        os.close(from_us)
        os.close(to_us)
        self._text = b""
        self._last = 0
        self.events: list[dict[str, Any]] = []

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End it. Blocks until its process has ended."""
        self.call("Browser.close")
        self._process.wait(self.limit_s)
        os.close(self._in)
        os.close(self._out)

    def call(self, method: str, session: str | None = None, **parameters: Any) -> Any:
        """Call a method of the protocol, and return its result. Blocks.

        Raises:
            ProtocolError: If the browser answers with an error.
        """
        self._last += 1
        message = {"id": self._last, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        os.write(self._in, json.dumps(message).encode() + b"\0")
        deadline_s = time.monotonic() + self.limit_s
        while True:
            answer = self._read(deadline_s)
            if answer.get("id") == self._last:
                if "error" in answer:
                    raise ProtocolError(f"{method}: {answer['error']}")
                return answer["result"]

    def _read(self, deadline_s: float) -> dict[str, Any]:
        while b"\0" not in self._text:
            ready, _, _ = select.select([self._out], [], [], max(0.0, deadline_s - time.monotonic()))
            if not ready:
                raise TimeoutError("the browser does not answer")
            self._text += os.read(self._out, 1 << 20)
        text, _, self._text = self._text.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        if "method" in message:
            self.events.append(message)
        return message

    def open(self, url: str, width: int = 1265, height: int = 900) -> Page:
        """Open a page in a tab of this size, in pixels. Blocks until the page is loaded."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(self, session)
        for domain in ("Page", "Runtime", "Log"):
            page.call(f"{domain}.enable")
        page.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        page.call("Page.navigate", url=url)
        page.wait_for("document.readyState === 'complete' && location.href !== 'about:blank'")
        return page


class Page:
    """A tab; see `Browser.open`."""

    def __init__(self, browser: Browser, session: str):
        self._browser = browser
        self._session = session

    def call(self, method: str, **parameters: Any) -> Any:
        """Call a method of the protocol on this tab. Blocks."""
        return self._browser.call(method, self._session, **parameters)

    def run(self, script: str) -> Any:
        """Evaluate an expression in the page, wait for its promise, and return its value. Blocks.

        Raises:
            AssertionError: If it raises.
        """
        found = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def wait_for(self, condition: str) -> None:
        """Block until an expression is true, in this page or in one that it leads to."""
        deadline_s = time.monotonic() + self._browser.limit_s
        while not self._is_true(condition):
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"not true in time: {condition}; errors: {self.errors}")
            time.sleep(0.02)

    def _is_true(self, condition: str) -> bool:
        try:
            return bool(self.run(condition))
        except ProtocolError:  # the page went to another one meanwhile
            return False

    def follow(self, link: str) -> None:
        """Click on the element that an expression names, and do not wait for the page that it leads to."""
        self.run(f"void setTimeout(() => {link}.click())")  # after the answer: a page that leaves may not answer

    def click(self, selector: str) -> None:
        """Click on the first element that fits a selector."""
        self.run(f"document.querySelector({json.dumps(selector)}).click()")

    @property
    def errors(self) -> list[str]:
        """The exceptions of scripts, and the errors in the console, so far."""
        self.run("0")  # reads what has come
        found = []
        for event in self._browser.events:
            if event.get("sessionId") != self._session:
                continue
            if event["method"] == "Runtime.exceptionThrown":
                found.append(json.dumps(event["params"]["exceptionDetails"]))
            elif event["method"] == "Log.entryAdded" and event["params"]["entry"]["level"] == "error":
                found.append(event["params"]["entry"]["text"])
        return found

    def screenshot(self, path: Path) -> None:
        """Store a picture of the window as PNG."""
        found = self.call("Page.captureScreenshot")
        path.write_bytes(base64.b64decode(found["data"]))

    def pdf(self, path: Path) -> None:
        """Print the page into a PDF file."""
        path.write_bytes(base64.b64decode(self.call("Page.printToPDF", printBackground=True)["data"]))
