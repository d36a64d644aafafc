"""The page of an item's uses: which answers showed it, what was made of it, and making that anew."""

from __future__ import annotations

from typing import Any, Final

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.utils import timezone
from django.utils.translation import gettext as _now

from governance.admin.base import ScopedModelAdmin
from governance.admin.staff import scope_for
from governance.permissions import Permission
from memory.errors import CredenceError, NotFoundError, ScopeError
from memory.scope import Scope
from threads.models import Run
from threads.uses import Uses, rederive, uses_of
from threads.uses.reach import Reach

_REDERIVABLE: Final = frozenset({"run", "message", "thread"})


class UsesPage(ScopedModelAdmin[Run]):
    """The page beside the room of runs; pages of other rooms lead to it as well."""

    def get_urls(self) -> list[URLPattern]:
        """Return the room's URLs and that of the page."""
        view = self.admin_site.admin_view(self.uses_view)
        own = path("uses/<str:tenant_id>/<str:item_id>/", view, name="threads_run_uses")
        return [own, *super().get_urls()]

    def uses_view(self, request: HttpRequest, tenant_id: str, item_id: str) -> HttpResponse:
        """Show the uses of an item, or make anew what was derived from it.

        Raises:
            NotFoundError: Unknown, or not of a tenant that may be viewed.
            PermissionDenied: Making anew is not granted on the tenant.
        """
        scope = _granted(request, Permission.VIEW, tenant_id)
        if scope is None:
            raise NotFoundError
        may = _granted(request, Permission.APPROVE, tenant_id)
        if request.method == "POST":
            if may is None:
                raise PermissionDenied
            _rederive(request, may, item_id)
            return HttpResponseRedirect(request.path)
        uses = uses_of(reach=Reach(scope=scope), item_id=item_id)
        context = self.admin_site.each_context(request) | self._shown(uses)
        context |= {"tenant_id": tenant_id, "may_rederive": may is not None and _is_made(uses)}
        return TemplateResponse(request, "admin/credence/uses.html", context)

    def _shown(self, uses: Uses) -> dict[str, Any]:
        return {
            "title": _now("Uses"),
            "opts": self.opts,
            "media": self.media,
            "uses": uses,
            "counts": sorted(uses.made.counts.items()),
        }


def _granted(request: HttpRequest, permission: Permission, tenant_id: str) -> Scope | None:
    scope = scope_for(request, permission)
    if scope is None or tenant_id not in scope.tenant_ids:
        return None
    return scope.for_tenant(tenant_id=tenant_id)


def _is_made(uses: Uses) -> bool:
    return not uses.is_gone and uses.kind in _REDERIVABLE


def _rederive(request: HttpRequest, scope: Scope, item_id: str) -> None:
    try:
        done = rederive(reach=Reach(scope=scope), item_id=item_id, now=timezone.now())
    except (ScopeError, NotFoundError):
        raise
    except CredenceError as error:
        messages.error(request, _now(error.detail))
        return
    text = _now("Dropped and asked for anew: %(count)s rows. Left as decided: %(left)s.")
    count = sum(done.dropped.values())
    messages.success(request, text % {"count": count, "left": len(done.left)})
