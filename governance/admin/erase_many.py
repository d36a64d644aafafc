"""The pages on which many persons are erased: what would go, and what came of it.

The list of persons leads here. The first page shows what the act would take away of each person and
asks for their number; what is confirmed is what that page showed. Where somebody on it can not be
erased any more, or something else was chosen meanwhile, nobody is erased and the page comes anew.
"""

from __future__ import annotations

from typing import Any, Final

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils import timezone
from django.utils.translation import gettext as _now
from django.utils.translation import gettext_lazy as _

from governance.admin.base import ScopedModelAdmin
from governance.admin.erasing import (
    MOST_PERSONS,
    Candidate,
    ask_for_all,
    ids_in,
    look_up,
    refuse_stale,
    total_of,
    with_counts,
)
from governance.admin.forms_of_erasures import Choice, ErasuresForm
from governance.models import ErasureMode
from governance.permissions import Permission
from memory.models import EndUser

_FOLDER: Final = "admin/governance/enduser"
_FIRST_CHOICE: Final = Choice(mode=ErasureMode.ALL)


class EraseManyPages(ScopedModelAdmin[EndUser]):
    """The action on selected persons, and the address that its page is posted to."""

    act_permission = Permission.ERASE
    actions = ("erase_selected",)

    def get_urls(self) -> list[URLPattern]:
        """Return the room's URLs and that of the pages."""
        view = self.admin_site.admin_view(self.erase_many_view)
        return [path("erase/", view, name="memory_enduser_erase_many"), *super().get_urls()]

    @admin.action(permissions=["act"], description=_("Erase the selected persons…"))
    def erase_selected(self, request: HttpRequest, rows: QuerySet[EndUser]) -> HttpResponse | None:
        """Show what would go of the selected persons; of those too who are gone meanwhile."""
        if request.POST.get("select_across") == "1":
            chosen = [str(pk) for pk in rows.values_list("pk", flat=True)[: MOST_PERSONS + 1]]
        else:
            chosen = request.POST.getlist("_selected_action")
        person_ids = ids_in(chosen)
        if self._says_why_not(request, person_ids):
            return None
        candidates = look_up(
            request=request, rows=self.get_queryset(request), person_ids=person_ids
        )
        return self._page(request, candidates, ErasuresForm(label_suffix=""), _FIRST_CHOICE)

    def erase_many_view(self, request: HttpRequest) -> HttpResponse:
        """Count anew, or erase those whom the page showed; a selection comes from the list alone.

        Raises:
            PermissionDenied: `erase` is not granted on the tenant of one of them; nothing is done.
        """
        person_ids = ids_in(request.POST.getlist("person"))
        if self._says_why_not(request, person_ids):
            return HttpResponseRedirect(reverse("admin:memory_enduser_changelist"))
        candidates = look_up(
            request=request, rows=self.get_queryset(request), person_ids=person_ids
        )
        form = ErasuresForm(request.POST, label_suffix="")
        if not form.is_valid():
            return self._page(request, candidates, form, None)
        choice = form.choice()
        if request.POST.get("step") == "erase":
            confirmed = ids_in(request.POST.getlist("confirmed"))
            counted = request.POST.get("counted", "")
            refuse_stale(form, candidates=candidates, confirmed_ids=confirmed, counted=counted)
            if form.is_valid():
                return self._erased(request, candidates, frozenset(confirmed), choice)
        return self._page(request, candidates, form, choice)

    def _says_why_not(self, request: HttpRequest, person_ids: list[str]) -> bool:
        """Say what is wrong with a selection, if anything is."""
        if not person_ids:
            messages.warning(request, _now("Select the persons to erase in this list first."))
        elif len(person_ids) > MOST_PERSONS:
            text = _now(
                "At most %(most)d persons are erased at once. Narrow the selection; nobody was"
                " erased."
            )
            messages.error(request, text % {"most": MOST_PERSONS})
        return not 0 < len(person_ids) <= MOST_PERSONS

    def _page(
        self,
        request: HttpRequest,
        candidates: list[Candidate],
        form: ErasuresForm,
        choice: Choice | None,
    ) -> HttpResponse:
        """Show the persons with the counts of a choice; with none where the form has no valid one."""
        if choice is not None:
            candidates = with_counts(request=request, candidates=candidates, choice=choice)
        totals = total_of(candidates)
        going = [one for one in candidates if one.goes]
        return self._answer(
            request,
            "erase_many",
            title=_now("Erase many persons"),
            form=form,
            candidates=candidates,
            going=going,
            left=len(candidates) - len(going),
            held=sum(one.is_held for one in candidates),
            counted=choice,
            totals=totals,
            total=sum(number for _name, number in totals),
        )

    def _erased(
        self,
        request: HttpRequest,
        candidates: list[Candidate],
        confirmed: frozenset[str],
        choice: Choice,
    ) -> HttpResponse:
        """Ask for the erasures and list them, with those who were left out."""
        persons = [one.person for one in candidates if one.person_id in confirmed and one.person]
        outcomes = ask_for_all(request=request, persons=persons, choice=choice, now=timezone.now())
        return self._answer(
            request,
            "erased_many",
            title=_now("Erasures of many persons"),
            outcomes=outcomes,
            begun=sum(one.is_new for one in outcomes),
            left=[one for one in candidates if one.person_id not in confirmed],
        )

    def _answer(self, request: HttpRequest, page: str, **context: Any) -> HttpResponse:
        context |= {"opts": self.opts, "media": self.media}
        context = self.admin_site.each_context(request) | context
        return TemplateResponse(request, f"{_FOLDER}/{page}.html", context)
