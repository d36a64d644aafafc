"""The navigation leads to every page, once, in the order that a newcomer reads."""

from __future__ import annotations

from pathlib import Path

from docs.site import nav

DOCS = Path(__file__).parents[2] / "docs"


def test_every_page_of_docs_is_named_once() -> None:
    pages = {
        path.relative_to(DOCS).as_posix()
        for folder in (".", "adr", "zh")
        for path in (DOCS / folder).glob("*.md")
    }
    named = nav.named_pages()
    assert len(pages) > 25
    assert pages - set(named) == set()
    assert len(named) == len(set(named))


def test_every_named_page_is_there() -> None:
    assert set(nav.named_pages()) - nav.pages_on_disk().keys() == set()


def test_folders_without_pages_are_the_known_ones() -> None:
    """A new folder of docs/ is a part of the site, unless nav.py says that it is none."""
    with_pages = {path.relative_to(DOCS).parts[0] for path in DOCS.rglob("*/*.md")}
    assert with_pages == {"adr", "zh", "plans"}


def test_quickstart_comes_first() -> None:
    assert nav.PARTS[0].pages[0] == "quickstart.md"
