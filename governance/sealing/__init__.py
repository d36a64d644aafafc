"""The chain that seals the audit log and disclosures: leaves, links, heads, and checking them."""

from __future__ import annotations

from governance.sealing.heads import Head, export_heads, heads_of, read_heads
from governance.sealing.sealing import seal_pending
from governance.sealing.verifying import ChainProblem, ChainReport, verify

__all__ = [
    "ChainProblem",
    "ChainReport",
    "Head",
    "export_heads",
    "heads_of",
    "read_heads",
    "seal_pending",
    "verify",
]
