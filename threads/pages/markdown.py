"""An answer's Markdown as HTML that can do nothing: no script, no frame, no image, no foreign style.

Two walls: the parser knows no raw HTML, and what it writes passes a short list of tags. A picture
would be fetched from its host and tell it who reads; its description stands in its place. Source of
the syntax: CommonMark 0.31 and GitHub's tables and strikethrough, as markdown-it reads them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import nh3
from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import OptionsDict

# Longer ones are shown as they are: parsing takes 2 ms for ten thousand characters.
MOST_CHARS: Final = 100_000
TAGS: Final = frozenset(
    "a blockquote br code del em h1 h2 h3 h4 h5 h6 hr li ol p pre s strong table tbody td th thead"
    " tr ul".split()
)
_ATTRIBUTES: Final = {"a": {"href", "title"}, "ol": {"start"}}
_SCHEMES: Final = frozenset({"http", "https", "mailto"})
_LINKS: Final = {"a": {"target": "_blank"}}


def _described(
    _self: RendererHTML,
    tokens: Sequence[Token],
    index: int,
    options: OptionsDict,
    env: Mapping[str, Any],
) -> str:
    """Return a picture's description, escaped; its address is not even a link."""
    text = RendererHTML().renderInlineAsText(tokens[index].children or [], options, dict(env))
    return f"<em>{nh3.clean_text(text)}</em>" if text else ""


def _parser() -> MarkdownIt:
    made = MarkdownIt("commonmark", {"html": False, "breaks": True, "linkify": False})
    made.enable(["table", "strikethrough"])
    made.add_render_rule("image", _described)
    return made


_PARSER: Final = _parser()


def to_html(text: str) -> SafeString:
    """Return Markdown as safe HTML. Cost: no query; linear, but for nesting the parser bounds."""
    if len(text) > MOST_CHARS:
        return mark_safe(f"<pre>{nh3.clean_text(text)}</pre>")  # noqa: S308 - escaped right here
    cleaned = nh3.clean(
        _PARSER.render(text),
        tags=set(TAGS),
        attributes={tag: set(names) for tag, names in _ATTRIBUTES.items()},
        url_schemes=set(_SCHEMES),
        link_rel="noopener noreferrer nofollow",
        set_tag_attribute_values=_LINKS,
    )
    return mark_safe(cleaned)  # noqa: S308 - what nh3 let through
