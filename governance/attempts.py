"""Failed logins of staff: names and addresses, which are not kept for ever."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from axes.models import AccessAttempt

from memory.conf import login_cool_off

# Long enough to look into an attack. The other tables of django-axes are switched off.
_KEPT: Final = timedelta(days=30)


def forget_attempts(*, now: datetime) -> int:
    """Delete attempts of more than 30 days ago that lock nobody out; return how many rows went.

    Cost: one statement where there is none.
    """
    ended_at = now - max(_KEPT, login_cool_off())
    return int(AccessAttempt.objects.filter(attempt_time__lt=ended_at).delete()[0])
