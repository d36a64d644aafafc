"""HTML to plain text: what a reader sees, with headings as `#` lines; scripts and hidden text go.

Runs in a process of its own (governance.knowledge.reader): the specification's own algorithm takes
time quadratic in the depth of nesting.
"""

from __future__ import annotations

import re
from typing import Final

from selectolax.lexbor import LexborHTMLParser, LexborNode, SelectolaxError

from governance.knowledge.charsets import decode

_UNSEEN: Final = frozenset(
    "head script style template noscript iframe object embed applet canvas svg math audio video"
    " select datalist input textarea button dialog".split()
)
_HEADINGS: Final = {f"h{level}": "#" * level for level in range(1, 7)}
_BLOCKS: Final = frozenset(
    "p div section article main header footer nav aside blockquote figure figcaption address form"
    " fieldset ul ol dl table details summary hr pre".split()
)
_LINES: Final = frozenset("br li dt dd tr caption".split())
_CELLS: Final = frozenset(("td", "th"))
_HIDING: Final = re.compile(
    r"display\s*:\s*none|visibility\s*:\s*(?:hidden|collapse)|font-size\s*:\s*0(?![.\d]*[1-9])"
    r"|opacity\s*:\s*0(?![.\d]*[1-9])|(?:left|top|text-indent)\s*:\s*-\d{3,}",
    re.IGNORECASE,
)
_CSS_COMMENT: Final = re.compile(r"/\*.*?\*/", re.DOTALL)
_CSS_RULE: Final = re.compile(r"([^{}]{1,300})\{([^{}]*)\}")
_BLANKS: Final = re.compile(r"[ \t\f\v\u00a0]+")
_GAPS: Final = re.compile(r"\n{3,}")
_SPACE: Final = re.compile(r"\s+")
_MOST_RULES: Final = 200


def html_text(raw: bytes) -> str:
    """Return the visible text of a page. Cost: linear for pages that people write.

    Hidden is what carries `hidden` or `aria-hidden`, or a style that hides it, its own or one of
    the page's first rules. Styles from elsewhere are not loaded.

    Raises:
        UnreadableDocumentError: Its charset is not known.
        DocumentTextError: It holds a NUL.
    """
    page = LexborHTMLParser(decode(raw))
    if page.root is None:
        return ""
    writer = _Writer()
    hidden = _hidden_by_rules(page)
    waiting: list[tuple[LexborNode, bool]] = [(page.root, False)]
    while waiting:
        node, is_leaving = waiting.pop()
        if is_leaving:
            writer.leave(str(node.tag))
        elif node.is_text_node:
            writer.write(node.text_content or "")
        elif node.is_element_node and node.mem_id not in hidden and _is_seen(node):
            writer.enter(str(node.tag))
            waiting.append((node, True))
            waiting.extend((child, False) for child in reversed(_children(node)))
    return writer.text()


def _children(node: LexborNode) -> list[LexborNode]:
    found = []
    child = node.first_child
    while child is not None:
        found.append(child)
        child = child.next
    return found


def _is_seen(node: LexborNode) -> bool:
    if node.tag in _UNSEEN:
        return False
    values = node.attributes
    if "hidden" in values or (values.get("aria-hidden") or "").strip().lower() == "true":
        return False
    return not _HIDING.search(values.get("style") or "")


def _hidden_by_rules(page: LexborHTMLParser) -> frozenset[int]:
    """Return what the page's own style sheets hide; rules for some media only do not count."""
    hidden: set[int] = set()
    for style in page.css("style"):
        sheet = _CSS_COMMENT.sub("", style.text()).partition("@media")[0]
        rules = [rule for rule in _CSS_RULE.findall(sheet[:100_000]) if _HIDING.search(rule[1])]
        for selector, _ in rules[:_MOST_RULES]:
            hidden.update(node.mem_id for node in _matching(page, selector.strip()))
    return frozenset(hidden)


def _matching(page: LexborHTMLParser, selector: str) -> list[LexborNode]:
    try:
        return page.css(selector)
    except (SelectolaxError, ValueError):
        return []


class _Writer:
    """Collects text, with line breaks where a browser would put them."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._preformatted = 0

    def enter(self, tag: str) -> None:
        """Begin an element."""
        if tag in _HEADINGS:
            self._pieces.append(f"\n\n{_HEADINGS[tag]} ")
        elif tag in _BLOCKS:
            self._pieces.append("\n\n")
        elif tag in _LINES:
            self._pieces.append("\n- " if tag == "li" else "\n")
        self._preformatted += tag == "pre"

    def leave(self, tag: str) -> None:
        """End an element."""
        if tag in _HEADINGS or tag in _BLOCKS:
            self._pieces.append("\n\n")
        elif tag in _CELLS:
            self._pieces.append(" | ")
        self._preformatted -= tag == "pre"

    def write(self, text: str) -> None:
        """Take text."""
        self._pieces.append(text if self._preformatted else _SPACE.sub(" ", text))

    def text(self) -> str:
        """Return everything, without doubled blanks and gaps."""
        lines = _BLANKS.sub(" ", "".join(self._pieces)).split("\n")
        kept = (line.strip().removesuffix(" |") for line in lines)
        return _GAPS.sub("\n\n", "\n".join(line if line != "-" else "" for line in kept)).strip()
