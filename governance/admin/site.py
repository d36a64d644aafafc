"""The admin site: every view runs inside one transaction limited to what its user was granted.

Only rooms built on `governance.admin.base.ScopedModelAdmin` are registered here. Django's users
and groups, django-q2's schedules (their `func` is code to run) and guardian's pages are not: staff
accounts are made by the create_staff command.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import wraps
from typing import Any

from django.contrib import admin
from django.contrib.admin.views.autocomplete import AutocompleteJsonView
from django.core.exceptions import PermissionDenied, SuspiciousOperation
from django.db import DataError, IntegrityError, models
from django.db.models.base import ModelBase
from django.http import Http404, HttpRequest, HttpResponseBase
from django.template.response import SimpleTemplateResponse
from django.urls import URLPattern, URLResolver
from django.utils.translation import gettext_lazy as _

from governance.access import ForbiddenError
from governance.admin.names import name_in_words
from governance.admin.sidebar import by_group
from governance.admin.staff import set_staff_scope
from governance.admin.text import label_of
from memory.errors import NotFoundError
from memory.rls import scoped_transaction
from memory.scope import Scope

View = Callable[..., HttpResponseBase]
FrontPage = Callable[[HttpRequest], dict[str, Any]]


class LabelledAutocompleteView(AutocompleteJsonView):
    """The stock view with the labels of our drop-downs; the rows come from the scoped admin."""

    def serialize_result(self, obj: models.Model, to_field_name: str) -> dict[str, str]:
        """Return one choice."""
        return {"id": str(getattr(obj, to_field_name)), "text": label_of(obj)}


class CredenceAdminSite(admin.AdminSite):
    """The one admin site of the service."""

    site_header = "Credence"
    site_title = "Credence"
    index_title = _("Dashboard")
    site_url = None
    index_template = "admin/credence/index.html"
    # What the front page shows: made above this app, which knows nothing of runs.
    front_page: FrontPage | None = None

    def index(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        """Show the front page; without one, the rooms."""
        shown = self.front_page(request) if self.front_page else {}
        return super().index(request, {**(extra_context or {}), **shown})

    def register(self, model_or_iterable: Any, admin_class: Any = None, **options: Any) -> None:
        """Register a room as Django does, and let its table's names be told in any language."""
        super().register(model_or_iterable, admin_class, **options)
        is_one = isinstance(model_or_iterable, ModelBase)
        for model in (model_or_iterable,) if is_one else model_or_iterable:
            name_in_words(model)

    def admin_view(self, view: View, cacheable: bool = False) -> Any:  # noqa: FBT001, FBT002
        """Let members of staff in, as Django does, then run the view in their scope."""
        return super().admin_view(in_staff_scope(view), cacheable)

    def autocomplete_view(self, request: HttpRequest) -> Any:
        """Answer the search box of a drop-down."""
        return LabelledAutocompleteView.as_view(admin_site=self)(request)

    def get_app_list(self, request: HttpRequest, app_label: str | None = None) -> list[Any]:
        """Return the rooms one may see by what one comes for; of one app as Django does."""
        apps = super().get_app_list(request, app_label)
        return apps if app_label else by_group(apps)

    def get_urls(self) -> list[URLPattern | URLResolver]:
        """Return Django's URLs without "view on site", which looks rows up by itself."""
        return [url for url in super().get_urls() if getattr(url, "name", "") != "view_on_site"]


def in_staff_scope(view: View) -> View:
    """Wrap a view so that it runs, and its template is rendered, inside the scoped transaction.

    A lazy TemplateResponse would otherwise read its rows after the transaction. Cost: one query
    for the scope and one statement to set it.
    """

    @wraps(view)
    def inner(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        scope = set_staff_scope(request)
        try:
            return _answer(scope, view, request, *args, **kwargs)
        except NotFoundError as error:
            raise Http404 from error
        except ForbiddenError as error:
            raise PermissionDenied from error
        except (DataError, IntegrityError) as error:
            # What PostgreSQL says quotes values and names: none of it may reach the page.
            raise SuspiciousOperation("The database refused a value of this request.") from error

    return inner


def _answer(
    scope: Scope | None, view: View, request: HttpRequest, *args: Any, **kwargs: Any
) -> HttpResponseBase:
    with scoped_transaction(scope) if scope else nullcontext():
        response = view(request, *args, **kwargs)
        if isinstance(response, SimpleTemplateResponse):
            response.render()
    return response


site = CredenceAdminSite(name="admin")
site.disable_action("delete_selected")
