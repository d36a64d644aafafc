"""The rooms of the admin by what one comes for, not by the app that a table lives in.

Rooms of other apps are named by their labels, so that nothing is imported upwards. A room that is
in no group would be reached by nobody: a test holds that there is none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """What one comes for.

    Attributes:
        name: Short word, part of a class in the page.
        title: As people read it.
        rooms: Labels of the tables, as `app.table` in small letters, in the order shown.
    """

    name: str
    title: str | Promise
    rooms: tuple[str, ...]


GROUPS: Final[tuple[Group, ...]] = (
    Group(
        name="waiting",
        title=_("Waiting for a decision"),
        rooms=(
            "governance.corecandidate", "governance.entitycandidate", "memory.knowledgedocument",
            "memory.behavioursample", "governance.bulkdecision",
        ),
    ),
    Group(
        name="memory",
        title=_("Memory"),
        rooms=(
            "memory.corefact", "memory.memoryitem", "memory.entity", "memory.entitymerge",
            "governance.correction",
        ),
    ),
    Group(
        name="people",
        title=_("People"),
        rooms=(
            "memory.enduser", "governance.erasure", "governance.legalhold", "governance.exportlink",
        ),
    ),
    Group(
        name="conversations",
        title=_("Conversations"),
        rooms=(
            "threads.thread", "threads.run", "threads.message", "threads.artifact",
            "threads.contexttrace",
        ),
    ),
    Group(
        name="operation",
        title=_("Operation"),
        rooms=(
            "memory.job", "memory.memoryop", "governance.auditentry", "governance.auditseal",
        ),
    ),
    Group(
        name="setup",
        title=_("Set-up"),
        rooms=(
            "memory.tenant", "threads.agent", "threads.provider", "governance.tenantpolicy",
            "governance.apikey",
        ),
    ),
)  # fmt: skip


def by_group(apps: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return Django's list of apps as one of groups; a group without rooms to see is left out.

    Args:
        apps: What `AdminSite.get_app_list` returns: apps with the rooms that one may see. Pure.
    """
    rooms = {room["model"]._meta.label_lower: room for app in apps for room in app["models"]}
    found = []
    for group in GROUPS:
        shown = [rooms[label] for label in group.rooms if label in rooms]
        if shown:
            found.append(_as_app(group, shown))
    return found


def _as_app(group: Group, rooms: list[Any]) -> dict[str, Any]:
    return {
        "name": group.title,
        "app_label": group.name,
        "app_url": "",
        "has_module_perms": True,
        "models": rooms,
    }
