"""Is the built site whole? Links and their anchors, pictures, and nothing from another host.

Sphinx is strict about the links it understands; this looks at what came out, also at links in raw
HTML, and at the links of the Markdown files in the repository's root.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urldefrag, urlsplit

from selectolax.lexbor import LexborHTMLParser

# What a browser fetches by itself, each with the attributes that say from where.
_FETCHED: Final = {
    "script": ("src",),
    "link": ("href",),
    "img": ("src", "srcset"),
    "source": ("src", "srcset"),
    "iframe": ("src",),
    "video": ("src", "poster"),
    "object": ("data",),
    "use": ("href", "xlink:href"),
    "image": ("href", "xlink:href"),
}
_IN_STYLE: Final = re.compile(r"(?:url\(|@import)\s*['\"]?((?:https?:)?//[^'\")\s]+)")
_IN_SCRIPT: Final = re.compile(
    r"(?:fetch|import|importScripts|Worker|open)\s*\(\s*['\"`]((?:https?:)?//[^'\"`]+)"
)
_LINK: Final = re.compile(r"\]\(([^)\s]+)\)")
_FENCED: Final = re.compile(r"^```.*?^```|`[^`\n]+`", re.MULTILINE | re.DOTALL)


def problems(site: Path) -> list[str]:
    """What is wrong with a built site, one line each; empty is good."""
    pages = sorted(site.rglob("*.html"))
    found = [f"{site}: no page was built"] if not pages else []
    for page in pages:
        found += [f"{page.relative_to(site)}: {what}" for what in _of_page(page, site=site)]
    for path in sorted([*site.rglob("*.css"), *site.rglob("*.js"), *site.rglob("*.svg")]):
        found += [f"{path.relative_to(site)}: loads {host}" for host in _foreign_in_text(path)]
    return found


def _of_page(page: Path, *, site: Path) -> Iterator[str]:
    tree = LexborHTMLParser(page.read_text("utf-8"))
    for tag, name, address in _fetched(tree):
        if _is_foreign(address):
            yield f"<{tag}> loads {address}"
        elif not _is_there(address, page=page, site=site):
            yield f"<{tag}> leads to {address} by its {name}, which is not there"
    styles = [node.attributes.get("style") or node.text() for node in tree.css("[style], style")]
    for address in _IN_STYLE.findall("\n".join(styles)):
        yield f"a style loads {address}"
    yield from _of_what_is_read(tree, page=page, site=site)


def _of_what_is_read(tree: LexborHTMLParser, *, page: Path, site: Path) -> Iterator[str]:
    for node in tree.css("img"):
        if not (node.attributes.get("alt") or "").strip():
            yield f"the picture {node.attributes.get('src')} has no alternative text"
    for node in tree.css("a[href]"):
        address = node.attributes.get("href") or ""
        if not _is_foreign(address) and not _is_there(address, page=page, site=site):
            yield f"a link leads to {address}, which is not there"


def _fetched(tree: LexborHTMLParser) -> Iterator[tuple[str, str, str]]:
    """Tag, attribute and address of whatever a browser fetches by itself."""
    for tag, names in _FETCHED.items():
        for node in tree.css(tag):
            for name in names:
                if address := node.attributes.get(name):
                    yield tag, name, address


def _foreign_in_text(path: Path) -> list[str]:
    text = path.read_text("utf-8", errors="replace")
    pattern = _IN_SCRIPT if path.suffix == ".js" else _IN_STYLE
    return pattern.findall(text)


def _is_foreign(address: str) -> bool:
    parts = urlsplit(address)
    return bool(parts.netloc) or parts.scheme in ("http", "https", "mailto")


def _is_there(address: str, *, page: Path, site: Path) -> bool:
    if address.startswith("data:"):
        return True
    name, anchor = urldefrag(address)
    target = (page.parent / unquote(urlsplit(name).path)).resolve() if name else page
    if target.is_dir():
        target /= "index.html"
    if not target.is_relative_to(site.resolve()) or not target.is_file():
        return False
    return not anchor or target.suffix != ".html" or unquote(anchor) in _anchors(target)


@cache
def _anchors(page: Path) -> frozenset[str]:
    tree = LexborHTMLParser(page.read_text("utf-8"))
    return frozenset(str(node.attributes["id"]) for node in tree.css("[id]"))


def broken_links(files: list[Path], *, root: Path, made: Collection[Path] = ()) -> list[str]:
    """Links of Markdown files to files, or headings in them, that are not there.

    Args:
        files: Which files.
        root: What their names are shown below.
        made: Files that only the site has; their anchors are checked there.
    """
    found = []
    for path in files:
        for target in _LINK.findall(_FENCED.sub("", path.read_text("utf-8"))):
            name, anchor = urldefrag(target)
            if _is_foreign(target):
                continue
            to = (path.parent / unquote(name)).resolve() if name else path
            if to in made:
                continue
            if not to.exists():
                found.append(f"{path.relative_to(root)}: {target} is not there")
            elif anchor and anchor not in _headings(to):
                found.append(f"{path.relative_to(root)}: {target} names no heading")
    return found


def _headings(path: Path) -> set[str]:
    """The anchors that a Markdown file's headings get, here and where the repository is shown."""
    lines = re.sub(r"^```.*?^```", "", path.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    titles = re.findall(r"^#{1,6}\s+(.+?)\s*$", lines, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
