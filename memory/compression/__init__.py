"""Making a long past short: what is kept of it in words, and how that is checked."""

from __future__ import annotations
