"""The admin rooms of threads: providers, agents, conversations."""

from __future__ import annotations

from threads.admin import (
    agents,
    artifacts,
    contexts,
    dashboard,
    messages,
    providers,
    runs,
    threads,
)

__all__ = [
    "agents",
    "artifacts",
    "contexts",
    "dashboard",
    "messages",
    "providers",
    "runs",
    "threads",
]
