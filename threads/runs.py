"""A run's life in the database: accepted, then exactly one end. Each end is one transaction."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from django.db import connection
from django.db.models import Prefetch
from django.db.models.functions import Now

from governance.pii import pii_tags
from governance.secrets import strip_secrets
from memory.conf import run_lease_seconds
from memory.errors import ConflictError, NotFoundError
from memory.ids import new_id
from memory.models import EndUser
from memory.querysets import ScopedQuerySet
from memory.retrieval.words import message_terms
from memory.rls import scoped_transaction
from memory.scope import Scope
from memory.tokens import estimate
from threads.counting import Observation
from threads.history import turn_tokens
from threads.models import Agent, Artifact, Message, Run, RunOrigin, RunStatus, Thread
from threads.run_statements import ACCEPT, ACCEPT_FIRST, ADD_STEPS, SUCCEED
from threads.titles import title_of
from threads.tool_rounds import ToolRound, message_count, messages_of, steps_tokens, tool_steps
from threads.tools.artifacts import store_artifacts
from threads.tools.records import NewArtifact, UpsertedItem

_UNFINISHED = (RunStatus.QUEUED, RunStatus.RUNNING)
# Costs are kept to a hundred-millionth of a dollar, as the column is.
_CENT_MILLIONTH = Decimal("0.00000001")
# The largest number that the columns of tokens hold.
_MOST_TOKENS = 2**31 - 1
# A plain string: the type checker takes a literal one for another declaration of the attribute.
_SHOWN: str = "shown_artifacts"


class RunFinishedError(ConflictError):
    """The run has already ended."""

    code = "run_finished"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What came in for one run, already free of secrets.

    `continues_run_id` names the run whose artefacts it goes on with, checked by the caller.
    """

    text: str
    metadata: Mapping[str, Any] = field(default_factory=dict)
    continues_run_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What the model calls of a run cost that ended so far: tokens as counted, dollars."""

    model: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: Decimal = Decimal(0)
    is_cost_known: bool = True

    def columns(self) -> dict[str, Any]:
        """Return it as a run's row keeps it."""
        return {
            "model": self.model,
            "input_tokens": min(self.input_tokens, _MOST_TOKENS),
            "output_tokens": min(self.output_tokens, _MOST_TOKENS),
            "cost_usd": self.cost_usd.quantize(_CENT_MILLIONTH),
            "is_cost_known": self.is_cost_known,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """What a model's answer was, as it is to be stored. Tokens as counted, cost in USD.

    Attributes:
        text: The answer itself; what was said before tool calls is in `rounds`.
        input_tokens: Of all calls together; output_tokens and cost_usd likewise.
        rounds: The tool calls on the way to it, in order, each with its result.
        artifacts: The files that the tools wrote.
        items: What the tools are to remember.
        prompt: The messages of the last call as JSON, where they are not those accepted.
        observations: What the provider's counts teach about how its model counts.
    """

    text: str
    model: str
    input_tokens: int
    output_tokens: int
    cost_usd: Decimal
    is_cost_known: bool
    steps: Sequence[Mapping[str, Any]] = ()
    rounds: Sequence[ToolRound] = ()
    artifacts: Sequence[NewArtifact] = ()
    items: Sequence[UpsertedItem] = ()
    prompt: Sequence[Mapping[str, Any]] | None = None
    observations: Sequence[Observation] = ()

    @property
    def messages_added(self) -> int:
        """How many messages it adds to the question: those of the rounds, and the answer."""
        return message_count(self.rounds) + 1


def new_thread(
    *, scope: Scope, agent: Agent, end_user: EndUser, text: str, now: datetime
) -> Thread:
    """Return the thread of a first question; `accept` stores it together with the run."""
    return Thread(
        tenant_id=scope.tenant_id,
        agent_id=agent.pk,
        end_user_id=end_user.pk,
        title=title_of(text),
        created_at=now,
        updated_at=now,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptTrace:
    """What a run's prompt was made of: messages as sent, items shown, steps taken, as JSON."""

    messages: Sequence[Mapping[str, Any]] = ()
    items: Sequence[Mapping[str, Any]] = ()
    steps: Sequence[Mapping[str, Any]] = ()


def accept(
    *,
    scope: Scope,
    thread: Thread,
    question: Question,
    now: datetime,
    is_bootstrap: bool,
    context: Mapping[str, Any],
    trace: PromptTrace = PromptTrace(),
) -> Run:
    """Store an accepted run with its message and trace, and its thread if that is new.

    Inside the caller's transaction.
    The number is taken under the thread's row lock, which lasts to the transaction's end: numbers are gapless, since a
    rollback gives its number back. A thread made without a title gets it from the first input. From here on the input is
    never lost: a run whose process dies is ended by the sweep when its lease, by the database's
    clock, runs out. Cost: one statement.

    Raises:
        NotFoundError: The thread is gone or out of scope.
    """
    run = Run(
        tenant_id=scope.tenant_id,
        thread_id=thread.pk,
        agent_id=thread.agent_id,
        end_user_id=thread.end_user_id,
        status=RunStatus.RUNNING,
        origin=RunOrigin.RUN,
        input=question.text,
        metadata=dict(question.metadata),
        bootstrap=is_bootstrap,
        context=dict(context),
        key_id=scope.principal_id,
        continues_id=question.continues_run_id,
        turn_tokens=turn_tokens(input_text=question.text, output_text=""),
        message_count=1,
        created_at=now,
    )
    with connection.cursor() as cursor:
        statement = ACCEPT_FIRST if thread._state.adding else ACCEPT
        cursor.execute(statement, _acceptance(run, trace, now))
        row = cursor.fetchone()
    if row is None:
        raise NotFoundError
    run.seq, thread.title = int(row[0]), row[1]
    thread._state.adding = False
    return run


def _acceptance(run: Run, trace: PromptTrace, now: datetime) -> dict[str, Any]:
    return {
        "run": run.pk,
        "tenant": run.tenant_id,
        "thread": run.thread_id,
        "agent": run.agent_id,
        "end_user": run.end_user_id,
        "title": title_of(run.input),
        "input": run.input,
        "bootstrap": run.bootstrap,
        "context": json.dumps(run.context),
        "metadata": json.dumps(run.metadata),
        "key": run.key_id,
        "continues": run.continues_id,
        "turn_tokens": run.turn_tokens,
        "lease_seconds": run_lease_seconds(),
        "message": new_id("msg"),
        "message_tokens": estimate(run.input),
        "terms": message_terms(run.input),
        "pii": json.dumps(pii_tags(run.input)),
        "prompt": json.dumps(list(trace.messages)),
        "items": json.dumps(list(trace.items)),
        "steps": json.dumps(list(trace.steps)),
        "now": now,
    }


def end(
    *,
    scope: Scope,
    run_id: str,
    status: RunStatus,
    now: datetime,
    steps: Sequence[Mapping[str, Any]] = (),
    **columns: Any,
) -> bool:
    """End a run that is still unfinished; False if it has ended already.

    The one road to every final state but success and rejection at accept; the database's trigger
    holds the same state machine underneath. Cost: one UPDATE, and one where there are steps.
    """
    ended = (
        Run.objects.in_scope(scope)
        .filter(pk=run_id, status__in=_UNFINISHED)
        .update(status=status, finished_at=now, lease_until=None, **columns)
    )
    if ended == 1 and steps:
        add_steps(scope=scope, run_id=run_id, steps=steps)
    return ended == 1


def add_steps(*, scope: Scope, run_id: str, steps: Sequence[Mapping[str, Any]]) -> None:
    """Number steps on from those a run's trace has, inside the caller's transaction. One UPDATE."""
    values = {"run": run_id, "tenant": scope.tenant_id, "steps": _steps_json(steps)}
    with connection.cursor() as cursor:
        cursor.execute(ADD_STEPS, values)


def renew_lease(*, scope: Scope, run_id: str) -> bool:
    """Give an unfinished run another lease from now on, by the database's clock; False if it has ended.

    Inside the caller's transaction. Cost: one UPDATE.
    """
    rows = Run.objects.in_scope(scope).filter(pk=run_id, status__in=_UNFINISHED)
    return rows.update(lease_until=Now() + timedelta(seconds=run_lease_seconds())) == 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """An answer as it is stored, without secrets, and what later prompts show of its tools.

    `answer_tokens` and `tool_tokens` are estimates of what both add to the turn; `terms` are the
    answer's words, by which it is found; `pii` is what is personal in it.
    """

    text: str
    terms: list[int]
    pii: list[dict[str, str | int]]
    tool_steps: list[dict[str, str]]
    answer_tokens: int
    tool_tokens: int

    @property
    def tokens_added(self) -> int:
        """What the answer adds to its turn as later prompts show it."""
        return self.answer_tokens + self.tool_tokens


def written(answered: Answered) -> Written:
    """Return an answer ready to be stored. Pure; linear in its length."""
    text = strip_secrets(answered.text).text
    steps = tool_steps(answered.rounds)
    return Written(
        text=text,
        terms=message_terms(text),
        pii=pii_tags(text),
        tool_steps=steps,
        answer_tokens=estimate(text),
        tool_tokens=steps_tokens(steps),
    )


def succeed(
    *, scope: Scope, run_id: str, answered: Answered, stored: Written, now: datetime
) -> Run | None:
    """Store a model's answer inside the caller's transaction; None if it has ended or is gone.

    Returns:
        The run with what this changed and what says where it belongs; nothing else is filled in.

    Cost: one statement; one more where tools were used, another where they wrote files.
    """
    run = Run(
        id=run_id,
        tenant_id=scope.tenant_id,
        status=RunStatus.SUCCEEDED,
        output=stored.text,
        model=answered.model,
        input_tokens=answered.input_tokens,
        output_tokens=answered.output_tokens,
        cost_usd=answered.cost_usd.quantize(_CENT_MILLIONTH),
        is_cost_known=answered.is_cost_known,
        tool_steps=stored.tool_steps,
        finished_at=now,
    )
    with connection.cursor() as cursor:
        cursor.execute(SUCCEED, _success(run, answered, stored, now))
        row = cursor.fetchone()
    if row is None:
        return None
    run.thread_id, run.end_user_id, run.seq, run.turn_tokens, run.message_count = row
    _store_rounds(scope, run, answered, now)
    run.shown_artifacts = list(answered.artifacts)
    return run


def _store_rounds(scope: Scope, run: Run, answered: Answered, now: datetime) -> None:
    """Store what only a succeeded run leaves of its tools: their messages and their files."""
    if answered.rounds:
        rows = messages_of(run, rounds=answered.rounds, first_position=1, now=now)
        Message.objects.bulk_create(rows)
    if answered.artifacts:
        store_artifacts(
            scope=scope,
            run_id=run.pk,
            thread_id=run.thread_id,
            end_user_id=run.end_user_id,
            artifacts=answered.artifacts,
            now=now,
        )


def _success(run: Run, answered: Answered, stored: Written, now: datetime) -> dict[str, Any]:
    prompt = answered.prompt
    return {
        "run": run.pk,
        "tenant": run.tenant_id,
        "output": run.output,
        "model": run.model,
        "input_tokens": run.input_tokens,
        "output_tokens": run.output_tokens,
        "cost_usd": run.cost_usd,
        "is_cost_known": run.is_cost_known,
        "answer_tokens": stored.answer_tokens,
        "terms": stored.terms,
        "pii": json.dumps(stored.pii),
        "added_tokens": stored.tokens_added,
        "position": answered.messages_added,
        "tool_steps": json.dumps(run.tool_steps),
        "prompt": None if prompt is None else json.dumps(list(prompt)),
        "message": new_id("msg"),
        "steps": _steps_json(answered.steps),
        "now": now,
    }


def _steps_json(steps: Sequence[Mapping[str, Any]]) -> str:
    return json.dumps([dict(step) for step in steps])


def with_artifacts(rows: ScopedQuerySet[Run], *, scope: Scope) -> ScopedQuerySet[Run]:
    """Have each run bring the list of its files, without what is in them. Cost: one more query."""
    files = Artifact.objects.in_scope(scope).only("id", "run_id", "name", "bytes").order_by("id")
    return rows.prefetch_related(Prefetch("artifacts", files, to_attr=_SHOWN))


def read_run(*, scope: Scope, run_id: str) -> Run:
    """Return a run with its end user and the list of its files. Cost: two queries.

    Raises:
        NotFoundError: There is none in scope.
    """
    rows = Run.objects.in_scope(scope).select_related("end_user").filter(pk=run_id)
    run = with_artifacts(rows, scope=scope).first()
    if run is None:
        raise NotFoundError
    return run


def cancel_run(*, scope: Scope, run_id: str, now: datetime) -> Run:
    """Cancel a run at once; the process that drives it notices and closes its provider call.

    Raises:
        NotFoundError: There is none in scope.
        RunFinishedError: It has ended already.
    """
    with scoped_transaction(scope):
        read_run(scope=scope, run_id=run_id)
        if not end(scope=scope, run_id=run_id, status=RunStatus.CANCELLED, now=now):
            raise RunFinishedError
        return read_run(scope=scope, run_id=run_id)
