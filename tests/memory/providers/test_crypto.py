"""Sealing provider keys."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from memory.providers.crypto import new_key, open_sealed, reseal, seal
from memory.providers.errors import SealedSecretError


def test_sealed_key_opens_again_and_does_not_show() -> None:
    keys = [new_key()]
    token = seal("sk-密钥-123", keys=keys)
    assert "sk-" not in token
    assert open_sealed(token, keys=keys) == "sk-密钥-123"
    assert seal("sk-密钥-123", keys=keys) != token


def test_old_keys_still_open_until_resealed() -> None:
    old, new = new_key(), new_key()
    token = seal("secret", keys=[old])
    assert open_sealed(token, keys=[new, old]) == "secret"
    moved = reseal(token, keys=[new, old])
    assert open_sealed(moved, keys=[new]) == "secret"
    with pytest.raises(SealedSecretError):
        open_sealed(token, keys=[new])


def test_any_long_secret_is_a_key() -> None:
    for key in ("a" * 43, "x" * 50, "一" * 32, "a pass phrase that is long enough"):
        assert open_sealed(seal("s", keys=[key]), keys=[key]) == "s"


@pytest.mark.parametrize("keys", [[], ["short"], [""]])
def test_unusable_keys_are_refused(keys: list[str]) -> None:
    with pytest.raises(SealedSecretError):
        seal("s", keys=keys)


@pytest.mark.parametrize("change", [lambda t: t[:-4] + "AAA=", lambda t: "", lambda t: "锁"])
def test_altered_token_does_not_open(change: Callable[[str], str]) -> None:
    keys = [new_key()]
    with pytest.raises(SealedSecretError) as caught:
        open_sealed(change(seal("secret", keys=keys)), keys=keys)
    assert "secret" not in caught.value.detail.replace("stored secret", "")
