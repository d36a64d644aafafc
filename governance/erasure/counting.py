"""Counting what an erasure of everything would take away, by the conditions of the act itself."""

from __future__ import annotations

from collections import Counter
from typing import Final

from django.db import connection

from governance.erasure.deleting import count_all, is_narrow
from governance.erasure.plan import STEPS
from governance.erasure.subjects import Subject
from memory.rls import scoped_transaction

_COUNT_KEYS: Final = """
    SELECT count(*) FROM governance_apikey WHERE tenant_id = %(tenant)s AND end_user_id = %(person)s
"""


def count_person(subject: Subject) -> Counter[str]:
    """Return what an erasure of everything would take away now, by its own conditions."""
    found: Counter[str] = Counter()
    for step in STEPS:
        with scoped_transaction(subject.own if is_narrow(step) else subject.wide):
            found.update(count_all(step=step, subject=subject))
    with scoped_transaction(subject.wide):
        found.update(_count_last(subject))
    return Counter({name: number for name, number in found.items() if number})


def _count_last(subject: Subject) -> Counter[str]:
    """Count what goes last: the person, and the keys that are theirs alone."""
    with connection.cursor() as cursor:
        cursor.execute(_COUNT_KEYS, subject.values)
        return Counter(persons=1, api_keys=int(cursor.fetchone()[0]))
