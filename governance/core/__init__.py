"""Core memory: what was learned about a person waits here until somebody confirms it."""

from __future__ import annotations
