"""Tables of governance."""

from __future__ import annotations

from governance.models.audit import (
    AuditEntry,
    AuditLeaf,
    AuditPending,
    AuditSeal,
    Disclosure,
    DisclosureKind,
)
from governance.models.candidate import (
    BulkDecision,
    BulkStatus,
    CandidateStatus,
    CoreCandidate,
    EntityCandidate,
    EntityCandidateStatus,
    Extraction,
)
from governance.models.correction import Correction
from governance.models.erasure import (
    Erasure,
    ErasureMode,
    ErasureOrigin,
    ErasureStatus,
    ExportLink,
    LegalHold,
    Verified,
)
from governance.models.grants import (
    AgentGroupGrant,
    AgentUserGrant,
    EndUserGroupGrant,
    EndUserUserGrant,
    TeamGroupGrant,
    TeamUserGrant,
    TenantGroupGrant,
    TenantUserGrant,
    ThreadGroupGrant,
    ThreadUserGrant,
)
from governance.models.key import ApiKey, KeyScope
from governance.models.policy import TenantPolicy

__all__ = [
    "AgentGroupGrant",
    "AgentUserGrant",
    "ApiKey",
    "AuditEntry",
    "AuditLeaf",
    "AuditPending",
    "AuditSeal",
    "BulkDecision",
    "BulkStatus",
    "CandidateStatus",
    "CoreCandidate",
    "Correction",
    "Disclosure",
    "DisclosureKind",
    "EndUserGroupGrant",
    "EndUserUserGrant",
    "EntityCandidate",
    "EntityCandidateStatus",
    "Erasure",
    "ErasureMode",
    "ErasureOrigin",
    "ErasureStatus",
    "ExportLink",
    "Extraction",
    "KeyScope",
    "LegalHold",
    "TeamGroupGrant",
    "TeamUserGrant",
    "TenantGroupGrant",
    "TenantPolicy",
    "TenantUserGrant",
    "ThreadGroupGrant",
    "ThreadUserGrant",
    "Verified",
]
