"""Erasing many persons at once: who goes, who is left out and why, and one erasure for each."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from django.core.exceptions import PermissionDenied
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from governance.admin.forms_of_erasures import Choice, ErasuresForm
from governance.admin.staff import scope_for
from governance.admin.text import visible
from governance.erasure.requests import erasures_of, preview, request_erasure
from governance.models import ErasureMode, ErasureStatus, LegalHold
from governance.permissions import Permission
from memory.errors import CredenceError, ScopeError
from memory.ids import is_id
from memory.models import EndUser
from memory.rls import scoped_transaction
from memory.scope import Scope

MOST_PERSONS: Final = 100
# A request has to end: whom it did not come to is left out, and chosen again afterwards.
COUNTING_SECONDS: Final = 25.0
_UNFINISHED: Final = (ErasureStatus.QUEUED, ErasureStatus.RUNNING)

Counts = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One of the persons who were chosen.

    Attributes:
        person: None where nobody of that id is there (any more).
        left_out: Why nothing of the person would be erased; empty if it would.
        is_held: Whether that is a legal hold.
        erasure_id: The erasure that is on its way already, or that is done.
        counts: What would go, by name; None where it was not counted.
    """

    person_id: str
    person: EndUser | None
    left_out: str = ""
    is_held: bool = False
    erasure_id: str | None = None
    counts: Counts | None = None

    @property
    def goes(self) -> bool:
        """Say whether the person would be erased."""
        return self.person is not None and not self.left_out

    @property
    def total(self) -> int:
        """How many in all."""
        return sum(number for _name, number in self.counts or ())

    @property
    def user_id(self) -> SafeString:
        """The id under which the tenant knows the person, for a page."""
        is_known = self.person is not None and self.person.erasing_at is None
        return visible(self.person.user_id) if is_known and self.person else SafeString("")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of one person: an erasure, or why there is none.

    Attributes:
        is_new: Whether the erasure was asked for just now.
    """

    person_id: str
    erasure_id: str | None = None
    is_new: bool = False
    problem: str = ""


def ids_in(posted: Iterable[str]) -> list[str]:
    """Return the ids of persons among what was posted, each once, in the order in which all take them."""
    return sorted({text for text in posted if is_id(text, prefix="usr")})


def look_up(
    *, request: HttpRequest, rows: QuerySet[EndUser], person_ids: Sequence[str]
) -> list[Candidate]:
    """Return what stands against the erasure of each person, without any counts. Cost: three queries.

    Args:
        request: Whose grants are asked.
        rows: The persons that may be seen.
        person_ids: At most MOST_PERSONS.

    Raises:
        PermissionDenied: `erase` is not granted on the tenant of one of them.
    """
    scope = scope_for(request, Permission.ERASE)
    persons = {person.pk: person for person in rows.filter(pk__in=person_ids)}
    if scope is None or any(one.tenant_id not in scope.tenant_ids for one in persons.values()):
        raise PermissionDenied
    holds = LegalHold.objects.in_scope(scope).filter(
        subject_id__in=person_ids, released_at__isnull=True
    )
    held = frozenset(holds.values_list("subject_id", flat=True))
    begun = _begun(scope, person_ids)
    return [
        _candidate(
            person_id,
            persons.get(person_id),
            begun=begun.get(person_id),
            is_held=person_id in held,
        )
        for person_id in person_ids
    ]


def _begun(scope: Scope, person_ids: Sequence[str]) -> dict[str, tuple[str, bool]]:
    """Return each person's newest erasure that is on its way, or was of everything; and if it is over."""
    rows = erasures_of(scope=scope).filter(subject_id__in=person_ids)
    rows = rows.filter(Q(status__in=_UNFINISHED) | Q(mode=ErasureMode.ALL)).order_by("id")
    found = rows.values_list("subject_id", "pk", "status")
    return {subject_id: (pk, status not in _UNFINISHED) for subject_id, pk, status in found}


def _candidate(
    person_id: str, person: EndUser | None, *, begun: tuple[str, bool] | None, is_held: bool
) -> Candidate:
    erasure_id, is_over = begun or (None, True)
    one = Candidate(person_id=person_id, person=person)
    if person is None:
        text = _("Nobody is there under this id any more.")
        return replace(one, left_out=text, erasure_id=erasure_id)
    if person.erasing_at is not None:
        return replace(one, left_out=_("Is being erased already."), erasure_id=erasure_id)
    if not is_over:
        text = _("Another erasure of this person is not finished.")
        return replace(one, left_out=text, erasure_id=erasure_id)
    return replace(one, left_out=_("Under legal hold."), is_held=True) if is_held else one


def with_counts(
    *, request: HttpRequest, candidates: Sequence[Candidate], choice: Choice
) -> list[Candidate]:
    """Return the candidates with what the act would take away of each, by its own queries; audited.

    Whom COUNTING_SECONDS do not suffice for is left out. Cost: about 60 statements a person with
    mode all; with mode tagged, the act itself, taken back.
    """
    scope = scope_for(request, Permission.ERASE)
    if scope is None:
        raise PermissionDenied
    ends_at = time.monotonic() + COUNTING_SECONDS
    counted = []
    for one in candidates:
        if one.person is None or one.person.erasing_at is not None or one.erasure_id is not None:
            counted.append(one)
        elif time.monotonic() > ends_at:
            why = _("Not counted: that would have taken too long. Choose this person again later.")
            counted.append(replace(one, left_out=one.left_out or why))
        else:
            counted.append(_counted(scope, one, one.person, choice))
    return counted


def _counted(scope: Scope, one: Candidate, person: EndUser, choice: Choice) -> Candidate:
    own = scope.for_tenant(tenant_id=person.tenant_id)
    try:
        with scoped_transaction(own):
            found = preview(scope=own, person=person, **choice.values())
    except ScopeError:
        raise
    except CredenceError as error:
        return replace(one, left_out=one.left_out or _(error.detail))
    return replace(one, counts=in_order(found.counts.items()))


def in_order(counts: Iterable[tuple[str, int]]) -> Counts:
    """Return what would go by name, without what is not there.

    Pairs, since a template would take a count named `items` for a method.
    """
    return tuple(sorted((name, number) for name, number in counts if number))


def total_of(candidates: Iterable[Candidate]) -> Counts:
    """Return what would go of all who are not left out, by name."""
    summed: Counter[str] = Counter()
    for one in candidates:
        if one.goes:
            summed.update(dict(one.counts or ()))
    return in_order(summed.items())


def refuse_stale(
    form: ErasuresForm,
    *,
    candidates: Sequence[Candidate],
    confirmed_ids: Sequence[str],
    counted: str,
) -> None:
    """Add to a valid form why what its page showed can not be done; nothing where it can.

    Args:
        form: What was posted.
        candidates: The persons as they stand now.
        confirmed_ids: Those who would be erased, as the page showed it.
        counted: The choice whose counts the page showed.
    """
    is_other_choice, typed = str(form.choice()) != counted, form.typed_number()
    can_go = {one.person_id for one in candidates if one.goes}
    stale = [person_id for person_id in confirmed_ids if person_id not in can_go]
    if stale:
        text = _(
            "Nobody was erased: %(count)d of these persons can not be erased any more, the table"
            " says why. Look again, and confirm the new number."
        )
        form.add_error(None, text % {"count": len(stale)})
    if is_other_choice:
        text = _(
            "Nobody was erased: something else was chosen than was counted. Now the counts are those"
            " of your choice. Look again, and confirm."
        )
        form.add_error(None, text)
    if not confirmed_ids or typed != len(confirmed_ids):
        text = _("This is not the number of persons whom the page was about to erase.")
        form.add_error("confirmed_number", text)


def ask_for_all(
    *, request: HttpRequest, persons: Iterable[EndUser], choice: Choice, now: datetime
) -> list[Outcome]:
    """Ask for the erasure of each person, each in a savepoint of its own.

    Permission is asked of each person's tenant; what fails for one hinders none of the others. The
    rows are locked in the order of their ids, so that two who do this never wait for each other in
    a ring. Cost: eight statements a person.
    """
    in_order_of_ids = sorted(persons, key=lambda person: person.pk)
    return [_ask_for(request, person, choice, now) for person in in_order_of_ids]


def _ask_for(request: HttpRequest, person: EndUser, choice: Choice, now: datetime) -> Outcome:
    scope = scope_for(request, Permission.ERASE)
    if scope is None or person.tenant_id not in scope.tenant_ids:
        return Outcome(person_id=person.pk, problem=_("You may not erase in this tenant."))
    own = scope.for_tenant(tenant_id=person.tenant_id)
    try:
        with scoped_transaction(own):
            asked = request_erasure(scope=own, person=person, now=now, **choice.values())
    except ScopeError:
        raise
    except CredenceError as error:
        return Outcome(person_id=person.pk, problem=_(error.detail))
    return Outcome(person_id=person.pk, erasure_id=asked.pk, is_new=asked.created_at == now)
