"""Columns that several rooms share: states in words, ages, flags, kinds of what is personal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

from django.contrib import admin
from django.utils.timesince import timesince
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from governance.admin.text import EMPTY

STYLES: Final = "governance/decisions.css"


@admin.display(description=gettext_lazy("status"))
def _status(row: Any) -> str:
    """Return a row's state in the reader's language."""
    return _(row.get_status_display())


@admin.display(description=gettext_lazy("age"))
def _age(row: Any) -> str:
    """Return how long ago a row was made."""
    return timesince(row.created_at, depth=1)


@admin.display(description=gettext_lazy("flags"))
def _flags(row: Any) -> str:
    """Return what staff should look at, in words."""
    return ", ".join(_(flag.replace("_", " ")) for flag in row.flags) or EMPTY


@admin.display(description=gettext_lazy("personal data"))
def _pii(row: Any) -> str:
    """Return which kinds of personal data a text has, and how often; never where or what."""
    return kinds_of(row.pii) or EMPTY


@admin.display(description=gettext_lazy("team"))
def _team(row: Any) -> str:
    """Return the id of the team that shares a row."""
    return row.team_id or EMPTY


STATUS: Any = _status
AGE: Any = _age
FLAGS: Any = _flags
PII: Any = _pii
TEAM: Any = _team


def kinds_of(spans: Iterable[Mapping[str, Any]]) -> str:
    """Return kinds with their counts, such as "phone 2, email 1"."""
    counted = Counter(str(span.get("kind", "?")) for span in spans if isinstance(span, dict))
    return ", ".join(f"{kind} {count}" for kind, count in sorted(counted.items()))
