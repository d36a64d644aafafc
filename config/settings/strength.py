"""Refuses weak secrets when a production server starts, and says what to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from django.core.exceptions import ImproperlyConfigured

_LEAST_CHARACTERS: Final = {
    "DJANGO_SECRET_KEY": 50,
    "CREDENCE_KEY_PEPPERS": 32,
    "CREDENCE_ENCRYPTION_KEYS": 32,
}
# Fewer different characters than this is a word repeated, not chance.
_LEAST_DIFFERENT: Final = 10
_PREFIX_OF_DJANGO: Final = "django-insecure-"
_HOW: Final = "python -c 'import secrets; print(secrets.token_urlsafe(48))'"


def require_strong(name: str, secret: str) -> str:
    """Return `secret` if it is long and varied enough for what variable `name` is used for.

    Raises:
        ImproperlyConfigured: It is not; the message never quotes it.
    """
    least = _LEAST_CHARACTERS[name]
    is_strong = (
        len(secret) >= least
        and len(set(secret)) >= _LEAST_DIFFERENT
        and not secret.startswith(_PREFIX_OF_DJANGO)
    )
    if is_strong:
        return secret
    raise ImproperlyConfigured(
        f"{name} is too weak: it needs {least} random characters. Make one with: {_HOW}"
    )


def strong_peppers(peppers: Mapping[str, str]) -> dict[int, str]:
    """Return the peppers of API keys by version, each of them strong.

    Raises:
        ImproperlyConfigured: There is none, one is weak, or a version is no number.
    """
    if not isinstance(peppers, dict) or not peppers or not all(map(str.isdecimal, peppers)):
        raise ImproperlyConfigured(
            'CREDENCE_KEY_PEPPERS is a JSON object of version to pepper: {"1": "…"}.'
        )
    return {
        int(version): require_strong("CREDENCE_KEY_PEPPERS", str(pepper))
        for version, pepper in peppers.items()
    }


def strong_keys(keys: Sequence[str]) -> list[str]:
    """Return the keys that seal provider keys, each of them strong.

    Raises:
        ImproperlyConfigured: There is none, or one is weak.
    """
    if not keys:
        raise ImproperlyConfigured(
            "CREDENCE_ENCRYPTION_KEYS names no key: newest first, separated by commas."
            f" Make one with: {_HOW}"
        )
    return [require_strong("CREDENCE_ENCRYPTION_KEYS", key) for key in keys]
