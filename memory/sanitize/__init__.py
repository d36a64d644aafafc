"""Cleaning of remembered text: what could pass for an order, a role or a boundary loses its shape.

Runs on everything remembered or handed in before it is wrapped into a prompt. The stored original
stays; the names of what was neutralised are for the trace.
"""

from __future__ import annotations

from memory.sanitize.cleaning import MARK_EN, MARK_ZH, Sanitized, hits_in, sanitize
from memory.sanitize.joined import JoinedOrder, break_joined, joined_orders

__all__ = [
    "MARK_EN",
    "MARK_ZH",
    "JoinedOrder",
    "Sanitized",
    "break_joined",
    "hits_in",
    "joined_orders",
    "sanitize",
]
