"""Which decisions there are about which rows: who may, whether a reason is owed, what is called."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.contrib.auth.models import User

from governance.access import staff_tenants
from governance.behaviour.decisions import approve_sample, reject_sample, retire_sample
from governance.bulk.problems import UnknownDecisionError
from governance.core.candidates import confirm_candidate
from governance.core.candidates import reject_candidate as reject_fact
from governance.decisions import DecidedBy
from governance.entities.decisions import approve_candidate as approve_term
from governance.entities.decisions import reject_candidate as reject_term
from governance.items.items import refuse_item, release_item
from governance.knowledge.decisions import admit_document, refuse_document
from governance.permissions import Permission
from memory.scope import Scope

Act = Callable[[Scope, str, str, datetime], object]
_STAFF: Final = "staff:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """How one decision about one kind of rows is made.

    Attributes:
        permission: Codename on the tenant that whoever decides holds.
        act: The function of the domain: (scope, row's id, reason, now). It decides conditionally
            and writes its audit row.
        needs_reason: Whether it is refused without a reason.
    """

    permission: Permission
    act: Act
    needs_reason: bool = False


def rule_for(*, kind: str, action: str) -> Rule:
    """Return the rule of a decision.

    Raises:
        UnknownDecisionError: There is none.
    """
    try:
        return RULES[kind, action]
    except KeyError:
        raise UnknownDecisionError from None


def may_decide(*, scope: Scope, rule: Rule) -> bool:
    """Say whether the scope's principal may, asked of the grants of this moment.

    Only members of staff decide about many rows. Cost: three queries.
    """
    kind, _, number = scope.principal_id.partition(":")
    if f"{kind}:" != _STAFF or not (number.isascii() and number.isdigit()):
        return False
    account = User.objects.filter(pk=int(number)).first()
    granted = staff_tenants(account=account, permission=rule.permission) if account else ()
    return scope.tenant_id in granted


def _by(scope: Scope) -> DecidedBy:
    return DecidedBy(kind="staff", id=scope.principal_id)


def _confirm_fact(scope: Scope, row_id: str, _reason: str, now: datetime) -> object:
    # None makes room: which fact has to go is decided on the page of one candidate.
    return confirm_candidate(scope=scope, candidate_id=row_id, by=_by(scope), now=now)


def _reject_fact(scope: Scope, row_id: str, reason: str, now: datetime) -> object:
    return reject_fact(scope=scope, candidate_id=row_id, by=_by(scope), reason=reason, now=now)


def _approve_term(scope: Scope, row_id: str, _reason: str, now: datetime) -> object:
    return approve_term(scope=scope, candidate_id=row_id, by=scope.principal_id, now=now)


def _reject_term(scope: Scope, row_id: str, reason: str, now: datetime) -> object:
    return reject_term(
        scope=scope, candidate_id=row_id, by=scope.principal_id, reason=reason, now=now
    )


def _approve_sample(scope: Scope, row_id: str, _reason: str, now: datetime) -> object:
    return approve_sample(scope=scope, sample_id=row_id, by=scope.principal_id, now=now)


def _reject_sample(scope: Scope, row_id: str, reason: str, now: datetime) -> object:
    return reject_sample(
        scope=scope, sample_id=row_id, by=scope.principal_id, reason=reason, now=now
    )


def _retire_sample(scope: Scope, row_id: str, reason: str, now: datetime) -> object:
    return retire_sample(
        scope=scope, sample_id=row_id, by=scope.principal_id, now=now, reason=reason
    )


def _release_item(scope: Scope, row_id: str, _reason: str, now: datetime) -> object:
    return release_item(scope=scope, item_id=row_id, by=scope.principal_id, now=now)


def _refuse_item(scope: Scope, row_id: str, reason: str, now: datetime) -> None:
    refuse_item(scope=scope, item_id=row_id, by=scope.principal_id, reason=reason, now=now)


def _admit_document(scope: Scope, row_id: str, _reason: str, now: datetime) -> object:
    return admit_document(scope=scope, document_id=row_id, now=now)


def _refuse_document(scope: Scope, row_id: str, reason: str, now: datetime) -> object:
    return refuse_document(scope=scope, document_id=row_id, now=now, reason=reason)


_APPROVE: Final = Permission.APPROVE
_CONFIRM: Final = Permission.CONFIRM
RULES: Final[dict[tuple[str, str], Rule]] = {
    ("core_candidate", "confirm"): Rule(permission=_CONFIRM, act=_confirm_fact),
    ("core_candidate", "reject"): Rule(permission=_CONFIRM, act=_reject_fact, needs_reason=True),
    ("entity_candidate", "approve"): Rule(permission=_APPROVE, act=_approve_term),
    ("entity_candidate", "reject"): Rule(permission=_APPROVE, act=_reject_term, needs_reason=True),
    ("behaviour_sample", "approve"): Rule(permission=_APPROVE, act=_approve_sample),
    ("behaviour_sample", "reject"): Rule(
        permission=_APPROVE, act=_reject_sample, needs_reason=True
    ),
    ("behaviour_sample", "retire"): Rule(
        permission=_APPROVE, act=_retire_sample, needs_reason=True
    ),
    ("memory_item", "release"): Rule(permission=_APPROVE, act=_release_item),
    ("memory_item", "refuse"): Rule(permission=_APPROVE, act=_refuse_item, needs_reason=True),
    ("document", "admit"): Rule(permission=_APPROVE, act=_admit_document),
    ("document", "refuse"): Rule(permission=_APPROVE, act=_refuse_document, needs_reason=True),
}
