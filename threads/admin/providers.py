"""Providers: the key goes in and never comes out."""

from __future__ import annotations

from dataclasses import fields as dataclass_fields
from typing import Any, cast

from django import forms
from django.contrib import admin
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from governance.admin.base import ScopedModelAdmin
from governance.admin.filters import ScopedRelatedFilter
from governance.admin.forms import ScopedModelForm
from governance.admin.site import site
from governance.admin.text import shown
from governance.permissions import Permission
from memory.conf import allowed_provider_hosts
from memory.errors import CredenceError
from memory.providers.base import ProviderTimeouts
from memory.providers.network import HostRule, check_base_url
from memory.scope import Scope
from threads.models import Provider, ProviderKind
from threads.providers import ProviderValues, create_provider, update_provider

WRITTEN = ("name", "kind", "base_url", "locality", "vendor", "timeouts")

MAX_TIMEOUT_SECONDS = 3_600
TIMEOUTS = frozenset(field.name for field in dataclass_fields(ProviderTimeouts))


class ProviderForm(ScopedModelForm):
    """A provider; the API key is write-only, and an empty box keeps the one there is."""

    api_key = forms.CharField(
        required=False,
        max_length=4_000,
        widget=forms.PasswordInput(render_value=False, attrs={"autocomplete": "new-password"}),
        label=_("API key"),
        help_text=_("Write-only. Leave empty to keep the one that is set."),
    )
    remove_api_key = forms.BooleanField(required=False, label=_("Remove the API key"))

    def clean_timeouts(self) -> dict[str, float]:
        """Let pass an object of known names and positive seconds."""
        timeouts: object = self.cleaned_data["timeouts"] or {}
        if not isinstance(timeouts, dict) or set(timeouts) - TIMEOUTS:
            raise forms.ValidationError(
                _("An object with any of: %(names)s."),
                params={"names": ", ".join(sorted(TIMEOUTS))},
            )
        for seconds in timeouts.values():
            is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
            if not is_number or not 0 < seconds <= MAX_TIMEOUT_SECONDS:
                raise forms.ValidationError(_("Each is a number of seconds, up to 3600."))
        return timeouts

    def clean(self) -> dict[str, Any]:
        """Check the address against the operator's list, to say so beside it; no network."""
        cleaned = super().clean()
        locality = cleaned.get("locality")
        if locality and cleaned.get("kind") == ProviderKind.OPENAI_COMPATIBLE:
            rule = HostRule(locality=locality, allowed_hosts=allowed_provider_hosts())
            try:
                check_base_url(cleaned.get("base_url", ""), rule=rule)
            except CredenceError as error:
                self.add_error("base_url", error.detail)
        return cleaned

    def values(self) -> ProviderValues:
        """Return what was entered under the names of `threads.providers`; no key keeps the key."""
        entered = {name: self.cleaned_data[name] for name in WRITTEN}
        if self.cleaned_data["api_key"] or self.cleaned_data["remove_api_key"]:
            entered["api_key"] = self.cleaned_data["api_key"] or None
        return cast(ProviderValues, entered)


@admin.register(Provider, site=site)
class ProviderAdmin(ScopedModelAdmin[Provider]):
    """Model servers of a tenant."""

    add_permission = Permission.MANAGE_POLICY
    change_permission = Permission.MANAGE_POLICY
    form = ProviderForm
    list_display = (
        "id", "tenant", shown("name"), "kind", "locality", shown("vendor"), shown("base_url"),
        "api_key_state", "is_active",
    )  # fmt: skip
    list_filter = (("tenant", ScopedRelatedFilter), "kind", "locality", "is_active")
    list_select_related = ("tenant",)
    search_fields = ("=id", "name")
    fields = (
        "tenant", "name", "kind", "base_url", "api_key_state", "api_key", "remove_api_key",
        "locality", "vendor", "timeouts", "is_active",
    )  # fmt: skip
    readonly_fields = ("api_key_state", "is_active")

    def get_fields(self, request: Any, obj: Provider | None = None) -> tuple[Any, ...]:
        """Return the fields; who may only look sees no box for a key."""
        if obj is None or self.has_change_permission(request, obj):
            return self.fields
        return tuple(name for name in self.fields if name not in ("api_key", "remove_api_key"))

    def store(self, scope: Scope, obj: Provider, form: Any, *, change: bool) -> None:
        """Make or change the provider, as the API does. Cost: one look-up of its host's name."""
        values, now = form.values(), timezone.now()
        if change:
            stored = update_provider(scope=scope, provider_id=obj.pk, values=values, now=now)
        else:
            stored = create_provider(scope=scope, values=values, now=now)
        obj.__dict__.update(stored.__dict__)

    @admin.display(description=_("API key"))
    def api_key_state(self, provider: Provider) -> str:
        """Say whether a key is there; never which."""
        return str(_("set") if provider.sealed_api_key else _("not set"))
