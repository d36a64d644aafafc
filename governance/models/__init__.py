"""Tables of governance."""

from __future__ import annotations

from governance.models.audit import AuditEntry
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
    "BulkDecision",
    "BulkStatus",
    "CandidateStatus",
    "CoreCandidate",
    "Correction",
    "EndUserGroupGrant",
    "EndUserUserGrant",
    "EntityCandidate",
    "EntityCandidateStatus",
    "Extraction",
    "KeyScope",
    "TeamGroupGrant",
    "TeamUserGrant",
    "TenantGroupGrant",
    "TenantPolicy",
    "TenantUserGrant",
    "ThreadGroupGrant",
    "ThreadUserGrant",
]
