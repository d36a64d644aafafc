"""The two tenants and the stage of the API's tests."""

from __future__ import annotations

from tests.threads.api.conftest import _collected_statics, a, b, stage

__all__ = ["_collected_statics", "a", "b", "stage"]
