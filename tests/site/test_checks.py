"""What the check of a built site finds, and what it lets pass."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs.site.checks import broken_links, problems

GOOD = (
    '<html><head><link rel="stylesheet" href="a.css"><script src="a.js"></script></head><body>'
    '<h1 id="top">A</h1><a href="#top">up</a><a href="b/c.html#below">c</a>'
    '<a href="https://example.com/">elsewhere</a><img src="a.svg" alt="a picture"></body></html>'
)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    (tmp_path / "b").mkdir()
    (tmp_path / "index.html").write_text(GOOD, "utf-8")
    (tmp_path / "b/c.html").write_text(
        '<h2 id="below">C</h2><a href="../index.html">a</a>', "utf-8"
    )
    (tmp_path / "a.css").write_text("body { background: url(a.svg); }", "utf-8")
    (tmp_path / "a.js").write_text('fetch("a.svg");  // see https://example.com', "utf-8")
    (tmp_path / "a.svg").write_text('<svg xmlns="http://www.w3.org/2000/svg"/>', "utf-8")
    return tmp_path


def test_whole_site_has_no_problem(site: Path) -> None:
    assert problems(site) == []


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ('<a href="gone.html">x</a>', "gone.html, which is not there"),
        ('<a href="#gone">x</a>', "#gone, which is not there"),
        ('<a href="b/c.html#gone">x</a>', "b/c.html#gone, which is not there"),
        ('<a href="../out.html">x</a>', "../out.html, which is not there"),
        ('<img src="gone.png" alt="x">', "gone.png by its src, which is not there"),
        ('<img src="a.svg">', "no alternative text"),
        ('<script src="https://cdn.example.com/a.js"></script>', "<script> loads https://cdn"),
        ('<link rel="preconnect" href="//fonts.example.com">', "<link> loads //fonts"),
        ('<img src="https://example.com/a.png" alt="x">', "<img> loads https://example.com"),
        ("<iframe src='https://example.com/'></iframe>", "<iframe> loads https://example.com"),
        ("<style>@import 'https://example.com/a.css';</style>", "a style loads https://example"),
        ('<p style="background: url(//example.com/a.png)">x</p>', "a style loads //example.com"),
    ],
)
def test_what_is_wrong_in_a_page_is_told(site: Path, wrong: str, told: str) -> None:
    (site / "wrong.html").write_text(wrong, "utf-8")
    (found,) = problems(site)
    assert found.startswith("wrong.html: ")
    assert told in found


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("b.css", "@font-face { src: url('https://example.com/a.woff2'); }"),
        ("b.js", 'import("https://example.com/a.js")'),
        ("b.js", "fetch(`//example.com/index.json`)"),
        ("b.svg", "<svg><style>@import 'https://example.com/a.css';</style></svg>"),
    ],
)
def test_other_host_in_a_style_script_or_picture_is_told(site: Path, name: str, text: str) -> None:
    (site / name).write_text(text, "utf-8")
    (found,) = problems(site)
    assert found.startswith(f"{name}: loads ")


def test_empty_folder_is_no_site(tmp_path: Path) -> None:
    assert len(problems(tmp_path)) == 1


def test_links_of_markdown_files_are_checked(tmp_path: Path) -> None:
    page, other = tmp_path / "README.md", tmp_path / "other.md"
    other.write_text("# Other\n\n## What it `says`, and 中文\n\n```\n# no heading\n```\n", "utf-8")
    page.write_text(
        "[a](other.md) [b](other.md#what-it-says-and-中文) [c](gone.md) [d](other.md#no-heading)\n"
        "[e](https://example.com/gone.md) `[f](gone.md)` [g](made/later.md)\n",
        "utf-8",
    )
    made = {tmp_path / "made/later.md"}
    assert broken_links([page, other], root=tmp_path, made=made) == [
        "README.md: gone.md is not there",
        "README.md: other.md#no-heading names no heading",
    ]
