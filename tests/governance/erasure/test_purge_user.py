"""The command purge_user: counts, erases here and now, says whether anything is left."""

from __future__ import annotations

import json
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from governance.erasure.holds import place_hold, release_hold
from governance.erasure.requests import erasures_of
from governance.models import AuditEntry
from governance.models.erasure import ErasureStatus, Verified
from governance.tenants import find_end_user
from memory.models import EndUser, Tenant
from memory.rls import scoped_transaction
from tests.factories import make_agent, make_end_user, make_tenant, make_thread, scope_of
from tests.talking import tell

pytestmark = pytest.mark.usefixtures("committed_db")


def purge(tenant: Tenant, user: str, *arguments: str) -> dict[str, Any]:
    out = StringIO()
    call_command(
        "purge_user",
        "--tenant",
        tenant.slug,
        "--user",
        user,
        "--json",
        *(arguments or ("--mode", "all")),
        stdout=out,
    )
    told: dict[str, Any] = json.loads(out.getvalue())
    return told


def talker(tenant: Tenant, user_id: str) -> EndUser:
    """Somebody who has said two things."""
    person = make_end_user(tenant, user_id=user_id)
    thread = make_thread(make_agent(tenant), person, title="about marmalade 橘子酱")
    tell(thread, [("I keep bees in Uppsala", "How many hives?"), ("我养了七箱蜜蜂", "很好")])
    return person


@pytest.mark.req("E06")
@pytest.mark.req("B19")
def test_purge_user_erases_and_verifies() -> None:
    tenant = make_tenant()
    person = talker(tenant, "beekeeper@example.org")
    told = purge(tenant, "beekeeper@example.org")
    assert (told["status"], told["verified"]) == (ErasureStatus.DONE, Verified.TRUE)
    assert told["runs"] == 2
    assert told["persons"] == 1
    scope = scope_of(tenant)
    with scoped_transaction(scope):
        assert find_end_user(scope=scope, user_id="beekeeper@example.org") is None
        acts = AuditEntry.objects.in_scope(scope).filter(action__startswith="erasure_")
        assert {"erasure_requested", "erasure_done"} <= set(acts.values_list("action", flat=True))
        assert "beekeeper" not in repr(list(acts.values()))
    assert person.pk == told["person"]


def test_purge_user_dry_run_changes_nothing() -> None:
    """Case 161: it says what the act then says."""
    tenant = make_tenant()
    talker(tenant, "somebody")
    counted = purge(tenant, "somebody", "--mode", "all", "--dry-run")
    again = purge(tenant, "somebody", "--mode", "all", "--dry-run")
    assert counted == again
    done = purge(tenant, "somebody")
    for name in ("runs", "messages", "threads", "persons"):
        assert counted.get(name) == done.get(name)


def test_purge_user_under_a_hold_fails_and_goes_on_after_its_release() -> None:
    """Bug report I11: the hold blocks and says so; released, it runs again."""
    tenant = make_tenant()
    person = talker(tenant, "held")
    scope = scope_of(tenant)
    place_hold(scope=scope, person=person, reason="case 7", now=timezone.now())
    with pytest.raises(CommandError, match="legal_hold"):
        purge(tenant, "held")
    assert purge(tenant, "held", "--mode", "all", "--dry-run")["held"] is True
    with scoped_transaction(scope):
        assert not erasures_of(scope=scope).exists()
        assert find_end_user(scope=scope, user_id="held") is not None
    release_hold(scope=scope, person=person, now=timezone.now())
    assert purge(tenant, "held")["hold_reasons"] == 1


def test_purge_user_of_nobody_fails() -> None:
    tenant = make_tenant()
    with pytest.raises(CommandError, match="not_found"):
        purge(tenant, "nobody")


def test_purge_user_no_wait_only_asks() -> None:
    tenant = make_tenant()
    talker(tenant, "later")
    told = purge(tenant, "later", "--mode", "all", "--no-wait")
    assert told["status"] == ErasureStatus.QUEUED


def test_purge_user_physical_writes_the_tables_anew_and_says_what_it_could_not() -> None:
    tenant = make_tenant()
    talker(tenant, "physical")
    told = purge(tenant, "physical", "--mode", "all", "--physical")
    assert told["vacuumed"] > 30
    # The owner of the tables is no superuser: the operator's part is named.
    assert set(told["not_possible_here"]) <= {"checkpoint", "wal_switch"}


def test_purge_user_mode_all_takes_no_kinds() -> None:
    tenant = make_tenant()
    talker(tenant, "narrow")
    with pytest.raises(CommandError, match="erasure_narrowed"):
        purge(tenant, "narrow", "--mode", "all", "--kinds", "email")
