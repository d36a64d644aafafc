"""How far the token estimates are off, before and after learning, and what they cost.

`make bench TESTARGS="-k token_errors"`; prints the tables of docs/tokens.md.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from statistics import median, quantiles

import pytest

from memory.tokens import EstimatorKind, Features, Fit, estimate, features
from tests.token_texts import COUNTERS, KINDS, prompt

pytestmark = pytest.mark.bench

REPO = Path(__file__).resolve().parents[2]
DIALOGUES = REPO.parent / "shared" / "data" / "retrieval"
ESTIMATORS: tuple[EstimatorKind, ...] = ("chars", "heuristic", "tokenizer")
RUNS = (0, 5, 20, 50)
SEEDS = 8


def _spread(errors: list[float]) -> str:
    """Return median, 90th percentile and worst in per cent."""
    return f"{median(errors):.1%} / {quantiles(errors, n=10)[-1]:.1%}"


def _sets() -> Iterator[tuple[str, list[str]]]:
    """Yield named sets of texts: made by program, this repository's code, and dialogues."""
    for name, make in KINDS.items():
        random = Random(7)
        yield f"{name} (made)", ["\n".join(make(random) for _ in range(3)) for _ in range(200)]
    sources = sorted((REPO / "threads").rglob("*.py"))
    yield "code (this repository)", [path.read_text(encoding="utf-8") for path in sources]
    for name in ("memorybank-zh-dev", "madial-zh-dev", "memorybank-en-dev", "locomo-dev"):
        path = DIALOGUES / name / "corpus.jsonl"
        if path.exists():
            lines = path.read_text(encoding="utf-8").splitlines()
            found = [json.loads(line)["text"] for line in lines]
            yield (
                f"dialogues: {name}",
                ["\n".join(found[at : at + 6]) for at in range(0, len(found), 6)],
            )


def test_token_errors_of_the_estimators() -> None:
    """One row a set and an encoding: median / 90th percentile of the relative error."""
    print(f"\n| texts | encoding | {' | '.join(ESTIMATORS)} |\n|---|---|---|---|---|")
    for name, found in _sets():
        for encoding, model in (("cl100k", "gpt-4"), ("o200k", "gpt-4o")):
            real = [estimate(text, kind="tokenizer", model=model) for text in found]
            cells = []
            for kind in ESTIMATORS:
                guesses = [estimate(text, kind=kind, model="gpt-4o") for text in found]
                cells.append(
                    _spread([abs(a - b) / b for a, b in zip(guesses, real, strict=True) if b])
                )
            print(f"| {name} | {encoding} | {' | '.join(cells)} |")


def _learned_errors(counter: Callable[..., int], seed: int) -> dict[int, list[float]]:
    """Return the errors on 40 fresh prompts after so many runs."""
    random, fit = Random(seed), Fit.start("some-model")
    fresh = [prompt(random) for _ in range(40)]
    real = [(features(one, model="some-model"), counter(one)) for one in fresh]
    errors = {}
    for run in range(max(RUNS) + 1):
        if run in RUNS:
            errors[run] = [abs(fit.predict(found) - told) / told for found, told in real]
        messages = prompt(random)
        fit = fit.learned(features(messages, model="some-model"), counter(messages))
    return errors


def test_token_errors_after_learning() -> None:
    """One row a counter: median / 90th percentile, then the worst, after 0, 5, 20 and 50 runs."""
    print(f"\n| provider counts | {' | '.join(f'after {run}' for run in RUNS)} |")
    print("|---|" + "---|" * len(RUNS))
    for name, counter in COUNTERS.items():
        rounds = [_learned_errors(counter, seed) for seed in range(SEEDS)]
        cells = []
        for run in RUNS:
            errors = [error for one in rounds for error in one[run]]
            cells.append(f"{_spread(errors)}, worst {max(errors):.1%}")
        print(f"| {name} | {' | '.join(cells)} |")


def _least_ms(step: Callable[[], object], times: int = 20) -> float:
    """Return the least time of `step`, the machine being shared."""
    least = float("inf")
    for _ in range(times):
        begun = time.perf_counter()
        step()
        least = min(least, time.perf_counter() - begun)
    return least * 1000


def _request(tokens: int) -> list[tuple[str, str]]:
    """Return messages of about so many tokens."""
    random, messages = Random(3), [("user", "")]
    while features(messages, model="some-model").tokens < tokens:
        messages += prompt(random)
    return messages


def _costs(messages: list[tuple[str, str]]) -> Iterator[float]:
    """Yield the columns of the cost table for one request."""
    fit, marks = Fit.start("some-model"), iter(range(1000))
    found = features(messages, model="some-model")

    def fresh() -> Features:
        mark = str(next(marks))
        return features([(role, text + mark) for role, text in messages], model="some-model")

    yield _least_ms(fresh)
    yield _least_ms(lambda: features(messages, model="some-model"))
    yield _least_ms(lambda: fit.predict(found))
    yield _least_ms(lambda: fit.learned(found, round(found.tokens * 1.2)))


def test_token_errors_cost() -> None:
    """What features, a prediction and one learning cost, for texts new and seen."""
    print("\n| prompt | features, new texts | features, seen texts | predict | first learned |")
    print("|---|---|---|---|---|")
    for size in (3_000, 60_000):
        messages = _request(size)
        tokens = features(messages, model="some-model").tokens
        cells = " | ".join(f"{cell:.2f} ms" for cell in _costs(messages))
        print(f"| {tokens:.0f} tokens | {cells} |")
