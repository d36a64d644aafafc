"""The demo conversations are what the importer and the README's walk expect of them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest

DEMO_FOLDER = Path(__file__).parents[2] / "config" / "local" / "demo"
FILES = ("teacher_zh.jsonl", "support_en.jsonl")
REQUIRED = {"user_id", "thread", "created_at", "role", "content", "external_id"}
ROLES = {"user", "assistant", "tool", "system"}
MAX_CONTENT_CHARS = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of a demo file, its time parsed."""

    user_id: str
    thread: str
    created_at: datetime
    role: str
    content: str
    external_id: str
    speaker: str | None = None


def _read(name: str) -> list[Line]:
    """Parse a demo file; an unknown or a missing field is a TypeError of the dataclass."""
    lines = []
    for raw in (DEMO_FOLDER / name).read_text(encoding="utf-8").splitlines():
        row = json.loads(raw)
        at = datetime.strptime(row.pop("created_at"), "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
        lines.append(Line(created_at=at, **row))
    return lines


def _threads(lines: list[Line]) -> dict[str, list[Line]]:
    """Group by thread, keeping file order."""
    threads: dict[str, list[Line]] = {}
    for line in lines:
        threads.setdefault(line.thread, []).append(line)
    return threads


def _script_counts(lines: list[Line]) -> tuple[int, int]:
    """Count (CJK ideographs, ASCII letters) over all contents."""
    text = "".join(line.content for line in lines)
    han = sum("\u4e00" <= char <= "\u9fff" for char in text)
    latin = sum(char.isascii() and char.isalpha() for char in text)
    return han, latin


@pytest.mark.parametrize("name", FILES)
def test_demo_file_every_line_has_known_fields_and_values(name: str) -> None:
    lines = _read(name)
    assert {line.role for line in lines} <= ROLES
    assert len({line.user_id for line in lines}) == 1
    assert all(1 <= len(line.content) <= MAX_CONTENT_CHARS for line in lines)
    assert all(line.content == line.content.strip() for line in lines)
    assert all(line.speaker is None or line.speaker for line in lines)
    for raw in (DEMO_FOLDER / name).read_text(encoding="utf-8").splitlines():
        assert set(json.loads(raw)) - {"speaker"} == REQUIRED


@pytest.mark.parametrize("name", FILES)
def test_demo_file_is_long_enough_to_roll_a_summary(name: str) -> None:
    threads = _threads(_read(name))
    assert len(threads) >= 5
    turns = [line for lines in threads.values() for line in lines if line.role == "user"]
    assert len(turns) >= 60
    # More than 20 messages in one thread is what triggers the rolling summary.
    assert max(len(lines) for lines in threads.values()) > 20


@pytest.mark.parametrize("name", FILES)
def test_demo_file_is_messy_like_real_talk(name: str) -> None:
    lines = _read(name)
    roles = {line.role for line in lines}
    assert {"user", "assistant", "tool"} <= roles
    in_order = [pair for own in _threads(lines).values() for pair in pairwise(own)]
    assert any(a.role == b.role == "user" for a, b in in_order)
    contents = [line.content for line in lines]
    for mark in ("```", "\n|", "**", "\t", '{"'):
        assert any(mark in content for content in contents), mark
    assert max(len(content) for content in contents) > 1_000
    assert min(len(content) for content in contents) < 20


@pytest.mark.parametrize("name", FILES)
def test_demo_file_threads_begin_with_the_user_and_time_goes_forward(name: str) -> None:
    threads = _threads(_read(name))
    for lines in threads.values():
        assert lines[0].role == "user"
        assert all(a.created_at < b.created_at for a, b in pairwise(lines))
    ends = [(own[0].created_at, own[-1].created_at) for own in threads.values()]
    assert all(a[1] < b[0] for a, b in pairwise(ends))
    assert ends[-1][1] - ends[0][0] > timedelta(days=140)


def test_demo_files_external_ids_are_unique_over_both() -> None:
    ids = [line.external_id for name in FILES for line in _read(name)]
    assert len(ids) == len(set(ids))


def test_demo_files_are_chinese_and_english_mostly() -> None:
    han, latin = _script_counts(_read("teacher_zh.jsonl"))
    assert han > 2 * latin
    han, latin = _script_counts(_read("support_en.jsonl"))
    assert latin > 100 * han


@pytest.mark.parametrize(
    ("name", "final", "withdrawn"),
    [
        ("teacher_zh.jsonl", ("简答题最后就是", "循环队列", "二叉排序树中序有序"), "Dijkstra"),
        ("support_en.jsonl", ("Resolution: firmware 2.4.7",), "Since the 2.4.5 update"),
    ],
)
def test_demo_file_last_thread_settles_the_demo_question_after_a_wrong_turn(
    name: str, final: tuple[str, ...], withdrawn: str
) -> None:
    last = list(_threads(_read(name)).values())[-1]
    wrong_at = next(i for i, line in enumerate(last) if withdrawn in line.content)
    right_at = next(i for i, line in enumerate(last) if all(part in line.content for part in final))
    assert wrong_at < right_at
