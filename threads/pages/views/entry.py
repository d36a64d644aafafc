"""The ways in: staff choose an agent, a person opens a signed link."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.contrib.auth.models import User
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.http import urlencode
from django.views.decorators.http import require_GET, require_http_methods

from governance import access, keys
from governance.access import ForbiddenError
from governance.keys import UnauthenticatedError
from memory.errors import CredenceError, NotFoundError
from memory.models import Tenant
from memory.rls import scoped_transaction
from threads.chat_links import key_of_link, open_seat
from threads.models import Agent
from threads.pages.forms import SeatForm, checked
from threads.pages.seats import STAFF_HOURS, sit_down, staff_user_id, wanted_of_staff


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A tenant whose agents a member of staff may talk to."""

    tenant: Tenant
    agents: list[Agent]
    may_speak_for_others: bool


@require_http_methods(["GET", "POST"])
def choose(request: HttpRequest) -> HttpResponseBase:
    """Let staff choose an agent, then sit down as themselves or, with the grant, for a person."""
    account = request.user
    if not isinstance(account, User) or not account.is_staff:
        here = urlencode({"next": reverse("chat:choose")})
        return redirect(f"{reverse('admin:login')}?{here}")
    problem = ""
    if request.method == "POST":
        try:
            return _sit(request, account)
        except CredenceError as error:
            problem = error.detail
    context = {"choices": list(_choices(account)), "problem": problem, "sent": request.POST}
    return TemplateResponse(
        request, "threads/chat/choose.html", context, status=400 if problem else 200
    )


def _choices(account: User) -> Iterator[Choice]:
    own = access.staff_tenants(account=account, permission=wanted_of_staff(is_own=True))
    wide = access.staff_tenants(account=account, permission=wanted_of_staff(is_own=False))
    scope = access.scope_of_staff(account=account, tenant_ids={*own, *wide})
    if scope is None:
        return
    with scoped_transaction(scope):
        tenants = list(Tenant.objects.in_scope(scope).order_by("slug"))
        agents = list(Agent.objects.in_scope(scope).filter(is_active=True).order_by("name", "id"))
    for tenant in tenants:
        yield Choice(
            tenant=tenant,
            agents=[agent for agent in agents if agent.tenant_id == tenant.pk],
            may_speak_for_others=tenant.pk in wide,
        )


def _sit(request: HttpRequest, account: User) -> HttpResponseBase:
    asked = checked(SeatForm, request)
    own_id = staff_user_id(account.get_username())
    user_id = asked["user_id"] or own_id
    wanted = wanted_of_staff(is_own=user_id == own_id)
    granted = access.staff_tenants(account=account, permission=wanted)
    tenant_id = _tenant_of(account, granted, asked["agent_id"])
    scope = access.scope_of_staff(account=account, tenant_ids=[tenant_id])
    if scope is None:
        raise ForbiddenError
    key = open_seat(
        scope=scope,
        agent_id=asked["agent_id"],
        user_id=user_id,
        now=timezone.now(),
        lasts=timedelta(hours=STAFF_HOURS),
        is_shared=True,
    )
    return sit_down(tenant_id=tenant_id, key_id=key.pk, staff_id=account.pk)


def _tenant_of(account: User, granted: tuple[str, ...], agent_id: str) -> str:
    scope = access.scope_of_staff(account=account, tenant_ids=granted)
    if scope is None:
        raise ForbiddenError("You may not talk for that person.")
    with scoped_transaction(scope):
        rows: Any = Agent.objects.in_scope(scope).filter(pk=agent_id, is_active=True)
        found = rows.values_list("tenant_id", flat=True).first()
    if found is None:
        raise NotFoundError("There is no such agent, or you may not talk to it for that person.")
    return str(found)


@require_GET
def open_link(request: HttpRequest, token: str) -> HttpResponseBase:
    """Take the seat that a signed link names."""
    try:
        tenant_id, key_id = key_of_link(token)
        keys.resume(tenant_id=tenant_id, key_id=key_id, now=timezone.now())
    except UnauthenticatedError:
        return TemplateResponse(request, "threads/chat/ended.html", status=403)
    return sit_down(tenant_id=tenant_id, key_id=key_id)
