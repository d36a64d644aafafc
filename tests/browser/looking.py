"""What every look at a page holds: nothing from another host, no complaint, nothing that sticks out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from playwright.sync_api import BrowserContext, ConsoleMessage, Page, Request

PICTURES = Path(__file__).parents[2] / "docs" / "figures" / "pages"
_HERE = frozenset({"127.0.0.1", ""})


@contextmanager
def no_foreign_requests(context: BrowserContext) -> Iterator[None]:
    """Fail at the end if anything was asked of another host."""
    foreign: list[str] = []

    def note(request: Request) -> None:
        parts = urlsplit(request.url)
        if parts.scheme not in ("data", "blob") and parts.hostname not in _HERE:
            foreign.append(request.url)

    context.on("request", note)
    yield
    assert foreign == []


@contextmanager
def quiet(page: Page) -> Iterator[None]:
    """Fail at the end if a script failed or the content policy refused something."""
    said: list[str] = []

    def note(message: ConsoleMessage) -> None:
        # A refused request is shown by the page and is told by the browser besides.
        if message.type == "error" and "Failed to load resource" not in message.text:
            said.append(message.text)

    page.on("console", note)
    page.on("pageerror", lambda error: said.append(str(error)))
    yield
    assert said == []


def sticking_out(page: Page) -> list[str]:
    """What is wider than the window though nothing scrolls it."""
    found: list[str] = page.evaluate(
        """[...document.body.querySelectorAll('*')].filter(it => {
            const box = it.getBoundingClientRect();
            if (!box.width || box.right <= document.documentElement.clientWidth + 1) return false;
            for (let up = it; up; up = up.parentElement) {
              const style = getComputedStyle(up);
              if (['auto', 'scroll', 'hidden'].includes(style.overflowX)) return false;
              if (style.clipPath !== 'none') return false;
            }
            return true;
        }).map(it => it.outerHTML.slice(0, 120))"""
    )
    return found


def picture(page: Page, name: str, *, is_whole: bool = False) -> None:
    """Write docs/figures/pages/<name>.png once nothing moves; nothing may stick out."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    page.wait_for_load_state("load")
    page.evaluate("document.fonts.ready.then(() => true)")
    assert sticking_out(page) == []
    page.screenshot(
        path=PICTURES / f"{name}.png", full_page=is_whole, animations="disabled", caret="hide"
    )
