"""The two tenants of the API's tests."""

from __future__ import annotations

from tests.threads.api.conftest import _collected_statics, a, b

__all__ = ["_collected_statics", "a", "b"]
