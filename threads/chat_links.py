"""Links to the chat page: a key for one agent and one person that ends, and its name signed by us.

Nobody ever sees such a key's secret. Revoking the key, erasing the person or switching the agent off
ends the link and every page that was opened with it.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final

from django.core import signing

from governance.keys import UnauthenticatedError, create_key
from governance.models import ApiKey, KeyScope
from governance.tenants import ensure_end_user
from memory.errors import NotFoundError
from memory.models import EndUser
from memory.rls import scoped_transaction
from memory.scope import Scope
from threads.models import Agent

KEY_NAME: Final = "chat page"
SCOPES: Final = (KeyScope.RUN, KeyScope.READ, KeyScope.WRITE)
LEAST_SECONDS: Final = 300
DEFAULT_SECONDS: Final = 24 * 3600
MOST_SECONDS: Final = 30 * 24 * 3600
_LEAST_LEFT: Final = timedelta(hours=1)
_SALT: Final = "credence.chat.link"


def open_seat(
    *,
    scope: Scope,
    agent_id: str,
    user_id: str,
    now: datetime,
    lasts: timedelta,
    is_shared: bool,
) -> ApiKey:
    """Return a key for one agent and one person that ends by itself; the person is made if new.

    `is_shared` lets a seat that the same principal opened before, and that has an hour left, be taken
    again instead of making a key at each visit. Cost: about twelve statements.

    Raises:
        NotFoundError: The agent is unknown or switched off, or the person is being erased.
        ReservedUserIdError: The id can not be a person's.
    """
    with scoped_transaction(scope):
        agent = Agent.objects.in_scope(scope).filter(pk=agent_id, is_active=True).first()
        if agent is None:
            raise NotFoundError
        person = ensure_end_user(scope=scope, user_id=user_id, now=now)
        if person.erasing_at is not None:
            raise NotFoundError
        if is_shared and (found := _taken_before(scope, agent, person, now)):
            return found
        return create_key(
            scope=scope,
            scopes=[str(one) for one in SCOPES],
            now=now,
            name=KEY_NAME,
            expires_at=now + lasts,
            agent_id=agent.pk,
            end_user_id=person.pk,
        ).key


def _taken_before(scope: Scope, agent: Agent, person: EndUser, now: datetime) -> ApiKey | None:
    rows = ApiKey.objects.in_scope(scope).filter(
        name=KEY_NAME,
        agent=agent,
        end_user=person,
        created_by=scope.principal_id,
        revoked_at__isnull=True,
        expires_at__gt=now + _LEAST_LEFT,
    )
    return rows.order_by("-expires_at", "-id").first()


def link_token(key: ApiKey) -> str:
    """Return the signed part of a link that opens a seat until its key ends."""
    return signing.dumps({"t": key.tenant_id, "k": key.pk}, salt=_SALT)


def key_of_link(token: str) -> tuple[str, str]:
    """Return (tenant id, key id) of a link.

    Raises:
        UnauthenticatedError: It was not made here, or was changed.
    """
    said = signed_words(token, salt=_SALT)
    return str(said.get("t")), str(said.get("k"))


def link_path(key: ApiKey) -> str:
    """Return the address of a link, without the host."""
    return f"/chat/open/{link_token(key)}"


def signed_words(signed: str, *, salt: str) -> dict[str, Any]:
    """Return what we signed under a salt.

    Raises:
        UnauthenticatedError: It was not signed here, or was changed.
    """
    try:
        said = signing.loads(signed, salt=salt)
    except signing.BadSignature as error:
        raise UnauthenticatedError from error
    return said if isinstance(said, dict) else {}
