"""The map: what the erasure of a person does with every table there is, and in which order.

A model or a table that is not on it fails the build. `STEPS` is in an order in which no row is
referred to any more when it goes, so that each batch can be a transaction of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

OF_PERSON: Final = "tenant_id = %(tenant)s AND end_user_id = %(person)s"
_THREADS: Final = f"(SELECT id FROM threads_thread WHERE {OF_PERSON})"  # noqa: S608 - a constant
_RUNS: Final = f"(SELECT id FROM threads_run WHERE {OF_PERSON})"  # noqa: S608 - a constant
_JOBS: Final = (
    "tenant_id = %(tenant)s AND (end_user_id = %(person)s"
    f" OR thread_id IN {_THREADS} OR run_id IN {_RUNS})"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Rows of one table that go, in batches.

    Attributes:
        table: Its name.
        counted_as: Under which name a receipt counts them.
        whose: Which rows: SQL with the parameters tenant and person.
        key: Its primary key.
        order: In which order; what others of the table refer to goes later.
        is_wide: Some of the rows name no person, so the scope names none either.
    """

    table: str
    counted_as: str
    whose: str = OF_PERSON
    key: str = "id"
    order: str = "id"
    is_wide: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """Why rows of a table stay."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ByStep:
    """Which step with a way of its own takes care of a table."""

    step: str


Fate: TypeAlias = Rows | Kept | ByStep

# Steps that are more than deleting rows; `governance.erasure.deleting` knows how.
UNLINK: Final = "unlink"
MENTIONS: Final = "mentions"
VOCABULARY: Final = "vocabulary"
SHARED: Final = "shared"
OPERATIONS: Final = "operations"
RUNS: Final = "runs"
THREADS: Final = "threads"
HOLDS: Final = "holds"
LAST: Final = "last"

_ROWS: Final = (
    Rows(table="memory_job", counted_as="jobs", whose=_JOBS, is_wide=True),
    Rows(table="memory_embedding", counted_as="embeddings"),
    Rows(table="memory_indexentry", counted_as="index_entries"),
    Rows(table="memory_shelf", counted_as="shelves"),
    Rows(
        table="memory_entityevent",
        counted_as="entity_hits",
        whose=f"tenant_id = %(tenant)s AND (end_user_id = %(person)s OR run_id IN {_RUNS})",
        is_wide=True,
    ),
    Rows(table="memory_corefact", counted_as="core_facts"),
    Rows(table="governance_corecandidate", counted_as="core_candidates"),
    Rows(table="governance_extraction", counted_as="extractions"),
    Rows(table="memory_memoryitemversion", counted_as="item_versions"),
    Rows(table="memory_memoryitem", counted_as="items"),
    Rows(table="memory_knowledgechunk", counted_as="chunks"),
    Rows(table="memory_knowledgedocument", counted_as="documents"),
    Rows(table="threads_artifact", counted_as="artifacts"),
    Rows(table="memory_recallentry", counted_as="recall_entries"),
    Rows(
        table="threads_contexttrace",
        counted_as="context_traces",
        whose=f"tenant_id = %(tenant)s AND (end_user_id = %(person)s OR thread_id IN {_THREADS})",
        is_wide=True,
    ),
    Rows(table="threads_runtrace", counted_as="run_traces", key="run_id", order="run_id"),
    Rows(table="threads_message", counted_as="messages"),
    Rows(table="memory_teammember", counted_as="team_memberships"),
    Rows(table="governance_exportlink", counted_as="export_links"),
    Rows(
        table="governance_threadusergrant",
        counted_as="grants",
        whose=f"content_object_id IN {_THREADS}",
    ),
    Rows(
        table="governance_threadgroupgrant",
        counted_as="grants",
        whose=f"content_object_id IN {_THREADS}",
    ),
    Rows(
        table="governance_enduserusergrant",
        counted_as="grants",
        whose="content_object_id = %(person)s",
    ),
    Rows(
        table="governance_endusergroupgrant",
        counted_as="grants",
        whose="content_object_id = %(person)s",
    ),
)
_BY_TABLE: Final = {rows.table: rows for rows in _ROWS}

# What is done, in this order. A name is a table of `_ROWS`, or a step of its own.
STEPS: Final = (
    UNLINK,
    "memory_job",
    MENTIONS,
    "memory_embedding",
    "memory_indexentry",
    "memory_shelf",
    VOCABULARY,
    "memory_entityevent",
    SHARED,
    "memory_corefact",
    "governance_corecandidate",
    "governance_extraction",
    "memory_memoryitemversion",
    "memory_memoryitem",
    "memory_knowledgechunk",
    "memory_knowledgedocument",
    "threads_artifact",
    "memory_recallentry",
    "threads_contexttrace",
    "threads_runtrace",
    "threads_message",
    OPERATIONS,
    RUNS,
    "governance_threadusergrant",
    "governance_threadgroupgrant",
    THREADS,
    "memory_teammember",
    "governance_exportlink",
    "governance_enduserusergrant",
    "governance_endusergroupgrant",
    HOLDS,
)

_OPERATORS: Final = Kept(reason="The tenant's own set-up, written by its staff, of nobody.")
_ROLES: Final = Kept(reason="Roles and rights of staff and keys; no person of a tenant.")
_IDS_ONLY: Final = Kept(reason="Ids, counts, times and hashes only; what was done stays provable.")
_FRAMEWORK: Final = Kept(reason="The framework's own books; they name models, not persons.")
_STAFF: Final = Kept(
    reason="Staff at the admin's door, addresses that sent wrong API keys; no person of a tenant."
)

# What becomes of each model's table.
MODELS: Final[Mapping[str, Fate]] = {
    "memory.Tenant": _OPERATORS,
    "memory.Team": _OPERATORS,
    "memory.BehaviourSample": _OPERATORS,
    "memory.EmbeddingModel": _OPERATORS,
    "memory.Lane": _FRAMEWORK,
    "memory.Job": _BY_TABLE["memory_job"],
    "memory.Embedding": _BY_TABLE["memory_embedding"],
    "memory.IndexEntry": _BY_TABLE["memory_indexentry"],
    "memory.Shelf": _BY_TABLE["memory_shelf"],
    "memory.Entity": ByStep(step=VOCABULARY),
    "memory.EntityMerge": ByStep(step=VOCABULARY),
    "memory.EntityEvent": _BY_TABLE["memory_entityevent"],
    "memory.CoreFact": _BY_TABLE["memory_corefact"],
    "memory.MemoryItem": _BY_TABLE["memory_memoryitem"],
    "memory.MemoryItemVersion": _BY_TABLE["memory_memoryitemversion"],
    "memory.KnowledgeDocument": _BY_TABLE["memory_knowledgedocument"],
    "memory.KnowledgeChunk": _BY_TABLE["memory_knowledgechunk"],
    "memory.RecallEntry": _BY_TABLE["memory_recallentry"],
    "memory.MemoryOp": ByStep(step=OPERATIONS),
    "memory.TeamMember": _BY_TABLE["memory_teammember"],
    "memory.EndUser": ByStep(step=LAST),
    "governance.AuditEntry": _IDS_ONLY,
    "governance.AuditSeal": _IDS_ONLY,
    "governance.AuditLeaf": _IDS_ONLY,
    "governance.AuditPending": _IDS_ONLY,
    "governance.Disclosure": _IDS_ONLY,
    "governance.Erasure": Kept(
        reason="The act itself: ids, an HMAC, counts; its needles go with the verification."
    ),
    "governance.LegalHold": ByStep(step=HOLDS),
    "governance.ExportLink": _BY_TABLE["governance_exportlink"],
    "governance.CoreCandidate": _BY_TABLE["governance_corecandidate"],
    "governance.Extraction": _BY_TABLE["governance_extraction"],
    "governance.EntityCandidate": ByStep(step=VOCABULARY),
    "governance.Correction": ByStep(step=VOCABULARY),
    "governance.BulkDecision": _IDS_ONLY,
    "governance.TenantPolicy": _OPERATORS,
    "governance.ApiKey": ByStep(step=LAST),
    "governance.TenantUserGrant": _ROLES,
    "governance.TenantGroupGrant": _ROLES,
    "governance.AgentUserGrant": _ROLES,
    "governance.AgentGroupGrant": _ROLES,
    "governance.TeamUserGrant": _ROLES,
    "governance.TeamGroupGrant": _ROLES,
    "governance.EndUserUserGrant": _BY_TABLE["governance_enduserusergrant"],
    "governance.EndUserGroupGrant": _BY_TABLE["governance_endusergroupgrant"],
    "governance.ThreadUserGrant": _BY_TABLE["governance_threadusergrant"],
    "governance.ThreadGroupGrant": _BY_TABLE["governance_threadgroupgrant"],
    "threads.Provider": _OPERATORS,
    "threads.Agent": _OPERATORS,
    "threads.TokenFit": Kept(reason="How long a model's texts are, in numbers of many runs."),
    "threads.DayFigures": Kept(reason="Sums of a tenant's days; they name nobody."),
    "threads.KeptUsage": Kept(reason="Sums of what erased runs had cost, a day and agent."),
    "threads.Thread": ByStep(step=THREADS),
    "threads.ThreadSummary": ByStep(step=THREADS),
    "threads.SummaryNode": ByStep(step=THREADS),
    "threads.Run": ByStep(step=RUNS),
    "threads.RunTrace": _BY_TABLE["threads_runtrace"],
    "threads.Artifact": _BY_TABLE["threads_artifact"],
    "threads.ContextTrace": _BY_TABLE["threads_contexttrace"],
    "threads.Message": _BY_TABLE["threads_message"],
    "threads.IdempotencyRecord": ByStep(step=MENTIONS),
    "admin.LogEntry": ByStep(step=MENTIONS),
    "sessions.Session": ByStep(step=MENTIONS),
    "guardian.UserObjectPermission": ByStep(step=MENTIONS),
    "guardian.GroupObjectPermission": ByStep(step=MENTIONS),
    "django_q.OrmQ": ByStep(step=MENTIONS),
    "django_q.Task": ByStep(step=MENTIONS),
    "django_q.Schedule": Kept(reason="The operator's timetable; a bell carries no arguments."),
    "auth.User": ByStep(step=LAST),
    "auth.Group": _ROLES,
    "auth.Permission": _ROLES,
    "auth.User_groups": _ROLES,
    "auth.User_user_permissions": _ROLES,
    "auth.Group_permissions": _ROLES,
    "contenttypes.ContentType": _FRAMEWORK,
    "axes.AccessAttempt": _STAFF,
    "axes.AccessAttemptExpiration": _STAFF,
    "axes.AccessFailureLog": _STAFF,
    "axes.AccessLog": _STAFF,
}
# Tables that no model stands for.
TABLES: Final[Mapping[str, Fate]] = {"django_migrations": _FRAMEWORK}


def rows_of(step: str) -> Rows | None:
    """Return the rows that a step deletes, None for one that has a way of its own."""
    return _BY_TABLE.get(step)
