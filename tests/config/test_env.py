"""Numbers of the environment: what is refused says what to set."""

from __future__ import annotations

import pytest
from django.core.exceptions import ImproperlyConfigured

from config.settings import env  # noqa: TID251 - what settings are made with is tested


@pytest.mark.parametrize(("given", "found"), [("0", 0), ("12", 12), ("100", 100), (None, 7)])
def test_count_within_bounds_is_taken(
    monkeypatch: pytest.MonkeyPatch, given: str | None, found: int
) -> None:
    monkeypatch.delenv("SOME_COUNT", raising=False)
    if given is not None:
        monkeypatch.setenv("SOME_COUNT", given)
    assert env.count("SOME_COUNT", 7, most=100) == found


@pytest.mark.parametrize("given", ["-1", "101", "1.5", "nan", "inf", "many", ""])
def test_count_out_of_bounds_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    monkeypatch.setenv("SOME_COUNT", given)
    with pytest.raises(ImproperlyConfigured, match="SOME_COUNT must be a"):
        env.count("SOME_COUNT", 7, most=100)
