"""Persons: who they are, and what compliance does for them: export, hold, erase."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.utils import quote, unquote
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils import timezone
from django.utils.translation import gettext as _now
from django.utils.translation import gettext_lazy as _

from governance.admin.columns import STYLES
from governance.admin.erase_many import EraseManyPages
from governance.admin.erasing import Counts, in_order
from governance.admin.filters import ScopedRelatedFilter
from governance.admin.forms_of_erasures import MODES, ErasureForm
from governance.admin.site import site
from governance.admin.staff import scope_for
from governance.admin.text import shown
from governance.erasure.holds import active_hold, place_hold, release_hold
from governance.erasure.requests import preview, request_erasure
from governance.export import make_link
from governance.models import ErasureMode
from governance.permissions import Permission
from memory.errors import CredenceError, ScopeError
from memory.models import EndUser
from memory.scope import Scope

Page = Callable[[HttpRequest, EndUser, Scope], HttpResponse]
_FOLDER: Final = "admin/governance/enduser"


class HoldForm(forms.Form):
    """Why a person may not be erased."""

    reason = forms.CharField(label=_("Reason"), max_length=500, required=False)


@admin.register(EndUser, site=site)
class EndUserAdmin(EraseManyPages):
    """Persons, read-only: they come with their first message and go by erasure."""

    list_display = ("id", "tenant", shown("user_id"), "created_at", "erasing_at")
    list_filter = (("tenant", ScopedRelatedFilter),)
    list_select_related = ("tenant",)
    search_fields = ("=id", "user_id__startswith")
    fields = ("id", "tenant", shown("user_id"), "epoch", "created_at", "erasing_at")
    readonly_fields = fields
    change_form_template = f"{_FOLDER}/change_form.html"

    class Media:
        css = {"all": (STYLES,)}

    # -- the page of a person ----------------------------------------------------------------

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """Show the person with what may be done for them. Cost: one query more."""
        person = self.get_object(request, unquote(object_id))
        context = dict(extra_context or {})
        if person is not None and person.erasing_at is None:
            may_erase = self._scope(request, person, Permission.ERASE)
            context["may_export"] = self._scope(request, person, Permission.EXPORT) is not None
            context["may_erase"] = may_erase is not None
            context["person"] = person
            if may_erase is not None:
                context["hold"] = active_hold(scope=may_erase, subject_id=person.pk)
                context["hold_form"] = HoldForm(label_suffix="")
        return super().change_view(request, object_id, form_url, context)

    def get_urls(self) -> list[URLPattern]:
        """Return Django's URLs and those of the acts."""
        acts: tuple[tuple[str, Permission, Page, bool], ...] = (
            ("export", Permission.EXPORT, self._export, False),
            ("hold", Permission.ERASE, self._hold, False),
            ("release", Permission.ERASE, self._release, False),
            ("erase", Permission.ERASE, self._erase, True),
        )
        own = [
            path(
                f"<path:object_id>/{name}/",
                self.admin_site.admin_view(self._guarded(permission, page, has_page=has_page)),
                name=f"memory_enduser_{name}",
            )
            for name, permission, page, has_page in acts
        ]
        return [*own, *super().get_urls()]

    def _scope(self, request: HttpRequest, person: EndUser, permission: Permission) -> Scope | None:
        """Return the scope of the person's tenant, if the permission is granted on it."""
        scope = scope_for(request, permission)
        if scope is None or person.tenant_id not in scope.tenant_ids:
            return None
        return scope.for_tenant(tenant_id=person.tenant_id)

    def _guarded(
        self, permission: Permission, page: Page, *, has_page: bool
    ) -> Callable[[HttpRequest, str], HttpResponse]:
        """Return the view of one act: the person in scope, the permission, and the method."""

        def view(request: HttpRequest, object_id: str) -> HttpResponse:
            person = self.get_object(request, unquote(object_id))
            if person is None:
                return self._get_obj_does_not_exist_redirect(request, self.opts, object_id)  # type: ignore[attr-defined, no-any-return]
            if request.method != "POST" and not has_page:
                return HttpResponseNotAllowed(["POST"])
            scope = self._scope(request, person, permission)
            if scope is None:
                raise PermissionDenied
            try:
                return page(request, person, scope)
            except ScopeError:
                raise
            except CredenceError as error:
                messages.error(request, _now(error.detail))
                return self._back(person)

        return view

    def _back(self, person: EndUser) -> HttpResponse:
        return HttpResponseRedirect(
            reverse("admin:memory_enduser_change", args=(quote(person.pk),))
        )

    # -- the acts ----------------------------------------------------------------------------

    def _export(self, request: HttpRequest, person: EndUser, scope: Scope) -> HttpResponse:
        """Make a link and show it on this page, once: no redirect, which would have to store it."""
        made = make_link(scope=scope, person=person, now=timezone.now())
        context = self.admin_site.each_context(request) | {
            "title": _now("Link to the export"),
            "opts": self.opts,
            "person": person,
            "link": made.link,
            "url": request.build_absolute_uri(made.path),
        }
        return TemplateResponse(request, f"{_FOLDER}/link.html", context)

    def _hold(self, request: HttpRequest, person: EndUser, scope: Scope) -> HttpResponse:
        form = HoldForm(request.POST)
        if form.is_valid():
            reason = form.cleaned_data["reason"]
            place_hold(scope=scope, person=person, reason=reason, now=timezone.now())
            messages.success(request, _now("The person is under legal hold."))
        else:
            messages.error(request, _now("The reason is at most 500 characters."))
        return self._back(person)

    def _release(self, request: HttpRequest, person: EndUser, scope: Scope) -> HttpResponse:
        if release_hold(scope=scope, person=person, now=timezone.now()) is None:
            messages.warning(request, _now("There is no legal hold on the person."))
        else:
            messages.success(request, _now("The legal hold is released."))
        return self._back(person)

    def _erase(self, request: HttpRequest, person: EndUser, scope: Scope) -> HttpResponse:
        """Show the counts of what would go; with the id typed in, ask for the erasure."""
        is_asked = request.method == "POST" and "confirmed_id" in request.POST
        form = ErasureForm(request.POST if is_asked else None, label_suffix="")
        if is_asked and form.is_valid():
            if form.cleaned_data["confirmed_id"].strip() == person.pk:
                asked = request_erasure(
                    scope=scope, person=person, now=timezone.now(), **form.choice().values()
                )
                messages.success(request, _now("The erasure has begun."))
                url = reverse("admin:governance_erasure_change", args=(quote(asked.pk),))
                return HttpResponseRedirect(url)
            form.add_error("confirmed_id", _now("This is not the person's id."))
        shown_modes = [
            {"label": label, "counts": _counts(scope, person, mode)} for mode, label in MODES
        ]
        context = self.admin_site.each_context(request) | {
            "title": _now("Erase a person"),
            "opts": self.opts,
            "person": person,
            "form": form,
            "modes": shown_modes,
            "hold": active_hold(scope=scope, subject_id=person.pk),
            "media": self.media,
        }
        return TemplateResponse(request, f"{_FOLDER}/erase.html", context)


def _counts(scope: Scope, person: EndUser, mode: ErasureMode) -> Counts:
    """Return what would go, by name."""
    return in_order(preview(scope=scope, person=person, mode=mode).counts.items())
