"""A thread's past as a prompt may show it: what both thread strategies have in common. Pure.

Loading is done before (threads.history, threads.lossless.reading); packing touches no database, so that a
prompt can be packed again, smaller, while a run is on its way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, Protocol

from memory.compression.turns import SummaryTurn
from memory.ledger import Dropped
from memory.providers.base import ChatMessage
from memory.trust import ContextItem

# The last turns, which every prompt of a thread shows, whole or cut (DESIGN 8).
LAST_TURNS: Final = 2


class Squeeze(IntEnum):
    """How hard the past is compressed (DESIGN 8); each level includes those before it."""

    WHOLE = 0
    DEDUPED = 1
    REFERENCED = 2
    SUMMARISED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Recent:
    """One of the last turns, for the veto list: any of `needles` shows that it is in the prompt."""

    run_id: str
    needles: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedPast:
    """A thread's past within a number of tokens.

    Attributes:
        text: Its section of the last user message (strategy rolling), boundary included.
        messages: The messages before the last one (strategy lossless), each wrapped.
        tokens: What text and messages cost, message framing included.
        items: What is shown, oldest first, with what it costs.
        dropped: The ledger's rows of what is not shown, or not whole; `tokens` and these make up
            what was wanted.
        leaving: Finished turns that no stored summary covers and that are not shown: what a
            stand-in summary would have to tell, oldest first, texts cleaned.
        reference_ids: Every reference id in it.
        open_items: The open items of the summary, for the veto list.
    """

    text: str = ""
    messages: tuple[ChatMessage, ...] = ()
    tokens: int = 0
    items: tuple[ContextItem, ...] = ()
    dropped: tuple[Dropped, ...] = ()
    leaving: tuple[SummaryTurn, ...] = ()
    reference_ids: tuple[str, ...] = ()
    open_items: tuple[str, ...] = ()

    @property
    def wanted(self) -> int:
        """What all of it would have cost."""
        return self.tokens + sum(gone.tokens for gone in self.dropped)


class Past(Protocol):
    """A loaded past; packing is pure and may be repeated with other limits."""

    def usual_cap(self) -> int:
        """Return the tokens it may have where the target leaves room: policy's, or no limit."""
        ...

    def pack(self, *, cap: int, squeeze: Squeeze = Squeeze.WHOLE, stand_in: str = "") -> PackedPast:
        """Return it within `cap` tokens.

        Up to REFERENCED nothing leaves that the strategy itself would show: the result may then
        cost more than `cap`, which means that it does not fit. SUMMARISED fits always, if need be
        empty; `stand_in` is a summary of what leaves, shown in its place and counted in.
        """
        ...

    def recent(self) -> Sequence[Recent]:
        """Return what shows each of the last turns, whole or cut, for the veto list.

        May ask the database the first time.
        """
        ...

    def texts(self) -> Sequence[str]:
        """Return all loaded texts, for the anchors that a compression must keep."""
        ...
