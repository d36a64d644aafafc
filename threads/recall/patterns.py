"""Texts that contain a text: a query in which * is a wildcard, all else is literal, case is folded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from django.contrib.postgres.fields import ArrayField
from django.db.models import BooleanField, F, Func, TextField, Value
from django.db.models.expressions import Combinable
from django.db.models.functions import Replace

from memory.errors import InvalidInputError

MOST_WILDCARDS: Final = 8


class BadPatternError(InvalidInputError):
    """A pattern has at most 8 wildcards, and something else beside them."""


def like_pattern(query: str) -> str:
    """Return the LIKE pattern of a query in which only * is special.

    Raises:
        BadPatternError: It has too many wildcards, or nothing but wildcards.
    """
    if query.count("*") > MOST_WILDCARDS:
        raise BadPatternError(f"query has more than {MOST_WILDCARDS} wildcards.", field="query")
    if not query.replace("*", "").strip():
        raise BadPatternError("query has nothing but wildcards.", field="query")
    return "%" + "%".join(like_escaped(part) for part in query.split("*")) + "%"


def like_escaped(text: str) -> str:
    """Return `text` as a LIKE pattern that matches only itself."""
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


def content_like(query: str) -> Func:
    """Return the condition that a row's content has the query; Straße and STRASSE alike.

    Raises:
        BadPatternError: As like_pattern.
    """
    return column_like("content", query)


def column_like(name: str, query: str) -> Func:
    """Return the condition that a row has the query in this column; Straße and STRASSE alike.

    Raises:
        BadPatternError: As like_pattern.
    """
    like_pattern(query)
    content: Combinable = F(name)
    if "ss" in query.casefold():  # folding that changes a text's length, which ILIKE does not do
        query = query.replace("ß", "ss").replace("ẞ", "ss")
        content = Replace(Replace(name, Value("ß"), Value("ss")), Value("ẞ"), Value("ss"))
    return _ilike(content, Value(like_pattern(query)), joiner=" ILIKE ", end="")


def content_like_any(patterns: Sequence[str]) -> Func:
    """Return the condition that a row's content has one of some LIKE patterns."""
    wanted = Value(list(patterns), output_field=ArrayField(TextField()))
    return _ilike(F("content"), wanted, joiner=" ILIKE ANY (", end=")")


def _ilike(content: Combinable, wanted: Value, *, joiner: str, end: str) -> Func:
    return Func(
        content,
        wanted,
        template=f"(%(expressions)s){end}",
        arg_joiner=joiner,
        output_field=BooleanField(),
    )
