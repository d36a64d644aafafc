"""JSON schemas of the OpenAPI document in words: types, flat lists of fields, examples."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

Schema = Mapping[str, Any]
_DEEPEST: Final = 4
# The generator lists the words of an enumeration in its description; the type says them already.
_LISTED_WORDS: Final = re.compile(r"\s*^\* `.*\Z", re.MULTILINE | re.DOTALL)
_FORMATS: Final = {
    "date-time": "time",
    "date": "day",
    "uri": "URL",
    "binary": "file",
    "decimal": "decimal number as text",
}
_PLAIN: Final = {
    "string": "text",
    "integer": "integer",
    "number": "number",
    "boolean": "true or false",
    "object": "object",
    "null": "null",
}
# What an example says where the schema says no more than "text".
_SPOKEN: Final = {
    "user_id": "cust-77",
    "input": "When does my router reboot?",
    "query": "Which firmware fixed the reboots?",
    "content": "Hold the button for ten seconds.",
    "title": "ARX6 manual",
    "fact": "Lives in Berlin",
    "term": "ARX6",
    "entity_type": "product",
    "model": "qwen3:8b",
    "base_url": "http://127.0.0.1:11434/v1",
    "reason": "case 4711",
    "output": "At 02:00.",
    "name": "support",
}
_PREFIXES: Final = {
    "agent_id": "ag",
    "provider_id": "prov",
    "thread_id": "th",
    "run_id": "run",
    "message_id": "msg",
    "target_id": "ent",
}


@dataclass(frozen=True, slots=True)
class Field:
    """One line of a table of fields; `name` is dotted, `[]` after a list."""

    name: str
    type: str
    is_needed: bool
    meaning: str


class Schemas:
    """The named schemas of one document."""

    def __init__(self, named: Mapping[str, Schema]) -> None:
        self._named = named

    def resolved(self, schema: Schema) -> dict[str, Any]:
        """The schema a reference or a single choice means, with what stands beside it."""
        beside = {name: value for name, value in schema.items() if name not in ("$ref", "allOf")}
        if "$ref" in schema:
            return {**self.resolved(self._named[schema["$ref"].rsplit("/", 1)[1]]), **beside}
        if len(schema.get("allOf", ())) == 1:
            return {**self.resolved(schema["allOf"][0]), **beside}
        return dict(schema)

    def said(self, schema: Schema) -> str:
        """The type in words, with its bounds: `text, 1 to 255 characters, or null`."""
        whole = self.resolved(schema)
        choices = whole.get("oneOf") or whole.get("anyOf")
        if choices:
            return _joined([self.said(choice) for choice in choices])
        kinds = whole.get("type", "object" if "properties" in whole else "any")
        kinds = list(kinds) if isinstance(kinds, list) else [kinds]
        if "enum" in whole:
            words = [f"`{value}`" for value in whole["enum"] if value is not None]
            return _joined([" · ".join(words), *(["null"] if "null" in kinds else [])])
        return _joined([self._one(kind, whole) for kind in kinds])

    def _one(self, kind: str, schema: Schema) -> str:
        if kind == "array":
            return f"list of {self.said(schema.get('items', {}))}"
        if kind == "string" and schema.get("format") in _FORMATS:
            return _FORMATS[schema["format"]]
        return _PLAIN.get(kind, "any JSON") + _bounds(kind, schema)

    def fields(self, schema: Schema, *, above: str = "", depth: int = 0) -> Iterator[Field]:
        """Every field of an object, those of objects in it after it, at most four deep."""
        whole = self._object(schema)
        needed = set(whole.get("required", ()))
        for name, part in whole.get("properties", {}).items():
            one = self.resolved(part)
            path = above + name
            meaning = _meaning(one)
            inner, mark = self._inner(one)
            yield Field(path, self.said(part), name in needed, "" if inner else meaning)
            if inner and depth < _DEEPEST:
                yield from self.fields(inner, above=path + mark, depth=depth + 1)

    def _object(self, schema: Schema) -> dict[str, Any]:
        whole = self.resolved(schema)
        choices = [self.resolved(one) for one in whole.get("oneOf", ()) or whole.get("anyOf", ())]
        return next((one for one in choices if "properties" in one), whole)

    def _inner(self, schema: Schema) -> tuple[Schema | None, str]:
        """The object in a field, if it has one with names of its own, and how it is reached."""
        if schema.get("type") == "array":
            items = self._object(schema.get("items", {}))
            return (items if items.get("properties") else None), "[]."
        whole = self._object(schema)
        return (whole if whole.get("properties") else None), "."

    def example(self, schema: Schema, *, name: str = "") -> Any:
        """A value that the schema allows, with the fields that are needed and no others.

        A body of which nothing is needed shows its first field, so that one sees what it takes.
        """
        whole = self._object(schema)
        if "example" in whole:
            return whole["example"]
        if "enum" in whole:
            return whole["enum"][0]
        kinds = whole.get("type", "object")
        kind = (
            next((one for one in kinds if one != "null"), "") if isinstance(kinds, list) else kinds
        )
        if kind == "object":
            return self._example_object(whole)
        if kind == "array":
            return [self.example(whole["items"], name=name.removesuffix("s"))]
        return _example_value(kind, whole, name)

    def _example_object(self, schema: Schema) -> dict[str, Any]:
        parts = schema.get("properties", {})
        names = [name for name in parts if name in schema.get("required", ())] or list(parts)[:1]
        return {name: self.example(parts[name], name=name) for name in names}


def _meaning(schema: Schema) -> str:
    words = _LISTED_WORDS.sub("", str(schema.get("description", "")))
    if words.startswith("Return "):  # the words of the code that makes the value
        words = words.removeprefix("Return ")
        words = words[:1].upper() + words[1:]
    return words


def _example_value(kind: str, schema: Schema, name: str) -> Any:
    if kind == "integer":
        return max(int(schema.get("minimum", 1)), 8192 if name == "context_window" else 1)
    if kind == "number":
        return schema.get("minimum", 0)
    if kind == "boolean":
        return True
    if schema.get("format") == "date-time":
        return "2026-12-01T09:00:00Z"
    return _SPOKEN.get(name) or (f"{_PREFIXES[name]}_…" if name in _PREFIXES else "…")


def _bounds(kind: str, schema: Schema) -> str:
    low, high, unit = (
        (schema.get("minLength"), schema.get("maxLength"), " characters")
        if kind == "string"
        else (schema.get("minimum"), schema.get("maximum"), "")
    )
    if kind not in ("string", "integer", "number") or high is None:
        return ""
    return f", {low:,} to {high:,}{unit}" if low is not None else f", at most {high:,}{unit}"


def _joined(words: list[str]) -> str:
    rest = [word for word in dict.fromkeys(words) if word and word != "null"]
    is_null = "null" in words
    return " or ".join(rest) + (", or " if rest and is_null else "") + ("null" if is_null else "")
