"""Which operations are fuzzed, and ids that lead somewhere."""

from __future__ import annotations

from tests.threads.api.client import Place
from tests.threads.api.test_routes import ROUTES

# Runs and exports answer with streams that work on connections of their own, which the test's
# transaction hides its rows from: tests/threads/api/test_running.py and those of exports.
_APART = ("/run", "/run/stream", "/export")
OPERATIONS = tuple((method, path) for method, path, _ in ROUTES if not path.endswith(_APART))


def known_ids(place: Place) -> dict[str, str]:
    """Ids of one tenant by the names they have in paths."""
    return {
        "agent_id": place.agent.pk,
        "run_id": place.run.pk,
        "thread_id": place.thread.pk,
        "message_id": place.message_id,
        "provider_id": place.provider.pk,
        "user": place.person.pk,
    }
