"""What a run's prompt costs while its conversation grows to 5,000 messages, in both strategies.

`make bench TESTARGS="-k growth"`; prints the table of docs/context-engine.md and writes its figures.
The texts are LoCoMo's where ../shared/data (or CREDENCE_DATA) has them, else made by program.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest

from memory.lanes import lane_of
from memory.models import MemoryOp
from memory.tokens.encodings import load_encoding
from tests.benchmarks.line_chart import Line, line_chart
from tests.factories import make_agent, make_end_user, make_key, make_tenant
from tests.fakes.openai_replies import Json, Reply, text
from tests.fakes.openai_server import FakeOpenAI
from tests.foresting import wrong_with
from tests.talking import fake_provider, last_of, new_thread, ops_of, prepare, stored_run, tell
from tests.token_texts import chinese, english
from threads.events import Completed
from threads.models import Agent, Thread
from threads.stand_in import KIND as IN_RUN_KIND
from threads.tasks import HANDLERS, work_lane

pytestmark = [pytest.mark.bench, pytest.mark.filterwarnings("ignore")]
REPO = Path(__file__).resolve().parents[2]
DATA = Path(os.environ.get("CREDENCE_DATA") or REPO.parent / "shared" / "data")
FIGURES = REPO / "docs" / "figures"
WINDOW = 8_192
MESSAGES = 5_000
TURNS_A_STEP = 10  # nine are recorded, the tenth is a run; then the worker works
SHOWN = (50, 100, 200, 500, 1_000, 2_000, 3_000, 4_000, 5_000)
# Dollars a million tokens: a small hosted model's usual price.
IN_USD, OUT_USD = 0.15, 0.60
COLOURS = {"rolling": "#2f81f7", "lossless": "#db6d28"}
ENCODING = load_encoding("o200k_base")


def tokens_of(said: str) -> int:
    return len(ENCODING.encode_ordinary(said))


def conversation() -> tuple[str, list[str]]:
    """What the texts are, and 5,000 of them, each with its number."""
    path = DATA / "retrieval" / "locomo-dev" / "corpus.jsonl"
    if path.exists():
        lines = path.read_text(encoding="utf-8").splitlines()
        said, name = [str(json.loads(line)["text"]) for line in lines], "LoCoMo (dev half)"
    else:
        random = Random(3)
        said = [(english if number % 2 else chinese)(random) for number in range(1_000)]
        name = "made by program"
    return name, [f"[{number + 1}] {said[number % len(said)]}" for number in range(MESSAGES)]


class Model:
    """Answers shortly; shortens what it is to summarise; reports what the real tokenizer counts."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self, body: Json) -> Reply:
        first = str(body["messages"][0]["content"])
        self.asked = sum(tokens_of(str(one["content"])) + 4 for one in body["messages"]) + 3
        said = "Yes, as we said."
        if first.startswith("Task: summarize"):
            said = _shortened(str(body["messages"][-1]["content"]), is_node="open_items" in first)
        return text(said, usage=(self.asked, tokens_of(said)))


def _shortened(source: str, *, is_node: bool) -> str:
    """A summary as a model writes one: some lines of the source, each in a few words."""
    lines = [line.strip("- ") for line in source.splitlines() if len(line) > 40]
    some = [line[:110] for line in lines[:: max(len(lines) // 10, 1)]][:10]
    if not is_node:
        return "\n".join(f"- {line}" for line in some)
    entries = [{"date": "2026-11-30", "text": line} for line in some]
    empty: dict[str, Any] = {"open_items": [], "decisions": [], "pitfalls": [], "files": []}
    return json.dumps(empty | {"timeline": entries}, ensure_ascii=False)


@dataclass(frozen=True, kw_only=True)
class Point:
    """One run: after so many messages, what it cost, and what all runs did so far."""

    messages: int
    predicted: int
    reported: int
    target: int
    decision: str
    levels: tuple[str, ...]
    whole: int
    usd: float
    memory_usd: float
    whole_usd: float


def _usd(op: MemoryOp) -> float:
    """What a call for memory cost; one made inside a run stands for those of its whole step."""
    times = TURNS_A_STEP if op.kind == IN_RUN_KIND else 1
    return times * (op.input_tokens * IN_USD + op.output_tokens * OUT_USD) / 1e6


@dataclass
class Growth:
    """One thread as it grows."""

    agent: Agent
    thread: Thread
    key: Any
    user_id: str
    model: Model
    texts: list[str]
    points: list[Point] = field(default_factory=list)

    def grow(self) -> None:
        """Go to the end: turns, a run, the worker's work, and again."""
        history = runs_usd = whole_usd = 0.0
        for step in range(0, MESSAGES, 2 * TURNS_A_STEP):
            said = self.texts[step : step + 2 * TURNS_A_STEP]
            pairs = list(zip(said[:-2:2], said[1:-2:2], strict=True))
            tell(self.thread, pairs)
            history += sum(tokens_of(one) + 4 for one in said[:-1])
            prepared = prepare(self.key, self.agent, said[-2], self.thread.pk, self.user_id)
            assert isinstance(last_of(prepared), Completed)
            asked = self.model.asked
            context = stored_run(prepared).context
            target = context["target_budget"]
            assert max(asked, context["prompt_tokens"]) <= target
            work_lane(lane=lane_of(self.agent.tenant_id), handlers=HANDLERS)
            # What the sampled run cost, all ten of its step did.
            runs_usd += TURNS_A_STEP * (asked * IN_USD + 6 * OUT_USD) / 1e6
            whole_usd += TURNS_A_STEP * (history * IN_USD + 6 * OUT_USD) / 1e6
            spent = sum(map(_usd, ops_of(self.thread)))
            self.points.append(
                Point(
                    messages=step + 2 * TURNS_A_STEP,
                    predicted=context["prompt_tokens"],
                    reported=asked,
                    target=target,
                    decision=context["decision"],
                    levels=tuple(
                        level.level
                        for level in prepared.prompt.compressions
                        if level.outcome == "kept"
                    ),
                    whole=round(history),
                    usd=runs_usd + spent,
                    memory_usd=spent,
                    whole_usd=whole_usd,
                )
            )


@pytest.fixture
def growths(committed_db: None) -> Iterator[dict[str, Growth]]:
    """A thread for each strategy, not grown yet."""
    with FakeOpenAI() as server:
        model = Model()
        server.answer_with(model)
        found = {}
        for strategy in COLOURS:
            tenant = make_tenant()
            agent = make_agent(
                tenant,
                provider=fake_provider(tenant, server),
                model="fake-1",
                context_window=WINDOW,
                max_output_tokens=512,
                thread_strategy=strategy,
                system_prompt="You are a friend who remembers. Answer briefly.",
            )
            person = make_end_user(tenant)
            found[strategy] = Growth(
                agent=agent,
                thread=new_thread(agent, person),
                key=make_key(tenant),
                user_id=person.user_id,
                model=model,
                texts=conversation()[1],
            )
        yield found


def _from(points: list[Point], messages: int) -> Point:
    return next(point for point in points if point.messages >= messages)


def _print_table(growths: dict[str, Growth]) -> None:
    print(
        "\n| messages | strategy | prompt_tokens | provider's count | target | decision"
        " | whole history | USD so far | of it memory work | USD with the whole history |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    for messages in SHOWN:
        for strategy, growth in growths.items():
            one = _from(growth.points, messages)
            print(
                f"| {one.messages:,} | {strategy} | {one.predicted:,} | {one.reported:,}"
                f" | {one.target:,} | {one.decision} | {one.whole:,} | {one.usd:.4f}"
                f" | {one.memory_usd:.4f} | {one.whole_usd:.4f} |"
            )


def _write_figures(growths: dict[str, Growth], name: str) -> None:
    points = {strategy: growth.points for strategy, growth in growths.items()}
    some = points["rolling"]
    grey, red = "#8c959f", "#cf222e"
    tokens = [
        Line(
            label="the whole history",
            colour=grey,
            dashed=True,
            points=[(one.messages, one.whole) for one in some],
        ),
        Line(
            label="target budget",
            colour=red,
            dashed=True,
            points=[(one.messages, one.target) for one in some],
        ),
    ]
    dollars = [
        Line(
            label="the whole history",
            colour=grey,
            dashed=True,
            points=[(one.messages, one.whole_usd) for one in some],
        )
    ]
    for strategy, own in points.items():
        colour = COLOURS[strategy]
        counted = [(one.messages, one.reported) for one in own]
        spent = [(one.messages, one.usd) for one in own]
        tokens.append(Line(label=strategy, colour=colour, points=counted))
        dollars.append(Line(label=strategy, colour=colour, points=spent))
    FIGURES.mkdir(parents=True, exist_ok=True)
    x_label = f"messages in the thread ({name})"
    chart = line_chart(
        title="Tokens of a run's prompt, window 8,192", x_label=x_label, unit="", lines=tokens
    )
    (FIGURES / "context-growth.svg").write_text(chart, encoding="utf-8")
    chart = line_chart(
        title="Cost of all runs so far, memory work included (US dollars)",
        x_label=x_label,
        unit="$",
        lines=dollars,
    )
    (FIGURES / "context-cost.svg").write_text(chart, encoding="utf-8")


def test_growth_to_5000_messages_stays_within_target(growths, capsys):
    """Every sampled run is within its target; the table and the figures say by how much."""
    name, texts = conversation()
    for growth in growths.values():
        growth.grow()
    assert wrong_with(growths["lossless"].thread) == ()
    with capsys.disabled():
        print(f"\ntexts: {name}, {sum(map(tokens_of, texts)):,} tokens (o200k)")
        for strategy, growth in growths.items():
            counts = [one.reported for one in growth.points if one.messages >= SHOWN[0]]
            off = [abs(one.predicted / one.reported - 1) for one in growth.points]
            print(
                f"{strategy}: {min(counts):,} to {max(counts):,} tokens a run; prediction off by"
                f" at most {max(off):.1%}; memory calls:"
                f" {dict(Counter(op.kind for op in ops_of(growth.thread)))};"
                f" decisions: {dict(Counter(one.decision for one in growth.points))};"
                f" levels: {dict(Counter('+'.join(one.levels) for one in growth.points))}"
            )
        _print_table(growths)
    _write_figures(growths, name)
