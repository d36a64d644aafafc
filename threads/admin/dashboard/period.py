"""Which tenant and which days the dashboard is about, as the address says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any, Final

from django import forms
from django.utils.translation import gettext_lazy as _

from governance.admin.text import without_hidden
from memory.models import Tenant

RANGES: Final = (7, 30, 90)
USUAL_DAYS: Final = 30
MOST_DAYS: Final = 366


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """A tenant and a stretch of days (UTC), both ends among them.

    Attributes:
        range_days: 7, 30 or 90 if it is that many up to today; None for days of one's own.
    """

    tenant_id: str
    first: date
    last: date
    range_days: int | None

    @property
    def days(self) -> int:
        """How many days it has."""
        return (self.last - self.first).days + 1


class PeriodForm(forms.Form):
    """The bar above the figures; nothing in it is required."""

    tenant = forms.ChoiceField(
        required=False,
        label=_("Tenant"),
        error_messages={"invalid_choice": _("Choose one of the tenants you may view.")},
    )
    days = forms.TypedChoiceField(
        required=False,
        coerce=int,
        empty_value=None,
        choices=[(str(days), str(days)) for days in RANGES],
        error_messages={
            "invalid_choice": _("Choose 7, 30 or 90 days, or name the first and last day.")
        },
    )
    first = forms.DateField(
        required=False,
        label=_("From"),
        input_formats=["%Y-%m-%d"],
        error_messages={"invalid": _("Write days as 2026-11-30.")},
    )
    last = forms.DateField(
        required=False,
        label=_("To"),
        input_formats=["%Y-%m-%d"],
        error_messages={"invalid": _("Write days as 2026-11-30.")},
    )

    def __init__(self, data: Mapping[str, Any], *, tenants: Sequence[Tenant], today: date) -> None:
        """Offer the tenants that may be viewed; the first is the usual one."""
        super().__init__(data)
        self._tenants, self._today = tenants, today
        choices = [(row.pk, without_hidden(row.name or row.slug)) for row in tenants]
        self.fields["tenant"].choices = choices  # type: ignore[attr-defined]

    def clean(self) -> dict[str, Any]:
        """Hold both days against each other and against today."""
        cleaned: dict[str, Any] = super().clean() or {}
        first, last = cleaned.get("first"), cleaned.get("last")
        if "first" in self.errors or "last" in self.errors:
            return cleaned
        if (first is None) != (last is None):
            raise forms.ValidationError(_("Name both days, the first and the last."))
        if first is None or last is None:
            return cleaned
        if first > last:
            raise forms.ValidationError(_("The first day comes after the last one."))
        if last > self._today:
            raise forms.ValidationError(
                _("The last day is still to come: name today at the latest.")
            )
        if (last - first).days >= MOST_DAYS:
            raise forms.ValidationError(_("At most 366 days at once."))
        return cleaned

    def period(self) -> Period:
        """Return what was asked for; where that can not be, the usual days of the usual tenant."""
        is_good = self.is_valid()
        asked = self.cleaned_data
        tenant_id = asked.get("tenant") or self._tenants[0].pk
        first, last = asked.get("first"), asked.get("last")
        if is_good and first and last:
            length = (last - first).days + 1
            range_days = length if last == self._today and length in RANGES else None
            return Period(tenant_id=tenant_id, first=first, last=last, range_days=range_days)
        days = (asked.get("days") if is_good else None) or USUAL_DAYS
        start = self._today - timedelta(days=days - 1)
        return Period(tenant_id=tenant_id, first=start, last=self._today, range_days=days)

    def problems(self) -> list[str]:
        """Return what was wrong, each with what to do."""
        return [str(text) for errors in self.errors.values() for text in errors]
