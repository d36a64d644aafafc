"""The pages on which many persons are erased, as an officer has them open and posts them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.test import Client

from governance.models import Erasure
from memory.models import EndUser
from tests.governance.admin.learned import rows_of
from tests.governance.admin.worlds import World, url_of

LIST = url_of(EndUser)
PAGE = url_of(EndUser, "erase/")
_HIDDEN = re.compile(r'<input type="hidden" name="(person|confirmed|counted)" value="([^"]*)">')
_ROW = re.compile(r"<tr>(.*?)</tr>", re.DOTALL)
_TAG = re.compile(r"<[^>]*>")


@dataclass(frozen=True)
class Page:
    """A page as the officer has it open.

    Attributes:
        fields: What its form posts besides what the officer fills in.
        lines: Each line of its tables, without tags.
    """

    html: str
    fields: dict[str, list[str]]
    lines: list[str]

    def line(self, person: EndUser) -> str:
        (found,) = [line for line in self.lines if line.startswith(person.pk)]
        return found


def read(answer: Any) -> Page:
    assert answer.status_code == 200, answer.status_code
    html = answer.content.decode()
    fields: dict[str, list[str]] = {"person": [], "confirmed": [], "counted": []}
    for name, value in _HIDDEN.findall(html):
        fields[name].append(value)
    lines = [" ".join(_TAG.sub(" ", row).split()) for row in _ROW.findall(html)]
    return Page(html=html, fields=fields, lines=lines)


def select(client: Client, persons: Sequence[EndUser], **more: Any) -> Any:
    """Choose persons in the list and run the action."""
    ids = [person.pk for person in persons]
    posted = {"action": "erase_selected", "_selected_action": ids, "index": 0}
    return client.post(LIST, posted | more)


def post(client: Client, page: Page, step: str = "erase", **typed: Any) -> Any:
    """Send the page's form, with what else the officer fills in."""
    return client.post(PAGE, page.fields | {"mode": "all", "step": step} | typed)


def erasures(world: World, persons: Sequence[EndUser]) -> list[Erasure]:
    """Those that wait; the world itself has a failed one."""
    ids = [person.pk for person in persons]
    return rows_of(world, Erasure, subject_id__in=ids, status="queued")
