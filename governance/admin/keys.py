"""API keys: made with one sight of the secret, listed without it, revoked."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from governance.admin.base import ScopedModelAdmin
from governance.admin.filters import ScopedRelatedFilter
from governance.admin.forms import ScopedModelForm
from governance.admin.site import site
from governance.admin.text import shown
from governance.keys import create_key, require_separation
from governance.models import ApiKey, KeyScope
from governance.permissions import Permission
from governance.registers import revoke_key
from memory.scope import Scope


class ApiKeyForm(ScopedModelForm):
    """What a new key may do, for whom, and until when."""

    scopes = forms.MultipleChoiceField(
        choices=KeyScope.choices, widget=forms.CheckboxSelectMultiple, label=_("Scopes")
    )


@admin.register(ApiKey, site=site)
class ApiKeyAdmin(ScopedModelAdmin[ApiKey]):
    """Keys: added and revoked, never changed. Neither secret nor digest is ever listed."""

    add_permission = Permission.MANAGE_POLICY
    act_permission = Permission.MANAGE_POLICY
    form = ApiKeyForm
    list_display = (
        "id", "tenant", shown("name"), "prefix", "granted", "created_at", "expires_at",
        "revoked_at", "last_used_at",
    )  # fmt: skip
    list_filter = (("tenant", ScopedRelatedFilter),)
    list_select_related = ("tenant",)
    list_defer = ("digest",)
    search_fields = ("=id", "=prefix", "name")
    autocomplete_fields = ("agent", "end_user")
    actions = ("revoke",)
    written = ("tenant", "name", "scopes", "agent", "end_user", "expires_at")
    read = (
        "id", "tenant", shown("name"), "prefix", "granted", "agent", "end_user", "created_by",
        "created_at", "expires_at", "revoked_at", "last_used_at",
    )  # fmt: skip

    def get_fields(self, request: HttpRequest, obj: ApiKey | None = None) -> tuple[Any, ...]:
        """Return what is asked of a new key, or what is known of an old one."""
        return self.written if obj is None else self.read

    def get_readonly_fields(
        self, request: HttpRequest, obj: ApiKey | None = None
    ) -> tuple[Any, ...]:
        """Return nothing for a new key, everything for an old one."""
        return () if obj is None else self.read

    @admin.display(description=_("Scopes"))
    def granted(self, key: ApiKey) -> str:
        """Return the key's scopes as words."""
        return ", ".join(key.scopes)

    def store(self, scope: Scope, obj: ApiKey, form: Any, *, change: bool) -> None:
        """Make the key through governance, which audits it, and keep its secret for this answer."""
        require_separation(scope=scope, scopes=obj.scopes)
        made = create_key(
            scope=scope,
            scopes=obj.scopes,
            now=timezone.now(),
            name=obj.name,
            expires_at=obj.expires_at,
            agent_id=obj.agent_id,
            end_user_id=obj.end_user_id,
        )
        obj.__dict__.update(made.key.__dict__)
        obj.secret = made.secret  # type: ignore[attr-defined]

    def response_add(
        self, request: HttpRequest, obj: ApiKey, post_url_continue: str | None = None
    ) -> HttpResponse:
        """Show the secret on this page, once: no redirect, which would have to store it."""
        context = self.admin_site.each_context(request) | {
            "title": _("API key made"),
            "opts": self.opts,
            "key": obj,
            "secret": obj.secret,  # type: ignore[attr-defined]
        }
        return TemplateResponse(request, "admin/governance/apikey/secret.html", context)

    @admin.action(permissions=["act"], description=_("Revoke: end these keys at once"))
    def revoke(self, request: HttpRequest, rows: QuerySet[ApiKey]) -> None:
        """Revoke the selected keys."""
        self.act(request, rows, _revoke)


def _revoke(scope: Scope, key_id: str, now: datetime) -> None:
    revoke_key(scope=scope, key_id=key_id, now=now)
