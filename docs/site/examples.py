"""Bodies and queries for the reference's curl lines, where the schema alone makes no good example."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

BODIES: Final[Mapping[str, Any]] = {
    "change_policy": {"recall_top_k": 5},
    "create_agent": {
        "name": "support",
        "provider_id": "prov_…",
        "model": "qwen3:8b",
        "context_window": 32768,
    },
    "create_key": {"name": "web shop", "scopes": ["run", "read"]},
    "create_provider": {
        "name": "ollama",
        "kind": "openai_compatible",
        "base_url": "http://127.0.0.1:11434/v1",
        "locality": "local",
    },
    "create_team": {"name": "front desk", "members": ["cust-77"]},
    "propose_behaviour_sample": {
        "kind": "rule",
        "content": "Name the firmware version in every answer.",
    },
    "submit_document": {
        "title": "ARX6 manual",
        "kind": "manual",
        "media_type": "text/markdown",
        "content": "# Lights\n\nAmber means that firmware is being written.",
    },
    "update_agent": {"policy": {"recall_top_k": 5}},
}
QUERIES: Final[Mapping[str, str]] = {
    "delete_memory": "user_id=$PERSON",
    "erase_user": "mode=all&dry_run=true",
    "list_memories": "user_id=$PERSON",
    "read_memory": "user_id=$PERSON",
    "read_memory_history": "user_id=$PERSON",
    "read_usage": "group_by=kind",
}
