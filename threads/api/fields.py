"""Serializer fields that take exactly what they say: no "12" for 12, no 1 for true, no local times."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

import re2
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from governance.tenants import check_user_id
from memory.errors import InvalidInputError
from memory.ledger import in_order
from threads.api.renderers import to_json

_TIME = re2.compile(
    r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?(Z|[+-][0-9]{2}:[0-9]{2})$"
)
_LEAST_DECIMALS: Final = Decimal("0.000001")
MOST_JSON_CHARS: Final = 16_000


class BadTimeError(InvalidInputError):
    """A time is ISO 8601 with a zone, such as 2026-06-12T08:00:00Z."""


def read_time(text: str) -> datetime:
    """Return the time that `text` spells, in UTC.

    Raises:
        BadTimeError: It has no zone, is no date of the calendar, or lies outside years 1 to 9999.
    """
    if not _TIME.match(text):
        raise BadTimeError
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise BadTimeError from error


def write_time(value: datetime) -> str:
    """Return a time as the API writes it: UTC, microseconds, `Z`."""
    return value.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def write_money(value: Decimal) -> str:
    """Return an amount in USD with at least six decimals, and no exponent."""
    plain = value.normalize()
    exponent = plain.as_tuple().exponent
    is_fine = isinstance(exponent, int) and exponent < -6
    return f"{plain if is_fine else value.quantize(_LEAST_DECIMALS):f}"


class StrictText(serializers.CharField):
    """A text, kept as it was sent; numbers are no texts."""

    def __init__(self, **options: Any) -> None:
        """As CharField, without trimming."""
        options.setdefault("trim_whitespace", False)
        super().__init__(**options)

    def to_internal_value(self, data: Any) -> str:
        """Return the text."""
        if not isinstance(data, str):
            self.fail("invalid")
        return str(super().to_internal_value(data))


class WholeNumber(serializers.IntegerField):
    """A whole number; neither a text, nor a truth value, nor 1.0."""

    def to_internal_value(self, data: Any) -> int:
        """Return the number."""
        if isinstance(data, bool) or not isinstance(data, int):
            self.fail("invalid")
        return int(super().to_internal_value(data))


class Number(serializers.FloatField):
    """A number; neither a text nor a truth value."""

    def to_internal_value(self, data: Any) -> float:
        """Return the number."""
        if isinstance(data, bool) or not isinstance(data, int | float):
            self.fail("invalid")
        return float(super().to_internal_value(data))


class Flag(serializers.BooleanField):
    """True or false, and no other word for it."""

    def to_internal_value(self, data: Any) -> bool:
        """Return the truth value."""
        if not isinstance(data, bool):
            self.fail("invalid", input=str(type(data).__name__))
        return data


class UtcTime(serializers.DateTimeField):
    """A time with a zone; written in UTC with microseconds and `Z`."""

    def to_internal_value(self, value: Any) -> datetime:
        """Return the time in UTC."""
        if not isinstance(value, str):
            self.fail("invalid", format="2026-06-12T08:00:00Z")
        try:
            return read_time(value)
        except BadTimeError as error:
            raise serializers.ValidationError(error.detail, code="invalid") from error

    def to_representation(self, value: datetime) -> str:
        """Return the text."""
        return write_time(value)


@extend_schema_field({"type": "string", "format": "date-time"})
class StoredTime(serializers.Field[Any, Any, Any, Any]):
    """A time that is kept as text inside a trace; written as every other time, only ever written."""

    def to_representation(self, value: Any) -> Any:
        """Return the text in UTC with microseconds and `Z`; what is no time stays as it is."""
        try:
            at = datetime.fromisoformat(value)
        except (TypeError, ValueError):
            return value
        return write_time(at if at.tzinfo else at.replace(tzinfo=UTC))


class UserId(StrictText):
    """A person's id as the tenant knows it."""

    def __init__(self, **options: Any) -> None:
        """As StrictText, 1 to 255 characters."""
        options.setdefault("max_length", 255)
        super().__init__(**options)

    def to_internal_value(self, data: Any) -> str:
        """Return the id."""
        text = super().to_internal_value(data)
        try:
            check_user_id(text)
        except InvalidInputError as error:
            raise serializers.ValidationError(error.detail, code=error.code) from error
        return text


@extend_schema_field({"type": "string", "format": "decimal", "example": "0.000410"})
class Money(serializers.Field[Decimal, Any, str, Any]):
    """An amount in USD, as a decimal string; only ever written."""

    def to_representation(self, value: Decimal) -> str:
        """Return the text."""
        return write_money(value)


@extend_schema_field({"type": "object", "additionalProperties": True})
class JsonObject(serializers.Field[Any, Any, Any, Any]):
    """A JSON object of the caller's own, kept as it is."""

    default_error_messages = {
        "invalid": "This must be an object.",
        "too_long": f"This is at most {MOST_JSON_CHARS:,} characters of JSON.",
    }

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        """Return the object."""
        if not isinstance(data, dict):
            self.fail("invalid")
        if len(to_json(data)) > MOST_JSON_CHARS:
            self.fail("too_long")
        return data

    def to_representation(self, value: Any) -> Any:
        """Return it as it is."""
        return value


class PromptItem(JsonObject):
    """The account of one item of a prompt."""

    def to_representation(self, value: Any) -> Any:
        """Return it with its times written as every other time."""
        time = StoredTime()
        names = ("created_at", "as_of", "approved_at")
        times = {name: time.to_representation(value[name]) for name in names if name in value}
        return {**value, **times}


@extend_schema_field(
    {
        "type": "object",
        "properties": {
            "role": {"type": "string"},
            "content": {"type": "string"},
            "tool_calls": {"type": "array", "items": {"type": "object"}},
            "tool_call_id": {"type": "string"},
        },
        "required": ["role", "content"],
    }
)
class SentMessage(serializers.Field[Any, Any, Any, Any]):
    """A message as it was sent; with its tool calls, or the call it answers, where it has them."""

    def to_representation(self, value: Any) -> Any:
        """Return it with its names in their order, which jsonb forgets."""
        names = ("role", "content", "tool_calls", "tool_call_id")
        return {name: value[name] for name in names if name in value}


class Account(JsonObject):
    """A run's ledger; the same bytes whether it was just made or read back."""

    def to_representation(self, value: Any) -> Any:
        """Return it with its names in their order."""
        return in_order(value)
