"""A seat: who sits before a chat page, for whom, and by what right.

A seat is an API key bound to one agent and one person, with an end, and nobody ever sees its secret:
the browser holds its id, signed by us, in a cookie that scripts can not read and that is sent to the
seat's own pages only. So revoking the key, erasing the person or switching the agent off ends the
page, as it ends every other key. A member of staff must besides be signed in and still be granted
what opened the seat.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from functools import wraps
from typing import Any, Final

from django.conf import settings
from django.contrib.auth.models import User
from django.core import signing
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone

from governance import access, keys
from governance.access import Principal
from governance.core.service import Decider
from governance.keys import UnauthenticatedError
from governance.models import KeyScope
from governance.permissions import Permission
from governance.tenants import find_end_user
from memory.errors import CredenceError
from memory.models import EndUser
from memory.rls import scoped_transaction
from threads.api.errors import answer_to
from threads.chat_links import signed_words

COOKIE: Final = "credence_seat"
STAFF_HOURS: Final = 12
_SALT: Final = "credence.chat.seat"

SeatedView = Callable[..., HttpResponseBase]


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """Who sits there.

    Attributes:
        principal: The seat's key: one agent, one person.
        person: For whom one speaks.
        staff_id: The member of staff who took the seat, if one did.
        is_own: Whether who sits there is the person: by a link, or staff who speaks for itself.
    """

    principal: Principal
    person: EndUser
    staff_id: int | None = None
    is_own: bool = True

    @property
    def id(self) -> str:
        """The seat's name in addresses: its key's id."""
        return self.principal.id

    @property
    def agent_id(self) -> str:
        """The only agent that can be talked to."""
        return str(self.principal.agent_id)

    @property
    def user_id(self) -> str:
        """The person, as the tenant calls it."""
        return self.person.user_id

    @property
    def deciding(self) -> Principal:
        """The principal of decisions that somebody takes in the page, not the agent."""
        scopes = self.principal.key_scopes | {KeyScope.GOVERN}
        return replace(self.principal, key_scopes=scopes)

    def decider(self) -> Decider | None:
        """Return who decides about the person's memory: the person, or the staff for it."""
        return Decider(kind="end_user", id=self.person.pk) if self.is_own else None


def staff_user_id(username: str) -> str:
    """Return the user_id under which a member of staff talks for himself."""
    return f"staff:{username}"


def sit_down(*, tenant_id: str, key_id: str, staff_id: int | None = None) -> HttpResponse:
    """Return the way to a seat's page, with its cookie."""
    address = reverse("chat:page", args=[key_id])
    response = redirect(address)
    said: dict[str, Any] = {"t": tenant_id, "k": key_id}
    if staff_id is not None:
        said["s"] = staff_id
    response.set_cookie(
        COOKIE,
        signing.dumps(said, salt=_SALT),
        max_age=None,
        path=address,
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=True,
        samesite="Lax",
    )
    return response


def seat_of(request: HttpRequest, *, seat_id: str, now: datetime) -> Seat:
    """Return who asks. Cost: four round trips, two more for staff.

    Raises:
        UnauthenticatedError: There is no cookie of this seat, or what it rests on has ended.
    """
    said = signed_words(request.COOKIES.get(COOKIE, ""), salt=_SALT)
    tenant_id, key_id, staff_id = str(said.get("t")), str(said.get("k")), said.get("s")
    if key_id != seat_id:
        raise UnauthenticatedError
    principal = keys.resume(tenant_id=tenant_id, key_id=key_id, now=now)
    if principal.agent_id is None or principal.end_user_id is None:
        raise UnauthenticatedError
    scope = access.tenant_scope(principal)
    with scoped_transaction(scope):
        person = find_end_user(scope=scope, user_id=principal.end_user_id)
    if person is None or person.erasing_at is not None:
        raise UnauthenticatedError
    is_own = staff_id is None or _is_own(request, staff_id, person)
    if staff_id is not None:
        wanted = wanted_of_staff(is_own=is_own)
        if tenant_id not in access.staff_tenants(account=_account(request), permission=wanted):
            raise UnauthenticatedError
    return Seat(principal=principal, person=person, staff_id=staff_id, is_own=is_own)


def wanted_of_staff(*, is_own: bool) -> Permission:
    """Return what a member of staff has to be granted to talk for itself, or for somebody else."""
    return Permission.CONFIRM if is_own else Permission.MANAGE_POLICY


def _account(request: HttpRequest) -> User:
    if not isinstance(request.user, User):
        raise UnauthenticatedError
    return request.user


def _is_own(request: HttpRequest, staff_id: int, person: EndUser) -> bool:
    account = _account(request)
    if account.pk != staff_id:
        raise UnauthenticatedError
    return person.user_id == staff_user_id(account.get_username())


def seated(view: SeatedView) -> SeatedView:
    """Give a view its seat, and turn what goes wrong into an answer the page can show.

    Without a seat a page says how to come back; a fragment or an act answers a problem document.
    """

    @wraps(view)
    def inner(request: HttpRequest, seat_id: str, *args: Any, **kwargs: Any) -> HttpResponseBase:
        try:
            seat = seat_of(request, seat_id=seat_id, now=timezone.now())
            response = view(request, seat, *args, **kwargs)
        except UnauthenticatedError as error:
            if request.headers.get("X-Credence-Fragment"):
                return answer_to(error, request=request)
            return TemplateResponse(request, "threads/chat/ended.html", status=403)
        except CredenceError as error:
            return answer_to(error, request=request)
        if not response.has_header("Cache-Control"):
            response["Cache-Control"] = "private, no-store"
        return response

    return inner
