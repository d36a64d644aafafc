"""The dashboard as the admin's front page: everything of one tenant that may be viewed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.timesince import timesince
from django.utils.translation import gettext as _

from governance.admin.site import site
from governance.admin.staff import scope_for
from governance.admin.text import without_hidden
from governance.permissions import Permission
from memory.models import Tenant
from threads.admin.dashboard import drawings, numbers, tiles
from threads.admin.dashboard.lanes import signs_of
from threads.admin.dashboard.period import RANGES, Period, PeriodForm
from threads.admin.dashboard.waiting import DECISIONS, WORK, Waiting, count_waiting, of
from threads.figures import Day, between
from threads.figures.days import added

_LATE = timedelta(minutes=5)


def front_page(request: HttpRequest) -> dict[str, Any]:
    """Return the dashboard's context; without a tenant to view, nothing but that. As a FrontPage.

    Cost: six statements, one of them over the decisions that wait, and two over what happened since
    the last day that is stored.
    """
    scope = scope_for(request, Permission.VIEW)
    if scope is None:
        return {"dashboard": None}
    now = timezone.now()
    tenants = list(Tenant.objects.in_scope(scope).order_by("slug"))
    today = now.astimezone(UTC).date()
    form = PeriodForm(request.GET, tenants=tenants, today=today)
    period = form.period()
    own = scope.for_tenant(tenant_id=period.tenant_id)
    days = between(scope=own, first=period.first, last=period.last)
    told, due_since = count_waiting(request=request, scope=own, now=now)
    signs = signs_of(tenant_id=period.tenant_id, now=now)
    shown = {"today": today} | _bar(form, period, tenants) | _figures(days, told, now)
    shown |= {
        "decisions": [_aged(one, now) for one in of(told, DECISIONS)],
        "work": [_aged(one, now) for one in of(told, WORK)],
        "lanes": [{"sign": one, "seen": _seen(one.seen_at, now)} for one in signs],
        "late": _lateness(due_since, now),
    }
    return {"dashboard": shown}


def _bar(form: PeriodForm, period: Period, tenants: list[Tenant]) -> dict[str, Any]:
    base = reverse("admin:index")
    tenant = next(one for one in tenants if one.pk == period.tenant_id)
    return {
        "problems": form.problems(),
        "period": period,
        "tenant_name": without_hidden(tenant.name or tenant.slug),
        "tenants": [(one.pk, without_hidden(one.name or one.slug)) for one in tenants],
        "ranges": [
            (days, f"{base}?{urlencode({'tenant': period.tenant_id, 'days': days})}")
            for days in RANGES
        ],
    }


def _figures(days: dict[Any, Day], told: Any, now: datetime) -> dict[str, Any]:
    total = added(days.values())
    compressions = drawings.by_length(total)
    cost = sum(one.cost_usd for one in compressions.values())
    return {
        "tiles": tiles.tiles_of(total=total, told=told, now=now),
        "has_runs": total.runs.count > 0,
        "saved_runs": numbers.count(total.history.runs),
        "saved_whole": numbers.tokens(total.history.whole_tokens),
        "saved_past": numbers.tokens(total.history.past_tokens),
        "charts": [
            drawings.runs_a_day(days), drawings.cost_a_day(days), drawings.latency_a_day(days),
        ],
        "compression": drawings.compression_by_length(total) if cost else None,
        "compression_calls": sum(one.count for one in compressions.values()),
        "compressions": [
            {
                "length": drawings.length_label(place),
                "calls": numbers.count(one.count),
                "read": numbers.tokens(one.input_tokens / one.count),
                "each": numbers.usd(float(one.cost_usd) / one.count),
                "cost": numbers.usd(one.cost_usd),
            }
            for place, one in sorted(compressions.items())
        ],
        "failures": list(tiles.failures_by_code(total)),
    }  # fmt: skip


def _aged(one: Waiting, now: datetime) -> dict[str, Any]:
    age = timesince(one.oldest_at, now, depth=1) if one.oldest_at else ""
    return {"one": one, "count": numbers.count(one.count), "age": age}


def _seen(at: datetime | None, now: datetime) -> str:
    """Say when a queue showed life; nothing if it never did."""
    if at is None:
        return ""
    if now - at < timedelta(minutes=1):
        return _("seen just now")
    return _("seen %(time)s ago") % {"time": timesince(at, now, depth=1)}


def _lateness(due_since: datetime | None, now: datetime) -> dict[str, Any]:
    if due_since is None:
        return {"age": "", "is_late": False}
    return {"age": timesince(due_since, now), "is_late": now - due_since > _LATE}


site.front_page = front_page
