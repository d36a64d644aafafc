"""Arguments of a tool call: JSON text that a model wrote, checked strictly. Pure.

Nobody's identity is among the parameters; an argument that a tool does not have is refused, so that
a model that tries to name a person, tenant or role learns that it can not.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import re2

from threads.tools.records import ToolRefusedError
from threads.tools.specs import Parameter, Tool

_TIME_FORM: Final = "YYYY-MM-DD or YYYY-MM-DDTHH:MM:SSZ"
_TIME = re2.compile(
    r"^\d{4}-\d{2}-\d{2}(?P<clock>[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?(?:Z|[+-]\d{2}:\d{2})?)?$"
)
_WHOLE_NUMBER = re2.compile(r"^-?[0-9]{1,9}(?:\.0)?$")
_MOST_SHOWN: Final = 64
_LAST_MOMENT: Final = timedelta(days=1, microseconds=-1)


@dataclass(frozen=True, slots=True)
class Arguments:
    """Checked arguments, by name."""

    values: Mapping[str, str | int | datetime]

    def text(self, name: str) -> str:
        """Return a text argument, "" where it was not given."""
        value = self.values.get(name, "")
        return value if isinstance(value, str) else ""

    def count(self, name: str) -> int:
        """Return a number, or its default."""
        value = self.values.get(name, 0)
        return value if isinstance(value, int) else 0

    def time(self, name: str) -> datetime | None:
        """Return a time, if one was given."""
        value = self.values.get(name)
        return value if isinstance(value, datetime) else None


def read_arguments(*, tool: Tool, raw: str) -> Arguments:
    """Return the arguments of a call.

    Raises:
        ToolRefusedError: They are too long, no JSON object, unknown, missing, or do not fit.
    """
    given = _parsed(tool, raw)
    known = {parameter.name: parameter for parameter in tool.parameters}
    for name in given:
        if name not in known:
            takes = ", ".join(known)
            raise ToolRefusedError(f"Unknown argument {_shown(name)}; {tool.name} takes: {takes}.")
    values: dict[str, str | int | datetime] = {}
    for name, parameter in known.items():
        value = given.get(name)
        if value is not None:
            values[name] = _checked(parameter, value)
        elif parameter.is_required:
            raise ToolRefusedError(f"{tool.name} needs the argument {name}.")
        elif parameter.default is not None:
            values[name] = parameter.default
    return Arguments(values)


def _parsed(tool: Tool, raw: str) -> dict[str, Any]:
    if len(raw.encode("utf-8", "surrogatepass")) > tool.most_bytes:
        raise ToolRefusedError(f"The arguments are over {tool.most_bytes // 1024} KB.")
    if not raw.strip():
        return {}
    try:
        given = json.loads(raw, object_pairs_hook=_once, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise ToolRefusedError("The arguments are not valid JSON.") from error
    if not isinstance(given, dict):
        raise ToolRefusedError("The arguments are not a JSON object.")
    return given


def _once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Build an object; a name given twice would let two readers see two calls."""
    built = dict(pairs)
    if len(built) != len(pairs):
        raise ValueError
    return built


def _no_number(name: str) -> float:
    """Refuse NaN and the infinities, which JSON does not have."""
    raise ValueError(name)


def _checked(parameter: Parameter, value: object) -> str | int | datetime:
    if parameter.kind == "count":
        return _count(parameter, value)
    if not isinstance(value, str):
        raise ToolRefusedError(f"{parameter.name} must be a string.")
    text = mended(value)
    if parameter.kind == "text":
        return _text(parameter, text)
    return _time(parameter, text.strip())


def _text(parameter: Parameter, text: str) -> str:
    if parameter.least and not text.strip():
        raise ToolRefusedError(f"{parameter.name} is empty.")
    if len(text) > parameter.most:
        raise ToolRefusedError(f"{parameter.name} is over {parameter.most:,} characters.")
    return text


def _count(parameter: Parameter, value: object) -> int:
    number = _whole(value)
    if number is None:
        raise ToolRefusedError(f"{parameter.name} must be a whole number.")
    if not parameter.least <= number <= parameter.most:
        bounds = f"{parameter.least} to {parameter.most:,}"
        raise ToolRefusedError(f"{parameter.name} must be {bounds}.")
    return number


def _whole(value: object) -> int | None:
    """Return a number also from "5" and 5.0, which models write; None for anything less clear."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return int(value) if value.is_integer() else None
    if isinstance(value, str) and _WHOLE_NUMBER.match(value.strip()):
        return int(value.strip().removesuffix(".0"))
    return None


def _time(parameter: Parameter, text: str) -> datetime:
    """Return the moment in UTC; a date alone begins or, as an end, includes its day."""
    match = _TIME.match(text)
    try:
        at = datetime.fromisoformat(text if match else "")
        if match and match["clock"] is None and parameter.kind == "end":
            at += _LAST_MOMENT
        return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise ToolRefusedError(f"{parameter.name} must have the form {_TIME_FORM}.") from error


def mended(text: str) -> str:
    """Return text that PostgreSQL and UTF-8 can hold: NUL and lone surrogates become U+FFFD."""
    text = text.replace("\0", "\ufffd")
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _shown(name: str) -> str:
    return f'"{mended(name)[:_MOST_SHOWN]}"'
