"""Which decisions there are about which rows: who may, whether a reason is owed, what is called."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.contrib.auth.models import User

from governance.access import staff_tenants
from governance.bulk.problems import UnknownDecisionError
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


def _admit_document(scope: Scope, row_id: str, _reason: str, now: datetime) -> object:
    return admit_document(scope=scope, document_id=row_id, now=now)


def _refuse_document(scope: Scope, row_id: str, reason: str, now: datetime) -> object:
    return refuse_document(scope=scope, document_id=row_id, now=now, reason=reason)


RULES: Final[dict[tuple[str, str], Rule]] = {
    ("document", "admit"): Rule(permission=Permission.APPROVE, act=_admit_document),
    ("document", "refuse"): Rule(
        permission=Permission.APPROVE, act=_refuse_document, needs_reason=True
    ),
}
