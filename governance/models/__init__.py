"""Tables of governance."""

from __future__ import annotations

from governance.models.audit import AuditEntry
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
    "EndUserGroupGrant",
    "EndUserUserGrant",
    "KeyScope",
    "TeamGroupGrant",
    "TeamUserGrant",
    "TenantGroupGrant",
    "TenantPolicy",
    "TenantUserGrant",
    "ThreadGroupGrant",
    "ThreadUserGrant",
]
