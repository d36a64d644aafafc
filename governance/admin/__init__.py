"""The scoped admin, and the rooms whose tables lie below threads; see `site` and `base`."""

from __future__ import annotations

from governance.admin import audit_entries, documents, jobs, keys, tenants
from governance.admin.site import site

__all__ = ["audit_entries", "documents", "jobs", "keys", "site", "tenants"]
