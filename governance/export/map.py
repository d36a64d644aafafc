"""What of each table goes into a person's export, and what does not, and why.

A test fails the build for a walled model that is in neither map, and for a column of personal data
that is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

Whose = Literal["own", "session", "own_or_made", "subject", "about", "team"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines:
    """The rows of one table as lines of one type.

    Attributes:
        type: What each line says it is.
        whose: How the person's rows are found: `own` by its column of the person, `session` also
            by thread, `own_or_made` also rows of teams that the person's runs made, `subject` by
            an id without a key, `about` by what the audit log is about, `team` by membership.
        left_out: Columns that are not exported.
        reason: Why.
        added: What else is told of a row: name in the line, path from the row.
        made: With `own_or_made`, the paths from a row to the person whose run made it.
    """

    type: str
    whose: Whose = "own"
    left_out: frozenset[str] = frozenset()
    reason: str = ""
    added: Mapping[str, str] | None = None
    made: tuple[str, ...] = ("run__end_user_id",)


def _without(columns: str, reason: str) -> dict[str, frozenset[str] | str]:
    return {"left_out": frozenset(columns.split()), "reason": reason}


_NUMBERS: Final = "numbers made from texts that are exported; they say nothing to a person"

# In the order of the export.
EXPORTED: Final[Mapping[str, Lines]] = {
    "memory.EndUser": Lines(type="person"),
    "memory.TeamMember": Lines(type="team_member", whose="team", added={"team": "team__name"}),
    "threads.Thread": Lines(type="thread"),
    "threads.ThreadSummary": Lines(type="thread_summary", whose="session"),
    "threads.SummaryNode": Lines(type="summary_node", whose="session"),
    "threads.Run": Lines(
        type="run", left_out=frozenset({"import_key"}), reason="a hash that finds repeats"
    ),
    "threads.Message": Lines(type="message", left_out=frozenset({"terms"}), reason=_NUMBERS),
    "threads.Artifact": Lines(type="artifact"),
    "threads.RunTrace": Lines(type="run_trace"),
    "threads.ContextTrace": Lines(type="context_trace"),
    "memory.RecallEntry": Lines(type="recall_entry"),
    "memory.MemoryItem": Lines(type="memory_item", whose="own_or_made"),
    "memory.MemoryItemVersion": Lines(type="memory_item_version", whose="own_or_made"),
    "memory.CoreFact": Lines(type="core_fact"),
    "governance.CoreCandidate": Lines(type="core_candidate"),
    "governance.Extraction": Lines(type="extraction"),
    "governance.Correction": Lines(type="correction"),
    "memory.EntityEvent": Lines(type="entity_event", added={"term": "entity__term"}),
    "memory.KnowledgeDocument": Lines(type="document", whose="own_or_made"),
    "memory.KnowledgeChunk": Lines(
        type="document_chunk", whose="own_or_made", made=("document__run__end_user_id",)
    ),
    "memory.IndexEntry": Lines(
        type="index_entry",
        whose="own_or_made",
        made=("item__run__end_user_id", "chunk__document__run__end_user_id"),
        left_out=frozenset({"packed"}),
        reason=_NUMBERS,
    ),
    "memory.Embedding": Lines(
        type="embedding",
        whose="own_or_made",
        made=("entry__item__run__end_user_id", "entry__chunk__document__run__end_user_id"),
        left_out=frozenset({"vector", "code"}),
        reason=_NUMBERS,
    ),
    "memory.Shelf": Lines(type="shelf"),
    "memory.Job": Lines(type="job", left_out=frozenset({"lane_key"}), reason="a number of queues"),
    "memory.MemoryOp": Lines(type="memory_call"),
    "threads.IdempotencyRecord": Lines(type="kept_answer"),
    "governance.ApiKey": Lines(
        type="api_key",
        left_out=frozenset({"digest", "pepper_version", "principal"}),
        reason="secrets of the tenant",
    ),
    "governance.ExportLink": Lines(
        type="export_link", left_out=frozenset({"token_sha256"}), reason="a secret's hash"
    ),
    "governance.Erasure": Lines(
        type="erasure",
        whose="subject",
        left_out=frozenset({"sealed_needles", "subject_hmac"}),
        reason="sealed for the search that verifies; a hash of the user_id",
    ),
    "governance.Disclosure": Lines(type="disclosure", whose="subject"),
    "governance.AuditEntry": Lines(type="audit_entry", whose="about"),
}
# Columns of personal data whose text the person gets elsewhere in the export.
NUMBERS: Final = frozenset(
    {
        ("threads.Message", "terms"),
        ("memory.IndexEntry", "packed"),
        ("memory.Embedding", "vector"),
        ("memory.Embedding", "code"),
        ("governance.Erasure", "sealed_needles"),
    }
)
NOT_EXPORTED: Final[Mapping[str, str]] = {
    "memory.Tenant": "the tenant itself",
    "memory.Team": "its name stands with the membership; other members are other persons",
    "memory.Entity": "the tenant's vocabulary; what the person corrected is exported",
    "memory.EntityMerge": "the tenant's vocabulary",
    "memory.EmbeddingModel": "a setting of the tenant",
    "memory.BehaviourSample": "written by staff, about nobody",
    "threads.Provider": "a setting of the tenant",
    "threads.Agent": "a setting of the tenant",
    "threads.TokenFit": "numbers about a model",
    "threads.DayFigures": "sums of nobody in particular",
    "threads.KeptUsage": "sums of nobody in particular",
    "governance.EntityCandidate": "the tenant's vocabulary; what the person corrected is exported",
    "governance.BulkDecision": "ids that staff chose",
    "governance.TenantPolicy": "a setting of the tenant",
    "governance.AuditSeal": "hashes",
    "governance.AuditLeaf": "hashes",
    "governance.AuditPending": "ids that wait for their seal",
    "governance.LegalHold": "a hold may not be told to whom it is about",
}
# Whose rows the audit log may be about, beside the person: tables with the person's column.
ABOUT: Final = (
    "threads.Thread",
    "threads.Run",
    "memory.RecallEntry",
    "memory.MemoryItem",
    "memory.CoreFact",
    "memory.KnowledgeDocument",
    "governance.CoreCandidate",
    "governance.Correction",
    "governance.ExportLink",
    "governance.ApiKey",
    "memory.MemoryItemVersion",
)
