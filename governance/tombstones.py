"""Tombstones: telling a person who comes back from one who was never erased, without a name.

An Erasure keeps an HMAC of the tenant's `user_id`, bound to the tenant, under the newest pepper of
API keys. Whoever has the database alone can not find out whose it is, nor see that two tenants had
served the same person.
"""

from __future__ import annotations

import hashlib
import hmac
import unicodedata
from typing import Final

from django.db.models import Max

from governance.models.erasure import Erasure, ErasureMode
from memory.conf import key_peppers
from memory.scope import Scope

# No HMAC of this purpose can be taken for one of an API key.
_PURPOSE: Final = "credence.tombstone"


def hmacs_of(*, tenant_id: str, user_id: str) -> tuple[str, ...]:
    """Return the HMACs of a person's name under each pepper, the newest first; 64 hex digits each.

    No query: it is for whoever writes a tombstone (the first) or looks for one (all of them).
    """
    name = unicodedata.normalize("NFC", user_id)
    message = "\0".join((_PURPOSE, tenant_id, name)).encode()
    peppers = key_peppers()
    return tuple(
        hmac.new(peppers[version].encode(), message, hashlib.sha256).hexdigest()
        for version in sorted(peppers, reverse=True)
    )


def next_epoch(*, scope: Scope, user_id: str) -> int:
    """Return the epoch of a person who is new: 1, or one more than the last one of that name had.

    Inside the caller's scoped transaction. Cost: one query by an index.
    """
    hmacs = hmacs_of(tenant_id=scope.tenant_id, user_id=user_id)
    rows = Erasure.objects.in_scope(scope).filter(subject_hmac__in=hmacs, mode=ErasureMode.ALL)
    last: int | None = rows.aggregate(last=Max("subject_epoch"))["last"]
    return 1 if last is None else last + 1
