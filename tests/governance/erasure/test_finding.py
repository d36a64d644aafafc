"""Finding needles in values: what counts as found, and what only looks like it."""

from __future__ import annotations

import json

import pytest

from governance.erasure.finding import Finder, Value
from governance.erasure.needles import Needle, Needles
from governance.erasure.phrases import phrases_of


def kinds(needle: Needle, value: Value) -> set[str]:
    """Which kinds of the needle's erasure are found in a value."""
    hits, is_cut = Finder({"era_1": Needles(items=(needle,))}).hits(value)
    assert not is_cut
    return {hit.kind for hit in hits}


@pytest.mark.parametrize(
    "text", ["user-1", "the user-1.", '{"who": "user-1"}', "a/user-1/b", "是user-1的"]
)
def test_identifier_on_its_own_is_found(text: str) -> None:
    assert kinds(Needle(kind="identifier", text="user-1"), Value(text=text)) == {"identifier"}


@pytest.mark.parametrize("text", ["user-10", "superuser-1", "user-1a", "user_1"])
def test_identifier_inside_a_longer_one_is_not(text: str) -> None:
    assert kinds(Needle(kind="identifier", text="user-1"), Value(text=text)) == set()


SHORT = Needle(kind="identifier", text="7", is_whole=True)


@pytest.mark.parametrize(
    "value",
    [
        Value(text="7"),
        Value(text=json.dumps({"user_id": "7", "n": 1})),
        Value(text='{"end_user":"7"}', can_name=False),
    ],
)
def test_short_name_as_a_whole_is_found(value: Value) -> None:
    assert kinds(SHORT, value) == {"identifier"}


@pytest.mark.parametrize(
    "value",
    [
        Value(text="77"),
        Value(text="7", is_text=False),
        Value(text="7", can_name=False),
        Value(text='{"user_id": 7}'),
        Value(text='{"count": "7"}'),
        Value(text="the 7 dwarfs"),
    ],
)
def test_short_name_that_is_a_number_or_a_part_is_not(value: Value) -> None:
    assert kinds(SHORT, value) == set()


@pytest.mark.parametrize("text", ["5550101234", "+1 (555) 010-1234", "tel:555.010.1234"])
def test_digits_are_found_however_they_are_written(text: str) -> None:
    assert kinds(Needle(kind="digits", text="5550101234"), Value(text=text)) == {"digits"}


@pytest.mark.parametrize("text", ["0.5550101234999", "98765432155501012340", "555 0101 23"])
def test_digits_inside_another_number_are_not(text: str) -> None:
    assert kinds(Needle(kind="digits", text="5550101234"), Value(text=text)) == set()


def test_phrase_is_found_in_stems_of_a_tsvector_only_if_most_words_are() -> None:
    needle = Needle(kind="phrase", text="hidden emerald brooches under floorboards upstairs")
    near = "'brooch':3 'emerald':2 'floorboard':5 'hidden':1 'upstair':6"
    far = "'emerald':2 'green':1 'stone':3"
    assert kinds(needle, Value(text=near, is_tsvector=True)) == {"phrase"}
    assert kinds(needle, Value(text=far, is_tsvector=True)) == set()


def test_finder_keeps_erasures_apart_and_shares_needles() -> None:
    both = Needle(kind="phrase", text="the very same sentence of two persons")
    one = Needle(kind="phrase", text="a sentence of the first person alone")
    finder = Finder({"era_1": Needles(items=(both, one)), "era_2": Needles(items=(both,))})
    hits, _ = finder.hits(Value(text=f"{one.text} / {both.text}"))
    assert {hit.erasure_id for hit in hits} == {"era_1", "era_2"}
    hits, _ = finder.hits(Value(text=one.text))
    assert {hit.erasure_id for hit in hits} == {"era_1"}


def test_finder_without_needles_finds_nothing() -> None:
    finder = Finder({"era_1": Needles()})
    assert not finder.is_suspect("anything")
    assert finder.hits(Value(text="anything")) == (frozenset(), False)


def test_phrases_come_from_both_languages_of_a_text() -> None:
    text = (
        "We met at the harbour of Trondheim last week. 我们上周在特隆赫姆的港口见面然后一起吃了鱼。"
    )
    found = phrases_of(text)
    assert len(found) == 2
    assert found[0] in text.casefold()
    assert found[1] in text


def test_phrases_pass_over_our_own_ids_and_times() -> None:
    """They stay on record, in the audit log and as names of accounts, and tell of nobody."""
    assert phrases_of("run_01m8r0n7n1ep0vg74xspk9a7ge") == ()
    assert phrases_of("2026-12-01T05:17:50.123456+00:00") == ()
    said = "key_01m8r0n7n1ep0vg74xspk9a7ge said: blue tulips bloom on quiet Fridays"
    (phrase,) = phrases_of(said)
    assert "tulips bloom" in phrase
    assert "key_" not in phrase


@pytest.mark.parametrize(
    "text", ["", "ok", "Thanks a lot!", "aaaaaaaaaaaaaaaaaaaaaaaaaaaa", "1234567890" * 9, "好的"]
)
def test_phrases_of_a_text_that_says_nothing_are_none(text: str) -> None:
    assert phrases_of(text) == ()


def test_phrases_of_long_texts_are_from_their_middle() -> None:
    text = "x" * 50_000 + " the middle says something about Lofoten and cod " + "y" * 50_000
    assert any("lofoten" in phrase for phrase in phrases_of(text))
