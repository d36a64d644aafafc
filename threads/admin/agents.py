"""Agents: what a tenant's application asks questions of."""

from __future__ import annotations

from datetime import datetime
from typing import Any, cast

from django import forms
from django.contrib import admin
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from governance.admin.base import ScopedModelAdmin
from governance.admin.filters import ScopedRelatedFilter
from governance.admin.forms import ScopedModelForm
from governance.admin.site import site
from governance.admin.text import shown
from governance.permissions import Permission
from memory.scope import Scope
from threads.agents import (
    KNOWN_TOOLS,
    AgentValues,
    create_agent,
    default_output_tokens,
    delete_agent,
    update_agent,
)
from threads.models import Agent

WRITTEN = (
    "name", "system_prompt", "provider", "model", "context_window", "max_output_tokens",
    "language", "role", "thread_strategy", "tools", "memory_fallback_provider", "policy",
)  # fmt: skip
TOOL_CHOICES = tuple((name, name) for name in KNOWN_TOOLS)


class AgentForm(ScopedModelForm):
    """An agent; policy is checked as the API checks it."""

    tools = forms.MultipleChoiceField(
        required=False,
        choices=TOOL_CHOICES,
        widget=forms.CheckboxSelectMultiple,
        label=_("Tools"),
        help_text=_("What its model may call. None: no tools are offered."),
    )

    constraint_texts = {
        "agent_window_floor": ("context_window", _("At least 1024 tokens.")),
        "agent_output_fits_window": (
            "max_output_tokens",
            _("At least 1, and fewer than the context window."),
        ),
    }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Let the answer's limit be left out."""
        super().__init__(*args, **kwargs)
        if "max_output_tokens" in self.fields:
            self.fields["max_output_tokens"].required = False
            self.fields["max_output_tokens"].help_text = _(
                "Tokens. If empty: 1024, or a quarter of a smaller context window."
            )

    def clean(self) -> dict[str, Any]:
        """Fill in the default before the row's own checks see it."""
        cleaned = super().clean()
        window = cleaned.get("context_window")
        if window and cleaned.get("max_output_tokens", 0) is None:
            cleaned["max_output_tokens"] = default_output_tokens(window)
        return cleaned

    def clean_policy(self) -> dict[str, Any]:
        """Let pass an object; names and bounds are checked where agents are stored."""
        policy: object = self.cleaned_data["policy"] or {}
        if not isinstance(policy, dict):
            raise forms.ValidationError(_("An object of policy names and values."))
        return policy

    def values(self) -> AgentValues:
        """Return what was entered under the names of `threads.agents`."""
        entered = {name: self.cleaned_data[name] for name in WRITTEN}
        for name in ("provider", "memory_fallback_provider"):
            row = entered.pop(name)
            entered[f"{name}_id"] = row.pk if row else None
        return cast(AgentValues, entered)


@admin.register(Agent, site=site)
class AgentAdmin(ScopedModelAdmin[Agent]):
    """Agents of a tenant: added, changed, retired."""

    add_permission = Permission.MANAGE_POLICY
    change_permission = Permission.MANAGE_POLICY
    act_permission = Permission.MANAGE_POLICY
    form = AgentForm
    list_display = (
        "id", "tenant", shown("name"), shown("provider__name", label=_("provider")),
        shown("model"), "language", "role", "thread_strategy", "is_active", "updated_at",
    )  # fmt: skip
    list_filter = (
        ("tenant", ScopedRelatedFilter),
        ("provider", ScopedRelatedFilter),
        "thread_strategy",
        "is_active",
    )
    list_select_related = ("tenant", "provider")
    list_defer = ("system_prompt", "policy")
    search_fields = ("=id", "name")
    fields = ("tenant", *WRITTEN, "cross_vendor_consent_at", "is_active")
    readonly_fields = ("cross_vendor_consent_at", "is_active")
    actions = ("retire",)

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Retired agents stay as they were."""
        is_open = not isinstance(obj, Agent) or obj.is_active
        return is_open and super().has_change_permission(request, obj)

    def store(self, scope: Scope, obj: Agent, form: Any, *, change: bool) -> None:
        """Make or change the agent, as the API does."""
        values, now = form.values(), timezone.now()
        if change:
            stored = update_agent(scope=scope, agent_id=obj.pk, values=values, now=now)
        else:
            stored = create_agent(scope=scope, values=values, now=now)
        obj.__dict__.update(stored.__dict__)

    @admin.action(
        permissions=["act"], description=_("Retire: delete unused agents, deactivate the others")
    )
    def retire(self, request: HttpRequest, rows: QuerySet[Agent]) -> None:
        """Retire the selected agents."""
        self.act(request, rows, _retire)


def _retire(scope: Scope, agent_id: str, now: datetime) -> None:
    delete_agent(scope=scope, agent_id=agent_id, now=now)
