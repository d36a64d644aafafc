"""Sealing the keys of providers anew, so that an older encryption key can be retired."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from governance import audit
from governance.models import Erasure
from memory.conf import encryption_keys
from memory.providers.crypto import open_sealed, reseal
from memory.providers.errors import SealedSecretError
from memory.rls import scoped_transaction
from memory.scope import Scope
from threads.models import Provider


@dataclass(frozen=True, slots=True, kw_only=True)
class ResealReport:
    """How many providers there were, by what became of their keys.

    Attributes:
        resealed: Sealed anew with the first of the encryption keys.
        unchanged: Sealed with it already.
        unopened: Opened by none of the encryption keys; left as they are.
        open_erasures: Erasures that are not verified, whose search is sealed with a key of before;
            until there are none, no key that they may need can be retired.
    """

    resealed: int
    unchanged: int
    unopened: int
    open_erasures: int


def reseal_providers(*, scope: Scope, now: datetime) -> ResealReport:
    """Seal each provider's key with the first of the encryption keys, audited; safe to repeat.

    Cost: one transaction that locks the tenant's providers that have a key; a row each to write.

    Raises:
        SealedSecretError: There is no usable encryption key.
    """
    keys = encryption_keys()
    if not keys:
        raise SealedSecretError("There is no encryption key.")
    counts = {"resealed": 0, "unchanged": 0, "unopened": 0}
    with scoped_transaction(scope):
        rows = Provider.objects.in_scope(scope).exclude(sealed_api_key="")
        for provider in rows.select_for_update().order_by("pk"):
            token = provider.sealed_api_key
            if _opens(token, keys[:1]):
                counts["unchanged"] += 1
            elif not _opens(token, keys):
                counts["unopened"] += 1
            else:
                _store(scope, provider, reseal(token, keys=keys), now)
                counts["resealed"] += 1
        waiting = Erasure.objects.in_scope(scope).exclude(sealed_needles="").count()
    return ResealReport(**counts, open_erasures=waiting)


def _opens(token: str, keys: tuple[str, ...]) -> bool:
    try:
        open_sealed(token, keys=keys)
    except SealedSecretError:
        return False
    return True


def _store(scope: Scope, provider: Provider, sealed: str, now: datetime) -> None:
    # What the provider is has not changed, so neither does the time it was changed at.
    provider.sealed_api_key = sealed
    provider.save(update_fields=["sealed_api_key"])
    audit.record(
        scope=scope,
        action="provider_resealed",
        target_kind="provider",
        target_id=provider.pk,
        now=now,
    )
