"""Which secrets are refused, and that each refusal says what to do and never what was given."""

from __future__ import annotations

from typing import Final

import pytest
from django.core.exceptions import ImproperlyConfigured

from config.settings.strength import (  # noqa: TID251 - what settings are made with is tested
    require_strong,
    strong_keys,
    strong_peppers,
)

STRONG: Final = "fC1x-9uQ2vZk_7LmB4tRs8YwE0aHjN6dPgXo3iTqKc5VnMzU+lebaW1"
NAMES: Final = {
    "DJANGO_SECRET_KEY": 50,
    "CREDENCE_KEY_PEPPERS": 32,
    "CREDENCE_ENCRYPTION_KEYS": 32,
}
HOW: Final = "secrets.token_urlsafe(48)"


@pytest.mark.parametrize(("name", "least"), NAMES.items())
def test_secret_of_the_least_length_is_taken_and_one_character_less_is_not(
    name: str, least: int
) -> None:
    assert require_strong(name, STRONG[:least]) == STRONG[:least]
    with pytest.raises(ImproperlyConfigured, match=f"{name} is too weak: it needs {least}"):
        require_strong(name, STRONG[: least - 1])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "weak",
    ["", "x" * 64, "change-me" * 8, "abcdefghi" * 8, "django-insecure-" + STRONG, "密码" * 40],
)
def test_word_repeated_or_made_for_development_is_refused_with_the_way_to_a_good_one(
    name: str, weak: str
) -> None:
    with pytest.raises(ImproperlyConfigured) as caught:
        require_strong(name, weak)
    said = str(caught.value)
    assert said.startswith(f"{name} is too weak")
    assert HOW in said
    assert not weak or weak not in said


def test_ten_different_characters_are_enough() -> None:
    assert require_strong("CREDENCE_KEY_PEPPERS", "abcdefghij" * 4) == "abcdefghij" * 4


def test_peppers_come_by_number_of_version() -> None:
    assert strong_peppers({"1": STRONG, "12": STRONG[::-1]}) == {1: STRONG, 12: STRONG[::-1]}


@pytest.mark.parametrize("peppers", [{}, {"one": STRONG}, {"": STRONG}, {"-1": STRONG}])
def test_peppers_without_a_version_are_refused(peppers: dict[str, str]) -> None:
    with pytest.raises(ImproperlyConfigured, match="JSON object of version to pepper"):
        strong_peppers(peppers)


def test_each_pepper_and_each_key_has_to_be_strong() -> None:
    with pytest.raises(ImproperlyConfigured, match="CREDENCE_KEY_PEPPERS is too weak"):
        strong_peppers({"1": STRONG, "2": "short"})
    with pytest.raises(ImproperlyConfigured, match="CREDENCE_ENCRYPTION_KEYS is too weak"):
        strong_keys([STRONG, "short"])


def test_keys_keep_their_order_and_none_is_refused() -> None:
    assert strong_keys([STRONG, STRONG[::-1]]) == [STRONG, STRONG[::-1]]
    with pytest.raises(ImproperlyConfigured, match="newest first, separated by commas"):
        strong_keys([])
