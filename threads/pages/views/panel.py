"""The memory panel, what an answer used, terms put right, files, and the notice."""

from __future__ import annotations

from urllib.parse import quote

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.template.response import TemplateResponse
from django.utils import timezone
from django.views.decorators.http import require_GET, require_POST

from governance import access
from governance.access import ForbiddenError
from governance.core import service as core
from governance.entities.corrections import Said
from governance.items import service as items
from governance.items.service import Whose
from governance.permissions import Permission
from memory.models import ItemCategory
from threads import catalogue
from threads.learning.corrections import correct
from threads.pages import shown
from threads.pages.forms import FactForm, TermForm, checked
from threads.pages.notice import give_consent, notice_for
from threads.pages.seats import Seat, seated


@require_GET
@seated
def memory(request: HttpRequest, seat: Seat) -> HttpResponseBase:
    """Return the panel."""
    return _panel(request, seat)


def _panel(request: HttpRequest, seat: Seat, *, said: str = "") -> HttpResponseBase:
    held = shown.memory_of(seat=seat, now=timezone.now())
    context = {"seat": seat, "memory": held, "said": said}
    return TemplateResponse(request, "threads/chat/memory.html", context)


@require_POST
@seated
def add_fact(request: HttpRequest, seat: Seat) -> HttpResponseBase:
    """Let a fact wait for its confirmation."""
    fact = checked(FactForm, request)["fact"]
    core.add(
        principal=seat.principal,
        user_id=seat.person.pk,
        fact=fact,
        subject="",
        now=timezone.now(),
    )
    return _panel(request, seat)


@require_POST
@seated
def confirm(request: HttpRequest, seat: Seat, candidate_id: str) -> HttpResponseBase:
    """Confirm what waits, in its words or in others."""
    asked = checked(FactForm, request)
    core.confirm(
        principal=seat.deciding,
        candidate_id=candidate_id,
        now=timezone.now(),
        fact=asked["fact"] or None,
        decider=seat.decider(),
        may_evict=asked["may_evict"],
    )
    return _panel(request, seat)


@require_POST
@seated
def reject(request: HttpRequest, seat: Seat, candidate_id: str) -> HttpResponseBase:
    """Delete what waits; seen again, it stays rejected."""
    core.reject(
        principal=seat.deciding,
        candidate_id=candidate_id,
        reason="",
        now=timezone.now(),
        decider=seat.decider(),
    )
    return _panel(request, seat)


@require_POST
@seated
def forget(request: HttpRequest, seat: Seat, fact_id: str) -> HttpResponseBase:
    """Delete a confirmed fact."""
    core.delete(principal=seat.deciding, fact_id=fact_id, now=timezone.now())
    return _panel(request, seat)


@require_POST
@seated
def forget_preference(request: HttpRequest, seat: Seat, key: str) -> HttpResponseBase:
    """Delete a preference."""
    items.delete(
        principal=seat.deciding,
        whose=Whose(user_id=seat.person.pk, role=request.POST.get("role") or None),
        category=ItemCategory.USER_PREFERENCES,
        key=key,
        now=timezone.now(),
    )
    return _panel(request, seat)


@require_GET
@seated
def used(request: HttpRequest, seat: Seat, run_id: str) -> HttpResponseBase:
    """Return what stood in the prompt of an answer."""
    found = shown.used_of(seat=seat, run_id=run_id)
    context = {
        "seat": seat,
        "items": found,
        "tokens": sum(item.tokens for item in found or ()),
    }
    return TemplateResponse(request, "threads/chat/used.html", context)


@require_POST
@seated
def put_right(request: HttpRequest, seat: Seat, thread_id: str) -> HttpResponseBase:
    """Propose a term that the conversation had wrong."""
    asked = checked(TermForm, request)
    thread = catalogue.read_thread(principal=seat.principal, thread_id=thread_id)
    made = correct(
        scope=access.tenant_scope(seat.principal),
        thread=thread,
        message_id=None,
        said=Said(
            entity_type=asked["entity_type"],
            term=asked["term"],
            wrong=asked["wrong"],
            right=asked["term"] if asked["wrong"] else "",
        ),
        now=timezone.now(),
    )
    return TemplateResponse(request, "threads/chat/put_right.html", {"seat": seat, "made": made})


@require_GET
@seated
def artifact(_request: HttpRequest, seat: Seat, run_id: str, artifact_id: str) -> HttpResponseBase:
    """Return a file that a run wrote, to be saved, never run or shown by the browser."""
    found = catalogue.read_artifact(
        principal=seat.principal, run_id=run_id, artifact_id=artifact_id
    )
    response = HttpResponse(found.content, content_type="text/plain; charset=utf-8")
    response["Content-Disposition"] = f"attachment; filename*=UTF-8''{quote(found.name, safe='')}"
    return response


@require_POST
@seated
def consent(request: HttpRequest, seat: Seat) -> HttpResponseBase:
    """Keep the consent that text may cross to another vendor; staff who set policy only."""
    account = request.user
    scope = access.staff_scope(account=account, permission=Permission.MANAGE_POLICY)  # type: ignore[arg-type]
    if seat.staff_id is None or scope is None or seat.principal.tenant_id not in scope.tenant_ids:
        raise ForbiddenError("Only staff who may set the tenant's policy can agree to this.")
    own = access.scope_of_staff(account=account, tenant_ids=[seat.principal.tenant_id])  # type: ignore[arg-type]
    if own is None:
        raise ForbiddenError
    give_consent(scope=own, agent_id=seat.agent_id, now=timezone.now())
    told = notice_for(scope=own, agent_id=seat.agent_id)
    return TemplateResponse(request, "threads/chat/notice.html", {"seat": seat, "notice": told})
