"""What a tenant's days came to: runs and their ends, latency, cost, what memory saved."""

from __future__ import annotations

from threads.figures.closing import close_days
from threads.figures.days import Day, History
from threads.figures.reading import between

__all__ = ["Day", "History", "between", "close_days"]
