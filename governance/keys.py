"""API keys: making, checking, rotating and revoking them.

A key reads `cr_<8 characters>_<40 characters><6 characters of checksum>`. The first eight are
public and find the row; an HMAC-SHA256 of the rest under a versioned pepper is all that is stored.
Source of the scheme: findings/security, 1.3 (NetBox 4.5 and GitHub's checksummed tokens).
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import string
import zlib
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.contrib.auth.models import User
from django.db import connection

from governance import access, audit
from governance.access import Principal
from governance.models import ApiKey, KeyScope
from governance.permissions import Permission
from governance.policy import policy_for
from memory.conf import key_peppers
from memory.errors import ConflictError, CredenceError, InvalidInputError, NotFoundError
from memory.models import Tenant
from memory.rls import scoped_transaction
from memory.scope import Scope

_ALPHABET = string.ascii_letters + string.digits
_PREFIX_ALPHABET = string.ascii_lowercase + string.digits
_SECRET_LENGTH = 40
_CHECK_LENGTH = 6
_USED_AT_MOST_EVERY = timedelta(minutes=1)


class UnauthenticatedError(CredenceError):
    """The API key is missing, unknown, expired or revoked."""

    code = "unauthenticated"


class GovernWithWriteError(ConflictError):
    """A key that decides does not also make what is decided about: make two keys.

    Unless policy says otherwise, whoever proposes is not who approves.
    """

    code = "govern_with_write"

    def __init__(self) -> None:
        """Say both ways out."""
        super().__init__(
            "A key that holds govern holds neither run nor write. Make two keys, or turn on policy"
            " govern_with_write."
        )
        self.field = "scopes"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewKey:
    """A key just made, with the one and only sight of its secret."""

    key: ApiKey
    secret: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stored:
    id: str
    tenant_id: str
    digest: str
    pepper_version: int
    scopes: tuple[str, ...]
    principal_id: int
    agent_id: str | None
    end_user_id: str | None
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None


def _checksum(text: str) -> str:
    number = zlib.crc32(text.encode())
    digits = ""
    for _ in range(_CHECK_LENGTH):
        number, rest = divmod(number, len(_ALPHABET))
        digits += _ALPHABET[rest]
    return digits


def _digest(secret: str, pepper: str) -> str:
    return hmac.new(pepper.encode(), secret.encode(), hashlib.sha256).hexdigest()


def _random(alphabet: str, length: int) -> str:
    return "".join(secrets.choice(alphabet) for _ in range(length))


def parse(raw: str) -> tuple[str, str] | None:
    """Return (prefix, secret) of a well-formed key, or None; no query, so garbage costs nothing."""
    parts = raw.split("_")
    well_formed = (
        len(parts) == 3
        and parts[0] == "cr"
        and len(parts[1]) == 8
        and len(parts[2]) == _SECRET_LENGTH + _CHECK_LENGTH
        and raw.isascii()
    )
    if not well_formed:
        return None
    secret, check = parts[2][:_SECRET_LENGTH], parts[2][_SECRET_LENGTH:]
    if not hmac.compare_digest(check, _checksum(parts[1] + secret)):
        return None
    return parts[1], secret


def authenticate(*, raw: str, now: datetime) -> Principal:
    """Return the principal behind a key. Cost: two round trips.

    Raises:
        UnauthenticatedError: For every reason the same, so that nothing can be learned from it.
    """
    parsed = parse(raw)
    stored = _find(parsed[0]) if parsed else None
    if parsed is None or stored is None or not _is_valid(stored, parsed[1], now):
        raise UnauthenticatedError
    account_id = stored.principal_id
    granted = access.may_use_tenant(account_id=account_id, tenant_id=stored.tenant_id)
    if granted is None:
        raise UnauthenticatedError
    principal = Principal(
        id=stored.id,
        account_id=account_id,
        tenant_id=stored.tenant_id,
        key_scopes=frozenset(stored.scopes),
        agent_id=stored.agent_id,
        end_user_id=stored.end_user_id,
        permissions=granted,
    )
    _touch(stored, principal, now)
    return principal


def resume(*, tenant_id: str, key_id: str, now: datetime) -> Principal:
    """Return the principal of a key that something signed by ourselves names, without its secret.

    For a signed link and the page it opens: revoking the key, its expiry, or a grant taken from its
    account ends both. Cost: two round trips.

    Raises:
        UnauthenticatedError: The key is gone, revoked or expired, or its account or tenant is off.
    """
    scope = Scope(tenant_ids=(tenant_id,), principal_id=key_id)
    with scoped_transaction(scope):
        key = ApiKey.objects.in_scope(scope).filter(pk=key_id).first()
    if key is None or not _is_live(key, now):
        raise UnauthenticatedError
    granted = access.may_use_tenant(account_id=key.principal_id, tenant_id=tenant_id)
    if granted is None:
        raise UnauthenticatedError
    return Principal(
        id=key.pk,
        account_id=key.principal_id,
        tenant_id=tenant_id,
        key_scopes=frozenset(key.scopes),
        agent_id=key.agent_id,
        end_user_id=key.end_user_id,
        permissions=granted,
    )


def _find(prefix: str) -> _Stored | None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT * FROM credence_key_by_prefix(%s)", [prefix])
        row = cursor.fetchone()
        if row is None:
            return None
        names = [column.name for column in cursor.description or ()]
    return _Stored(**dict(zip(names, row, strict=True)))


def _is_valid(stored: _Stored, secret: str, now: datetime) -> bool:
    pepper = key_peppers().get(stored.pepper_version, "")
    is_right = bool(pepper) and hmac.compare_digest(_digest(secret, pepper), stored.digest)
    return is_right and _is_live(stored, now)


def _is_live(stored: _Stored | ApiKey, now: datetime) -> bool:
    is_open = stored.revoked_at is None or stored.revoked_at > now
    return is_open and (stored.expires_at is None or stored.expires_at > now)


def _touch(stored: _Stored, principal: Principal, now: datetime) -> None:
    """Note the use, at most once a minute, so that reading stays free of writes."""
    if stored.last_used_at and now - stored.last_used_at < _USED_AT_MOST_EVERY:
        return
    scope = access.tenant_scope(principal)
    with scoped_transaction(scope):
        ApiKey.objects.in_scope(scope).filter(pk=stored.id).update(last_used_at=now)


def holds_both(scopes: Collection[str]) -> bool:
    """Say whether these scopes let one key propose and approve."""
    return KeyScope.GOVERN in scopes and not {KeyScope.RUN, KeyScope.WRITE}.isdisjoint(scopes)


def require_separation(*, scope: Scope, scopes: Collection[str]) -> None:
    """Let pass scopes that keep proposing and approving apart, or any where policy allows them.

    Inside the caller's transaction. Cost: no query, one where they do not.

    Raises:
        GovernWithWriteError: They do not, and policy wants it.
    """
    if not holds_both(scopes):
        return
    if not policy_for(scope=scope, agent_overrides={}).is_on("govern_with_write"):
        raise GovernWithWriteError


def create_key(
    *,
    scope: Scope,
    scopes: Collection[str],
    now: datetime,
    name: str = "",
    expires_at: datetime | None = None,
    agent_id: str | None = None,
    end_user_id: str | None = None,
) -> NewKey:
    """Make a key with a service account of its own, inside the caller's scoped transaction.

    Raises:
        InvalidInputError: No scope, or one that is not of KeyScope; or an expiry in the past.
    """
    unknown = sorted(set(scopes) - set(KeyScope.values))
    if unknown or not scopes:
        wanted = ", ".join(KeyScope.values)
        raise InvalidInputError(f"Scopes are one or more of: {wanted}.", field="scopes")
    if expires_at is not None and expires_at <= now:
        raise InvalidInputError("The expiry lies in the past.", field="expires_at")
    version = max(key_peppers())
    prefix, secret = _random(_PREFIX_ALPHABET, 8), _random(_ALPHABET, _SECRET_LENGTH)
    key = ApiKey(
        tenant_id=scope.tenant_id,
        name=name,
        prefix=prefix,
        digest=_digest(secret, key_peppers()[version]),
        pepper_version=version,
        scopes=sorted(set(scopes)),
        agent_id=agent_id,
        end_user_id=end_user_id,
        expires_at=expires_at,
        created_at=now,
        created_by=scope.principal_id,
    )
    key.principal = _service_account(key)
    key.save(force_insert=True)
    audit.record(
        scope=scope,
        action="key_created",
        target_kind="key",
        target_id=key.id,
        now=now,
        detail={"scopes": list(key.scopes)},
    )
    return NewKey(key=key, secret=f"cr_{prefix}_{secret}{_checksum(prefix + secret)}")


def _service_account(key: ApiKey) -> User:
    """Make the Django user behind a key and grant it what the key's limits leave."""
    account = User(username=f"service:{key.id}")
    account.set_unusable_password()
    account.save()
    wide = {str(Permission.USE)}
    if key.agent_id is None:
        wide.add(Permission.RUN_AGENT)
    if key.end_user_id is None:
        wide.add(Permission.ACT_FOR)
    tenant = Tenant(id=key.tenant_id)
    access.grant_to_account(account=account, target=tenant, permissions=frozenset(wide))
    if key.agent is not None:
        access.grant_to_account(
            account=account, target=key.agent, permissions=frozenset({"run_this_agent"})
        )
    if key.end_user is not None:
        access.grant_to_account(
            account=account, target=key.end_user, permissions=frozenset({"act_for_user"})
        )
    return account


def is_revoked(*, scope: Scope) -> bool:
    """Say whether the scope's principal is a key that was revoked, also while its run is under way.

    Inside the caller's transaction. Cost: one query.
    """
    keys = ApiKey.objects.in_scope(scope).filter(pk=scope.principal_id)
    return keys.filter(revoked_at__isnull=False).exists()


def revoke_key(*, scope: Scope, key_id: str, now: datetime) -> ApiKey:
    """Revoke a key at once and switch its service account off; revoking again changes nothing.

    Raises:
        NotFoundError: No such key in scope.
    """
    key = ApiKey.objects.in_scope(scope).select_for_update().filter(pk=key_id).first()
    if key is None:
        raise NotFoundError
    if key.revoked_at is None:
        key.revoked_at = now
        key.save(update_fields=["revoked_at"])
        User.objects.filter(pk=key.principal_id).update(is_active=False)
        audit.record(
            scope=scope, action="key_revoked", target_kind="key", target_id=key.id, now=now
        )
    return key
