"""Decisions about the selected rows of a list: a hundred at once, more by the worker."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from django.contrib import messages
from django.contrib.admin.utils import quote
from django.core.exceptions import PermissionDenied
from django.db import models
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.translation import gettext as _

from governance import bulk
from governance.admin.actions import Row, act_on_rows
from governance.admin.staff import scope_for
from governance.bulk.rules import Rule
from governance.decisions import MOST_REASON_CHARACTERS
from memory.scope import Scope

AT_ONCE_ROWS: Final = 100


def decide_many(
    *, request: HttpRequest, rows: models.QuerySet[Any], kind: str, action: str
) -> None:
    """Decide about up to 100 rows now, or ask the worker for up to 10,000; say so on the page.

    Raises:
        PermissionDenied: The decision is not granted on the tenant of one of the rows; nothing is
            done.
    """
    rule = bulk.rule_for(kind=kind, action=action)
    reason = request.POST.get("reason", "").strip()[:MOST_REASON_CHARACTERS]
    if rule.needs_reason and not reason:
        messages.error(request, _("Give a reason beside the action; nothing was changed."))
        return
    scope = scope_for(request, rule.permission)
    chosen = _chosen(rows)
    if scope is None or any(tenant_id not in scope.tenant_ids for _pk, tenant_id in chosen):
        raise PermissionDenied
    if len(chosen) > AT_ONCE_ROWS:
        _ask_the_worker(request, scope, chosen, {"kind": kind, "action": action, "reason": reason})
        return
    act_on_rows(request=request, scope=scope, rows=chosen, act=partial(_act, rule, reason))


def _chosen(rows: models.QuerySet[Any]) -> list[Row]:
    """Return id and tenant of the rows, one more than one decision may be about. Cost: one query."""
    found = rows.values_list("pk", "tenant_id")[: bulk.MOST_ROWS + 1]
    return [(str(pk), str(tenant_id)) for pk, tenant_id in found]


def _act(rule: Rule, reason: str, scope: Scope, row_id: str, now: Any) -> None:
    rule.act(scope, row_id, reason, now)


def _ask_the_worker(
    request: HttpRequest, scope: Scope, chosen: list[Row], wanted: dict[str, str]
) -> None:
    if len(chosen) > bulk.MOST_ROWS:
        text = _(
            "One decision is about %(most)d rows at most: these are the first ones. Decide again"
            " for the rest."
        )
        messages.warning(request, text % {"most": bulk.MOST_ROWS})
    by_tenant: dict[str, list[str]] = {}
    for row_id, tenant_id in chosen[: bulk.MOST_ROWS]:
        by_tenant.setdefault(str(tenant_id), []).append(row_id)
    for tenant_id, ids in by_tenant.items():
        own = scope.for_tenant(tenant_id=tenant_id)
        started = bulk.start(scope=own, ids=ids, now=timezone.now(), **wanted)
        url = reverse("admin:governance_bulkdecision_change", args=(quote(started.pk),))
        said = _("The worker decides about %(count)d rows; see how far it is:") % {
            "count": len(ids)
        }
        messages.info(request, format_html('{} <a href="{}">{}</a>', said, url, started.pk))
