"""What happens to turns, facts and claims while a model looks for facts, on real commits."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from django.db import connections

from governance.core.candidates import confirm_candidate
from governance.core.facts import change_fact
from governance.decisions import DecidedBy
from memory.jobs import LeaseLostError
from memory.models import CoreFact, Job
from memory.rls import scoped_transaction
from tests.factories import NOW
from tests.fakes.openai_server import FakeOpenAI
from tests.jobbook import change
from tests.threads.learning.talks import listing, make_lesson
from threads.learning.extraction import extract_core
from threads.models import Run, RunTrace

STAFF = DecidedBy(kind="staff", id="staff:1")


def test_turn_that_goes_while_the_model_thinks_leaves_nothing(
    committed_db: None, server: FakeOpenAI
) -> None:
    """G2."""
    lesson = make_lesson(server)

    def answer(body: Any) -> Any:
        with scoped_transaction(lesson.wide):
            Run.objects.in_scope(lesson.wide).all().delete()
        return listing("I like tea")(body)

    server.answer_with(_in_thread(answer))
    lesson.say("I like tea")
    lesson.learn()
    assert (lesson.facts(), lesson.outcomes()) == ([], [])


def test_fact_that_is_edited_while_the_model_thinks_keeps_the_edit(
    committed_db: None, server: FakeOpenAI
) -> None:
    """G8."""
    lesson = make_lesson(server)
    server.answer_with(listing(("I like tea", "drink")))
    lesson.say("I like tea")
    lesson.learn()
    (row,) = lesson.candidates()
    _, fact = confirm_candidate(scope=lesson.wide, candidate_id=row.pk, by=STAFF, now=NOW)
    assert fact is not None

    def answer(body: Any) -> Any:
        change_fact(scope=lesson.wide, fact_id=fact.pk, by=STAFF, now=NOW, fact="I like oolong")
        return listing(("I like tea", "drink"))(body)

    server.answer_with(_in_thread(answer))
    lesson.say("I like tea, as you know")
    lesson.learn()
    assert [one.fact for one in lesson.rows(CoreFact)] == ["I like oolong"]


def test_claim_that_was_lost_writes_nothing(committed_db: None, server: FakeOpenAI) -> None:
    lesson = make_lesson(server)
    lesson.say("I like tea")
    claim = lesson.claim()

    def answer(body: Any) -> Any:
        change(lesson.rows(Job)[0], epoch=claim.epoch + 1)
        return listing("I like tea")(body)

    server.answer_with(_in_thread(answer))
    with pytest.raises(LeaseLostError):
        extract_core(scope=lesson.worker, claim=claim)
    assert (lesson.facts(), lesson.outcomes()) == ([], [])
    assert lesson.ops() == [("extract_core", "ok")]


def _in_thread(answer: Any) -> Any:
    """The server's loop must not touch the database: a thread of its own does."""

    def work(body: Any) -> Any:
        made: list[Any] = []

        def answered() -> None:
            try:
                made.append(answer(body))
            finally:
                connections.close_all()

        worker = threading.Thread(target=answered)
        worker.start()
        worker.join(20)
        return made[0]

    return work


@pytest.mark.req("B16")
def test_trace_of_the_run_tells_which_candidates_it_left(
    committed_db: None, server: FakeOpenAI
) -> None:
    lesson = make_lesson(server)
    server.answer_with(listing("I like tea", "喜欢登山"))
    first, second = lesson.say("I like tea. 我喜欢登山。", "What is two and two?")
    lesson.show(first)
    lesson.show(second)
    lesson.learn()
    made = [candidate.pk for candidate in lesson.candidates()]
    assert len(made) == 2
    with scoped_transaction(lesson.wide):
        steps = dict(RunTrace.objects.in_scope(lesson.wide).values_list("run_id", "steps"))
    (step,) = steps[first.pk]
    assert (step["kind"], sorted(step["data"]["core_candidates"])) == ("writeback", sorted(made))
    assert steps[second.pk] == []
    assert "tea" not in str(step)
