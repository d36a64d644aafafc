"""A backup from before an erasure is restored: noticed, refused, erased again, served again."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connections
from django.test import Client
from django.utils import timezone

from governance import ledger
from governance.erasure.holds import active_hold, place_hold, release_hold
from governance.erasure.problems import LegalHoldError
from governance.erasure.reapply import reapply_erasures
from governance.erasure.requests import request_erasure
from governance.erasure.restored import (
    RestoredDatabaseError,
    is_restored,
    look_again,
    missing_erasures,
    refuse_if_restored,
)
from governance.erasure.verifying import verify_open
from governance.ledger import LedgerEntry
from governance.models.erasure import Erasure
from governance.tenants import find_end_user
from memory import lanes
from memory.conf import erasure_ledger_path
from memory.models import EndUser
from memory.rls import scoped_transaction
from tests.dumping import backup, grep, restore
from tests.factories import (
    MadeKey,
    make_agent,
    make_end_user,
    make_key,
    make_run,
    make_tenant,
    make_thread,
    scope_of,
)
from tests.governance.erasure.scenes import erase, no_tagged, read
from threads.readiness import missing_parts
from threads.tasks import drain, work_lane

USER_ID = "sigrid.holmqvist-88"
SAID = "My grandmother's lighthouse on Anholt island burns every midsummer evening."
SAID_ZH = "外婆在舟山的灯塔每年夏至夜里都会亮起红光"


class Scene:
    """A tenant with two people who talked, a stranger's tenant, and a backup of it all."""

    def __init__(self, superuser_url: str, folder: Path) -> None:
        self.url, self.file = superuser_url, folder / "yesterday.dump"
        self.tenant, self.stranger = make_tenant(), make_tenant()
        self.person = self._talk(self.tenant, USER_ID)
        self.other = self._talk(self.tenant, "someone-else-7")
        self.foreign = self._talk(self.stranger, "foreigner-1")

    def _talk(self, tenant: Any, user_id: str) -> EndUser:
        person = make_end_user(tenant, user_id)
        thread = make_thread(make_agent(tenant), person, external_key=f"key of {user_id}")
        is_subject = user_id == USER_ID
        for text in (SAID, SAID_ZH) if is_subject else ("It rained a lot in Aarhus again.",):
            make_run(thread, input=text, output="I see.")
        return person

    def backup(self) -> None:
        """Take yesterday's backup."""
        backup(self.url, self.file)

    def restore(self) -> None:
        """Put it back."""
        connections.close_all()
        restore(self.url, self.file)
        look_again()

    def where(self) -> dict[str, set[str]]:
        """Where the person's words and name are."""
        return grep(self.url, USER_ID, SAID, SAID_ZH)

    def find(self) -> EndUser | None:
        """The person as the tenant finds them."""
        scope = scope_of(self.tenant)
        with scoped_transaction(scope):
            return find_end_user(scope=scope, user_id=USER_ID)


@pytest.fixture
def outside() -> Iterator[None]:
    """Files of this test's own, and afterwards no memory of the ledger in this process."""
    yield
    look_again()


@pytest.fixture
def scene(outside: None, committed_db: None, superuser_url: str, tmp_path: Path) -> Scene:
    """The scene."""
    return Scene(superuser_url, tmp_path)


def ask(key: MadeKey, path: str) -> Any:
    """Ask the API."""
    return Client().get(path, headers=key.headers)


@pytest.mark.req("B19")
def test_restore_of_yesterdays_backup_is_refused_until_reapplied(scene: Scene) -> None:
    """Case 167, I11: restored, refused, erased again with nothing left, served again."""
    key = make_key(scene.tenant)
    assert set(scene.where()) == {USER_ID, SAID, SAID_ZH}
    scene.backup()
    before = erase(scene.person)
    assert verify_open(now=timezone.now(), within_seconds=60) == 1
    assert scene.where() == {}
    assert ask(key, "/v1/agents").status_code == 200

    scene.restore()
    assert set(scene.where()) == {USER_ID, SAID, SAID_ZH}
    answer = ask(key, "/v1/agents")
    assert (answer.status_code, answer.json()["code"]) == (503, "erasures_not_reapplied")
    assert "reapply_erasures" in answer.json()["detail"]
    assert Client().get("/admin/login/").status_code == 503
    assert "reapply_erasures" in Client().get("/admin/login/").content.decode()
    assert Client().get("/healthz").status_code == 200
    assert Client().get("/v1/openapi.json").status_code == 200
    ready = Client().get("/readyz")
    assert "erasures_not_reapplied" in {one["code"] for one in ready.json()["errors"]}

    out = io.StringIO()
    call_command("reapply_erasures", "--json", stdout=out)
    report = json.loads(out.getvalue())
    assert (report["erased"], report["missing"], report["failed"]) == (1, 0, [])
    assert scene.where() == {}
    assert scene.find() is None
    assert ask(key, "/v1/agents").status_code == 200
    again = read(before)
    assert (again.pk, again.origin, again.status) == (before.pk, "reapplied", "done")
    assert again.verified == "true"
    assert [entry.id for entry in ledger.read()] == [before.pk]


def test_restore_leaves_everybody_else_alone(scene: Scene) -> None:
    scene.backup()
    erase(scene.person)
    scene.restore()
    reapply_erasures(now=timezone.now(), tagged=no_tagged)
    for tenant, person in ((scene.tenant, scene.other), (scene.stranger, scene.foreign)):
        scope = scope_of(tenant)
        with scoped_transaction(scope):
            assert EndUser.objects.in_scope(scope).filter(pk=person.pk).exists()


def test_restore_worker_leaves_its_lanes_alone_but_shows_life(scene: Scene) -> None:
    scene.backup()
    erase(scene.person)
    scene.restore()
    report = work_lane(lane=0, handlers={})
    assert (report.done, report.failed, report.lost) == (0, 0, 0)
    drain(0)
    assert lanes.states()["memory0"].heartbeat_at is not None
    codes = {part.code for part in missing_parts(now=timezone.now())}
    assert "erasures_not_reapplied" in codes


def test_restore_doctor_says_what_to_do(scene: Scene) -> None:
    scene.backup()
    erase(scene.person)
    scene.restore()
    out = io.StringIO()
    with pytest.raises(SystemExit):
        call_command("doctor", "--json", stdout=out)
    found = {row["check"]: row for row in json.loads(out.getvalue())["findings"]}
    assert not found["erasures"]["is_ok"]
    assert "reapply_erasures" in found["erasures"]["remedy"]


def test_restore_hold_survives_and_blocks_until_its_release(scene: Scene) -> None:
    """I11: a hold placed after the backup is back after the restore, and its release too."""
    scope = scope_of(scene.tenant)
    scene.backup()
    now = timezone.now()
    hold = place_hold(scope=scope, person=scene.person, reason="case 12", now=now)
    scene.restore()
    assert is_restored()
    report = reapply_erasures(now=now, tagged=no_tagged)
    assert (report.held, report.missing) == (1, 0)
    with scoped_transaction(scope):
        found = active_hold(scope=scope, subject_id=scene.person.pk)
    assert found is not None
    assert found.pk == hold.pk
    with pytest.raises(LegalHoldError):
        request_erasure(scope=scope, person=scene.person, mode="all", now=now)
    release_hold(scope=scope, person=scene.person, now=now)
    scene.restore()
    report = reapply_erasures(now=now, tagged=no_tagged)
    assert (report.held, report.released, report.missing) == (1, 1, 0)
    with scoped_transaction(scope):
        assert active_hold(scope=scope, subject_id=scene.person.pk) is None


def test_restore_person_with_another_row_is_found_by_the_hmac(scene: Scene) -> None:
    """The backup had the person under another `usr_` id: the tenant's own name tells."""
    gone = erase(scene.person)
    (entry,) = ledger.read()
    stand_in = make_end_user(scene.tenant, USER_ID)
    scope = scope_of(scene.tenant)
    with scoped_transaction(scope):
        EndUser.objects.in_scope(scope).filter(pk=stand_in.pk).update(epoch=entry.epoch)
        Erasure.objects.in_scope(scope).filter(pk=gone.pk).delete()
    look_again()
    report = reapply_erasures(now=timezone.now(), tagged=no_tagged)
    assert (report.erased, report.missing) == (1, 0)
    assert scene.find() is None


def test_restore_person_who_came_back_later_is_let_be(scene: Scene) -> None:
    """Case 158: an epoch above the ledger's is another person's."""
    gone = erase(scene.person)
    back = make_end_user(scene.tenant, USER_ID)
    scope = scope_of(scene.tenant)
    with scoped_transaction(scope):
        EndUser.objects.in_scope(scope).filter(pk=back.pk).update(epoch=2)
        Erasure.objects.in_scope(scope).filter(pk=gone.pk).delete()
    look_again()
    report = reapply_erasures(now=timezone.now(), tagged=no_tagged)
    assert (report.absent, report.erased, report.missing) == (1, 0, 0)
    found = scene.find()
    assert found is not None
    assert found.pk == back.pk


def test_reapply_twice_and_two_at_once_do_it_once(scene: Scene) -> None:
    """Case 160."""
    scene.backup()
    erase(scene.person)
    scene.restore()

    def again(_number: int) -> int:
        try:
            return reapply_erasures(now=timezone.now(), tagged=no_tagged).erased
        finally:
            connections.close_all()

    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(again, range(2))) == [0, 1]
    assert reapply_erasures(now=timezone.now(), tagged=no_tagged).erased == 0
    refuse_if_restored()


def test_reapply_what_can_not_be_done_is_said_and_stays_refused(scene: Scene) -> None:
    """Another unfinished erasure stands in the way; nothing is served, and the command says so."""
    scene.backup()
    erase(scene.person)
    scene.restore()
    request_erasure(
        scope=scope_of(scene.tenant), person=scene.person, mode="tagged", now=timezone.now()
    )
    out = io.StringIO()
    with pytest.raises(CommandError):
        call_command("reapply_erasures", "--json", stdout=out)
    assert json.loads(out.getvalue())["missing"] == 1
    with pytest.raises(RestoredDatabaseError):
        refuse_if_restored()


def test_restored_crash_between_database_and_ledger_is_none(scene: Scene) -> None:
    """What the database knows and the ledger does not is no restore."""
    erase(scene.person)
    erasure_ledger_path().unlink()
    look_again()
    refuse_if_restored()
    out = io.StringIO()
    with pytest.raises(SystemExit):
        call_command("doctor", "--json", stdout=out)
    found = {row["check"]: row for row in json.loads(out.getvalue())["findings"]}
    assert found["erasures"]["is_ok"]
    assert "1 erasures are not in it" in found["ledger"]["detail"]


def test_restored_entries_of_unknown_tenants_do_not_shut_the_door(committed_db: None) -> None:
    """A ledger left over from another database says nothing of this one."""
    ledger.append(
        entry=LedgerEntry(
            kind="erased", id="era_1", tenant_id="tn_0", subject_id="usr_0", at=timezone.now()
        )
    )
    look_again()
    assert missing_erasures(is_whole=True) == ()
    refuse_if_restored()


def test_restored_damaged_ledger_lets_nothing_pass(outside: None, committed_db: None) -> None:
    erasure_ledger_path().write_text("rubbish\n")
    look_again()
    key = make_key(make_tenant())
    answer = ask(key, "/v1/agents")
    assert (answer.status_code, answer.json()["code"]) == (503, "ledger_damaged")
    assert Client().get("/healthz").status_code == 200


def test_check_receipt_accepts_its_own_and_refuses_a_changed_one(
    scene: Scene, tmp_path: Path
) -> None:
    erase(scene.person)
    verify_open(now=timezone.now(), within_seconds=60)
    scope = scope_of(scene.tenant)
    with scoped_transaction(scope):
        receipt = Erasure.objects.in_scope(scope).get(subject_id=scene.person.pk).receipt
    file = tmp_path / "receipt.json"
    file.write_text(json.dumps({"id": receipt["erasure"], "receipt": receipt}))
    out = io.StringIO()
    call_command("check_receipt", str(file), "--json", stdout=out)
    assert json.loads(out.getvalue())["is_as_stored"]
    file.write_text(json.dumps(receipt | {"verified": "maybe"}))
    with pytest.raises(CommandError):
        call_command("check_receipt", str(file))
