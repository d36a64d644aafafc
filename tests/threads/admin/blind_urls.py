"""The admin with two rooms whose forms check nothing: the database has to refuse, and to be hushed."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ValidationError
from django.urls import path

from governance.admin.site import CredenceAdminSite
from memory.scope import Scope
from threads.admin.agents import AgentAdmin
from threads.admin.providers import ProviderAdmin, ProviderForm
from threads.models import Agent, Provider


class BlindProviderForm(ProviderForm):
    """Looks for no duplicate."""

    def _update_errors(self, errors: ValidationError) -> None:
        """Nothing."""


class BlindProviderAdmin(ProviderAdmin):
    form = BlindProviderForm

    def store(self, scope: Scope, obj: Provider, form: Any, *, change: bool) -> None:
        obj.save()


class SmugglingAgentAdmin(AgentAdmin):
    """Points the agent at a provider over the fence, behind the form's back."""

    smuggled = ""

    def store(self, scope: Scope, obj: Agent, form: Any, *, change: bool) -> None:
        obj.provider_id = self.smuggled
        obj.save()


blind = CredenceAdminSite(name="admin")
blind.register(Provider, BlindProviderAdmin)
blind.register(Agent, SmugglingAgentAdmin)
urlpatterns = [path("admin/", blind.urls)]
