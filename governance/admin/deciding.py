"""Rooms where staff decide: the page of a row with its evidence and buttons, and the queue.

A decision is posted to a URL of its own and made by one function of the domain, in the row's own
tenant. A page that is not the state of things any more decides nothing: it says who did, and when.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, Generic, TypeVar

from django.contrib import messages
from django.contrib.admin.helpers import ActionForm
from django.contrib.admin.utils import quote, unquote
from django.core.exceptions import PermissionDenied
from django.db import models
from django.db.models import Case, Value, When
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.urls import URLPattern, path, reverse
from django.utils import timezone
from django.utils.formats import localize
from django.utils.functional import Promise
from django.utils.translation import gettext as _

from governance.admin.base import ScopedModelAdmin
from governance.admin.bulk_actions import decide_many
from governance.admin.columns import STYLES
from governance.admin.forms_of_decisions import DecisionForm, ReasonBar
from governance.admin.people import name_of
from governance.admin.staff import scope_for, tenant_of
from governance.decisions import AlreadyDecidedError
from governance.permissions import Permission
from memory.errors import CredenceError, ScopeError
from memory.rls import scoped_transaction
from memory.scope import Scope

M = TypeVar("M", bound=models.Model)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One decision as it was posted, in the scope of the row's tenant.

    Attributes:
        values: What the decision's form holds, cleaned.
    """

    scope: Scope
    row_id: str
    now: datetime
    values: Mapping[str, Any]

    @property
    def by(self) -> str:
        """Who decides."""
        return self.scope.principal_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A decision that the page of a row offers.

    Attributes:
        statuses: States of the row in which it can be made.
        act: The function of the domain.
        form: What else is asked.
        is_final: Whether its button is the one that takes something away.
    """

    name: str
    label: str | Promise
    act: Callable[[Asked], object]
    statuses: frozenset[str]
    form: type[DecisionForm] = DecisionForm
    is_final: bool = False


class DecidingAdmin(ScopedModelAdmin[M], Generic[M]):
    """Base of the rooms of decisions. A subclass declares its choices and says what to show.

    Attributes:
        choices: What can be decided on a row's page.
        bulk_kind: The rows' word in `governance.bulk.rules`.
        waiting: The states that are in the queue, shown first.
        queue_order: The order inside each of the two halves of the list.
        seen_fields: Columns whose change makes an open page stale.
        status_field: The column that says where a row stands.
        has_queue: Whether a page leads on to the next row that waits.
    """

    act_permission: ClassVar[Permission | None] = Permission.APPROVE
    action_form: ClassVar[type[ActionForm]] = ReasonBar
    change_form_template = "admin/governance/decide.html"
    choices: ClassVar[tuple[Choice, ...]] = ()
    bulk_kind: ClassVar[str] = ""
    waiting: ClassVar[tuple[str, ...]] = ("pending",)
    queue_order: ClassVar[tuple[str, ...]] = ("-id",)
    seen_fields: ClassVar[tuple[str, ...]] = ()
    status_field: ClassVar[str] = "status"
    has_queue: ClassVar[bool] = True

    class Media:
        css = {"all": (STYLES,)}

    # -- the queue ---------------------------------------------------------------------------

    def get_ordering(self, request: HttpRequest) -> Any:
        """Return what waits first, in the queue's own order."""
        waits = Case(When(self._waits(), then=Value(0)), default=Value(1))
        return (waits.asc(), *self.queue_order)

    def _waits(self) -> models.Q:
        return models.Q(**{f"{self.status_field}__in": self.waiting})

    def decide_many(self, request: HttpRequest, rows: models.QuerySet[M], action: str) -> None:
        """Make one decision about the selected rows, or about all that the list finds."""
        decide_many(request=request, rows=rows, kind=self.bulk_kind, action=action)

    # -- the page of a row -------------------------------------------------------------------

    def evidence(self, scope: Scope, row: M) -> dict[str, Any]:
        """Return what the page shows besides the row's columns, as context of its template."""
        return {}

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """Show the row with its evidence, its choices, and the way to the next that waits."""
        row = self.get_object(request, unquote(object_id))
        scope = scope_for(request, self.view_permission)
        context = dict(extra_context or {})
        if row is not None and scope is not None:
            own = scope.for_tenant(tenant_id=tenant_of(row) or "")
            evidence = self.evidence(own, row)
            context |= evidence | {
                "row": row,
                "offered": self._offered(request, row, evidence),
                "seen": self.seen(row),
                "decide_url": self._url("decide", row.pk),
                "verdict": verdict_of(row),
                "next_url": self._next(request, row),
            }
        return super().change_view(request, object_id, form_url, context)

    def seen(self, row: M) -> str:
        """Return what tells one state of the row from another."""
        text = "\x1f".join(
            str(getattr(row, name)) for name in (self.status_field, *self.seen_fields)
        )
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def _offered(
        self, request: HttpRequest, row: M, evidence: Mapping[str, Any]
    ) -> list[dict[str, Any]]:
        may = scope_for(request, self.act_permission)
        if may is None or tenant_of(row) not in may.tenant_ids:
            return []
        return [
            _shown(choice, row, evidence) for choice in self.choices if self._is_open(choice, row)
        ]

    def _next(self, request: HttpRequest, row: M) -> str | None:
        """Return the page of the first other row that waits. Cost: one query."""
        if not self.has_queue:
            return None
        rows = self.get_queryset(request).filter(self._waits()).exclude(pk=row.pk)
        found = rows.values_list("pk", flat=True).first()
        return self._url("change", found) if found else None

    def _url(self, page: str, pk: Any) -> str:
        name = f"admin:{self.opts.app_label}_{self.opts.model_name}_{page}"
        return reverse(name, args=(quote(pk),))

    # -- deciding ----------------------------------------------------------------------------

    def get_urls(self) -> list[URLPattern]:
        """Return Django's URLs and the one that decisions are posted to."""
        name = f"{self.opts.app_label}_{self.opts.model_name}_decide"
        view = self.admin_site.admin_view(self.decide_view)
        return [path("<path:object_id>/decide/", view, name=name), *super().get_urls()]

    def decide_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Make the posted decision and go back to the page, which says what came of it.

        Raises:
            PermissionDenied: It is not granted on the row's tenant, or there is no such choice.
        """
        row = self.get_object(request, unquote(object_id))
        if row is None:
            return self._get_obj_does_not_exist_redirect(request, self.opts, object_id)  # type: ignore[attr-defined, no-any-return]
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        scope = scope_for(request, self.act_permission)
        named = [one for one in self.choices if one.name == request.POST.get("choice")]
        if scope is None or tenant_of(row) not in scope.tenant_ids or not named:
            raise PermissionDenied
        own = scope.for_tenant(tenant_id=tenant_of(row) or "")
        is_there = self._decide(request, row, named[0], own)
        name = f"admin:{self.opts.app_label}_{self.opts.model_name}_changelist"
        return HttpResponseRedirect(self._url("change", row.pk) if is_there else reverse(name))

    def _decide(self, request: HttpRequest, row: M, choice: Choice, scope: Scope) -> bool:
        """Decide and say what came of it; False if the row is gone by it."""
        if not self._is_open(choice, row):
            messages.warning(request, self._already(row))
            return True
        if request.POST.get("seen") != self.seen(row):
            messages.warning(request, _("This has changed since you opened it. Look again."))
            return True
        form = choice.form(request.POST)
        if not form.is_valid():
            for problem in _problems(form):
                messages.error(request, problem)
            return True
        now = timezone.now()
        asked = Asked(scope=scope, row_id=str(row.pk), now=now, values=form.cleaned_data)
        try:
            with scoped_transaction(scope):
                choice.act(asked)
        except ScopeError:
            raise
        except AlreadyDecidedError:
            pass  # what the row says now is told below
        except CredenceError as error:
            messages.error(request, _(error.detail))
            return True
        return self._tell(request, row, scope, now)

    def _tell(self, request: HttpRequest, row: M, scope: Scope, now: datetime) -> bool:
        """Say how the row stands: decided by this, by somebody else meanwhile, or half."""
        manager: Any = self.model._default_manager
        found = manager.in_scope(scope).filter(pk=row.pk).first()
        first = getattr(found, "first_approved_by", "")
        if first and first != getattr(row, "first_approved_by", "") and self._still_waits(found):
            text = _("Your approval is noted. Somebody else has to approve it too.")
            messages.success(request, text)
        elif getattr(found, "decided_at", None) not in (None, now):
            messages.warning(request, self._already(found))
        else:
            messages.success(request, _("Done."))
        return found is not None

    def _still_waits(self, row: Any) -> bool:
        return getattr(row, self.status_field) in self.waiting

    def _is_open(self, choice: Choice, row: Any) -> bool:
        return getattr(row, self.status_field) in choice.statuses

    def _already(self, row: Any) -> str:
        said = verdict_of(row)
        if said:
            return _("This was decided already: %(verdict)s.") % {"verdict": said}
        display = getattr(row, f"get_{self.status_field}_display")()
        return _("This can not be decided so any more: it is %(status)s.") % {"status": _(display)}


def _shown(choice: Choice, row: Any, evidence: Mapping[str, Any]) -> dict[str, Any]:
    form = choice.form(auto_id=f"id_{choice.name}_%s", label_suffix="")
    form.fill(row, evidence)
    return {"choice": choice, "form": form}


def _problems(form: DecisionForm) -> Iterable[str]:
    for name, errors in form.errors.items():
        label = form.fields[name].label if name in form.fields else ""
        for text in errors:
            yield f"{label}: {text}" if label else str(text)


def verdict_of(row: Any) -> str:
    """Say who decided about a row, how and when; empty while nobody has."""
    at = getattr(row, "decided_at", None)
    if at is None:
        return ""
    who = getattr(row, "decided_by", "") or getattr(row, "decided_by_id", "")
    return _("%(status)s by %(who)s, %(at)s") % {
        "status": _(row.get_status_display()),
        "who": name_of(who),
        "at": localize(at),
    }
