"""Sequence numbers of a thread's runs: gapless under its row lock, whoever writes at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from django.db import connection, transaction

from memory.errors import NotFoundError
from memory.rls import scoped_transaction
from memory.scope import Scope
from tests.factories import (
    NOW,
    make_agent,
    make_end_user,
    make_run,
    make_tenant,
    make_thread,
    scope_of,
)
from threads.models import Run, Thread
from threads.runs import Question, accept


def accept_next(scope: Scope, thread: Thread, text: str) -> Run:
    return accept(
        scope=scope,
        thread=thread,
        question=Question(text=text),
        now=NOW,
        is_bootstrap=False,
        context={},
    )


@pytest.mark.req("A05")
def test_sequence_taken_by_eight_writers_has_no_gap_and_no_double(committed_db: None) -> None:
    """Forty accepted runs on eight connections; every fifth writer rolls back after taking one."""
    tenant = make_tenant()
    person = make_end_user(tenant)
    thread = make_thread(make_agent(tenant), person)
    scope = scope_of(tenant, person, thread)
    writers = 8
    meet = Barrier(writers, timeout=30)

    def write(number: int) -> int:
        with scoped_transaction(scope):
            if number % 5 == 0:
                accept_next(scope, thread, "given back")
                transaction.set_rollback(True)
                return 0
            return accept_next(scope, thread, f"问题 {number}").seq

    def close(_: int) -> None:
        meet.wait()
        connection.close()

    with ThreadPoolExecutor(writers) as pool:
        try:
            taken = list(pool.map(write, range(50)))
        finally:
            list(pool.map(close, range(writers)))
    kept = sorted(seq for seq in taken if seq)
    assert kept == list(range(1, 41))
    with scoped_transaction(scope):
        stored = Run.objects.in_scope(scope).order_by("seq").values_list("seq", flat=True)
        assert list(stored) == kept
        row = Thread.objects.in_scope(scope).get()
    assert (row.next_seq, row.run_count) == (41, 40)


@pytest.mark.req("A05")
def test_sequence_of_a_thread_out_of_scope_not_taken(db: None) -> None:
    tenant, other = make_tenant(), make_tenant()
    thread = make_thread(make_agent(tenant), make_end_user(tenant))
    make_run(thread)
    scope = scope_of(other)
    with scoped_transaction(scope), pytest.raises(NotFoundError):
        accept_next(scope, thread, "not mine")
