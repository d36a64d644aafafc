"""The texts of a lossless thread as its messages show them: cleaned, wrapped and counted. Pure.

A thread's past is the same from run to run but for its end, so what cleaning found clean is known
the next time by a keyed digest: no text is kept, and what is unknown is cleaned and counted anew.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Final, NamedTuple

from memory.boundary import SkeletonNode, Speaker, Wording, message_label, skeleton, wrap_message
from memory.boundary.inner import inner
from memory.tokens import count_messages, estimate

# What a chat format adds around one message, in tokens.
MESSAGE_TOKENS: Final = count_messages([("user", "")]) - count_messages([])

_DIGEST_BYTES: Final = 16
_MOST_KNOWN: Final = 100_000  # some 15 MB
_KEY: Final = secrets.token_bytes(32)
_known: dict[bytes, int] = {}


class ShownText(NamedTuple):
    """One text as a prompt shows it: `body` cleaned, `content` with its frame, and what that costs."""

    body: str
    content: str
    tokens: int


@dataclass(kw_only=True)
class ThreadTexts:
    """Cleans, wraps and counts the texts of one thread; `tag` stays the same for the thread."""

    wording: Wording
    tag: str
    _frames: dict[tuple[Speaker, date], tuple[str, str]] = field(default_factory=dict)
    _counts: dict[str, int] = field(default_factory=dict)

    def message(self, *, speaker: Speaker, on: date, body: str) -> ShownText:
        """Return a wrapped message. Cost: a digest if it was clean before, else one cleaning."""
        frame = self._frames.get((speaker, on))
        if frame is None:
            label = message_label(wording=self.wording, speaker=speaker, on=on)
            empty = wrap_message(wording=self.wording, tag=self.tag, label=label, body="")
            frame = self._frames[speaker, on] = _halves(empty)
        return self.framed(before=frame[0], body=body, after=frame[1])

    def framed(self, *, before: str, body: str, after: str = "") -> ShownText:
        """Return `body`, cleaned, between two texts of our own."""
        content = f"{before}{body}{after}"
        digest = hashlib.blake2b(
            f"{self.tag}\n{content}".encode("utf-8", "surrogatepass"),
            digest_size=_DIGEST_BYTES,
            key=_KEY,
        ).digest()
        tokens = _known.get(digest)
        if tokens is not None:
            return ShownText(body, content, tokens)
        clean = inner(body, self.tag)
        if clean != body:
            content = f"{before}{clean}{after}"
            return ShownText(clean, content, estimate(content))
        tokens = estimate(content)
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        _known[digest] = tokens
        return ShownText(body, content, tokens)

    def count(self, text: str) -> int:
        """Return what a text costs, counted once."""
        tokens = self._counts.get(text)
        if tokens is None:
            tokens = self._counts[text] = estimate(text)
        return tokens

    def outline(self, *, nodes: Sequence[str], can_open_originals: bool) -> str:
        """Return the skeleton message of nodes that are clean already, byte for byte `skeleton`'s."""
        empty = skeleton(
            wording=self.wording,
            tag=self.tag,
            nodes=[SkeletonNode(heading="", body="")],
            can_open_originals=can_open_originals,
        )
        before, after = _halves(empty)
        return f"{before}{chr(10).join(nodes)}{after}"


def _halves(framed: str) -> tuple[str, str]:
    """Return what stands before and after the empty body of `framed`."""
    before, _, after = framed.partition("\n\n")
    return f"{before}\n", f"\n{after}"
