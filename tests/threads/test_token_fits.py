"""Learning how a provider counts, over the whole road: runs, reported usage, the stored fit."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import pytest
from django.db import connections
from django.utils import timezone

from memory.models import Tenant
from memory.providers import registry
from memory.rls import scoped_transaction
from memory.tokens.calibration import Fit
from memory.tokens.encodings import load_encoding
from tests.factories import make_agent, make_key, make_tenant, scope_of
from tests.fakes.openai_replies import Json, Reply, text
from tests.fakes.openai_server import FakeOpenAI
from tests.talking import fake_provider, last_of, prepare, stored_run
from tests.token_texts import KINDS
from threads.counting import Counter, Observation
from threads.driver import RunDriver
from threads.events import Completed
from threads.models import Agent, TokenFit
from threads.token_fits import learn

LEARNING, MEASURED = 20, 10


def by_cl100k(texts: Sequence[str]) -> int:
    """Another vocabulary than the one that is shipped for unknown models, with its own framing."""
    encoding = load_encoding("cl100k_base")
    return sum(len(encoding.encode_ordinary(one)) + 9 for one in texts) + 21


def by_characters(texts: Sequence[str]) -> int:
    """No tokenizer at all."""
    return round(sum(len(one) for one in texts) / 3.5)


@pytest.fixture
def world(committed_db: None, server: FakeOpenAI) -> Any:
    """A tenant, a key and an agent; timeouts as they are by default, for reports are made slowly."""
    tenant = make_tenant()
    agent = make_agent(tenant, provider=fake_provider(tenant, server), model="fake-1")
    return tenant, make_key(tenant), agent


class CountingModel:
    """Answers with made text of every kind and reports what its own count of the request is."""

    def __init__(self, count: Callable[[Sequence[str]], int]) -> None:
        self._count = count
        self._random = Random(11)

    def __call__(self, body: Json) -> Reply:
        made = self._random.choice(list(KINDS.values()))(self._random)
        told = self._count([str(message["content"]) for message in body["messages"]])
        return text(made, usage=(told, 40))


def fits_of(tenant: Tenant) -> list[TokenFit]:
    scope = scope_of(tenant)
    with scoped_transaction(scope):
        return list(TokenFit.objects.in_scope(scope).order_by("id"))


def errors_of(key: Any, agent: Agent, count: int, seed: int = 5) -> list[float]:
    """Run that many times in one thread; how far each prediction was from what was reported."""
    random, kinds = Random(seed), list(KINDS.values())
    thread_id, errors = None, []
    for number in range(count):
        said = "\n".join(random.choice(kinds)(random) for _ in range(1 + number % 4))
        prepared = prepare(key, agent, said, thread_id)
        assert isinstance(last_of(prepared), Completed)
        thread_id = prepared.thread_id
        reported = stored_run(prepared).input_tokens or 0
        errors.append(abs(prepared.context["prompt_tokens"] / reported - 1))
    return errors


@pytest.mark.req("B03")
@pytest.mark.parametrize("count", [by_cl100k, by_characters])
def test_after_20_runs_prompt_tokens_are_within_5_percent_of_what_the_provider_reports(
    world: Any, server: FakeOpenAI, count: Callable[[Sequence[str]], int]
) -> None:
    """Chinese, English, mixed text, code and JSON, over HTTP and through the driver."""
    tenant, key, agent = world
    server.answer_with(CountingModel(count))
    errors = errors_of(key, agent, LEARNING + MEASURED)
    assert max(errors[LEARNING:]) <= 0.05
    assert max(errors[:2]) > 0.05, "nothing had to be learned"
    (stored,) = fits_of(tenant)
    assert (stored.provider_id, stored.model) == (agent.provider_id, "fake-1")
    assert stored.runs == LEARNING + MEASURED
    assert len(str(stored.state)) < 8_000


def test_fit_of_another_tenant_or_provider_for_the_same_model_name_is_not_used(
    world: Any, server: FakeOpenAI
) -> None:
    tenant, key, agent = world
    server.answer_with(CountingModel(by_characters))
    errors_of(key, agent, 4)
    fresh = Fit.start("fake-1")
    assert prepare(key, agent, "你好").prompt.given.counter.fit != fresh
    beside = make_agent(tenant, provider=fake_provider(tenant, server), model="fake-1")
    renamed = make_agent(tenant, provider=agent.provider, model="fake-2")
    other = make_tenant()
    foreign = make_agent(other, provider=fake_provider(other, server), model="fake-1")
    for asked_by, stranger in ((key, beside), (key, renamed), (make_key(other), foreign)):
        assert prepare(asked_by, stranger, "你好").prompt.given.counter.fit == fresh
    assert fits_of(other) == []


@pytest.mark.req("A06")
def test_runs_that_end_at_once_all_succeed_and_lose_at_most_one_report_each(
    world: Any, server: FakeOpenAI
) -> None:
    tenant, key, agent = world
    server.answer_with(CountingModel(by_characters))
    for turn in range(1, 4):
        before = sum(fit.runs for fit in fits_of(tenant))
        pair = [prepare(key, agent, f"第{turn}轮 {number} " + "好" * 80) for number in range(2)]

        async def both(prepared: Sequence[Any]) -> list[Any]:
            drivers = [RunDriver(one).start() for one in prepared]
            return await asyncio.gather(*(driver.outcome() for driver in drivers))

        assert [type(last) for last in registry.run(both(pair))] == [Completed, Completed]
        (stored,) = fits_of(tenant)
        assert stored.runs - before in {1, 2}


@pytest.mark.req("A06")
@pytest.mark.parametrize("known", [0, 3])
def test_learning_into_a_row_that_is_held_leaves_it_whole(world: Any, known: int) -> None:
    """One has learned and not committed yet while the other comes: no error, one report or two."""
    tenant, _, agent = world
    scope, now = scope_of(tenant), timezone.now()
    counter = Counter.new("fake-1")
    seen = counter.observed([], reported=15) or Observation(
        features=counter._features([], ()), reported=15
    )
    for _ in range(known):
        with scoped_transaction(scope):
            learn(scope=scope, agent=agent, observations=[seen], now=now)
    failed: list[BaseException] = []

    def second() -> None:
        try:
            with scoped_transaction(scope):
                learn(scope=scope, agent=agent, observations=[seen], now=now)
        except BaseException as error:  # noqa: BLE001 - told by the test
            failed.append(error)
        finally:
            connections.close_all()

    late = threading.Thread(target=second)
    with scoped_transaction(scope):
        learn(scope=scope, agent=agent, observations=[seen], now=now)
        late.start()
        late.join(0.3)  # it waits for the commit, or has let the row alone
    late.join(20)
    assert (failed, late.is_alive()) == ([], False)
    (stored,) = fits_of(tenant)
    assert stored.runs - known in {1, 2}
    fit = Fit.from_json(stored.state, model="fake-1")
    assert fit.learned_count == stored.runs
