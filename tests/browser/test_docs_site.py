"""The docs site in a real browser, opened from a folder: search in both languages, dark, phone."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser.chrome import Chrome, browser_path

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(browser_path() is None, reason="no Chromium is installed"),
]
ROOT = Path(__file__).parents[2]
FOUND = "document.querySelector('.found')"
ROWS = "document.querySelectorAll('.found [role=option]').length"
CHOSEN = "document.querySelector('.found [aria-selected=true] a')"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    site = tmp_path_factory.mktemp("docs") / "site"
    subprocess.run(
        [sys.executable, "-m", "docs.site.build", "--out", str(site)], cwd=ROOT, check=True
    )
    return site.as_uri()


@pytest.fixture
def chrome() -> Iterator[Chrome]:
    with Chrome(language="en-US") as opened:
        yield opened


def look_for(chrome: Chrome, words: str) -> str:
    chrome.evaluate("document.getElementById('find').focus()")
    chrome.until("Boolean(window.credenceSections)")
    chrome.fill("#find", words)
    chrome.until(f"!{FOUND}.hidden")
    return str(chrome.evaluate(f"{FOUND}.innerText"))


@pytest.mark.parametrize(
    ("words", "page", "place"),
    [
        ("legal hold", "index.html", "compliance.html#legal-hold"),
        ("erasures", "index.html", "erasure"),
        ("min_relevance", "index.html", "tuning.html"),
        ("context_over_budget", "adr/README.html", "api/"),
        ("信任级别", "zh/index.html", "zh/index.html"),
        ("批准术语", "index.html", "zh/quickstart.html"),
        ("备份", "zh/quickstart.html", "retrieval.html"),
    ],
)
def test_search_finds_in_english_and_chinese_without_a_server(
    chrome: Chrome, address: str, words: str, page: str, place: str
) -> None:
    chrome.open(f"{address}/{page}")
    look_for(chrome, words)
    found = chrome.evaluate(
        "[...document.querySelectorAll('.found a')].map(it => it.href).join(' ')"
    )
    assert place in found
    assert chrome.evaluate("document.querySelectorAll('.found mark').length") > 0


def test_search_with_the_keyboard_leads_to_the_section(chrome: Chrome, address: str) -> None:
    chrome.open(f"{address}/quickstart.html")
    look_for(chrome, "legal hold")
    wanted = chrome.evaluate(f"{CHOSEN}.href")
    chrome.send("Input.dispatchKeyEvent", type="keyDown", key="Enter", code="Enter")
    chrome.until(f"location.href === {wanted!r} && document.readyState === 'complete'")
    assert chrome.evaluate("Boolean(document.querySelector(location.hash))")


def test_nothing_found_is_said(chrome: Chrome, address: str) -> None:
    chrome.open(f"{address}/zh/index.html")
    assert look_for(chrome, "zzzqqq") == "没有找到。"
    assert chrome.evaluate(ROWS) == 0


@pytest.mark.parametrize(
    "page", ["index.html", "concepts.html", "api/runs.html", "tuning.html", "zh/quickstart.html"]
)
def test_page_is_no_wider_than_a_phone(address: str, page: str) -> None:
    with Chrome(language="zh-CN", width=390, height=844) as phone:
        phone.open(f"{address}/{page}")
        wide = phone.evaluate("document.documentElement.scrollWidth")
        assert wide <= 390


def test_page_is_dark_where_the_reader_likes_it(chrome: Chrome, address: str) -> None:
    colour = "getComputedStyle(document.querySelector('.main')).backgroundColor || ''"
    paper = "getComputedStyle(document.body).backgroundColor"
    chrome.open(f"{address}/concepts.html")
    light = chrome.evaluate(f"{paper} + {colour}")
    chrome.dark(is_dark=True)
    assert chrome.evaluate(f"{paper} + {colour}") != light
