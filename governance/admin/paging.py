"""Pages of big tables: no count beyond what anybody pages through."""

from __future__ import annotations

from django.contrib.admin.views.main import ChangeList
from django.core.paginator import Paginator
from django.db import models
from django.utils.functional import cached_property

MAX_COUNTED_ROWS = 10_000


class BoundedPaginator(Paginator[models.Model]):
    """Counts to 10,000 and stops; who looks for more narrows the list by search and filters."""

    @cached_property
    def count(self) -> int:
        """Return the number of rows, at most MAX_COUNTED_ROWS. Cost: reads that many at most."""
        rows: models.QuerySet[models.Model] = self.object_list  # type: ignore[assignment]
        return rows.order_by()[:MAX_COUNTED_ROWS].count()


class ScopedChangeList(ChangeList):
    """A list that leaves the columns named in `list_defer` (long texts) in the database."""

    def apply_select_related(
        self, qs: models.QuerySet[models.Model]
    ) -> models.QuerySet[models.Model]:
        """Join what the list shows and defer what it does not."""
        deferred: tuple[str, ...] = getattr(self.model_admin, "list_defer", ())
        return super().apply_select_related(qs).defer(*deferred)
