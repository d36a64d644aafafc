"""Pages laid out for the site: links lead to where their targets stand there."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs.site.staging import turned

ROOT = Path("/project")
PLACES = {
    ROOT / "docs/quickstart.md": "quickstart.md",
    ROOT / "docs/zh/index.md": "zh/index.md",
    ROOT / "SECURITY.md": "project/security.md",
}


@pytest.mark.parametrize(
    ("where", "link", "wanted"),
    [
        ("SECURITY.md", "docs/quickstart.md", "../quickstart.md"),
        ("docs/quickstart.md", "../SECURITY.md#the-walls", "project/security.md#the-walls"),
        ("docs/zh/index.md", "../../SECURITY.md", "../project/security.md"),
        ("docs/zh/index.md", "../quickstart.md", "../quickstart.md"),
    ],
)
def test_link_to_a_page_leads_to_its_place(where: str, link: str, wanted: str) -> None:
    assert turned(f"See [it]({link}).", path=ROOT / where, places=PLACES) == f"See [it]({wanted})."


@pytest.mark.parametrize(
    "text",
    [
        "[elsewhere](https://example.com/a.md)",
        "[here](#below)",
        "[unknown](missing.md)",
        "`[code](docs/quickstart.md)`",
        "```sh\n[code](docs/quickstart.md)\n```",
    ],
)
def test_what_is_no_link_to_a_page_stays(text: str) -> None:
    assert turned(text, path=ROOT / "SECURITY.md", places=PLACES) == text


def test_line_broken_within_a_chinese_sentence_is_joined_and_no_other() -> None:
    text = "什么，\n调用模型\n（以后）。\n\n中文\nEnglish\n- 中文\n| 表 |\n| 格 |\n```text\n一\n二\n```\n"
    wanted = (
        "什么，调用模型（以后）。\n\n中文\nEnglish\n- 中文\n| 表 |\n| 格 |\n```text\n一\n二\n```\n"
    )
    assert turned(text, path=ROOT / "docs/zh/index.md", places=PLACES) == wanted
