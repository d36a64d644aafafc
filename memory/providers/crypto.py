"""Provider keys at rest: authenticated encryption with keys that can be rotated."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from memory.providers.errors import SealedSecretError

MIN_KEY_CHARACTERS = 32
_KEY_BYTES = 32
_PURPOSE = b"credence provider keys v1"


def new_key() -> str:
    """Make a fresh encryption key, 44 characters of url-safe base64."""
    return Fernet.generate_key().decode("ascii")


def seal(plaintext: str, *, keys: Sequence[str]) -> str:
    """Encrypt with the first of `keys` (newest first) into url-safe text.

    A key is what `new_key` makes, or any secret of at least 32 characters, which is stretched
    into one.

    Raises:
        SealedSecretError: when there is no usable key.
    """
    return _box(keys).encrypt(plaintext.encode()).decode("ascii")


def open_sealed(token: str, *, keys: Sequence[str]) -> str:
    """Decrypt what `seal` made with any of `keys`.

    Raises:
        SealedSecretError: when no key opens it, or it was altered.
    """
    try:
        return _box(keys).decrypt(token.encode()).decode()
    except (InvalidToken, UnicodeError):
        raise SealedSecretError from None


def reseal(token: str, *, keys: Sequence[str]) -> str:
    """Encrypt a sealed secret anew with the first of `keys`, so that older ones can retire.

    Raises:
        SealedSecretError: when no key opens it.
    """
    return seal(open_sealed(token, keys=keys), keys=keys)


def _box(keys: Sequence[str]) -> MultiFernet:
    if not keys:
        raise SealedSecretError("There is no encryption key.")
    return MultiFernet([Fernet(_key(key)) for key in keys])


def _key(secret: str) -> bytes:
    if len(secret) < MIN_KEY_CHARACTERS:
        raise SealedSecretError(f"An encryption key needs {MIN_KEY_CHARACTERS} characters.")
    try:
        raw = base64.b64decode(secret.encode(), altchars=b"-_", validate=True)
    except (binascii.Error, UnicodeError):
        raw = b""
    if len(raw) != _KEY_BYTES:
        kdf = HKDF(algorithm=SHA256(), length=_KEY_BYTES, salt=None, info=_PURPOSE)
        raw = kdf.derive(secret.encode())
    return base64.urlsafe_b64encode(raw)
