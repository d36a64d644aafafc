"""A tenant's policy: every number with its unit, default and bounds beside the field."""

from __future__ import annotations

from typing import Any, Final

from django import forms
from django.contrib import admin
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from governance.admin.base import ScopedModelAdmin
from governance.admin.filters import ScopedRelatedFilter
from governance.admin.forms import ScopedModelForm
from governance.admin.site import site
from governance.models import TenantPolicy
from governance.permissions import Permission
from governance.policy import change_policy
from governance.policy_rules import RULES, PolicyValue, Rule
from memory.scope import Scope

_ON: Final = "on"
_OFF: Final = "off"


def _said(value: PolicyValue) -> str:
    """Return a value in words, as the field would be filled in."""
    if isinstance(value, list):
        return ", ".join(value)
    if isinstance(value, bool):
        return _("on") if value else _("off")
    return _("none") if value is None else str(value)


def _help(rule: Rule) -> str:
    """Say unit, default and bounds of one value."""
    default = _("Default: %(value)s.") % {"value": _said(rule.default)}
    if not rule.is_number:
        return default
    bounds = {"low": f"{rule.low:g}", "high": f"{rule.high:g}", "unit": _(rule.unit)}
    return _("%(low)s to %(high)s %(unit)s.") % bounds + " " + default


def _field(rule: Rule) -> forms.Field:
    """Return the field of one value; empty stands for the default."""
    if rule.unit == "switch":
        choices = (
            ("", gettext_lazy("default")),
            (_ON, gettext_lazy("on")),
            (_OFF, gettext_lazy("off")),
        )
        return forms.ChoiceField(required=False, choices=choices)
    if rule.choices:
        words = (("", gettext_lazy("default")), *((word, word) for word in rule.choices))
        return forms.ChoiceField(required=False, choices=words)
    if rule.most_names:
        return forms.CharField(required=False, max_length=3000)
    bounds: dict[str, Any] = {"min_value": rule.low, "max_value": rule.high}
    if isinstance(rule.default, float):
        return forms.FloatField(required=False, **bounds)
    whole: dict[str, Any] = {name: int(bound) for name, bound in bounds.items()}
    return forms.IntegerField(required=False, **whole)


def _entered(rule: Rule, value: Any) -> PolicyValue:
    """Return what a field says as policy has it; None for the default."""
    if value in ("", None):
        return None
    if rule.unit == "switch":
        return bool(value == _ON)
    if rule.most_names:
        return [name.strip() for name in value.split(",") if name.strip()]
    entered: PolicyValue = value
    return entered


def _shown(value: PolicyValue) -> Any:
    """Return a stored value as its field shows it."""
    if isinstance(value, bool):
        return _ON if value else _OFF
    return ", ".join(value) if isinstance(value, list) else value


class _PolicyForm(ScopedModelForm):
    """What the tenant has otherwise than the defaults."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Fill in what the tenant changed, and say what each value counts, in the reader's words."""
        super().__init__(*args, **kwargs)
        for name, rule in RULES.items():
            if name in self.fields:
                self.fields[name].help_text = _help(rule)
                self.initial[name] = _shown(self.instance.overrides.get(name))

    def changes(self) -> dict[str, PolicyValue]:
        """Return the values that are another than they were; None sets one back."""
        entered = {name: _entered(RULES[name], self.cleaned_data.get(name)) for name in RULES}
        before = self.instance.overrides
        return {name: value for name, value in entered.items() if value != before.get(name)}


_FIELDS: dict[str, Any] = {name: _field(rule) for name, rule in RULES.items()}
PolicyForm: type[_PolicyForm] = type("PolicyForm", (_PolicyForm,), _FIELDS)


@admin.register(TenantPolicy, site=site)
class TenantPolicyAdmin(ScopedModelAdmin[TenantPolicy]):
    """Policies: one a tenant, changed value by value, audited with each value before and after."""

    add_permission = Permission.MANAGE_POLICY
    change_permission = Permission.MANAGE_POLICY
    form = PolicyForm
    list_display = ("id", "tenant", "changed", "updated_at")
    list_filter = (("tenant", ScopedRelatedFilter),)
    list_select_related = ("tenant",)
    search_fields = ("=id",)
    fields = ("tenant", *RULES)

    @admin.display(description=gettext_lazy("Changed"))
    def changed(self, policy: TenantPolicy) -> str:
        """Return the names that are not at their defaults."""
        return ", ".join(sorted(policy.overrides))

    def store(self, scope: Scope, obj: TenantPolicy, form: Any, *, change: bool) -> None:
        """Change the policy through governance, which checks and audits it."""
        change_policy(scope=scope, changes=form.changes(), now=timezone.now())
        stored = TenantPolicy.objects.in_scope(scope).get()
        obj.__dict__.update(stored.__dict__)
