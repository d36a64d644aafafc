"""How answers are written: JSON in UTF-8."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rest_framework.renderers import BaseRenderer


class ApiJSONRenderer(BaseRenderer):
    """Writes plain data as JSON; what is no JSON is a fault of ours, never a `NaN`."""

    media_type = "application/json"
    format = "json"
    charset = None

    def render(
        self,
        data: Any,
        accepted_media_type: str | None = None,
        renderer_context: Mapping[str, Any] | None = None,
    ) -> bytes:
        """Return the bytes; nothing for an answer without content."""
        return b"" if data is None else to_json(data).encode()


def to_json(data: Any) -> str:
    """Return `data` as one line of JSON: line breaks inside texts are escaped.

    Raises:
        ValueError: It holds NaN or an infinity.
    """
    return json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
