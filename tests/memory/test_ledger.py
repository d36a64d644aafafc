"""The ledger: the budget's arithmetic, the two orders, and an account that adds up."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.ledger import (
    CUT,
    POSITIONS,
    PRIORITIES,
    Dropped,
    Ledger,
    SectionRow,
    in_order,
    target_budget,
)


@pytest.mark.req("A08")
@pytest.mark.parametrize(
    ("window", "output", "budget"),
    [(8192, 512, 6553), (8192, 4096, 4096), (1024, 1, 819), (200_000, 8192, 160_000), (9, 1, 7)],
)
def test_target_is_four_fifths_of_the_window_or_what_the_answer_leaves(
    window: int, output: int, budget: int
) -> None:
    assert target_budget(context_window=window, max_output_tokens=output) == budget


@given(st.integers(1024, 2_000_000), st.data())
def test_target_always_leaves_room_for_the_answer(window: int, data: st.DataObject) -> None:
    output = data.draw(st.integers(1, window - 1))
    budget = target_budget(context_window=window, max_output_tokens=output)
    assert 0 < budget <= window - output
    assert budget * 10 <= window * 8


def test_orders_are_those_of_the_design() -> None:
    assert list(POSITIONS) == (
        "guidelines preferences facts core thread related reference continue request".split()
    )
    assert list(POSITIONS.values()) == list(range(1, 10))
    remembered = "preferences facts core thread continue reference related".split()
    ranked = sorted(remembered, key=PRIORITIES.__getitem__)
    assert ranked == remembered
    assert PRIORITIES.keys() == POSITIONS.keys()
    assert min(PRIORITIES, key=PRIORITIES.__getitem__) == "request"
    assert len(set(PRIORITIES.values())) == len(PRIORITIES)


@pytest.mark.req("A08")
def test_account_says_what_was_wanted_granted_and_why_dropped() -> None:
    gone = Dropped(kind="turn", id="run_1", tokens=40, reason="section_cap")
    cut = Dropped(kind="message", id="msg_1", tokens=9, reason=CUT)
    row = SectionRow(name="thread", cap=2000, wanted=149, granted=100, items=2, dropped=[gone, cut])
    assert row.candidates == 3
    ledger = Ledger(
        decision="trim",
        current_tokens=900,
        prompt_tokens=700,
        target_budget=800,
        context_window=1024,
        candidate_count=row.candidates,
        sections=[row],
    )
    account = json.loads(json.dumps(ledger.as_json()))
    assert account["decision"] == "trim"
    assert account["sections"] == [
        {
            "name": "thread",
            "position": 5,
            "priority": 4,
            "cap": 2000,
            "wanted": 149,
            "granted": 100,
            "items": 2,
            "dropped": [
                {"kind": "turn", "id": "run_1", "tokens": 40, "reason": "section_cap"},
                {"kind": "message", "id": "msg_1", "tokens": 9, "reason": "cut"},
            ],
        }
    ]
    names = {"current_tokens", "prompt_tokens", "target_budget", "context_window"}
    assert names < account.keys()


def test_retrieval_is_told_last_and_only_where_something_was_searched() -> None:
    told = {"kept": 2, "degraded": ["embedding_unavailable"]}
    figures = {
        "decision": "pass",
        "current_tokens": 1,
        "prompt_tokens": 1,
        "target_budget": 9,
        "context_window": 10,
        "candidate_count": 0,
    }
    searched = Ledger(**figures, retrieval=told).as_json()  # type: ignore[arg-type]
    assert list(searched)[-1] == "retrieval"
    assert searched["retrieval"] == told
    shuffled = json.loads(json.dumps(searched, sort_keys=True))
    assert json.dumps(in_order(shuffled)) == json.dumps(in_order(searched))
    assert "retrieval" not in Ledger(**figures).as_json()  # type: ignore[arg-type]
