"""The importer on good files, bad lines and repeats."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from django.utils import timezone

from memory.rls import scoped_transaction
from tests.factories import make_agent, make_tenant, scope_of
from threads.imports import import_conversations
from threads.models import Message, Run, Thread

DEMO = Path(__file__).parents[2] / "config" / "local" / "demo"


def line(**values: object) -> str:
    return json.dumps({"user_id": "u", "thread": "t", "content": "hi"} | values)


@pytest.fixture
def place(db):
    tenant = make_tenant()
    return scope_of(tenant), make_agent(tenant)


def bring(place, lines):
    scope, agent = place
    return import_conversations(scope=scope, agent=agent, lines=lines, now=timezone.now())


def test_turn_is_user_line_and_what_follows(place):
    report = bring(
        place,
        [
            line(content="问题一", external_id="a1", created_at="2026-03-01T08:00:00Z"),
            line(role="assistant", content="回答一"),
            line(role="tool", content="{}"),
            line(role="assistant", content="补充"),
            line(content="问题二"),
            line(content="问题三"),
        ],
    )
    assert (report.turns_new, report.threads, report.bad_lines) == (3, 1, [])
    scope, _ = place
    with scoped_transaction(scope):
        runs = list(Run.objects.in_scope(scope).order_by("seq"))
        assert [(r.seq, r.input, r.output) for r in runs] == [
            (1, "问题一", "回答一\n\n补充"),
            (2, "问题二", ""),
            (3, "问题三", ""),
        ]
        assert [r.is_time_assumed for r in runs] == [False, True, True]
        assert runs[0].external_id == "a1"
        assert Message.objects.in_scope(scope).count() == 6
        assert Thread.objects.in_scope(scope).get().title == "问题一"


def test_byte_order_mark_costs_no_line(place):
    report = bring(place, ["\ufeff" + line(content="first"), line(role="assistant", content="a")])
    assert (report.turns_new, report.bad_lines) == (1, [])


def test_repeat_adds_nothing_and_appended_lines_are_added(place):
    lines = [line(content=f"q{n}") for n in range(5)]
    assert bring(place, lines).turns_new == 5
    again = bring(place, [*lines, line(content="q5")])
    assert (again.turns_new, again.turns_known) == (1, 5)


def test_bad_lines_are_listed_with_number_and_rest_is_imported(place):
    lines = [
        line(content="good"),
        "{not json",
        "[1]",
        line(content=""),
        line(role="robot"),
        line(colour="red"),
        line(created_at="yesterday"),
        line(created_at="2026-03-01T08:00:00"),
        line(user_id="usr_01h455vb4pex5vsknk084sn02q"),
        line(content="a\u0000b"),
        line(content="\ud83d"),
        line(content=7),
        '{"user_id": "u", "user_id": "v", "thread": "t", "content": "hi"}',
        "",
        line(content="also good", created_at=None),
    ]
    report = bring(place, lines)
    assert report.turns_new == 2
    assert [bad.number for bad in report.bad_lines] == list(range(2, 14))
    assert all(bad.reason for bad in report.bad_lines)


@pytest.mark.parametrize("name", ["teacher_zh.jsonl", "support_en.jsonl"])
def test_demo_files_import_whole_and_repeat_cleanly(place, name):
    lines = (DEMO / name).read_text(encoding="utf-8").splitlines()
    report = bring(place, lines)
    assert report.bad_lines == []
    assert report.turns_new >= 60
    assert report.threads >= 6
    assert bring(place, lines).turns_new == 0
