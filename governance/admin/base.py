"""The one base of every admin page: rows, choices, filters, actions and writes stay in scope.

Permissions come from grants on tenants (governance.access) alone: neither Django's model
permissions nor superuser status count. What a class does not allow, nobody may do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.core.exceptions import PermissionDenied
from django.db import DataError, IntegrityError, connection, models
from django.forms import ModelForm
from django.http import HttpRequest, HttpResponse

from governance.admin.actions import Act, act_on_each
from governance.admin.filters import FilterEntry, filter_parameters
from governance.admin.forms import PlainJSONField, ScopedChoiceField, ScopedModelForm, refusal_of
from governance.admin.paging import BoundedPaginator, ScopedChangeList
from governance.admin.staff import is_allowed, scope_for, tenant_of
from governance.permissions import Permission
from memory.errors import CredenceError
from memory.ids import is_id
from memory.querysets import ScopedQuerySet
from memory.rls import scoped_transaction
from memory.scope import Scope

M = TypeVar("M", bound=models.Model)


class ScopedModelAdmin(admin.ModelAdmin[M]):
    """Base of all rooms. A subclass declares; what it leaves out is refused.

    Attributes:
        view_permission: Codename on the tenant that shows its rows.
        add_permission: Codename that adds rows; None for nobody.
        change_permission: Codename that changes them; None for nobody.
        act_permission: Codename that runs the actions marked `permissions=["act"]`.
        list_defer: Columns too long to load for a list.
    """

    view_permission: ClassVar[Permission] = Permission.VIEW
    add_permission: ClassVar[Permission | None] = None
    change_permission: ClassVar[Permission | None] = None
    act_permission: ClassVar[Permission | None] = None
    list_defer: ClassVar[tuple[str, ...]] = ()

    form = ScopedModelForm
    formfield_overrides = {
        models.JSONField: {"form_class": PlainJSONField, "show_hidden_initial": False}
    }
    paginator = BoundedPaginator
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    sortable_by = ()
    list_per_page = 50
    list_max_show_all = 50
    list_filter: ClassVar[tuple[FilterEntry, ...]] = ()
    ordering = ("-id",)
    view_on_site = False

    # -- who may -----------------------------------------------------------------------------

    def has_view_permission(self, request: HttpRequest, obj: models.Model | None = None) -> bool:
        """Say whether the row's tenant, or any, is granted for viewing."""
        return is_allowed(request, self.view_permission, obj)

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Say whether rows may be added in any tenant."""
        return is_allowed(request, self.add_permission, None)

    def has_change_permission(self, request: HttpRequest, obj: models.Model | None = None) -> bool:
        """Say whether the row, or any, may be changed."""
        return is_allowed(request, self.change_permission, obj)

    def has_delete_permission(self, request: HttpRequest, obj: models.Model | None = None) -> bool:
        """No: rows end by erasure and expiry, which know what hangs on them."""
        return False

    def has_act_permission(self, request: HttpRequest) -> bool:
        """Say whether the actions of this room may be run in any tenant."""
        return is_allowed(request, self.act_permission, None)

    def has_module_permission(self, request: HttpRequest) -> bool:
        """Say whether the room appears on the index."""
        return self.has_view_permission(request)

    # -- which rows --------------------------------------------------------------------------

    def get_queryset(self, request: HttpRequest) -> models.QuerySet[M]:
        """Return the rows in scope; for staff without a tenant, none."""
        scope = scope_for(request, self.view_permission)
        manager: Any = self.model._default_manager
        found: ScopedQuerySet[M] = (
            manager.in_scope(scope) if scope else manager.unscoped(reason="no row at all").none()
        )
        return found.order_by(*self.get_ordering(request))

    def get_object(
        self, request: HttpRequest, object_id: str, from_field: str | None = None
    ) -> M | None:
        """Return the row in scope; a foreign id is answered like one that never was."""
        if not is_id(object_id) or not self.to_field_allowed(request, from_field or "id"):
            return None
        return super().get_object(request, object_id)

    def to_field_allowed(self, request: HttpRequest, to_field: str) -> bool:
        """Only the primary key names a row to popups and drop-downs."""
        return to_field in ("id", self.opts.pk.attname)

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:
        """Only the parameters of the declared filters; anything else is answered with 400."""
        return "\0" not in value and lookup in filter_parameters(self.model, self.list_filter)

    def get_search_fields(self, request: HttpRequest) -> list[str]:
        """Return the declared ones; `=` means equal, where Django's has no index: equal but for case."""
        return [
            f"{name[1:]}__exact" if name.startswith("=") else name for name in self.search_fields
        ]

    def get_search_results(
        self, request: HttpRequest, queryset: models.QuerySet[M], search_term: str
    ) -> tuple[models.QuerySet[M], bool]:
        """As Django's, over rows in scope; also used by drop-downs that search.

        An id is looked for where ids are, and nowhere else: an index finds it.
        """
        term = search_term.replace("\0", "").strip()
        if not is_id(term):
            return super().get_search_results(request, queryset, term)
        wanted = models.Q(pk=term)
        for name in self.search_fields:
            if name.endswith("__id") or (name.endswith("_id") and "__" not in name):
                wanted |= models.Q(**{name.removeprefix("="): term})
        return queryset.filter(wanted), False

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        """Return the list class that leaves long columns unread."""
        return ScopedChangeList

    # -- forms -------------------------------------------------------------------------------

    def get_readonly_fields(
        self, request: HttpRequest, obj: M | None = None
    ) -> list[str] | tuple[Any, ...]:
        """Return the declared ones, and the tenant once it is chosen."""
        declared = tuple(super().get_readonly_fields(request, obj))
        return declared if obj is None else (*declared, "tenant")

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        """Choose the tenant for those who have only one."""
        scope = scope_for(request, self.add_permission)
        only = scope.tenant_ids if scope else ()
        chosen = {"tenant": only[0]} if len(only) == 1 else {}
        return chosen | super().get_changeform_initial_data(request)

    def formfield_for_foreignkey(
        self, db_field: models.ForeignKey[Any, Any], request: HttpRequest, **kwargs: Any
    ) -> Any:
        """Offer rows of tenants where this room may be written in, and of nothing else."""
        kwargs |= {"queryset": self._choices(db_field, request), "form_class": ScopedChoiceField}
        return super().formfield_for_foreignkey(db_field, request, **kwargs)

    def formfield_for_manytomany(
        self, db_field: models.ManyToManyField[Any, Any], request: HttpRequest, **kwargs: Any
    ) -> Any:
        """As for foreign keys."""
        kwargs["queryset"] = self._choices(db_field, request)
        return super().formfield_for_manytomany(db_field, request, **kwargs)

    def _choices(self, db_field: Any, request: HttpRequest) -> models.QuerySet[Any]:
        target = db_field.remote_field.model
        scope = scope_for(request, self.change_permission or self.add_permission)
        if not hasattr(target, "walls"):
            empty: models.QuerySet[Any] = target._default_manager.none()
            return empty
        manager = target._default_manager
        rows = manager.in_scope(scope) if scope else manager.unscoped(reason="no row").none()
        found: models.QuerySet[Any] = rows.order_by("-pk")
        return found

    def get_form(
        self,
        request: HttpRequest,
        obj: M | None = None,
        change: bool = False,  # noqa: FBT001, FBT002
        **kwargs: Any,
    ) -> type[ModelForm[M]]:
        """Return the form class, knowing why the last attempt to save was refused, if it was."""
        form = super().get_form(request, obj, change=change, **kwargs)
        refusal = getattr(request, "credence_refusal", None)
        return type(form.__name__, (form,), {"refusal": refusal})

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """As Django's; what database or domain refuse comes back as an error of the form."""
        show: Callable[..., HttpResponse] = super().changeform_view
        try:
            return show(request, object_id, form_url, extra_context)
        except (IntegrityError, DataError, CredenceError) as error:
            if request.method != "POST" or hasattr(request, "credence_refusal"):
                raise
            request.credence_refusal = refusal_of(error)  # type: ignore[attr-defined]
        return show(request, object_id, form_url, extra_context)

    # -- writes ------------------------------------------------------------------------------

    def write_scope(self, request: HttpRequest, row: models.Model, *, change: bool) -> Scope:
        """Return the scope of a write: the row's tenant alone, if the codename is granted there.

        Raises:
            PermissionDenied: It is not.
        """
        permission = self.change_permission if change else self.add_permission
        scope, tenant_id = scope_for(request, permission), tenant_of(row)
        if scope is None or tenant_id not in scope.tenant_ids:
            raise PermissionDenied
        return scope.for_tenant(tenant_id=tenant_id)

    def save_model(
        self,
        request: HttpRequest,
        obj: M,
        form: Any,
        change: bool,  # noqa: FBT001
    ) -> None:
        """Write the row and its audit entry in the scope of its one tenant.

        Deferred foreign keys are checked here, while the form can still say so.
        """
        scope = self.write_scope(request, obj, change=change)
        with scoped_transaction(scope):
            self.store(scope, obj, form, change=change)
            connection.check_constraints()

    def store(self, scope: Scope, obj: M, form: Any, *, change: bool) -> None:
        """Store what the form says by the one function of the domain that audits it.

        It also makes `obj` the stored row.

        Raises:
            NotImplementedError: A room allows adding or changing and does not say how.
        """
        raise NotImplementedError

    # -- actions -----------------------------------------------------------------------------

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """As Django's, but an action that is not granted is refused instead of ignored."""
        wanted = {name for name in request.POST.getlist("action") if name}
        if wanted - self.get_actions(request).keys():
            raise PermissionDenied
        return super().changelist_view(request, extra_context)

    def act(self, request: HttpRequest, rows: models.QuerySet[M], act: Act) -> None:
        """Run one governance call on each selected row, as `governance.admin.actions` has it."""
        if self.act_permission is None:
            raise PermissionDenied
        act_on_each(request=request, rows=rows, permission=self.act_permission, act=act)
