"""Whether the walls of DESIGN section 3 stand in the live database, as seen by role `app`.

Asked at start-up (`refuse_unless_walled`), by `manage.py check --database default`, and by `doctor`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.apps import apps
from django.core.checks import CheckMessage, Error, Tags, register
from django.db import DEFAULT_DB_ALIAS, connections, models, transaction
from django.db import Error as DatabaseError

from memory.checks.functions import (
    function_problems,
    right_problems,
    trigger_problems,
    view_problems,
)
from memory.checks.problems import WallProblem, WallsDownError
from memory.checks.server import server_problems
from memory.checks.tables import read_catalog, table_problems
from memory.conf import database_roles

__all__ = [
    "WallProblem",
    "WallsDownError",
    "refuse_unless_walled",
    "wall_problems",
    "walled_models",
]


def walled_models() -> dict[str, type[models.Model]]:
    """Return every model that declares walls, by its table."""
    return {
        model._meta.db_table: model
        for model in apps.get_models()
        if hasattr(model, "walls") and not model._meta.proxy
    }


def wall_problems(*, using: str = DEFAULT_DB_ALIAS) -> tuple[WallProblem, ...]:
    """Return every hole in the walls of one database; nothing when they stand.

    Cost: eleven statements on the catalog in one transaction, about 20 ms. Works as role `app`.

    Raises:
        django.db.Error: The database can not be reached.
    """
    roles, walled = database_roles(), walled_models()
    with transaction.atomic(using=using), connections[using].cursor() as cursor:
        found = list(server_problems(cursor, roles))
        if not any(problem.code == "role_missing" for problem in found):
            found += table_problems(read_catalog(cursor), walled, roles)
            found += function_problems(cursor, roles)
            found += view_problems(cursor)
            found += trigger_problems(cursor, walled)
            found += right_problems(cursor, walled, roles)
    return tuple(found)


def refuse_unless_walled(*, using: str = DEFAULT_DB_ALIAS) -> None:
    """Let a process start only behind standing walls; leaves no connection open that was not.

    Raises:
        WallsDownError: They do not stand; it lists every hole and what to do.
    """
    connection = connections[using]
    was_closed = connection.connection is None
    try:
        problems = wall_problems(using=using)
    finally:
        if was_closed:
            connection.close()
    if problems:
        raise WallsDownError(problems)


@register(Tags.database)
def check_walls(*, databases: Sequence[str] | None = None, **_: Any) -> list[CheckMessage]:
    """System check of the walls; only for the alias that serves, never while migrating as owner."""
    if DEFAULT_DB_ALIAS not in (databases or ()):
        return []
    try:
        problems = wall_problems()
    except DatabaseError as error:
        return [Error("The database does not answer.", hint=type(error).__name__, id="memory.E000")]
    return [
        Error(f"{problem.subject}: {problem.detail}", hint=problem.remedy, id="memory.E001")
        for problem in problems
    ]
