"""The front page of the admin: what a tenant's days came to, what waits, and whether all works."""

from __future__ import annotations

from threads.admin.dashboard import page

__all__ = ["page"]
