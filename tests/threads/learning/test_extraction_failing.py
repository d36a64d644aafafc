"""What the job that learns does while models fail, refuse or talk nonsense."""

from __future__ import annotations

import json
from typing import Any

import pytest

from memory import jobs
from memory.models import Job
from memory.rls import scoped_transaction
from tests.factories import NOW
from tests.fakes.openai_replies import status, text
from tests.fakes.openai_server import FakeOpenAI
from tests.jobbook import change, claim_of
from tests.threads.learning.talks import Lesson, listing, make_lesson
from threads import asking
from threads.learning.extraction import ExtractionFailedError, extract_core
from threads.models import Provider, Run


@pytest.fixture
def lesson(db: None, server: FakeOpenAI) -> Lesson:
    return make_lesson(server)


def test_malformed_answer_is_asked_for_once_more_in_short(
    lesson: Lesson, server: FakeOpenAI
) -> None:
    server.answer_with(lambda body: text("I am afraid I can not do that."))
    lesson.say("I like tea. " * 200)
    lesson.learn()
    assert (lesson.facts(), lesson.outcomes()) == ([], [("malformed", 0)])
    assert lesson.ops() == [("extract_core", "malformed")] * 2
    first, second = (len(str(one.body)) for one in server.requests)
    assert second < first


def test_provider_error_fails_the_job_which_is_retried(lesson: Lesson, server: FakeOpenAI) -> None:
    """Bug report A1: nothing is noted as looked through; another try finds it."""
    server.script(status(500), status(500), status(500), status(500), status(500), status(500))
    lesson.say("I like tea")
    claim = lesson.claim()
    with pytest.raises(ExtractionFailedError):
        extract_core(scope=lesson.worker, claim=claim)
    assert (lesson.outcomes(), lesson.facts()) == ([], [])
    assert {outcome for _, outcome in lesson.ops()} == {"provider_error"}


def test_a_turn_that_every_model_refuses_keeps_no_other_from_teaching_a4(
    lesson: Lesson, server: FakeOpenAI
) -> None:
    """Bug report A4: one of five is always refused; four are learned from, the job ends dead."""

    def answer(body: Any) -> Any:
        if "POISON" in str(body):
            return status(400, message="content_filter")
        asked = str(body)
        return text(
            json.dumps(
                [
                    {"fact": f"I like tea kind {number}", "confidence": 0.9}
                    for number in range(5)
                    if f"tea kind {number}" in asked
                ]
            )
        )

    server.answer_with(answer)
    said = [f"I like tea kind {number}" for number in range(5)]
    said[2] = "POISON I like tea kind 2"
    lesson.say(*said)
    claim = lesson.claim()
    for attempt in range(5):
        with pytest.raises(ExtractionFailedError):
            extract_core(scope=lesson.worker, claim=claim)
        found = {f"I like tea kind {number}" for number in (0, 1, 3, 4)}
        assert set(lesson.facts()) == found
        with scoped_transaction(lesson.wide):
            jobs.fail(scope=lesson.wide, claim=claim, error_code="extraction_failed", now=NOW)
        (row,) = lesson.rows(Job)
        if attempt < 4:
            change(row, not_before=NOW)
            claim = claim_of(row)
    assert row.status == "dead"
    lesson.say(
        "I like tea kind 0 and coffee"
    )  # a later turn is not kept waiting by the refused one
    with pytest.raises(ExtractionFailedError):
        extract_core(scope=lesson.worker, claim=lesson.claim())
    assert len(lesson.outcomes()) == 5


def test_a1_while_no_model_answers_words_are_kept_and_found_and_a_retry_learns(
    lesson: Lesson, server: FakeOpenAI
) -> None:
    """Bug report A1: the job says that it failed, nothing is lost, and retried it learns."""
    server.answer_with(lambda body: status(500))
    runs = lesson.say("I like oolong tea", "I live in 杭州", "Exams are on Friday")
    claim = lesson.claim()
    with pytest.raises(ExtractionFailedError):
        extract_core(scope=lesson.worker, claim=claim)
    with scoped_transaction(lesson.wide):
        jobs.fail(scope=lesson.wide, claim=claim, error_code="extraction_failed", now=NOW)
    (row,) = lesson.rows(Job)
    assert (row.status, row.attempts, row.error_code) == ("ready", 1, "extraction_failed")
    assert [run.input for run in lesson.rows(Run)] == [run.input for run in runs]
    (provider,) = lesson.rows(Provider)
    asking._breaker.succeeded(provider_id=provider.pk)  # its minute of rest is over
    server.answer_with(listing("I like oolong tea"))
    change(row, not_before=NOW)
    extract_core(scope=lesson.worker, claim=claim_of(row))
    assert lesson.facts() == ["I like oolong tea"]


def test_job_that_always_fails_is_dead_after_five(lesson: Lesson, server: FakeOpenAI) -> None:
    server.answer_with(lambda body: status(500))
    lesson.say("I like tea")
    claim = lesson.claim()
    for attempt in range(5):
        assert claim.attempts == attempt + 1
        with pytest.raises(ExtractionFailedError):
            extract_core(scope=lesson.worker, claim=claim)
        with scoped_transaction(lesson.wide):
            jobs.fail(scope=lesson.wide, claim=claim, error_code="extraction_failed", now=NOW)
        (row,) = lesson.rows(Job)
        if attempt < 4:
            change(row, not_before=NOW)
            claim = claim_of(row)
    assert (row.status, row.error_code) == ("dead", "extraction_failed")
    assert lesson.outcomes() == []
