"""A headless Chromium over its own debugging pipe: no driver, no library, no port.

Source of the protocol: Chrome DevTools Protocol, domains Target, Page, Runtime, Input, Emulation;
`--remote-debugging-pipe` reads commands from file descriptor 3 and answers on 4, NUL between them.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

PATIENCE_SECONDS = 30.0
_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
_FIRST_FREE = 10  # beyond the two that the browser wants
_ARRANGE = (
    "import os, sys; os.dup2(int(sys.argv[1]), 3); os.dup2(int(sys.argv[2]), 4);"
    " os.execv(sys.argv[3], sys.argv[3:])"
)


def browser_path() -> str | None:
    """Where a Chromium is installed, if one is."""
    return next((found for name in _NAMES if (found := shutil.which(name))), None)


class Chrome:
    """One page of one browser."""

    def __init__(self, *, language: str, width: int = 1360, height: int = 900) -> None:
        path = browser_path()
        assert path is not None, "no Chromium is installed"
        self._folder = tempfile.mkdtemp(prefix="credence-chrome-")
        self._number = 0
        self._rest = b""
        self._process = self._start(path, language)
        self._session = ""
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        attached = self.send("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        self.send("Page.enable")
        self.send("Runtime.enable")
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=False,
        )  # fmt: skip
        self.width, self.height = width, height

    def _start(self, path: str, language: str) -> subprocess.Popen[bytes]:
        theirs_in, self._to = os.pipe()
        self._from, theirs_out = os.pipe()
        moved = [fcntl.fcntl(end, fcntl.F_DUPFD, _FIRST_FREE) for end in (theirs_in, theirs_out)]
        options = [
            "--headless=new", "--remote-debugging-pipe", "--disable-gpu", "--hide-scrollbars",
            "--no-first-run", "--disable-extensions", "--disable-background-networking",
            "--force-color-profile=srgb", f"--user-data-dir={self._folder}", f"--lang={language}",
            f"--accept-lang={language}",
        ]  # fmt: skip
        if os.geteuid() == 0:
            options.append("--no-sandbox")  # which needs a user that is not root
        process = subprocess.Popen(
            [sys.executable, "-c", _ARRANGE, *map(str, moved), path, *options],
            pass_fds=moved,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for end in (theirs_in, theirs_out, *moved):
            os.close(end)
        return process

    def __enter__(self) -> Chrome:
        return self

    def __exit__(self, *_: object) -> None:
        self._session = ""
        with suppress(OSError, AssertionError):
            self.send("Browser.close")
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._to)
        os.close(self._from)
        shutil.rmtree(self._folder, ignore_errors=True)

    # -- the protocol ------------------------------------------------------------------------

    def send(self, method: str, **parameters: Any) -> Any:
        """Send a command and wait for its answer."""
        self._number += 1
        command = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            command["sessionId"] = self._session
        os.write(self._to, json.dumps(command).encode() + b"\0")
        while True:
            message = self._receive()
            if message.get("id") == self._number:
                assert "error" not in message, (method, message["error"])
                return message["result"]

    def _receive(self) -> dict[str, Any]:
        until = time.perf_counter() + PATIENCE_SECONDS
        while b"\0" not in self._rest:
            left = until - time.perf_counter()
            assert left > 0, "the browser does not answer"
            if select.select([self._from], [], [], left)[0]:
                part = os.read(self._from, 1 << 20)
                assert part, "the browser is gone"
                self._rest += part
        first, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(first)
        return message

    # -- what a person does ------------------------------------------------------------------

    def evaluate(self, expression: str) -> Any:
        """The value of an expression on the page."""
        answer = self.send("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def until(self, expression: str) -> None:
        """Wait until an expression is true, across loads of pages."""
        until = time.perf_counter() + PATIENCE_SECONDS
        while time.perf_counter() < until:
            try:
                if self.evaluate(expression):
                    return
            except AssertionError:
                pass  # between two pages there is nothing to ask
            select.select([], [], [], 0.05)
        raise AssertionError(f"waited in vain for {expression} at {self.text()[:800]}")

    def open(self, url: str) -> None:
        """Go to a page and wait until it is there."""
        self._leaving("Page.navigate", url=url)

    def click(self, selector: str) -> None:
        """Press what a selector finds, in the middle of its first line, and wait for a new page."""
        place = self.evaluate(
            f"(() => {{ const it = document.querySelector({json.dumps(selector)});"
            " it.scrollIntoView({block: 'center'}); const box = it.getClientRects()[0];"
            " return [box.x + box.width / 2, box.y + box.height / 2]; })()"
        )
        at = {"x": place[0], "y": place[1], "button": "left", "clickCount": 1}
        self.send("Input.dispatchMouseEvent", type="mousePressed", **at)
        self._leaving("Input.dispatchMouseEvent", type="mouseReleased", **at)

    def press(self, key: str, code: int) -> None:
        """Press a key that leads to a new page."""
        told = {"key": key, "code": key, "windowsVirtualKeyCode": code, "text": "\r"}
        self.send("Input.dispatchKeyEvent", type="keyDown", **told)
        self._leaving("Input.dispatchKeyEvent", type="keyUp", key=key, code=key)

    def tab(self) -> str:
        """Press the tab key; return the tag and the value or text of what has the focus then."""
        for kind in ("rawKeyDown", "keyUp"):
            self.send("Input.dispatchKeyEvent", type=kind, key="Tab", code="Tab",
                      windowsVirtualKeyCode=9)  # fmt: skip
        return str(
            self.evaluate(
                "(() => { const it = document.activeElement;"
                " return it.tagName + ' ' + (it.innerText || it.value || '').trim(); })()"
            )
        )

    def fill(self, selector: str, text: str) -> None:
        """Type into a field as a keyboard would."""
        self.evaluate(f"document.querySelector({json.dumps(selector)}).focus()")
        self.evaluate(f"document.querySelector({json.dumps(selector)}).select()")
        self.send("Input.insertText", text=text)

    def text(self) -> str:
        """What a reader sees."""
        return str(self.evaluate("document.body.innerText"))

    def spills(self) -> list[str]:
        """What is wider than the page: the text of each element that sticks out on the right."""
        found = self.evaluate(
            "[...document.querySelectorAll('.desk *')].filter(it =>"
            " it.getBoundingClientRect().right > document.documentElement.clientWidth + 1)"
            ".map(it => it.tagName + ' ' + it.innerText)"
        )
        return list(found)

    def dark(self, *, is_dark: bool) -> None:
        """Prefer dark pages, or light ones."""
        wanted = {"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[wanted])

    def shot(self, path: Path, *, most_height: int = 1400) -> None:
        """Write a picture of the page, from its top, as high as it is up to a bound."""
        self.evaluate("window.scrollTo(0, 0)")
        high = self.evaluate(
            "Math.ceil(Math.max(...[...document.querySelectorAll('#content, #content-main, #footer')]"
            ".map(it => it.getBoundingClientRect().bottom)))"
        )
        clip = {"x": 0, "y": 0, "width": self.width, "height": min(high + 16, most_height)}
        answer = self.send(
            "Page.captureScreenshot", format="png", captureBeyondViewport=True,
            optimizeForSpeed=False, clip={**clip, "scale": 1},
        )  # fmt: skip
        path.write_bytes(base64.b64decode(answer["data"]))

    def _leaving(self, method: str, **parameters: Any) -> None:
        """Do what leads to another page and wait until that is loaded."""
        self.evaluate("window.isOld = true")
        self.send(method, **parameters)
        self.until("!window.isOld && document.readyState === 'complete'")
