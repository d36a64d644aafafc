"""A person of the soak: one thread of execution that does, again and again, what people do."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.soak.book import Book, Turn
from tests.soak.canaries import SHARED, Canary
from tests.soak.client import Api
from tests.soak.findings import Findings

_MOST_TURNS = 12
_SAID = {
    "en": "My parcel {mark} has not come yet, although the driver said it would be here by noon.",
    "zh": "我的包裹 {mark} 还没有送到，可是司机在电话里说中午之前一定会送到我家门口，请查一下。",
}


@dataclass(kw_only=True)
class Person:
    """One person of one tenant, with what the client's side knows of it.

    `erased_below` is the number below which no text of this person may be anywhere any more.
    """

    api: Api
    name: str
    language: str
    agents: dict[str, str]
    findings: Findings
    seed: int
    leave_rate: float
    erases: Callable[[Person], bool] = lambda _person: False
    book: Book = field(default_factory=Book)
    number: int = 0
    erased_below: int = 0
    erasures: int = 0
    is_gone: bool = False
    gone_runs: list[str] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)

    @property
    def user_id(self) -> str:
        """The tenant's own name of this person."""
        return f"soak-{self.name}"

    def mark(self, person: str | None = None) -> Canary:
        """A new mark, of this person or of all of the tenant."""
        self.number += 1
        return Canary(self.api.tenant, person or self.name, self.number)

    def said(self, mark: Canary) -> str:
        """A question with its mark."""
        return _SAID[self.language].format(mark=mark)

    def live(self, *, until: float, pause_seconds: float, stop: threading.Event) -> None:
        """Do something every `pause_seconds` or so, until the time is over."""
        acts = [act for act, weight in _ACTS for _ in range(weight)]
        while time.monotonic() < until and not stop.is_set():
            try:
                if self.erases(self):
                    self.erase()
                else:
                    self.random.choice(acts)(self)
            except Exception as error:  # noqa: BLE001 - one broken act must not end the person
                self.findings.wrong("the soak itself", f"{type(error).__name__}: {error}")
            stop.wait(self.random.uniform(0.5, 1.5) * pause_seconds)

    # Turns.

    def _place(self) -> tuple[str, str | None]:
        """An agent, and a thread of this person there or None for a new one."""
        kind = self.random.choice(sorted(self.agents))
        own = [
            thread
            for thread, agent in self.book.threads.items()
            if agent == kind
            and sum(turn.thread_id == thread for turn in self.book.turns) < _MOST_TURNS
        ]
        return kind, self.random.choice(own) if own and self.random.random() < 0.9 else None

    def run(self) -> None:
        """One run, told whole."""
        kind, thread_id = self._place()
        turn = Turn(canary=self.mark(), thread_id=thread_id)
        self.book.turns.append(turn)
        body = {"input": self.said(turn.canary), "user_id": self.user_id, "thread_id": thread_id}
        reply = self.api.send("POST", f"/v1/agents/{self.agents[kind]}/run", body, once=True)
        turn.attempts = reply.attempts
        self._heard(turn, kind, reply.body)

    def stream(self) -> None:
        """One run, told bit by bit; now and then the client leaves in the middle."""
        kind, thread_id = self._place()
        turn = Turn(canary=self.mark(), thread_id=thread_id)
        self.book.turns.append(turn)
        leaves = self.random.random() < self.leave_rate
        if leaves:
            self.findings.count("fault client left")
        began = time.monotonic()
        status, events = self.api.stream(
            f"/v1/agents/{self.agents[kind]}/run/stream",
            {"input": self.said(turn.canary), "user_id": self.user_id, "thread_id": thread_id},
            leave_after="delta" if leaves else None,
        )
        self.findings.took("stream", time.monotonic() - began)
        if status == 200 and not leaves:
            self.findings.count(f"stream ended {events[-1][0] if events else 'empty'}")
        for name, data in events:
            if name == "started":
                turn.thread_id = data["thread_id"]
                self.book.threads.setdefault(data["thread_id"], kind)
            elif name == "completed":
                self._heard(turn, kind, data)

    def _heard(self, turn: Turn, kind: str, run: dict[str, Any]) -> None:
        turn.hear(run)
        if run.get("thread_id"):
            self.book.threads.setdefault(run["thread_id"], kind)

    def turn_elsewhere(self) -> None:
        """A turn made elsewhere, handed in twice under its own id."""
        threads = sorted(self.book.threads)
        if not threads:
            return
        thread_id = self.random.choice(threads)
        turn = Turn(canary=self.mark(), thread_id=thread_id, attempts=1)
        self.book.turns.append(turn)
        body = {
            "input": self.said(turn.canary),
            "output": f"Done elsewhere {turn.canary}",
            "status": "succeeded",
            "external_id": f"ext-{turn.canary}",
        }
        for _ in range(2):
            reply = self.api.send("POST", f"/v1/threads/{thread_id}/turns", body, what="POST turns")
            if reply.is_good:
                self._heard(turn, self.book.threads[thread_id], reply.body)

    # Memory.

    def context(self) -> None:
        """Assemble only."""
        kind, thread_id = self._place()
        body = {"input": self.said(self.mark()), "user_id": self.user_id, "thread_id": thread_id}
        self.api.send("POST", f"/v1/agents/{self.agents[kind]}/context", body)

    def search(self) -> None:
        """Search with words that everybody's texts have."""
        query = self.random.choice(["parcel driver noon", "包裹 司机 送到", "CNRY"])
        body = {"query": query, "user_id": self.user_id, "limit": 20, "min_score": 0.0}
        self.api.send("POST", "/v1/memories/search", body)

    def grep(self) -> None:
        """Look for marks of all, of which only the own may come."""
        body = {"query": self.random.choice(["CNRY-*", "parcel", "包裹"]), "user_id": self.user_id}
        self.api.send("POST", "/v1/memories/grep", body)

    def item(self) -> None:
        """Keep an item; or read one, or take it away."""
        if self.keys and self.random.random() < 0.5:
            key = self.random.choice(self.keys)
            method = self.random.choice(["GET", "GET", "DELETE"])
            path = f"/v1/memories/memo/{key}?user_id={self.user_id}"
            self.api.send(method, path, what=f"{method} item")
            if method == "DELETE":
                self.keys.remove(key)
            return
        mark = self.mark()
        key = f"task_{self.name}_{mark.number}"
        body = {"user_id": self.user_id, "title": f"Task {mark}", "content": self.said(mark)}
        path = f"/v1/memories/memo/{key}?force=true"
        if self.api.send("PUT", path, body, what="PUT item").is_good:
            self.keys.append(key)

    def core(self) -> None:
        """A fact that waits, then is confirmed or rejected; the same decision twice."""
        mark = self.mark()
        body = {"fact": f"Likes short answers {mark}", "subject": f"answers {mark.number}"}
        made = self.api.send("POST", f"/v1/users/{self.user_id}/core", body, once=True)
        if not made.is_good:
            return
        is_good = self.random.random() < 0.6
        act, said = ("confirm", {"evict": True}) if is_good else ("reject", {"reason": str(mark)})
        path = f"/v1/core-candidates/{made.body['id']}/{act}"
        self.api.send("POST", path, said)
        self.api.send("POST", path, said)

    def decide(self) -> None:
        """Confirm or reject what the model proposed."""
        waiting = self.api.send("GET", f"/v1/users/{self.user_id}/core").body.get("candidates", [])
        for candidate in waiting[:2]:
            act = self.random.choice(["confirm", "reject"])
            body = {"evict": True} if act == "confirm" else {"reason": "no"}
            self.api.send("POST", f"/v1/core-candidates/{candidate['id']}/{act}", body)

    def correct(self) -> None:
        """Put a term right."""
        threads = sorted(self.book.threads)
        if not threads:
            return
        mark = self.mark()
        body = {
            "term": f"Parcelo {self.mark(SHARED)}",
            "entity_type": "product",
            "wrong": f"Parzelo {mark}",
            "right": f"Parcelo {mark}",
        }
        path = f"/v1/threads/{self.random.choice(threads)}/corrections"
        self.api.send("POST", path, body, once=True)

    def read(self) -> None:
        """Look at what is there."""
        threads = sorted(self.book.threads)
        paths = [f"/v1/users/{self.user_id}/timeline", f"/v1/memories?user_id={self.user_id}"]
        if threads:
            thread = self.random.choice(threads)
            paths += [f"/v1/threads/{thread}/{part}" for part in ("messages", "summary", "runs")]
        self.api.send("GET", self.random.choice(paths))

    def export(self) -> None:
        """Everything that is known of this person."""
        self.api.send("GET", f"/v1/users/{self.user_id}/export")

    # Going and coming back.

    def erase(self) -> None:
        """Have everything of this person erased, and wait until that is verified."""
        asked = self.api.send("DELETE", f"/v1/users/{self.user_id}?mode=all", what="DELETE user")
        if asked.status != 202:
            self.findings.wrong("erasure refused", f"{self.user_id}: {asked.status} {asked.text}")
            return
        self.erasures += 1
        below = self.number + 1
        until = time.monotonic() + 240
        state: dict[str, Any] = {}
        while time.monotonic() < until:
            path = f"/v1/erasures/{asked.body['id']}"
            state = self.api.send("GET", path, what="GET erasure").body
            if state.get("status") == "failed" or (
                state.get("status") == "done" and state.get("verified") != "pending"
            ):
                break
            time.sleep(0.5)
        if state.get("status") != "done" or state.get("verified") is not True:
            told = {name: state.get(name) for name in ("id", "status", "verified", "findings")}
            self.findings.wrong("erasure not verified", f"{self.user_id}: {told}")
        self.findings.count("erasures done")
        self.erased_below = below
        self.gone_runs += [run_id for turn in self.book.turns for run_id, _, _ in turn.told][-5:]
        self.book, self.keys = Book(), []


_ACTS: tuple[tuple[Callable[[Person], None], int], ...] = (
    (Person.run, 30),
    (Person.stream, 15),
    (Person.turn_elsewhere, 4),
    (Person.context, 8),
    (Person.search, 9),
    (Person.grep, 7),
    (Person.item, 9),
    (Person.core, 5),
    (Person.decide, 4),
    (Person.correct, 3),
    (Person.read, 6),
)
