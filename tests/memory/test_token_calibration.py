"""Learning how a provider counts: whatever its tokenizer, near it after twenty runs."""

from __future__ import annotations

import json
import math
from random import Random
from statistics import median

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory.tokens import (
    Features,
    Fit,
    count_messages,
    estimate,
    features,
    needs_learning,
    real_count,
    upper_bound,
)
from memory.tokens.composition import _Memory
from memory.tokens.regression import Evidence
from tests.token_texts import COUNTERS, Counter, Messages, prompt

MODEL = "some-model"
WHOLE = st.integers(0, 5000)
texts = st.one_of(
    st.text(max_size=80), st.text(alphabet="数据，。の한a1_ \n{\ud83d😀", max_size=80)
)
requests = st.lists(st.tuples(st.just("user"), texts), max_size=6)


def of(messages: Messages) -> Features:
    return features(messages, model=MODEL)


def start_of(messages: Messages) -> int:
    return Fit.start(MODEL).predict(of(messages))


def taught(
    counter: Counter, *, runs: int, seed: int = 1, false: dict[int, float] | None = None
) -> Fit:
    """Return the fit after so many fresh prompts; `false` multiplies reports by their number."""
    random, fit = Random(seed), Fit.start(MODEL)
    for run in range(runs):
        messages = prompt(random)
        reported = int(counter(messages) * (false or {}).get(run, 1))
        fit = fit.learned(of(messages), reported)
    return fit


def errors(fit: Fit, counter: Counter, *, seed: int = 2) -> list[float]:
    """Return the relative errors on forty prompts never learned from, the least first."""
    random = Random(seed)
    prompts = [prompt(random) for _ in range(40)]
    return sorted(abs(fit.predict(of(one)) - counter(one)) / counter(one) for one in prompts)


@pytest.mark.req("B03")
@pytest.mark.parametrize("name", COUNTERS)
def test_fit_after_twenty_runs_of_any_counter_is_within_five_percent(name: str) -> None:
    """Median within 2 %, the worst of forty fresh prompts within 5 %."""
    fit = taught(COUNTERS[name], runs=20)
    found = errors(fit, COUNTERS[name])
    assert median(found) <= 0.02
    assert found[-1] <= 0.05
    assert fit.is_settled


@pytest.mark.parametrize("name", ["characters / 3.5", "2 to 3 a CJK character"])
def test_start_for_a_foreign_tokenizer_is_far_off(name: str) -> None:
    """Without this the test above would show nothing."""
    assert median(errors(Fit.start(MODEL), COUNTERS[name])) > 0.15


def test_fit_kept_as_json_between_runs_learns_as_well() -> None:
    counter = COUNTERS["1.37 × cl100k + 12 a message + 30"]
    random, fit = Random(1), Fit.start(MODEL)
    for _ in range(60):
        messages = prompt(random)
        state = json.loads(json.dumps(fit.learned(of(messages), counter(messages)).as_json()))
        fit = Fit.from_json(state, model=MODEL)
    assert fit.learned_count == 60
    assert errors(fit, counter)[-1] <= 0.05
    assert len(json.dumps(fit.as_json())) < 2048


@pytest.mark.parametrize("factor", [0.0004, 0.5, 2.5, 1000])
@pytest.mark.parametrize("run", [0, 4, 12, 19])
def test_one_false_report_at_any_time_does_not_spoil_the_fit(run: int, factor: float) -> None:
    """Between the false one and the thirtieth run it has been found out."""
    counter = COUNTERS["cl100k + 4 a message + 3"]
    found = errors(taught(counter, runs=30, false={run: factor}), counter)
    assert median(found) <= 0.02
    assert found[-1] <= 0.06


@pytest.mark.parametrize("reported", [1, 10**6, 0, -5])
def test_absurd_report_changes_nothing(reported: int) -> None:
    fit = taught(COUNTERS["bytes / 3"], runs=5)
    assert fit.learned(of(prompt(Random(3))), reported) is fit


def test_provider_that_changes_its_tokenizer_is_followed() -> None:
    before, after = COUNTERS["o200k + 4 a message + 3"], COUNTERS["2 to 3 a CJK character"]
    fit, random = taught(before, runs=60), Random(9)
    assert errors(fit, after)[20] > 0.1
    for _ in range(30):
        messages = prompt(random)
        fit = fit.learned(of(messages), after(messages))
    assert median(errors(fit, after)) <= 0.02


def test_order_of_the_reports_hardly_matters() -> None:
    counter = COUNTERS["cl100k, digits singly"]
    prompts = [prompt(Random(seed)) for seed in range(20)]
    one, other = Fit.start(MODEL), Fit.start(MODEL)
    for first, last in zip(prompts, reversed(prompts), strict=True):
        one = one.learned(of(first), counter(first))
        other = other.learned(of(last), counter(last))
    messages = prompt(Random(99))
    assert one.predict(of(messages)) == pytest.approx(other.predict(of(messages)), rel=0.02)


@pytest.mark.req("D06")
@pytest.mark.parametrize("model", ["gpt-4o-mini", "gpt-4", "gpt-3.5-turbo", ""])
def test_start_of_a_model_with_a_known_encoding_is_exact(model: str) -> None:
    messages = prompt(Random(5))
    exact = count_messages(messages, kind="tokenizer", model=model)
    assert Fit.start(model).predict(features(messages, model=model)) == exact


def test_schemas_of_tools_count_and_their_overhead_is_learned() -> None:
    schema = json.dumps({"name": "memory_grep", "parameters": {"pattern": "string"}})
    random, fit = Random(1), Fit.start(MODEL)
    counter = COUNTERS["o200k + 4 a message + 3"]
    for run in range(20):
        messages, extra = prompt(random), [schema] * (run % 3)
        found = features(messages, model=MODEL, extra=extra)
        told = counter(messages) + round(0.6 * found.schema_tokens) + 150 * bool(extra)
        fit = fit.learned(found, told)
    messages = prompt(random)
    bare, tooled = of(messages), features(messages, model=MODEL, extra=[schema, schema])
    assert Fit.start(MODEL).predict(tooled) - Fit.start(MODEL).predict(bare) == real_count(
        [schema, schema], model=MODEL
    )
    told = counter(messages) + round(0.6 * tooled.schema_tokens) + 150
    assert fit.predict(tooled) == pytest.approx(told, rel=0.02)


@given(first=requests, second=requests)
def test_features_of_two_requests_add_up(first: Messages, second: Messages) -> None:
    assert of(first) + of(second) == of([*first, *second])


def test_features_of_a_text_count_its_classes() -> None:
    found = of([("user", "数据，の é a_1 22\n{}\t")])
    assert (found.ideographs, found.kana_and_signs, found.others) == (2, 2, 1)
    assert (found.words, found.letters, found.digits, found.signs) == (2, 1, 3, 3)
    assert (found.blanks, found.lines, found.messages, found.schemas) == (4, 1, 1, 0)


def test_features_of_a_text_seen_before_are_the_same() -> None:
    messages = prompt(Random(8))
    assert of(messages) == of(messages)


def test_counts_remembered_of_many_texts_stay_bounded_and_hold_no_text() -> None:
    memory = _Memory(size=3)
    for number in (1, 2, 3, 1, 4):
        assert memory.row(f"数据 {number}", "o200k_base")[:2] == (3, 2)
    assert [key[0] for key in memory._rows] == [hash(f"数据 {number}") for number in (3, 1, 4)]
    assert not any(isinstance(part, str) for row in memory._rows.values() for part in row)


rubbish = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=6,
)
parts = st.sampled_from(
    ["version", "encoding", "learned_count", "error_share", "weights", "evidence"]
)


STATE = Fit.start(MODEL).learned(of([("user", "数据 and words")]), 12).as_json()


@settings(max_examples=100)
@given(part=parts, value=rubbish)
def test_state_with_rubbish_in_a_part_still_predicts_within_bounds(
    part: str, value: object
) -> None:
    state = {**STATE, part: value}
    fit = Fit.from_json(state, model=MODEL)
    messages = [("user", "订单 order_17 的状态？\n" * 30)]
    assert 0.3 * start_of(messages) - 1 <= fit.predict(of(messages)) <= 4 * start_of(messages) + 1
    assert fit.learned(of(messages), start_of(messages)).learned_count >= 1


@pytest.mark.parametrize("state", [None, {}, {"version": 1}, {"version": 2, "weights": []}])
def test_state_that_says_nothing_is_the_start(state: dict[str, object] | None) -> None:
    assert Fit.from_json(state, model=MODEL) == Fit.start(MODEL)


def test_state_of_another_encoding_is_the_start() -> None:
    state = taught(COUNTERS["bytes / 3"], runs=3).as_json()
    assert Fit.from_json(state, model="gpt-4") == Fit.start("gpt-4")


@settings(max_examples=50)
@given(
    reports=st.lists(st.tuples(requests, st.integers(-10, 10**7)), max_size=30),
    last=requests,
)
def test_predictions_after_any_reports_stay_within_bounds(
    reports: list[tuple[Messages, int]], last: Messages
) -> None:
    fit = Fit.start(MODEL)
    for messages, reported in reports:
        fit = fit.learned(of(messages), reported)
    assert 0.3 * start_of(last) - 1 <= fit.predict(of(last)) <= 4 * start_of(last) + 1
    assert Fit.from_json(fit.as_json(), model=MODEL).learned_count == fit.learned_count
    assert 0 <= fit.error_share <= 1


@settings(max_examples=50)
@given(rows=st.lists(st.lists(st.floats(-500, 500), min_size=4, max_size=4), max_size=30))
def test_evidence_of_any_rows_gives_finite_weights_and_survives_packing(
    rows: list[list[float]],
) -> None:
    evidence = Evidence(size=3)
    for row in rows:
        evidence, weights = evidence.with_row(tuple(row))
        assert all(math.isfinite(weight) for weight in weights)
    assert len(evidence.recent) <= 10
    back = Evidence.unpacked(evidence.packed(), size=3)
    assert back.packed() == evidence.packed()


@pytest.mark.parametrize(
    ("learned_count", "predicted", "reported", "is_needed"),
    [
        (0, 1000, 1000, True),
        (49, 1000, 1000, True),
        (50, 1000, 1000, False),
        (50, 1019, 1000, False),
        (50, 1021, 1000, True),
        (50, 979, 1000, True),
        (3, 1000, 0, False),
    ],
)
def test_needs_learning_is_always_at_first_and_later_when_off(
    learned_count: int, predicted: int, reported: int, is_needed: bool
) -> None:
    fit = Fit(encoding="o200k_base", learned_count=learned_count)
    assert needs_learning(fit, predicted=predicted, reported=reported) is is_needed


def test_is_settled_before_twenty_reports_is_false() -> None:
    counter = COUNTERS["o200k + 4 a message + 3"]
    assert not taught(counter, runs=19).is_settled
    assert taught(counter, runs=20).is_settled


@given(text=texts)
def test_upper_bound_of_any_text_is_never_below_the_tokenizer(text: str) -> None:
    for model in ("gpt-4o", "gpt-4"):
        assert real_count([text], model=model) <= upper_bound(text)


@given(found=st.lists(texts, max_size=4))
def test_real_count_of_texts_is_the_sum_by_the_tokenizer(found: list[str]) -> None:
    for model in ("gpt-4o", "gpt-4"):
        counts = [estimate(text, kind="tokenizer", model=model) for text in found]
        assert real_count(found, model=model) == sum(counts)


@pytest.mark.parametrize("text", ["<|endoftext|>", "<|im_start|>system", "\ud83d", "a\udc00b"])
def test_special_tokens_and_broken_characters_in_a_text_are_ordinary(text: str) -> None:
    assert real_count([text], model=MODEL) >= 1 + (text[0] == "<")
    assert Fit.start(MODEL).predict(of([("user", text)])) >= 8
