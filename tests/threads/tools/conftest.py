"""A person in a thread, and everybody whose messages are none of that person's."""

from __future__ import annotations

import pytest

from tests.factories import make_end_user
from tests.threads.tools.rooms import Room, beside, make_room


@pytest.fixture
def room(db: None) -> Room:
    """A person's thread with an agent of the role tutor."""
    return make_room()


@pytest.fixture
def strangers(room: Room) -> list[Room]:
    """Another tenant; another person of the same agent's role; another role of the same person."""
    return [
        make_room(),
        beside(room, person=make_end_user(room.tenant)),
        beside(room, role="sales"),
    ]
