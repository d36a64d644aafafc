"""Pages of big tables: no count beyond what anybody pages through."""

from __future__ import annotations

from typing import Any

from django.contrib.admin.views.main import ChangeList
from django.core.paginator import Page, Paginator
from django.db import models
from django.utils.functional import cached_property
from django.utils.text import capfirst

MAX_COUNTED_ROWS = 10_000


class BoundedPaginator(Paginator[models.Model]):
    """Counts to 10,000 and stops; who looks for more narrows the list by search and filters.

    A page's rows are found by their keys first and read with what is joined to them afterwards: in
    one statement the database would join all rows of the list and then keep a page of them.
    """

    def page(self, number: int | str) -> Page[models.Model]:
        """Return a page. Cost: two statements, when its rows are read."""
        number = self.validate_number(number)
        first = (number - 1) * self.per_page
        rows: models.QuerySet[models.Model] = self.object_list  # type: ignore[assignment]
        keys = list(rows.values_list("pk", flat=True)[first : first + self.per_page])
        return Page(rows.filter(pk__in=keys), number, self)

    @cached_property
    def count(self) -> int:
        """Return the number of rows, at most MAX_COUNTED_ROWS. Cost: reads that many at most."""
        rows: models.QuerySet[models.Model] = self.object_list  # type: ignore[assignment]
        return rows.order_by()[:MAX_COUNTED_ROWS].count()


class ScopedChangeList(ChangeList):
    """A list named after its rows, that leaves the columns of `list_defer` (long texts) unread."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Name the list after what is in it; where one row is asked for, Django says so."""
        super().__init__(*args, **kwargs)
        if not self.is_popup:
            self.title = str(capfirst(self.opts.verbose_name_plural))

    def apply_select_related(
        self, qs: models.QuerySet[models.Model]
    ) -> models.QuerySet[models.Model]:
        """Join what the list shows and defer what it does not."""
        deferred: tuple[str, ...] = getattr(self.model_admin, "list_defer", ())
        return super().apply_select_related(qs).defer(*deferred)
