"""Querysets that refuse to run until somebody decided whose rows they may touch.

The second wall (DESIGN section 3): a query on tenant data is either `.in_scope(scope)` or
`.unscoped(reason=…)`. Row-level security holds underneath for whatever slips past.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Self, TypeVar

from django.db import models

from memory.errors import ScopeError, UndecidedQueryError
from memory.scope import Scope

M = TypeVar("M", bound=models.Model)
_is_validating: ContextVar[bool] = ContextVar("_is_validating", default=False)


@contextmanager
def model_validation() -> Iterator[None]:
    """Let Django's own unique checks of a model form look; row-level security bounds what they see.

    Used by `TenantModel.validate_unique` and `validate_constraints` alone.
    """
    token = _is_validating.set(True)
    try:
        yield
    finally:
        _is_validating.reset(token)


class ScopedQuerySet(models.QuerySet[M]):
    """A queryset of a walled model; see `memory.models.base.Walls` for its columns."""

    _is_decided: bool = False

    def in_scope(self, scope: Scope) -> Self:
        """Return the rows this scope may see: its tenants, and its user and session if named.

        Raises:
            ScopeError: The rows are session-private and the scope names no thread.
        """
        walls = self.model.walls  # type: ignore[attr-defined]
        rows = self._decided()
        if len(scope.tenant_ids) == 1:
            rows = rows.filter(**{walls.tenant: scope.tenant_ids[0]})
        else:
            rows = rows.filter(**{f"{walls.tenant}__in": scope.tenant_ids})
        if walls.user and scope.user_id:
            rows = rows.filter(_of_user(walls.user, walls.team, scope))
        if walls.session:
            if not scope.thread_id:
                raise ScopeError
            rows = rows.filter(**{walls.session: scope.thread_id})
        return rows

    def unscoped(self, *, reason: str) -> Self:
        """Return every row the database role lets through; `reason` says why that is right.

        Raises:
            UndecidedQueryError: No reason was given.
        """
        if not reason.strip():
            raise UndecidedQueryError
        return self._decided()

    def _decided(self) -> Self:
        rows: Self = self._chain()  # type: ignore[attr-defined]
        rows._is_decided = True
        return rows

    def _refuse_undecided(self) -> None:
        if not (self._is_decided or _is_validating.get()):
            raise UndecidedQueryError(
                f"A query on {self.model._meta.label} ran without in_scope() or unscoped()."
            )

    def _clone(self) -> Self:
        clone: Self = super()._clone()  # type: ignore[misc]
        clone._is_decided = self._is_decided
        return clone

    def _fetch_all(self) -> None:
        if self._result_cache is None:
            self._refuse_undecided()
        super()._fetch_all()

    def iterator(self, chunk_size: int | None = None) -> Iterator[Any]:
        """As Django's, once decided."""
        self._refuse_undecided()
        return super().iterator(chunk_size=chunk_size)

    def aiterator(self, chunk_size: int = 2000) -> AsyncIterator[Any]:
        """As Django's, once decided."""
        self._refuse_undecided()
        return super().aiterator(chunk_size=chunk_size)

    def count(self) -> int:
        """As Django's, once decided."""
        self._refuse_undecided()
        return super().count()

    def exists(self) -> bool:
        """As Django's, once decided."""
        self._refuse_undecided()
        return super().exists()

    def aggregate(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """As Django's, once decided."""
        self._refuse_undecided()
        return super().aggregate(*args, **kwargs)

    def update(self, **kwargs: Any) -> int:
        """As Django's, once decided."""
        self._refuse_undecided()
        return super().update(**kwargs)

    def delete(self) -> tuple[int, dict[str, int]]:
        """As Django's, once decided."""
        self._refuse_undecided()
        return super().delete()

    def explain(self, *, format: str | None = None, **options: Any) -> str:  # noqa: A002
        """As Django's, once decided."""
        self._refuse_undecided()
        return super().explain(format=format, **options)

    def raw(self, *args: Any, **kwargs: Any) -> Any:
        """Refused: raw SQL takes no scope.

        Raises:
            UndecidedQueryError: Always.
        """
        raise UndecidedQueryError

    def resolve_expression(self, *args: Any, **kwargs: Any) -> Any:
        """As Django's (this queryset as a subquery), once decided."""
        self._refuse_undecided()
        return super().resolve_expression(*args, **kwargs)

    def __or__(self, other: models.QuerySet[M]) -> Self:
        self._refuse_undecided()
        _refuse_undecided_other(other)
        return super().__or__(other)

    def __and__(self, other: models.QuerySet[M]) -> Self:
        self._refuse_undecided()
        _refuse_undecided_other(other)
        return super().__and__(other)

    def __xor__(self, other: models.QuerySet[M]) -> Self:
        self._refuse_undecided()
        _refuse_undecided_other(other)
        return super().__xor__(other)

    def _combinator_query(self, combinator: str, *others: Any, all: bool = False) -> Any:  # noqa: A002 - Django's signature
        """As Django's (union, intersection, difference), once every part is decided."""
        self._refuse_undecided()
        for other in others:
            _refuse_undecided_other(other)
        return super()._combinator_query(combinator, *others, all=all)  # type: ignore[misc]


def _of_user(user: str, team: str | None, scope: Scope) -> models.Q:
    """Return which rows a scope with a user sees: the user's, and where they are shared, more."""
    own = models.Q(**{user: scope.user_id})
    if not team:
        return own
    shared = models.Q(**{f"{team}__isnull": True}) | models.Q(**{f"{team}__in": scope.team_ids})
    return own | (models.Q(**{f"{user}__isnull": True}) & shared)


def _refuse_undecided_other(other: Any) -> None:
    """Refuse the right side of a combination that nobody decided: it would widen the left one."""
    if not getattr(other, "_is_decided", False):
        raise UndecidedQueryError


class ScopedManager(models.Manager[M]):
    """The default manager of walled models; `in_scope` and `unscoped` are the ways in."""

    def get_queryset(self) -> ScopedQuerySet[M]:
        """Return an undecided queryset."""
        return ScopedQuerySet(self.model, using=self._db)

    def using(self, alias: str | None) -> ScopedQuerySet[M]:
        """Return an undecided queryset on another database alias."""
        return self.get_queryset().using(alias)

    def in_scope(self, scope: Scope) -> ScopedQuerySet[M]:
        """See ScopedQuerySet.in_scope."""
        return self.get_queryset().in_scope(scope)

    def unscoped(self, *, reason: str) -> ScopedQuerySet[M]:
        """See ScopedQuerySet.unscoped."""
        return self.get_queryset().unscoped(reason=reason)
