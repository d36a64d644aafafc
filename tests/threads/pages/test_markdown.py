"""What a model writes is shown as text with a form, and can do nothing in a browser."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threads.pages.markdown import MOST_CHARS, TAGS, to_html

ALLOWED = {"a": {"href", "title", "rel", "target"}, "ol": {"start"}}
HOSTILE = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "![x](https://evil.example/pixel.png)",
    "![x](data:image/svg+xml;base64,PHN2Zz4=)",
    "[click](javascript:alert(1))",
    "[click](JaVaScRiPt:alert(1))",
    "[click](java\tscript:alert(1))",
    "[click](&#106;avascript:alert(1))",
    "[click](data:text/html,<script>alert(1)</script>)",
    "[click](vbscript:x)",
    "<javascript:alert(1)>",
    "[a](https://ok.example 'x\" onmouseover=alert(1) y=\"')",
    "<iframe src=https://evil.example></iframe>",
    "<style>body{display:none}</style>",
    "<svg><script>alert(1)</script></svg>",
    "<math><mtext></p><style><img src=x onerror=alert(1)></style></mtext></math>",
    "<form action=https://evil.example><input name=csrfmiddlewaretoken></form>",
    "`</code><script>alert(1)</script>`",
    "```html\n</code></pre><script>alert(1)</script>\n```",
    '```" onmouseover=alert(1)\nx\n```',
    "| a |\n|---|\n| <img src=x onerror=alert(1)> |",
    "[x]: javascript:alert(1)\n\n[x]",
    "你好 <a href='javascript:alert(1)'>点这里</a>",
)


class _Reader(HTMLParser):
    """Every tag and attribute a browser would see."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))


def harmless(html: str) -> None:
    """Let pass what has listed tags, listed attributes and links out alone."""
    reader = _Reader()
    reader.feed(html)
    for tag, attributes in reader.seen:
        assert tag in TAGS, (tag, html)
        assert attributes.keys() <= ALLOWED.get(tag, set()), (tag, attributes)
        href = attributes.get("href")
        assert href is None or re.match(r"(https?://|mailto:)", href), href
        if href is not None:
            assert attributes["rel"] == "noopener noreferrer nofollow"
            assert attributes["target"] == "_blank"


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_does_nothing(text: str) -> None:
    harmless(to_html(text))


@given(
    st.lists(
        st.one_of(
            st.sampled_from(HOSTILE), st.text(max_size=20), st.sampled_from("\n \t`[]()<>!*|\"'")
        ),
        max_size=8,
    )
)
def test_any_mixture_of_hostile_pieces_does_nothing(pieces: list[str]) -> None:
    harmless(to_html("".join(pieces)))


def test_a_picture_is_its_description_and_its_address_is_gone() -> None:
    html = to_html("看 ![一张 <b>图</b>](https://evil.example/p.png) 吧")
    assert "<em>一张 &lt;b&gt;图&lt;/b&gt;</em>" in html.replace("&#32;", " ")
    assert "evil.example" not in html


def test_form_is_kept_in_both_languages() -> None:
    html = to_html(
        "# 标题\n\n- **粗** and *thin*\n- `code`\n\n| 列 | col |\n|---|---|\n| 一 | 1 |\n\n~~old~~"
    )
    for part in ("<h1>标题</h1>", "<strong>粗</strong>", "<em>thin</em>", "<code>code</code>",
                 "<td>一</td>", "<s>old</s>"):  # fmt: skip
        assert part in html


def test_a_link_out_tells_the_other_host_nothing() -> None:
    html = to_html("[site](https://ok.example/a?b=1&c=2)")
    assert 'href="https://ok.example/a?b=1&amp;c=2"' in html
    assert 'rel="noopener noreferrer nofollow"' in html


def test_line_breaks_of_a_plain_answer_stay() -> None:
    assert "<br>" in to_html("first\nsecond")


def test_a_very_long_answer_is_shown_as_it_is() -> None:
    html = to_html("*<b>" + "x" * MOST_CHARS)
    assert html.startswith("<pre>")
    assert "&lt;b&gt;" in html


def test_nesting_costs_no_more_than_its_length() -> None:
    """A thousand levels of quotes, lists and brackets come back within the test's own limit."""
    for opening in ("> ", "- ", "[", "*", "`", "!["):
        harmless(to_html(opening * 1_000 + "x"))
