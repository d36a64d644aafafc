"""Who knocked in vain: failed logins of staff, and addresses that sent wrong API keys.

Both are rows of django-axes, which counts by name, address and browser. Wrong keys have a name of
their own there, one that no account may have, and no browser: one row an address. Kept for a while,
not for ever.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from axes.models import AccessAttempt
from django.db import connection

from memory.conf import login_cool_off

# Long enough to look into an attack. The other tables of django-axes are switched off.
_KEPT: Final = timedelta(days=30)
# Django's names of accounts have no space.
WRONG_KEYS: Final = "wrong api keys"
# The database's clock, which all processes share. A window that seems to begin later than now is
# one of before a clock was put back; a little later, that of a statement which overtook this one.
_COUNT: Final = """
    INSERT INTO axes_accessattempt AS known (
        username, ip_address, user_agent, http_accept, path_info, get_data, post_data,
        failures_since_start, attempt_time
    ) VALUES (%(name)s, %(peer)s, '', '', '', '', '', 1, statement_timestamp())
    ON CONFLICT (username, ip_address, user_agent) DO UPDATE SET
        failures_since_start = CASE
            WHEN abs(extract(epoch FROM statement_timestamp() - known.attempt_time)) < 60
            THEN known.failures_since_start + 1 ELSE 1 END,
        attempt_time = CASE
            WHEN abs(extract(epoch FROM statement_timestamp() - known.attempt_time)) < 60
            THEN known.attempt_time ELSE statement_timestamp() END
    RETURNING failures_since_start,
        extract(epoch FROM attempt_time - statement_timestamp())::float8 + 60
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrongKeys:
    """What an address sent in its minute, which begins with the first wrong key.

    Attributes:
        ends_in_seconds: Until the count begins anew; more than 0, about 60 at most.
    """

    count: int
    ends_in_seconds: float


def count_wrong_key(*, peer: str) -> WrongKeys:
    """Count a wrong API key of an address, for all processes together. Cost: one statement."""
    with connection.cursor() as cursor:
        cursor.execute(_COUNT, {"name": WRONG_KEYS, "peer": peer})
        count, ends_in_seconds = cursor.fetchone()
    return WrongKeys(count=count, ends_in_seconds=ends_in_seconds)


def forget_attempts(*, now: datetime) -> int:
    """Delete attempts of more than 30 days ago that lock nobody out; return how many rows went.

    Cost: one statement where there is none.
    """
    ended_at = now - max(_KEPT, login_cool_off())
    return int(AccessAttempt.objects.filter(attempt_time__lt=ended_at).delete()[0])
