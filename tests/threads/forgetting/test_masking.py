"""Masks: tags, today's rules, and every further occurrence of a value."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from governance.pii import pii_tags
from threads.forgetting.masking import Mask, fitted

PHONE = "13812345678"


def mask_of(*texts: str, kinds: frozenset[str] = frozenset()) -> Mask:
    mask = Mask(kinds=kinds)
    for text in texts:
        mask.learn(text)
    return mask


@pytest.mark.parametrize(
    "text",
    [
        "my phone is 13812345678, call me",
        "我的手机号是13812345678，打给我",
        "😀𝒳👨‍👩‍👧 电话 13812345678 😀",
        "Tel: 138-1234-5678",
        "手机：１３８１２３４５６７８",
    ],
)
def test_masked_text_with_a_phone_keeps_all_else(text: str) -> None:
    """Case 104: offsets stay right beside emoji and characters outside the BMP."""
    masked = mask_of(text).masked(text)
    assert "[pii:phone]" in masked
    assert not any(one in masked for one in ("1381234", "5678", "５６７８"))
    assert masked.startswith(text[:2])
    before, after = masked.split("[pii:phone]")
    assert text.startswith(before)
    assert text.endswith(after)


@pytest.mark.parametrize(
    "repeat",
    [
        "13812345678",
        "138 1234 5678",
        "number=138-1234-5678;",
        "１３８１２３４５６７８",
        base64.b64encode(b"call 13812345678 please now").decode(),
    ],
)
def test_masked_text_with_a_value_known_from_elsewhere_loses_it(repeat: str) -> None:
    """Case 103: a value found once goes wherever it stands."""
    mask = mask_of("my phone is 13812345678")
    masked = mask.masked(f"seen {repeat} there")
    assert "[pii:" in masked
    assert repeat not in masked
    assert masked.startswith("seen ")
    assert masked.endswith(" there")


def test_masked_text_with_an_old_tag_loses_what_rules_do_not_know() -> None:
    mask = Mask()
    tags = [{"kind": "im_handle", "start": 4, "end": 12}]
    mask.learn("wx: zhang_qq hello", tags)
    assert mask.masked("wx: zhang_qq hello", tags) == "wx: [pii:im_handle] hello"
    assert mask.masked("ask ZHANG_QQ or zhang_qqq") == "ask [pii:im_handle] or zhang_qqq"


def test_kinds_narrow_what_goes() -> None:
    text = "mail ann@example.com or phone 13812345678"
    mask = mask_of(text, kinds=frozenset({"email"}))
    assert mask.masked(text) == "mail [pii:email] or phone 13812345678"


def test_masked_json_loses_names_values_and_numbers() -> None:
    mask = mask_of("my phone is 13812345678")
    value = {"13812345678": ["call 13812345678", 13812345678, 7, True, None]}
    assert mask.masked_json(value) == {
        "[pii:phone]": ["call [pii:phone]", "[pii:phone]", 7, True, None]
    }


def test_fitted_text_has_no_half_placeholder() -> None:
    assert fitted("abc [pii:phone] def", 8) == "abc "
    assert fitted("abc [pii:phone] def", 15) == "abc [pii:phone]"
    assert fitted("abc", 8) == "abc"


@given(st.text(max_size=60), st.text(max_size=60))
def test_masked_text_masked_again_is_the_same(before: str, after: str) -> None:
    text = f"{before} my phone is 13812345678 {after}"
    mask = mask_of(text, before, after)
    masked = mask.masked(text, pii_tags(text))
    assert PHONE not in masked
    assert mask.masked(masked) == masked
