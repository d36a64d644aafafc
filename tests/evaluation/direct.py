"""The subject in this process: the same functions that the API and the worker call, without HTTP.

Import it only inside `tests.evaluation.database.own_database`.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from datetime import datetime

from django.utils import timezone

from governance.policy import policy_for
from memory.jobs.book import due_jobs
from memory.lanes import lane_of
from memory.models import EndUser, Job, JobStatus
from memory.rls import scoped_transaction
from memory.scope import Scope
from tests.evaluation.datasets import EvalSet, Turn
from tests.evaluation.subject import Answer, Found, Rest
from tests.factories import make_agent, make_end_user, make_tenant, make_thread, scope_of
from threads.models import RunOrigin
from threads.recall.finding import Wanted, embed_question, find
from threads.tasks import HANDLERS, work_lane
from threads.turns import RecordedTurn, record_turns


class DirectSubject:
    """A tenant of its own in the open database."""

    clients = 1

    def __init__(self) -> None:
        self._tenant = make_tenant("evaluation")
        self._agent = make_agent(self._tenant)
        self._people: dict[str, EndUser] = {}

    def record(self, *, of: EvalSet, session: Sequence[Turn]) -> None:
        """Record a session in one transaction."""
        person = self._person(of.user_id(session[0].person))
        thread = make_thread(self._agent, person)
        scope = self._scope(person)
        turns = [
            RecordedTurn(
                input=turn.said,
                output=turn.answered,
                created_at=datetime.fromisoformat(turn.created_at) if turn.created_at else None,
                external_id=of.external_id(turn.corpus_id),
            )
            for turn in session
        ]
        with scoped_transaction(scope):
            now = timezone.now()
            record_turns(scope=scope, thread=thread, turns=turns, origin=RunOrigin.API, now=now)

    def come_to_rest(self) -> Rest:
        """Do the worker's work here until nothing is due."""
        lane = lane_of(self._tenant.id)
        while due_jobs(lane=lane, most=1):
            work_lane(lane=lane, handlers=HANDLERS)
        scope = scope_of(self._tenant)
        with scoped_transaction(scope):
            rows = list(Job.objects.in_scope(scope).values_list("kind", "status", "error_code"))
        dead = (f"{kind}: {code}" for kind, status, code in rows if status != JobStatus.DONE)
        return Rest(
            jobs=Counter(kind for kind, status, _ in rows if status == JobStatus.DONE),
            dead=Counter(dead),
        )

    def search(self, *, user_id: str, question: str, limit: int) -> Answer:
        """Embed the question and find, as the API's view does."""
        scope = self._scope(self._person(user_id))
        wanted = Wanted(
            tool="search", text=question, kinds=("recall",), limit=limit, min_relevance=0.0
        )
        started = time.perf_counter()
        asked = embed_question(scope=scope, text=question)
        with scoped_transaction(scope):
            policy = policy_for(scope=scope, agent_overrides={})
            got = find(scope=scope, wanted=wanted, asked=asked, policy=policy, now=timezone.now())
        ms = (time.perf_counter() - started) * 1000
        found = (
            Found(external_id=hit.source.external_id, relevance=hit.scores.relevance)
            for hit in got.hits
        )
        return Answer(found=tuple(found), ms=ms, degraded=got.trace.degraded)

    def inner_millis(self, *, user_id: str, questions: Sequence[str]) -> list[float]:
        """What finding took without embedding the question, by its own trace."""
        scope = self._scope(self._person(user_id))
        spent = []
        for question in questions:
            wanted = Wanted(tool="search", text=question, kinds=("recall",), limit=10)
            asked = embed_question(scope=scope, text=question)
            with scoped_transaction(scope):
                policy, now = policy_for(scope=scope, agent_overrides={}), timezone.now()
                got = find(scope=scope, wanted=wanted, asked=asked, policy=policy, now=now)
            spent.append(sum(got.trace.stages_ms.values()))
        return spent

    def _person(self, user_id: str) -> EndUser:
        if user_id not in self._people:
            self._people[user_id] = make_end_user(self._tenant, user_id)
        return self._people[user_id]

    def _scope(self, person: EndUser) -> Scope:
        return scope_of(self._tenant, person)
