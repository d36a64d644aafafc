"""Pages of a list: keyset cursors, signed and bound to who asked for what.

A cursor names the last row seen by its sort values, so rows inserted meanwhile shift nothing, and
every order ends in a unique column, so equal timestamps neither repeat nor skip a row.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.core import signing
from django.db.models import Q
from django.http import QueryDict

from memory.errors import InvalidInputError
from memory.querysets import ScopedQuerySet

DEFAULT_LIMIT: Final = 50
MAX_LIMIT: Final = 200
_SALT: Final = "credence.cursor"


class InvalidParameterError(InvalidInputError):
    """A query parameter has a value that does not fit."""

    code = "invalid_parameter"


class InvalidCursorError(InvalidInputError):
    """The cursor is not one that this key got for this very list."""

    code = "invalid_cursor"


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page of rows, and the cursors that lead on and back."""

    rows: list[Any]
    next: str | None
    previous: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRequest:
    """Which page of which list is wanted.

    Attributes:
        binding: Hash of principal, path and filters; a cursor of another one is refused.
        limit: Rows a page.
        values: Sort values of the row to go on from; None for the first page.
        is_backward: Whether the rows before it are wanted.
    """

    binding: str
    limit: int
    values: tuple[Any, ...] | None = None
    is_backward: bool = False


def page_request(*, principal_id: str, path: str, query: QueryDict) -> PageRequest:
    """Read `limit` and `cursor`.

    Raises:
        InvalidParameterError: The limit is not a whole number from 1 to 200.
        InvalidCursorError: The cursor was altered, or belongs to another principal or list.
    """
    filters = sorted((name, query[name]) for name in query if name not in ("limit", "cursor"))
    raw = json.dumps([principal_id, path, filters])
    binding = hashlib.sha256(raw.encode()).hexdigest()[:32]
    limit = _limit(query.get("limit", str(DEFAULT_LIMIT)))
    if "cursor" not in query:
        return PageRequest(binding=binding, limit=limit)
    try:
        bound_to, is_backward, values = signing.loads(str(query["cursor"]), salt=_SALT)
    except (signing.BadSignature, ValueError) as error:
        raise InvalidCursorError(field="cursor") from error
    if bound_to != binding:
        raise InvalidCursorError(field="cursor")
    return PageRequest(
        binding=binding,
        limit=limit,
        values=tuple(_read(value) for value in values),
        is_backward=bool(is_backward),
    )


def _limit(text: str) -> int:
    is_number = text.isascii() and text.isdigit() and len(text) <= 3
    if not is_number or not 1 <= int(text) <= MAX_LIMIT:
        raise InvalidParameterError(f"limit is 1 to {MAX_LIMIT}.", field="limit")
    return int(text)


def fetch(
    *, sources: Sequence[ScopedQuerySet[Any]], order: Sequence[str], wanted: PageRequest
) -> Page:
    """Run the queries for one page. Cost: one statement each; needs the scope's transaction.

    Args:
        sources: The decided queries; the rows of several stand in one order.
        order: Columns that each of them has, all ascending or all with `-`; the last is unique.
        wanted: Which page.
    """
    columns = [name.removeprefix("-") for name in order]
    is_descending = order[0].startswith("-")
    goes_down = is_descending != wanted.is_backward
    ordered = [f"-{name}" if goes_down else name for name in columns]
    found: list[Any] = []
    beyond = _beyond(columns, wanted.values, goes_down=goes_down) if wanted.values else Q()
    for rows in sources:
        found += rows.filter(beyond).order_by(*ordered)[: wanted.limit + 1]
    if len(sources) > 1:
        found.sort(key=lambda row: [_value(row, name) for name in columns], reverse=goes_down)
    has_more = len(found) > wanted.limit
    found = found[: wanted.limit]
    if wanted.is_backward:
        found.reverse()
    cursor = _cursor_maker(columns, wanted.binding)
    has_next = has_more if not wanted.is_backward else True
    has_previous = has_more if wanted.is_backward else wanted.values is not None
    return Page(
        rows=found,
        next=cursor(found[-1], False) if found and has_next else None,  # noqa: FBT003
        previous=cursor(found[0], True) if found and has_previous else None,  # noqa: FBT003
    )


def _beyond(columns: Sequence[str], values: Sequence[Any], *, goes_down: bool) -> Q:
    """Return "after these values in this order", with the first column bounded for its index."""
    compare = "lt" if goes_down else "gt"
    beyond = Q(**{f"{columns[-1]}__{compare}": values[-1]})
    for column, value in reversed(list(zip(columns[:-1], values[:-1], strict=True))):
        beyond = Q(**{f"{column}__{compare}": value}) | (Q(**{column: value}) & beyond)
    return Q(**{f"{columns[0]}__{compare}e": values[0]}) & beyond


def _cursor_maker(columns: Sequence[str], binding: str) -> Callable[[Any, bool], str]:
    def make(row: Any, is_backward: bool) -> str:  # noqa: FBT001
        values = [_write(_value(row, column)) for column in columns]
        return signing.dumps([binding, is_backward, values], salt=_SALT, compress=True)

    return make


def _value(row: Any, column: str) -> Any:
    for part in column.split("__"):
        row = getattr(row, part)
    return row


def _write(value: Any) -> Any:
    return {"t": value.isoformat()} if isinstance(value, datetime) else value


def _read(value: Any) -> Any:
    return datetime.fromisoformat(value["t"]) if isinstance(value, dict) else value
