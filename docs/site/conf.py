"""Sphinx's settings; `docs.site.build` calls Sphinx with them."""

from __future__ import annotations

from typing import Any, Final

from sphinx.application import Sphinx

_SANS: Final = (
    'system-ui, -apple-system, "Segoe UI", "PingFang SC", "Hiragino Sans GB", "Microsoft YaHei",'
    ' "Noto Sans CJK SC", "Noto Sans SC", sans-serif'
)

project = "Credence"
author = "the Credence maintainers"
copyright = "the Credence maintainers, Apache-2.0"  # noqa: A001  Sphinx's name
language = "en"
extensions = ["myst_parser"]
root_doc = "index"
# Answers and logs are shown shortened, so that not each of them is whole JSON.
suppress_warnings = ["misc.highlighting_failure"]

myst_heading_anchors = 4
myst_links_external_new_tab = False

html_theme = "furo"
html_title = "Credence"
html_static_path = ["static"]
templates_path = ["templates"]
html_css_files = ["site.css"]
html_js_files = [("search.js", {"defer": "defer"}), ("site.js", {"defer": "defer"})]
html_favicon = "static/mark.svg"
html_logo = "static/mark.svg"
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
html_sidebars = {
    "**": [
        "sidebar/brand.html",
        "sidebar/search.html",
        "sidebar/scroll-start.html",
        "sidebar/navigation.html",
        "sidebar/scroll-end.html",
    ]
}
html_use_index = False
html_permalinks_icon = "#"
html_theme_options = {
    "top_of_page_buttons": [],
    "sidebar_hide_name": False,
    "light_css_variables": {
        "font-stack": _SANS,
        "color-brand-primary": "#2f6f5e",
        "color-brand-content": "#256052",
    },
    "dark_css_variables": {
        "color-brand-primary": "#6fbfa5",
        "color-brand-content": "#7cc9b0",
    },
}


def setup(app: Sphinx) -> dict[str, bool]:
    """Use our own search (docs/site/search_index.py), and say which pages are Chinese."""
    app.connect("builder-inited", _without_search)
    app.connect("html-page-context", _say_language)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _without_search(app: Sphinx) -> None:
    app.builder.search = False  # type: ignore[attr-defined]  # of the HTML builder


def _say_language(
    _app: Sphinx, page: str, _template: str, context: dict[str, Any], _tree: object
) -> None:
    if page.startswith("zh/"):
        context["language"] = "zh-Hans"
