"""What the past of a long thread costs before the model is called: loading it and packing it.

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

from governance.policy_rules import effective
from memory.boundary import CHINESE, ENGLISH, Wording, new_tag
from memory.rls import scoped_transaction
from tests.factories import make_agent, make_tenant
from tests.talking import new_thread, session_of, tell
from threads import lossless_texts
from threads.lossless import LosslessPast, read_lossless
from threads.models import Agent, Thread
from threads.past import Squeeze

pytestmark = [pytest.mark.bench, pytest.mark.filterwarnings("ignore")]
DEMO = Path(__file__).parents[2] / "config" / "local" / "demo"
TURNS = 250
WINDOWS = (8_192, 131_072)
TAG = new_tag(random.Random(7))
DEMOS: Sequence[tuple[str, Wording]] = (
    ("teacher_zh.jsonl", CHINESE),
    ("support_en.jsonl", ENGLISH),
)


def long_thread(agent: Agent, name: str) -> Thread:
    """A thread of 250 turns."""
    lines = (DEMO / name).read_text(encoding="utf-8").splitlines()
    said = [json.loads(line)["content"] for line in lines]
    pairs = [
        (f"{at}. {said[2 * at % len(said)]}", f"{at}. {said[(2 * at + 1) % len(said)]}")
        for at in range(TURNS)
    ]
    thread = new_thread(agent)
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
