"""The scoped admin, and the rooms whose tables lie below threads; see `site` and `base`."""

from __future__ import annotations

from governance.admin import (
    audit_entries,
    bulk_decisions,
    core_candidates,
    core_facts,
    corrections,
    documents,
    entities,
    entity_candidates,
    erasures,
    items,
    jobs,
    keys,
    merges,
    persons,
    policies,
    samples,
    seals,
    tenants,
)
from governance.admin.site import site

__all__ = [
    "audit_entries",
    "bulk_decisions",
    "core_candidates",
    "core_facts",
    "corrections",
    "documents",
    "entities",
    "entity_candidates",
    "erasures",
    "items",
    "jobs",
    "keys",
    "merges",
    "persons",
    "policies",
    "samples",
    "seals",
    "site",
    "tenants",
]
