"""A model that can be stopped in the middle of any call, and that writes summaries one can check.

Each question carries a mark, `item17`. A summary is the list of all marks that its prompt shows, the
summary so far included: a turn that is folded in twice is there twice.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.fakes.openai_replies import Hang, Reply, text
from tests.fakes.openai_server import FakeOpenAI

SYSTEM_PROMPT = "You answer the questions of a delivery service's customers, politely and briefly."
ANSWER = "Noted, thank you. The parcel is on its way and arrives as it was agreed with the driver."
_MARK = re.compile(r"item\d+")


def question(number: int) -> str:
    """A question with its mark, long enough that its summary is shorter."""
    return (
        f"My order item{number} has not come yet, although the driver said on the phone that he would"
        " be at our door before noon. Could you please find out where it is and tell me about it?"
    )


@dataclass(kw_only=True)
class Held:
    """One call that stands still: `arrived` tells when, `release` lets it go on."""

    mark: str
    is_summary: bool
    arrived: threading.Event = field(default_factory=threading.Event)
    release: threading.Event = field(default_factory=threading.Event)

    def wait(self) -> None:
        """Wait until the model has been asked."""
        assert self.arrived.wait(30), f"nobody asked about {self.mark}"


class Provider:
    """The scripted server with calls that can be held."""

    def __init__(self) -> None:
        """Prepare; `server` is to be started."""
        self.server = FakeOpenAI()
        self.server.answer_with(self._answer)
        self._held: list[Held] = []
        self._lock = threading.Lock()

    @contextmanager
    def held(self, number: int, *, is_summary: bool = False) -> Iterator[Held]:
        """Hold the next call about an item inside; whoever still waits at the end goes on."""
        one = Held(mark=f"item{number}", is_summary=is_summary)
        with self._lock:
            self._held.append(one)
        try:
            yield one
        finally:
            one.release.set()
            with self._lock:
                self._held = [other for other in self._held if other is not one]

    @contextmanager
    def deaf(self) -> Iterator[None]:
        """Accept no connection and read nothing inside."""
        can_hear = threading.Event()
        loop = self.server._loop
        assert loop is not None
        loop.call_soon_threadsafe(can_hear.wait, 60)
        try:
            yield
        finally:
            can_hear.set()

    def summary_calls(self, number: int) -> int:
        """How often the model was asked to summarise turns with this item among them."""
        bodies = [request.body for request in list(self.server.requests)]
        return sum(_is_summary(body) and f"item{number}" in _marks(body) for body in bodies)

    def prompts(self, number: int) -> list[str]:
        """The prompts of the runs that asked about an item, system message aside."""
        bodies = [request.body for request in list(self.server.requests)]
        found = [body for body in bodies if not (_is_summary(body) or _is_extraction(body))]
        return [_said(body) for body in found if _marks(body)[-1:] == [f"item{number}"]]

    def _answer(self, body: Mapping[str, Any]) -> Reply:
        if _is_extraction(body):
            return text("NONE")
        marks, is_summary = _marks(body), _is_summary(body)
        said = f"The person asked about {' '.join(marks)}." if is_summary else ANSWER
        with self._lock:
            for one in self._held:
                if one.is_summary == is_summary and one.mark in (
                    marks if is_summary else marks[-1:]
                ):
                    self._held.remove(one)
                    one.arrived.set()
                    return Hang(release=one.release, then=text(said))
        return text(said)


def _is_summary(body: Mapping[str, Any]) -> bool:
    is_memory_work = SYSTEM_PROMPT not in str(body["messages"][0]["content"])
    return is_memory_work and not _is_extraction(body)


def _is_extraction(body: Mapping[str, Any]) -> bool:
    return "extract lasting facts" in str(body["messages"][0]["content"])


def _said(body: Mapping[str, Any]) -> str:
    return " ".join(str(message["content"]) for message in body["messages"][1:])


def _marks(body: Mapping[str, Any]) -> list[str]:
    return _MARK.findall(_said(body))
