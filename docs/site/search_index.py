"""The site's search: every section of every page, as a script that also works from a folder.

The browser splits texts into words, Chinese into pairs of characters, and ranks (static/search.js):
nothing is asked of any server, and a page opened from the disk can load a script but no JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from selectolax.lexbor import LexborHTMLParser, LexborNode

NAME: Final = "search-index.js"
_BLANKS: Final = re.compile(r"\s+")


def write(site: Path) -> int:
    """Write the index of a built site into it; return how many sections it has."""
    rows = [
        [place, title, heading, text]
        for page in sorted(site.rglob("*.html"))
        if not page.relative_to(site).parts[0].startswith("_")
        for place, title, heading, text in sections(page, site=site)
    ]
    told = json.dumps(rows, ensure_ascii=False, separators=(",", ":"))
    (site / "_static" / NAME).write_text(f"window.credenceSections = {told};\n", "utf-8")
    return len(rows)


def sections(page: Path, *, site: Path) -> Iterator[tuple[str, str, str, str]]:
    """Address, title of the page, heading and text of each section of a built page."""
    tree = LexborHTMLParser(page.read_text("utf-8"))
    article = tree.css_first("article")
    if article is None:
        return
    for gone in article.css("a.headerlink, script, style"):
        gone.decompose()
    first = article.css_first("h1")
    title = _text(first) if first else page.stem
    place = page.relative_to(site).as_posix()
    for node in article.css("section"):
        heading = node.css_first("h1, h2, h3, h4")
        anchor = node.attributes.get("id") or ""
        own = " ".join(_text(part) for part in _own_parts(node))
        is_whole = heading is not None and heading.tag == "h1"
        address = place if is_whole else f"{place}#{anchor}"
        yield address, title, "" if is_whole or heading is None else _text(heading), own


def _own_parts(section: LexborNode) -> Iterator[LexborNode]:
    """What stands in a section itself, neither its heading nor the sections in it."""
    for node in section.iter():
        if node.tag not in ("section", "h1", "h2", "h3", "h4", "h5", "h6", "span"):
            yield node


def _text(node: LexborNode) -> str:
    return _BLANKS.sub(" ", node.text()).strip()
