"""Shortening a long tool result: its beginning and end, with the id that opens the whole."""

from __future__ import annotations

from memory.cutting import fit_text
from memory.tokens import truncate_end


def shorten(*, text: str, reference_id: str, most_tokens: int) -> str:
    """Return a cleaned text within `most_tokens`, its middle replaced by a mark with the id."""
    mark = f"\n… (shortened; view_message {reference_id} reads the whole result) …\n"
    fitted = fit_text(text, most=most_tokens, marks=(mark, f"… {reference_id} …"))
    return fitted.text if fitted else truncate_end(text, max_tokens=most_tokens)
