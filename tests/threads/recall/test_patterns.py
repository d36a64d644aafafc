"""Patterns: * is a wildcard, all else is literal, case is folded."""

from __future__ import annotations

import pytest
from django.db.models.functions import Length

from memory.rls import scoped_transaction
from tests.factories import scope_of
from tests.threads.tools.rooms import Room, make_room
from threads.models import Message
from threads.recall.patterns import BadPatternError, content_like, like_pattern


@pytest.fixture
def room(db: None) -> Room:
    return make_room()


def having(room: Room, query: str) -> list[str]:
    scope = scope_of(room.tenant, room.person)
    with scoped_transaction(scope):
        rows = Message.objects.in_scope(scope).filter(content_like(query))
        return list(rows.order_by(Length("content"), "id").values_list("content", flat=True))


def test_case_119_signs_of_like_are_literal(room: Room) -> None:
    for text in ("a%b", "axb", "a_b", "a\\b", "AXXB"):
        room.say(text)
    assert having(room, "a%b") == ["a%b"]
    assert having(room, "a_b") == ["a_b"]
    assert having(room, "a\\b") == ["a\\b"]
    assert having(room, "a*b") == ["a%b", "axb", "a_b", "a\\b", "AXXB"]
    assert having(room, "x*B") == ["axb", "AXXB"]


@pytest.mark.parametrize("query", ["straße", "STRASSE", "Strasse", "STRAẞE", "str*sse"])
def test_street_is_found_however_it_is_spelt(room: Room, query: str) -> None:
    for text in ("Hauptstraße 1", "HAUPTSTRASSE 22", "Gasse"):
        room.say(text)
    assert having(room, query) == ["Hauptstraße 1", "HAUPTSTRASSE 22"]


@pytest.mark.parametrize("query", ["*", "**  *", "a" + "*b" * 9])
def test_pattern_of_nothing_or_too_many_wildcards_is_refused(query: str) -> None:
    with pytest.raises(BadPatternError):
        like_pattern(query)
