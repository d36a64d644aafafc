"""Stand-ins for outside services, which pass the same contract tests as the real thing."""

from __future__ import annotations
