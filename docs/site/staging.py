"""Lays the pages out for Sphinx: copies them, turns their links round, writes the tables of contents.

The pages in the repository are plain Markdown that also reads well where it lies: nothing in them is
for Sphinx alone. What only the site needs is added to the copies here.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from docs.site.nav import ADRS, API, API_FOLDER, DOCS, HOME, PARTS, pages_on_disk

_LINK: Final = re.compile(r"(!?\[[^\]]*\]\()([^)\s]+)(\))")
# A line that is broken within a Chinese sentence: as HTML the break would show as a blank.
_BROKEN_CHINESE: Final = re.compile(r"(?<=[\u3001-\u9fff\uff01-\uff60])\n(?=[\u3008-\u9fff\uff08])")
_CODE: Final = re.compile(r"(^```.*?^```[^\n]*$|`[^`\n]+`)", re.MULTILINE | re.DOTALL)


def stage(folder: Path, *, reference: dict[str, str]) -> list[str]:
    """Lay out all pages and pictures in an empty folder.

    Args:
        folder: Where to; whatever is there goes first.
        reference: Text by place below api/, in the order in which the pages shall stand.

    Returns:
        The places of all pages.
    """
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(DOCS / "figures", folder / "figures")
    pages = pages_on_disk()
    places = {path: place for place, path in pages.items()}
    for place, path in pages.items():
        _write(folder / place, turned(path.read_text("utf-8"), path=path, places=places))
    for place, text in reference.items():
        _write(folder / API_FOLDER / place, text)
    _append(folder / HOME, "".join(_contents(part.pages, part.caption) for part in PARTS))
    _append(folder / API, _contents(f"{API_FOLDER}/{place}" for place in reference))
    decisions = sorted(place for place in pages if place.startswith("adr/") and place != ADRS)
    _append(folder / ADRS, _contents(place.removeprefix("adr/") for place in decisions))
    return [*pages, *(f"{API_FOLDER}/{place}" for place in reference)]


def turned(text: str, *, path: Path, places: dict[Path, str]) -> str:
    """The text of a page as the site wants it.

    Each link to another page leads to where that stands in the site; broken lines of Chinese are one.
    """

    def turn(found: re.Match[str]) -> str:
        before, target, after = found.groups()
        name, mark, anchor = target.partition("#")
        if not name or "://" in name or name.startswith("mailto:"):
            return found.group()
        to = places.get((path.parent / name).resolve())
        if to is None:
            return found.group()
        relative = os.path.relpath(to, Path(places[path]).parent)
        return f"{before}{relative}{mark}{anchor}{after}"

    parts = _CODE.split(text)
    return "".join(
        part if at % 2 else _LINK.sub(turn, _BROKEN_CHINESE.sub("", part))
        for at, part in enumerate(parts)
    )


def _contents(places: Iterable[str], caption: str = "") -> str:
    options = f":caption: {caption}\n" if caption else ""
    listed = "\n".join(place.removesuffix(".md") for place in places)
    return f"\n\n```{{toctree}}\n:hidden:\n:maxdepth: 1\n{options}\n{listed}\n```\n"


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


def _append(path: Path, text: str) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(text)
