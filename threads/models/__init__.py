"""Tables of threads, runs and what they are served with."""

from __future__ import annotations

from threads.models.agent import Agent, Language, ThreadStrategy
from threads.models.artifact import Artifact
from threads.models.context_trace import ContextTrace
from threads.models.day_figures import DayFigures
from threads.models.idempotency import IdempotencyRecord
from threads.models.kept_usage import KeptUsage
from threads.models.message import Message, MessageRole
from threads.models.provider import Locality, Provider, ProviderKind
from threads.models.run import FINAL, Run, RunOrigin, RunStatus, RunTrace
from threads.models.summary_node import SummaryNode
from threads.models.thread import Thread, ThreadStatus, ThreadSummary
from threads.models.token_fit import TokenFit

__all__ = [
    "FINAL",
    "Agent",
    "Artifact",
    "ContextTrace",
    "DayFigures",
    "IdempotencyRecord",
    "KeptUsage",
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
    "SummaryNode",
    "Thread",
    "ThreadStatus",
    "ThreadStrategy",
    "ThreadSummary",
    "TokenFit",
]
