"""Actions on selected rows: permission asked of each row's tenant, one governance call a row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.db import models
from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import gettext as _

from governance.access import ForbiddenError
from governance.admin.staff import scope_for, tenant_of
from governance.permissions import Permission
from memory.errors import CredenceError, ScopeError
from memory.rls import scoped_transaction
from memory.scope import Scope

Act = Callable[[Scope, str, datetime], object]
# Primary key and tenant.
Row = tuple[str, str | None]
MAX_ROWS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How many rows an action changed, and how many were not in a state that allows it."""

    done: int
    refused: int


def act_on_each(
    *, request: HttpRequest, rows: models.QuerySet[Any], permission: Permission, act: Act
) -> Outcome:
    """Call `act(scope, id, now)` for each row, each in its own tenant's scope and savepoint.

    At most 1,000 rows. Says what happened as a message on the page.

    Raises:
        PermissionDenied: `permission` is missing on the tenant of one of the rows; nothing is done.
    """
    scope = scope_for(request, permission)
    chosen = [(str(row.pk), tenant_of(row)) for row in rows[:MAX_ROWS]]
    if scope is None or any(tenant_id not in scope.tenant_ids for _pk, tenant_id in chosen):
        raise PermissionDenied
    return act_on_rows(request=request, scope=scope, rows=chosen, act=act)


def act_on_rows(*, request: HttpRequest, scope: Scope, rows: Sequence[Row], act: Act) -> Outcome:
    """As `act_on_each`, on rows whose tenants are known to be in `scope`."""
    now = timezone.now()
    done = sum(_act_on(scope, row, now, act) for row in rows)
    outcome = Outcome(done=done, refused=len(rows) - done)
    _report(request, outcome)
    return outcome


def _act_on(scope: Scope, row: Row, now: datetime, act: Act) -> bool:
    row_id, tenant_id = row
    own = scope.for_tenant(tenant_id=tenant_id or "")
    try:
        with scoped_transaction(own):
            act(own, row_id, now)
    except (ScopeError, ForbiddenError):
        raise
    except CredenceError:
        return False
    return True


def _report(request: HttpRequest, outcome: Outcome) -> None:
    if outcome.done:
        text = _("Done for %(count)d.") % {"count": outcome.done}
        messages.success(request, text)
    if outcome.refused:
        text = _("Not possible for %(count)d: not in a state that allows it.")
        messages.warning(request, text % {"count": outcome.refused})
