"""Tables of the kernel."""

from __future__ import annotations

from memory.models.base import TenantModel, Walls
from memory.models.index import (
    Embedding,
    EmbeddingKind,
    EmbeddingModel,
    EmbeddingStatus,
    EntryKind,
    IndexEntry,
    Shelf,
    VectorStatus,
)
from memory.models.job import Job, JobKind, JobStatus, Lane
from memory.models.knowledge import DocumentStatus, KnowledgeChunk, KnowledgeDocument
from memory.models.op import MemoryOp
from memory.models.recall import RecallEntry
from memory.models.tenancy import EndUser, Team, TeamMember, Tenant, TenantStatus

__all__ = [
    "DocumentStatus",
    "Embedding",
    "EmbeddingKind",
    "EmbeddingModel",
    "EmbeddingStatus",
    "EndUser",
    "EntryKind",
    "IndexEntry",
    "Job",
    "JobKind",
    "JobStatus",
    "KnowledgeChunk",
    "KnowledgeDocument",
    "Lane",
    "MemoryOp",
    "RecallEntry",
    "Shelf",
    "Team",
    "TeamMember",
    "Tenant",
    "TenantModel",
    "TenantStatus",
    "VectorStatus",
    "Walls",
]
