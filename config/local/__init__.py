"""What `make run` and the tests need on one machine: an embedded PostgreSQL and its roles."""

from __future__ import annotations
