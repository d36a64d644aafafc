"""Reading an export that came over HTTP."""

from __future__ import annotations

import hashlib
import json
from typing import Any


def lines_of(response: Any) -> list[dict[str, Any]]:
    """The lines of an export; its end must fit what came before."""
    assert response.status_code == 200, response.content
    assert response["Content-Type"] == "application/x-ndjson"
    raw = b"".join(response.streaming_content)
    assert len(raw) == int(response["Content-Length"])
    lines = raw.splitlines()
    last = json.loads(lines[-1])
    before = b"".join(line + b"\n" for line in lines[:-1])
    assert last["type"] == "end"
    assert last["sha256"] == hashlib.sha256(before).hexdigest()
    return [json.loads(line) for line in lines]
