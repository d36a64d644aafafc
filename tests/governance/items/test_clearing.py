"""What an item's key may be: read with its underscores, as words, and from every word on."""

from __future__ import annotations

import pytest

from governance.items.clearing import Words, clear
from governance.items.problems import BadKeyError, BlockedByRedLineError


def cleared(key: str) -> str:
    words = Words(key=key, title="Reading list", content="Two books a month")
    return clear(words=words, tier="observed", policy=None).tier


@pytest.mark.req("C01", "B14")
@pytest.mark.parametrize("key", ["i_have_hiv", "my_son_has_type_1_diabetes"])
def test_key_beyond_a_red_line_refused(key: str) -> None:
    with pytest.raises(BlockedByRedLineError):
        cleared(key)


@pytest.mark.req("C01", "B20")
def test_key_that_holds_a_secret_refused() -> None:
    token = "_".join(("gh" + "p", "16c7e42f292c6912e7710c838347ae178b4a"))
    for key in (token, f"sk_{token}", f"my_key_{token}"):
        with pytest.raises(BadKeyError):
            cleared(key)


@pytest.mark.req("C01")
@pytest.mark.parametrize("key", ["standard_japanese", "lesson_12", "weekly_report", "hiv_study"])
def test_plain_key_passes(key: str) -> None:
    assert cleared(key) == "observed"
