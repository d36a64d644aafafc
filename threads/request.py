"""What a client asks of an agent, with what he hands in. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class HandedFact:
    """A fact handed in: a value from a database step, with the time it was true."""

    label: str
    value: str
    as_of: datetime | None = None
    source: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HandedMaterial:
    """Material handed in: something to read, not something that is so."""

    title: str
    content: str
    source: str | None = None
    as_of: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """What a client asks; `continues_run_id` names the run whose artefacts it goes on with."""

    input: str
    user_id: str
    thread_id: str | None = None
    facts: tuple[HandedFact, ...] = ()
    materials: tuple[HandedMaterial, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    continues_run_id: str | None = None
