"""Tenants for the tests of isolation: two people each, a row in every walled table, canaries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from itertools import count
from typing import Any

from django.db import connections, models
from django.db.backends.utils import CursorWrapper

from governance.policy import change_policy
from memory.checks import walled_models
from memory.ids import new_id
from memory.models import (
    EmbeddingModel,
    EndUser,
    Job,
    JobKind,
    MemoryOp,
    RecallEntry,
    Team,
    TeamMember,
    Tenant,
)
from memory.querysets import ScopedQuerySet
from memory.rls import scoped_transaction
from memory.scope import Scope
from tests.factories import (
    NOW,
    MadeKey,
    make_agent,
    make_end_user,
    make_key,
    make_provider,
    make_run,
    make_tenant,
    make_thread,
    scope_of,
)
from tests.isolation.chain_rows import fill_chain, fill_person_chain
from tests.isolation.learned_rows import fill_learned, fill_vocabulary
from tests.isolation.recall_rows import Spares, fill_person, fill_shared, make_model, recall
from threads.models import (
    Agent,
    Artifact,
    ContextTrace,
    IdempotencyRecord,
    Message,
    Run,
    RunTrace,
    SummaryNode,
    Thread,
    ThreadSummary,
    TokenFit,
)

_numbers = count(1)
# New rows that copy another one but for what makes them distinct, where a key would refuse them
# before the constraint that is meant.
FRESH: Mapping[str, Mapping[str, Any]] = {
    "governance_auditleaf": {"position": 77},
    "governance_auditseal": {"seq": 77},
    "governance_erasure": {"subject_id": "usr_another"},
    "governance_legalhold": {"subject_id": "usr_another"},
    "governance_apikey": {"prefix": "zz9zz9zz"},
    "governance_corecandidate": {"fact_key": "another"},
    "governance_entitycandidate": {"term_key": "another"},
    "memory_behavioursample": {"sample_key": "another"},
    "memory_corefact": {"fact_key": "another"},
    "memory_entity": {"term_key": "another"},
    "memory_entitymerge": {"status": "undone"},
    "memory_entityevent": {"day": NOW.date() + timedelta(days=1)},
    "memory_memoryitem": {"key": "another"},
    "memory_memoryitemversion": {"version": 77},
    "memory_embeddingmodel": {"name": "another", "status": "building"},
    "memory_enduser": {"user_id": "another"},
    "memory_job": {"dedupe_key": "another", "status": "done"},
    "memory_knowledgechunk": {"position": 77},
    "memory_team": {"name": "another"},
    "memory_tenant": {"slug": "another"},
    "threads_agent": {"name": "another"},
    "threads_artifact": {"name": "another"},
    "threads_idempotencyrecord": {"idempotency_key": "another"},
    "threads_dayfigures": {"day": NOW.date() + timedelta(days=1)},
    "threads_keptusage": {"day": NOW.date() + timedelta(days=1)},
    "threads_message": {"position": 77},
    "threads_provider": {"name": "another"},
    "threads_run": {"seq": 77, "external_id": None, "import_key": None},
    "threads_summarynode": {"start_seq": 77, "end_seq": 78},
    "threads_thread": {"external_key": "another"},
    "threads_tokenfit": {"model": "another"},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """One person of a tenant with a thread that has a run, and a second one that has little.

    Of the second thread's runs one left a recall entry that no index leads to, one left nothing.
    """

    row: EndUser
    thread: Thread
    run: Run
    spare_thread: Thread
    spare_run: Run
    spare_recall: RecallEntry
    fresh_run: Run


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """One tenant with rows in every walled table; each text of it holds `CNRY-<its slug>-`."""

    tenant: Tenant
    agent: Agent
    key: MadeKey
    people: tuple[Person, Person]
    spare_team: Team
    spares: Spares

    @property
    def mark(self) -> str:
        """What every text of this tenant holds, and no other's."""
        return f"CNRY-{self.tenant.slug}-"

    def distinct(self, model: type[models.Model]) -> dict[str, str | None]:
        """Return the references of a new row that its table's own keys let in beside the rest."""
        person = self.people[0]
        changes: dict[str, dict[str, str | None]] = {
            "governance_extraction": {"run_id": person.fresh_run.pk},
            "memory_embedding": {"entry_id": self.spares.entry.pk},
            "memory_indexentry": {"recall_id": person.spare_recall.pk},
            "memory_recallentry": {
                "run_id": person.fresh_run.pk,
                "thread_id": person.spare_thread.pk,
            },
            "memory_shelf": {"end_user_id": None, "team_id": self.spare_team.pk},
            "memory_teammember": {"team_id": self.spare_team.id},
            "threads_runtrace": {"run_id": person.spare_run.id},
            "threads_threadsummary": {"thread_id": person.spare_thread.id},
        }
        return changes.get(model._meta.db_table, {})

    def scope(self, person: int | None = None, *, thread: Thread | None = None) -> Scope:
        """A scope on this tenant, one of its people, and a session."""
        return scope_of(self.tenant, None if person is None else self.people[person].row, thread)


def make_world() -> World:
    """Fill a new tenant; a canary in every text of it."""
    tenant = make_tenant()
    mark = f"CNRY-{tenant.slug}-"
    provider = make_provider(tenant, name=f"{mark}provider", base_url=f"{mark}url", vendor=mark)
    agent = make_agent(
        tenant, provider, name=f"{mark}agent", system_prompt=f"{mark}prompt", role=mark
    )
    scope = scope_of(tenant)
    with scoped_transaction(scope):
        model = make_model(tenant, mark)
    people = (_make_person(tenant, agent, model, 1), _make_person(tenant, agent, model, 2))
    with scoped_transaction(scope):
        spares = fill_shared(tenant, model, mark)
        for person in people:
            fill_vocabulary(tenant, person.run, f"{mark}{person.row.pk[-6:]} ")
            fill_person_chain(person.run, mark)
        fill_chain(tenant, agent)
        TokenFit.objects.create(tenant=tenant, provider=provider, model=f"{mark}model")
    change_policy(scope=scope, changes={"recent_turns": 3}, now=NOW)
    with scoped_transaction(scope):
        team = Team.objects.create(tenant=tenant, name=f"{mark}team")
        spare_team = Team.objects.create(tenant=tenant, name=f"{mark}other team")
        for person in people:
            TeamMember.objects.create(tenant=tenant, team=team, end_user=person.row)
    key = make_key(tenant, name=f"{mark}key", agent_id=agent.id, end_user_id=people[0].row.id)
    return World(
        tenant=tenant,
        agent=agent,
        key=key,
        people=people,
        spare_team=spare_team,
        spares=spares,
    )


def _make_person(tenant: Tenant, agent: Agent, model: EmbeddingModel, number: int) -> Person:
    mark = f"CNRY-{tenant.slug}-{number}-"
    row = make_end_user(tenant, user_id=f"{mark}{next(_numbers)}")
    thread = make_thread(agent, row, title=f"{mark}title 标题", external_key=f"{mark}thread")
    spare = make_thread(agent, row, title=f"{mark}other", external_key=f"{mark}other")
    run = make_run(
        thread,
        input=f"{mark}question 问题",
        output=f"{mark}answer",
        metadata={"note": mark},
        external_id=f"{mark}run",
        import_key=f"{mark}import",
    )
    spare_run = make_run(spare)
    with scoped_transaction(scope_of(tenant, row)):
        fill_person(run, agent, model, mark)
        fill_learned(run, mark)
        spare_recall = recall(spare_run, agent, mark)
    person = Person(
        row=row,
        thread=thread,
        run=run,
        spare_thread=spare,
        spare_run=spare_run,
        spare_recall=spare_recall,
        fresh_run=make_run(spare),
    )
    with scoped_transaction(scope_of(tenant, row, thread)):
        _fill(person, agent, mark)
    return person


def _fill(person: Person, agent: Agent, mark: str) -> None:
    """Write one row of each table that belongs to a run, a thread or a person."""
    whose: dict[str, Any] = {"tenant_id": person.row.tenant_id, "end_user": person.row}
    thread, run = person.thread, person.run
    for position, role in enumerate(("user", "assistant")):
        Message.objects.create(
            **whose,
            thread=thread,
            run=run,
            position=position,
            role=role,
            content=f"{mark}message",
            speaker=mark,
            external_id=f"{mark}message-{position}",
        )
    RunTrace.objects.create(**whose, run=run, messages=[{"content": mark}], items=[{"id": mark}])
    ThreadSummary.objects.create(**whose, thread=thread, rolling_summary=f"{mark}summary 摘要")
    _fill_context(person, agent, mark)
    job = Job.objects.create(
        **whose,
        thread=thread,
        run=run,
        kind=JobKind.ROLL_SUMMARY,
        dedupe_key=f"{mark}job",
        lane_key=0,
    )
    MemoryOp.objects.create(
        **whose,
        thread=thread,
        agent=agent,
        job=job,
        kind="roll_summary",
        model=mark,
        outcome="ok",
        input_tokens=1,
        output_tokens=1,
    )
    IdempotencyRecord.objects.create(
        **whose,
        principal_id="key",
        idempotency_key=mark,
        request_sha256="0" * 64,
        body=f"{mark}body",
        lease_until=NOW + timedelta(seconds=1),
    )


def _fill_context(person: Person, agent: Agent, mark: str) -> None:
    """Write one row of each table of the context engine."""
    whose: dict[str, Any] = {"tenant_id": person.row.tenant_id, "end_user": person.row}
    thread, run = person.thread, person.run
    Artifact.objects.create(
        **whose, thread=thread, run=run, name=f"{mark}file", content=f"{mark}text", bytes=1
    )
    ContextTrace.objects.create(
        **whose, agent=agent, thread=thread, messages=[{"content": mark}], items=[{"id": mark}]
    )
    SummaryNode.objects.create(
        **whose,
        thread=thread,
        level=0,
        start_seq=1,
        end_seq=1,
        start_at=NOW,
        end_at=NOW,
        turn_count=1,
        message_count=2,
        summary=f"{mark}node 节点",
        content={"timeline": [mark]},
        token_count=1,
        source_token_count=2,
        method="model",
    )


def rows_of(model: type[models.Model], *, using: str = "default") -> ScopedQuerySet[Any]:
    """The undecided query of a walled model on one database alias."""
    manager: Any = model.objects  # type: ignore[attr-defined]
    rows: ScopedQuerySet[Any] = manager.using(using)
    return rows


def every_walled_model() -> list[type[models.Model]]:
    """All walled models, by table name."""
    return [model for _, model in sorted(walled_models().items())]


def read_row(cursor: CursorWrapper, table: str, column: str, value: str) -> dict[str, Any]:
    """One row as the database holds it, JSON as text; the oldest where several fit."""
    cursor.execute(f'SELECT * FROM "{table}" WHERE "{column}" = %s ORDER BY 1 LIMIT 1', [value])
    names = [part.name for part in cursor.description]
    row = cursor.fetchone()
    assert row is not None, f"{table} has no row"
    return dict(zip(names, row, strict=True))


def insert_copy(
    cursor: CursorWrapper, model: type[models.Model], row: Mapping[str, Any], /, **changes: Any
) -> None:
    """Insert a copy of a row in raw SQL, with a fresh id and `changes`."""
    table, key = model._meta.db_table, str(model._meta.pk.column)
    fresh: dict[str, Any] = {**row, **FRESH.get(table, {})}
    if not model._meta.pk.is_relation:
        fresh[key] = new_id(str(row[key]).partition("_")[0])
    fresh |= changes
    names = ", ".join(f'"{name}"' for name in fresh)
    marks = ", ".join(["%s"] * len(fresh))
    cursor.execute(f'INSERT INTO "{table}" ({names}) VALUES ({marks})', list(fresh.values()))


class RolledBackError(Exception):
    """Ends a test's transaction, so that the worlds stay as they are."""


def dump(model: type[models.Model], *, using: str = "default") -> list[dict[str, Any]]:
    """Every row the role sees, in raw SQL without a condition."""
    with connections[using].cursor() as cursor:
        cursor.execute(f'SELECT * FROM "{model._meta.db_table}"')
        names = [part.name for part in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def tenants_in(model: type[models.Model], rows: list[dict[str, Any]]) -> set[Any]:
    return {row[model.walls.tenant] for row in rows}  # type: ignore[attr-defined]
