"""Finding what is personal: kinds, groups, places on the original text, linear time."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from governance.pii import find_pii, pii_tags
from memory.sanitize.decoding import decoded

MOBILE = "138" + "0013" + "8000"


def kinds(text: str) -> list[tuple[str, str]]:
    """Return the kinds found, each with its characters."""
    return [(one.kind, text[one.start : one.end]) for one in find_pii(text)]


@pytest.mark.req("B19")
@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("邮箱name@example.com。", "email", "name@example.com"),
        (f"手机{MOBILE}", "phone", MOBILE),
        ("打+86 138-0013-8000找我", "phone", "+86 138-0013-8000"),
        ("電話１３８－００１３－８０００", "phone", "１３８－００１３－８０００"),
        ("座机010-62345678", "phone", "010-62345678"),
        ("香港 +852 9123 4567", "phone", "+852 9123 4567"),
        ("call (212) 555-0123 now", "phone", "(212) 555-0123"),
        ("Phone:\n555 0123", "phone", "555 0123"),
    ],
)
def test_ways_to_reach_someone_are_found_where_they_stand(text: str, kind: str, value: str) -> None:
    """Case 95."""
    assert kinds(text) == [(kind, value)]


@pytest.mark.req("B19")
@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("6222 0263 6936 2924 550", "bank_card"),
        ("4111 1111 1111 1111", "bank_card"),
        ("GB82 WEST 1234 5698 7654 32", "iban"),
    ],
)
def test_number_with_a_checksum_is_found_and_with_a_bad_one_left(text: str, kind: str) -> None:
    """Case 97."""
    assert [one for one, _ in kinds(text)] == [kind]
    bad = text[:-1] + str((int(text[-1]) + 1) % 10)
    assert kinds(bad) == []


@pytest.mark.req("B19")
@pytest.mark.parametrize(
    "text",
    ["银行卡号 6222 0000 0000 0000", "my card is 4111111111111112", "税号91110105MA0000001X"],
)
def test_number_that_fails_its_checksum_but_is_called_one_is_uncertain(text: str) -> None:
    assert [one.group for one in find_pii(text)] == ["pii_uncertain"]


@pytest.mark.req("B19")
@pytest.mark.parametrize(
    "before", ["😀", "👨‍👩‍👧‍👦 家", "𠮷野家 ", "e\u0301\u0301", "\u200b\u200b"]
)
def test_places_are_right_behind_characters_of_any_width(before: str) -> None:
    """Case 104."""
    text = f"{before}打{MOBILE}找我😀"
    assert kinds(text) == [("phone", MOBILE)]


@pytest.mark.req("B19")
@pytest.mark.parametrize(
    "hidden",
    ["name%40example.com", "name&#64;example.com", "name\\u0040example.com"],
)
def test_what_an_encoding_hides_is_found_as_it_stands(hidden: str) -> None:
    assert kinds(f"write to {hidden} now") == [("email", hidden)]


def test_what_is_encoded_twice_stays_hidden() -> None:
    assert find_pii("name%2540example.com") == ()


@pytest.mark.parametrize("text", ["", "plain", "三个苹果", "100% sure", "a &amp b", "\\ud800 %ff"])
def test_text_without_encodings_has_no_decoded_copy(text: str) -> None:
    assert decoded(text) is None


def test_tags_are_what_the_columns_keep() -> None:
    assert pii_tags(f"😀 {MOBILE}") == [{"kind": "phone", "start": 2, "end": 13}]


_PIECES = st.sampled_from(
    [
        MOBILE,
        "1",
        "-",
        " ",
        "\n",
        "@",
        "a.cn",
        "%31",
        "&#49;",
        "\\u0031",
        "一三八",
        "微信",
        "QQ",
        "😀",
    ]
)


@given(text=st.lists(_PIECES | st.text(max_size=3), max_size=40).map("".join))
def test_findings_of_anything_are_in_order_apart_and_inside(text: str) -> None:
    position = 0
    for one in find_pii(text):
        assert position <= one.start < one.end <= len(text)
        position = one.end


@pytest.mark.slow
@pytest.mark.parametrize(
    "piece",
    [
        "1 ",
        "1\n",
        f"{MOBILE} ",
        "a@b.cc ",
        "%31",
        "&#49;",
        "一三八",
        "one two ",
        "12-",
        "QUJD",
        "+1 ",
    ],
)
def test_time_grows_with_the_length_alone(piece: str) -> None:
    def seconds(characters: int) -> float:
        text = piece * (characters // len(piece))
        begun = time.perf_counter()
        find_pii(text)
        return time.perf_counter() - begun

    seconds(10_000)
    short = min(seconds(20_000) for _ in range(3))
    # Eight times the text: far from the 64 times that a square would take.
    assert seconds(160_000) < 24 * short + 0.05
