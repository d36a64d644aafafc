"""Tables of the kernel."""

from __future__ import annotations

from memory.models.base import TenantModel, Walls
from memory.models.job import Job, JobKind, JobStatus, Lane
from memory.models.op import MemoryOp
from memory.models.tenancy import EndUser, Team, TeamMember, Tenant, TenantStatus

__all__ = [
    "EndUser",
    "Job",
    "JobKind",
    "JobStatus",
    "Lane",
    "MemoryOp",
    "Team",
    "TeamMember",
    "Tenant",
    "TenantModel",
    "TenantStatus",
    "Walls",
]
