"""Erasing persons: requests, holds, the work itself, the search for what is left, receipts."""
