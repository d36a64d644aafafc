"""The OpenAPI document says of null what JSON Schema understands, so that it can be held to it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from drf_spectacular.generators import SchemaGenerator


def parts(value: Any) -> Iterator[dict[str, Any]]:
    """Every object of a document."""
    if isinstance(value, dict):
        yield value
        for inner in value.values():
            yield from parts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from parts(inner)


@pytest.mark.req("E03")
def test_null_is_a_type_and_matches_one_choice_only() -> None:
    """OpenAPI 3.1 has no `nullable`, and null is also of the schema that takes anything."""
    every = list(parts(SchemaGenerator().get_schema(request=None, public=True)))
    assert len(every) > 1000
    assert [part for part in every if isinstance(part.get("nullable"), bool)] == []
    assert [part for part in every if {} in part.get("oneOf", ())] == []
