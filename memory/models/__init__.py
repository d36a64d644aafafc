"""Tables of the kernel."""

from __future__ import annotations

from memory.models.base import TenantModel, Walls
from memory.models.behaviour import BehaviourSample, SampleKind, SampleStatus
from memory.models.core_fact import CoreFact, FactEnd
from memory.models.entity import Entity, EntityEvent, EntityMerge, EntityStatus, MergeStatus
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
from memory.models.item import ItemCategory, ItemStatus, MemoryItem, MemoryItemVersion
from memory.models.job import Job, JobKind, JobStatus, Lane
from memory.models.knowledge import DocumentStatus, KnowledgeChunk, KnowledgeDocument
from memory.models.op import MemoryOp
from memory.models.recall import RecallEntry
from memory.models.tenancy import EndUser, Team, TeamMember, Tenant, TenantStatus

__all__ = [
    "BehaviourSample",
    "CoreFact",
    "DocumentStatus",
    "Embedding",
    "EmbeddingKind",
    "EmbeddingModel",
    "EmbeddingStatus",
    "EndUser",
    "Entity",
    "EntityEvent",
    "EntityMerge",
    "EntityStatus",
    "EntryKind",
    "FactEnd",
    "IndexEntry",
    "ItemCategory",
    "ItemStatus",
    "Job",
    "JobKind",
    "JobStatus",
    "KnowledgeChunk",
    "KnowledgeDocument",
    "Lane",
    "MemoryItem",
    "MemoryItemVersion",
    "MemoryOp",
    "MergeStatus",
    "RecallEntry",
    "SampleKind",
    "SampleStatus",
    "Shelf",
    "Team",
    "TeamMember",
    "Tenant",
    "TenantModel",
    "TenantStatus",
    "VectorStatus",
    "Walls",
]
