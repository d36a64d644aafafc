"""The chain: as few levels as needed, nothing on the veto list lost, or refused."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory.compression.chain import ChainResult, Level, run_chain
from memory.compression.veto import FixedText, VetoList, missing
from memory.errors import CredenceError
from memory.providers.base import ChatMessage

Draft = tuple[str, ...]
REQUEST = "今天呢？"
VETO = VetoList(request=REQUEST, fixed=(FixedText(kind="core", id="cor_1", text="keep 必须留下"),))


class OutOfOrderError(CredenceError):
    """The level's model is down."""

    code = "provider_down"


@dataclass
class Step:
    """A level that does what it is told to; counts its calls."""

    name: str
    change: Callable[[Draft], Draft | None]
    model: str = ""
    calls: int = 0

    def apply(self, draft: Draft, /) -> Draft | None:
        self.calls += 1
        return self.change(draft)


class Bare:
    """A level without a model."""

    name = "bare"

    def apply(self, draft: Draft, /) -> Draft | None:
        return draft[1:]


def _render(draft: Draft) -> tuple[ChatMessage, ...]:
    return (ChatMessage(role="user", content="\n".join((*draft, REQUEST))),)


def _count(messages: Sequence[ChatMessage]) -> int:
    return sum(len(message.content) for message in messages)


def _run(
    draft: Draft, levels: Sequence[Level[Draft]], target: int, veto: VetoList = VETO
) -> ChainResult[Draft]:
    ids = itertools.count(1)
    return run_chain(
        draft=draft,
        levels=levels,
        render=_render,
        count=_count,
        target=target,
        veto=veto,
        tools=(),
        new_summary_id=lambda: f"sum_{next(ids)}",
    )


def _down(draft: Draft) -> Draft | None:
    raise OutOfOrderError


KEPT = "keep 必须留下"
LONG = ("旧" * 40, "旧" * 40, "old " * 10, KEPT)


@pytest.mark.req("B08")
def test_run_chain_of_a_draft_that_fits_does_nothing() -> None:
    step = Step("dedupe", lambda draft: draft[1:])
    result = _run((KEPT,), [step], 100)
    assert (result.draft, result.steps, result.is_within) == ((KEPT,), (), True)
    assert step.calls == 0


@pytest.mark.req("B08")
def test_run_chain_stops_at_the_first_level_that_makes_it_fit() -> None:
    light = Step("dedupe", lambda draft: draft[1:])
    middle = Step("tool_results", lambda draft: draft[1:])
    heavy = Step("summary", lambda draft: (KEPT,))
    result = _run(LONG, [light, middle, heavy], 80)
    assert result.is_within
    assert result.draft == ("old " * 10, KEPT)
    assert [(step.level, step.outcome) for step in result.steps] == [
        ("dedupe", "kept"),
        ("tool_results", "kept"),
    ]
    assert heavy.calls == 0


@pytest.mark.req("B09")
def test_run_chain_undoes_a_level_that_loses_something_and_goes_on_from_before() -> None:
    seen: list[Draft] = []

    def watch(draft: Draft) -> Draft:
        seen.append(draft)
        return (KEPT,)

    result = _run(LONG, [Step("dedupe", lambda draft: draft[:1]), Step("summary", watch)], 60)
    assert seen == [LONG]
    assert result.is_within
    lost, kept = result.steps
    assert (lost.outcome, lost.veto) == ("undone", "core:cor_1")
    assert (kept.outcome, kept.veto, kept.tokens_before) == ("kept", "ok", lost.tokens_before)


@pytest.mark.req("B10")
def test_run_chain_undoes_levels_that_fail_lengthen_or_change_nothing() -> None:
    """Bug report K3, attack case 188: a summary longer than its source."""
    levels = [
        Step("down", _down),
        Step("longer", lambda draft: (*draft, "更长")),
        Step("same", lambda draft: draft),
        Step("idle", lambda draft: None),
        Step("summary", lambda draft: (KEPT,), model="small"),
    ]
    result = _run(LONG, levels, 60)
    assert result.is_within
    assert [(step.level, step.outcome, step.veto) for step in result.steps] == [
        ("down", "undone", "error:provider_down"),
        ("longer", "undone", "ok"),
        ("same", "undone", "ok"),
        ("idle", "nothing", "ok"),
        ("summary", "kept", "ok"),
    ]


@pytest.mark.req("B08")
def test_run_chain_refuses_what_stays_over_the_target_after_the_last_level() -> None:
    result = _run(LONG, [Bare()], 10)
    assert not result.is_within
    assert result.draft == LONG[1:]
    last = result.steps[-1]
    assert (last.level, last.outcome, last.veto) == ("precheck", "refused", "ok")
    assert last.tokens_before == last.tokens_after == _count(_render(LONG[1:]))


@pytest.mark.req("B09")
def test_run_chain_of_a_draft_that_lacks_something_refuses_before_any_level() -> None:
    step = Step("dedupe", lambda draft: draft[1:])
    for target in (10, 10_000):
        result = _run(("旧" * 40,), [step], target)
        assert not result.is_within
        assert [(made.outcome, made.veto) for made in result.steps] == [("refused", "core:cor_1")]
    assert step.calls == 0


@pytest.mark.req("B11")
def test_run_chain_traces_each_compression_with_id_tokens_model_and_verdict() -> None:
    result = _run(LONG, [Step("summary", lambda draft: (KEPT,), model="small"), Bare()], 60)
    before, after = _count(_render(LONG)), _count(_render((KEPT,)))
    assert [step.as_json() for step in result.steps] == [
        {
            "level": "summary",
            "summary_id": "sum_1",
            "tokens_before": before,
            "tokens_after": after,
            "model": "small",
            "veto": "ok",
            "outcome": "kept",
        }
    ]
    assert _run(LONG, [Bare()], 130).steps[0].model == ""


@pytest.mark.req("B11")
def test_run_chain_names_at_most_twenty_missing_things_and_counts_the_rest() -> None:
    fixed = tuple(FixedText(kind="core", id=str(n), text=f"fact {n}!") for n in range(25))
    verdict = _run((), [], 100, VetoList(fixed=fixed)).steps[0].veto
    assert verdict.split(", ")[-1] == "+5"
    assert len(verdict.split(", ")) == 21


LINES = st.sampled_from([KEPT, "旧事", "old news " * 5, "x", ""])
DRAFTS = st.lists(LINES, max_size=6).map(tuple)
LEVELS = st.lists(
    st.one_of(
        DRAFTS.map(lambda made: Step("to", lambda draft: made)),
        st.integers(0, 5).map(lambda at: Step("cut", lambda draft: draft[at:])),
        st.just(Step("idle", lambda draft: None)),
        st.just(Step("down", _down)),
    ),
    max_size=5,
)


@pytest.mark.req("B08")
@pytest.mark.req("B09")
@settings(deadline=None, max_examples=300)
@given(draft=DRAFTS, levels=LEVELS, target=st.integers(-5, 120))
def test_run_chain_of_anything_is_within_only_if_it_fits_and_lacks_nothing(
    draft: Draft, levels: list[Step], target: int
) -> None:
    result = _run(draft, levels, target)
    messages = _render(result.draft)
    is_good = _count(messages) <= target and not missing(VETO, messages=messages, tools=())
    assert result.is_within == is_good
    assert _count(messages) <= _count(_render(draft))
    assert (not result.steps or result.steps[-1].outcome != "refused") == result.is_within
    kept = [step for step in result.steps if step.outcome == "kept"]
    assert all(step.tokens_after < step.tokens_before for step in kept)
    if not missing(VETO, messages=_render(draft), tools=()):
        assert not missing(VETO, messages=messages, tools=())
