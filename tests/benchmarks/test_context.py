"""What a long thread costs before the model is called: its past alone, and the prompt as a whole.

A thread of 500 messages made of the demo's own conversations, numbered so that none repeats.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median, quantiles

import pytest
from django.utils import timezone

from governance import access
from governance.policy_rules import effective
from memory.boundary import CHINESE, ENGLISH, Wording, new_tag
from memory.models import EndUser
from memory.rls import scoped_transaction
from tests.factories import MadeKey, make_agent, make_end_user, make_key, make_tenant
from tests.foresting import grow
from tests.talking import new_thread, roll, session_of, tell
from threads.lossless import texts as lossless_texts
from threads.lossless.reading import LosslessPast, read_lossless
from threads.models import Agent, Thread
from threads.past import Squeeze
from threads.places import Setting, look
from threads.prompt.assembly import Assembled, assemble
from threads.prompt.given import PromptInput
from threads.prompt.loading import load_prompt
from threads.request import RunRequest

pytestmark = [pytest.mark.bench, pytest.mark.filterwarnings("ignore")]
DEMO = Path(__file__).parents[2] / "config" / "local" / "demo"
TURNS = 250
WINDOWS = (8_192, 131_072)
TAG = new_tag(random.Random(7))
DEMOS: Sequence[tuple[str, Wording]] = (
    ("teacher_zh.jsonl", CHINESE),
    ("support_en.jsonl", ENGLISH),
)


def long_thread(agent: Agent, name: str, person: EndUser | None = None) -> Thread:
    """A thread of 250 turns."""
    lines = (DEMO / name).read_text(encoding="utf-8").splitlines()
    said = [json.loads(line)["content"] for line in lines]
    pairs = [
        (f"{at}. {said[2 * at % len(said)]}", f"{at}. {said[(2 * at + 1) % len(said)]}")
        for at in range(TURNS)
    ]
    thread = new_thread(agent, person)
    tell(thread, pairs)
    return thread


def millis(step: Callable[[], object], times: int = 31) -> str:
    """Median and 90th percentile of a step, in ms."""
    spent = []
    for _ in range(times):
        started = time.perf_counter()
        step()
        spent.append((time.perf_counter() - started) * 1e3)
    return f"median {median(spent):.1f} ms, p90 {quantiles(spent, n=10)[-1]:.1f} ms"


@pytest.mark.parametrize(("name", "wording"), DEMOS)
@pytest.mark.parametrize("window", WINDOWS)
def test_lossless_past_of_500_messages(db, capsys, name, wording, window):
    """Loading; packing whole with texts known and unknown; packing into a third of the target."""
    agent = make_agent(make_tenant(), context_window=window, max_output_tokens=1_024)
    thread = long_thread(agent, name)
    scope = session_of(thread)

    def load() -> LosslessPast:
        with scoped_transaction(scope):
            return read_lossless(
                scope=scope,
                thread_id=thread.pk,
                agent=agent,
                policy=effective({}),
                wording=wording,
                tag=TAG,
                now=timezone.now(),
            )

    def pack(squeeze: Squeeze, share: int = 1) -> Callable[[], object]:
        pasts = [load() for _ in range(31)]
        return lambda: pasts.pop().pack(cap=load_once.usual_cap() // share, squeeze=squeeze)

    def pack_unknown() -> Callable[[], object]:
        known = pack(Squeeze.WHOLE)

        def step() -> object:
            lossless_texts._known.clear()
            return known()

        return step

    load_once = load()
    figures = {
        "load": millis(load),
        "pack whole, texts never seen": millis(pack_unknown()),
        "pack whole": millis(pack(Squeeze.WHOLE)),
        "pack deduped": millis(pack(Squeeze.DEDUPED)),
        "pack into a third": millis(pack(Squeeze.SUMMARISED, share=3)),
    }
    packed = load_once.pack(cap=load_once.usual_cap())
    assert packed.messages
    with capsys.disabled():
        print(f"\n{name}, window {window}: {len(packed.messages)} messages, {packed.tokens} tokens")
        for label, figure in figures.items():
            print(f"  {label}: {figure}")


STRATEGIES = ("rolling", "lossless")
QUESTIONS = {
    "teacher_zh.jsonl": "把 6 月 20 日那份试卷的第三题换掉，总分还是 100 分。",
    "support_en.jsonl": "Please refund order 4711 of June 20th, 100 dollars.",
}


class _Watch:
    """Wall clock and processor time of the steps of one round, in ms."""

    def __init__(self) -> None:
        self._began = self._now()
        self.steps: list[tuple[float, float]] = []

    @staticmethod
    def _now() -> tuple[float, float]:
        return time.perf_counter() * 1e3, time.thread_time() * 1e3

    def lap(self) -> None:
        """End a step."""
        now = self._now()
        self.steps.append((now[0] - self._began[0], now[1] - self._began[1]))
        self._began = now


def _figures(spent: Sequence[tuple[float, float]]) -> str:
    walls, processor = zip(*spent, strict=True)
    return (
        f"{median(walls):.1f} / {quantiles(walls, n=10)[-1]:.1f} ms"
        f" (processor {median(processor):.1f})"
    )


class _Asked:
    """One question in a thread that its worker has kept up with, asked again and again."""

    def __init__(self, *, key: MadeKey, agent: Agent, thread: Thread, user_id: str, name: str):
        self.key, self.agent, self.thread = key, agent, thread
        self.user_id, self.text = user_id, QUESTIONS[name]
        self.asked = 0

    def request(self) -> RunRequest:
        self.asked += 1  # no two requests alike: something is always new to every memory
        said = f"{self.text} ({self.asked})"
        return RunRequest(input=said, user_id=self.user_id, thread_id=self.thread.pk)

    def once(self) -> tuple[list[tuple[float, float]], Assembled]:
        """Time finding the place and the view, loading, precheck with assembly."""
        request, now = self.request(), timezone.now()
        with scoped_transaction(access.tenant_scope(self.key.principal)):
            watch = _Watch()
            setting: Setting = look(self.key.principal, self.agent.pk, request, now)
            watch.lap()
            given: PromptInput
            given, _ = load_prompt(
                setting=setting, request=request, question=request.input, now=now
            )
            watch.lap()
            built = assemble(given)
            watch.lap()
        return watch.steps, built


@pytest.mark.parametrize(("name", "wording"), DEMOS)
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_assembly_of_500_messages(db, capsys, name, wording, window, strategy):
    """From the request to the messages: place, loading, precheck with assembly; median / p90."""
    tenant = make_tenant()
    agent = make_agent(
        tenant,
        context_window=window,
        max_output_tokens=1_024,
        thread_strategy=strategy,
        system_prompt="You help people with their work. Answer briefly.",
    )
    person = make_end_user(tenant)
    thread = long_thread(agent, name, person)
    if strategy == "lossless":
        grow(thread)
    else:
        roll(thread)
    asked = _Asked(
        key=make_key(tenant), agent=agent, thread=thread, user_id=person.user_id, name=name
    )
    first, _ = asked.once()
    rounds = [asked.once() for _ in range(61)]
    places, loads, builds = zip(*(steps for steps, _ in rounds), strict=True)
    together = [
        (one[0] + other[0], one[1] + other[1]) for one, other in zip(loads, builds, strict=True)
    ]
    built = rounds[-1][1]
    assert built.ledger.prompt_tokens <= built.target
    with capsys.disabled():
        print(
            f"\n{name}, {strategy}, window {window}: {len(built.messages)} messages,"
            f" {built.ledger.prompt_tokens} tokens of {built.target}, {built.ledger.decision}"
        )
        print(f"  agent, person, thread, view: {_figures(places)}")
        print(f"  loading: {_figures(loads)}")
        print(f"  precheck and assembly: {_figures(builds)}, first time {first[2][0]:.1f}")
        print(f"  loading, precheck and assembly: {_figures(together)}")
