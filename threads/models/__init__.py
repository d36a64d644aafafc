"""Tables of threads, runs and what they are served with."""

from __future__ import annotations

from threads.models.agent import Agent, Language, ThreadStrategy
from threads.models.idempotency import IdempotencyRecord
from threads.models.message import Message, MessageRole
from threads.models.provider import Locality, Provider, ProviderKind
from threads.models.run import FINAL, Run, RunOrigin, RunStatus, RunTrace
from threads.models.thread import Thread, ThreadStatus, ThreadSummary

__all__ = [
    "FINAL",
    "Agent",
    "IdempotencyRecord",
    "Language",
    "Locality",
    "Message",
    "MessageRole",
    "Provider",
    "ProviderKind",
    "Run",
    "RunOrigin",
    "RunStatus",
    "RunTrace",
    "Thread",
    "ThreadStatus",
    "ThreadStrategy",
    "ThreadSummary",
]
