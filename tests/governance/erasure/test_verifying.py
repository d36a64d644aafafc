"""The search after an erasure: it finds what was left anywhere, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from django.utils import timezone

from governance import ledger
from governance.erasure import needles
from governance.erasure.needles import Needle, Needles
from governance.erasure.receipts import sha256_of
from governance.erasure.verifying import search_round, verify_open
from governance.erasure.work import work_erasures
from governance.models import Correction, EntityCandidate
from governance.models.erasure import Erasure, ErasureStatus, Verified
from memory.models import EndUser
from memory.rls import maintenance_transaction, scoped_transaction
from tests.factories import make_agent, make_end_user, make_tenant, scope_of
from tests.governance.erasure.planting import PLANTS, run_sql, sweep
from tests.governance.erasure.scenes import erase, no_tagged, read
from tests.governance.erasure.talks import (
    PHONE,
    SAID,
    SAID_ZH,
    USER_ID,
    failing,
    make_scene,
    talk,
    verified,
)
from threads.models import Message, Thread


@pytest.fixture
def scene(committed_db: None) -> dict[str, Any]:
    """Two people of one tenant, and one of another, each with a talk."""
    return make_scene()


@pytest.mark.req("B19")
def test_verify_complete_erasure_is_true_with_a_receipt(scene: dict[str, Any]) -> None:
    gone = erase(scene["person"])
    assert gone.sealed_needles
    row = verified(gone)
    assert (row.verified, row.findings, row.sealed_needles) == ("true", [], "")
    receipt = row.receipt
    assert row.receipt_sha256 == sha256_of(receipt)
    assert receipt["search"]["tables"] > 60
    assert receipt["search"]["rows"] > 10
    assert receipt["search"]["unread"] == []
    assert receipt["search"]["needles"]["phrase"] >= 3
    assert receipt["search"]["needles"]["identifier"] >= 5
    assert receipt["counts"] == row.counts
    assert receipt["ledger"]["line"] == 1
    text = json.dumps(receipt, ensure_ascii=False)
    for word in (USER_ID, SAID[10:30], SAID_ZH[3:12], PHONE, scene["person"].pk):
        assert word not in text


def test_verify_needles_are_unreadable_in_the_database(
    scene: dict[str, Any], superuser_url: str
) -> None:
    gone = erase(scene["person"])
    opened = Needles.opened(gone.sealed_needles)
    assert Needle(kind="identifier", text=USER_ID) in opened.items
    assert Needle(kind="value", text=PHONE) in opened.items
    with psycopg.connect(superuser_url) as connection:
        rows = connection.execute("SELECT e::text FROM governance_erasure AS e").fetchall()
    assert not any(needle.text in row[0] for needle in opened.items for row in rows)


@pytest.fixture
def swept(superuser_url: str) -> Iterator[None]:
    """Take the extra tables away afterwards."""
    yield
    sweep(superuser_url)


@pytest.mark.parametrize("name", PLANTS)
def test_verify_finds_what_was_planted(
    name: str, swept: None, scene: dict[str, Any], superuser_url: str
) -> None:
    """I4 and the decoding grep: payloads, sessions, logs, audit details, tables nobody knows."""
    table, column, plant = PLANTS[name]
    gone = erase(scene["person"])
    plant(superuser_url, scene)
    if name == "audit detail":
        with psycopg.connect(superuser_url, autocommit=True) as connection:
            connection.execute("SET session_replication_role = replica")
            connection.execute(
                "UPDATE governance_auditentry SET tenant_id = %s WHERE id = 'aud_x'",
                [gone.tenant_id],
            )
    row = verified(gone)
    assert row.verified == "false"
    assert failing(row) == {(table, column)}
    assert row.sealed_needles == ""
    assert row.receipt["findings"] == row.findings


def test_verify_twice_ends_once(scene: dict[str, Any]) -> None:
    erase(scene["person"])
    now = timezone.now()
    assert verify_open(now=now, within_seconds=60) == 1
    assert verify_open(now=now, within_seconds=60) == 0


def test_verify_table_that_can_not_be_read_is_said_and_fails(
    swept: None, scene: dict[str, Any], superuser_url: str
) -> None:
    gone = erase(scene["person"])
    with psycopg.connect(superuser_url, autocommit=True) as connection:
        connection.execute("CREATE TABLE extra_secret (said text)")
    row = verified(gone)
    assert row.verified == "false"
    assert failing(row) == {("extra_secret", "not_searched")}


def test_verify_words_of_another_person_are_a_mention_and_do_not_fail(
    scene: dict[str, Any],
) -> None:
    gone = erase(scene["person"])
    scope = scope_of(scene["tenant"])
    with scoped_transaction(scope):
        Message.objects.in_scope(scope).filter(end_user=scene["other"]).update(
            content=f"My neighbour told me: {SAID}"
        )
    row = verified(gone)
    assert row.verified == "true"
    (mention,) = row.findings
    assert mention["is_mention"]
    assert (mention["table"], mention["column"]) == ("threads_message", "content")
    assert (mention["whose"], mention["rows"]) == ("others", 1)


def test_verify_says_nothing_of_another_tenant(scene: dict[str, Any]) -> None:
    """The stranger of the other tenant has the same name and said the same."""
    row = verified(erase(scene["person"]))
    assert row.verified == "true"
    assert scene["foreign"].tenant_id not in json.dumps(row.receipt)


def test_verify_rows_written_for_the_person_afterwards_fail(
    scene: dict[str, Any], superuser_url: str
) -> None:
    """Case 157: a write that slipped past every wall is seen by the search."""
    kept = scene["person"].pk
    gone = erase(scene["person"])
    with psycopg.connect(superuser_url, autocommit=True) as connection:
        connection.execute("SET session_replication_role = replica")
        connection.execute(
            "UPDATE threads_message SET end_user_id = %s, content = %s WHERE end_user_id = %s",
            [kept, SAID, scene["other"].pk],
        )
    row = verified(gone)
    assert row.verified == "false"
    assert [one["whose"] for one in row.findings] == ["person"]


def test_verify_returning_person_is_another_one(scene: dict[str, Any]) -> None:
    """Case 158: whoever comes back under the old name does not undo the erasure's proof."""
    gone = erase(scene["person"])
    make_end_user(scene["tenant"], USER_ID)
    row = verified(gone)
    assert row.verified == "true"
    assert [one["table"] for one in row.findings] == ["memory_enduser"]


def test_verify_two_erasures_in_one_pass_keep_their_findings_apart(
    swept: None, scene: dict[str, Any], superuser_url: str
) -> None:
    first, second = erase(scene["person"]), erase(scene["other"])
    PLANTS["unknown table"][2](superuser_url, scene)
    assert verify_open(now=timezone.now(), within_seconds=60) == 2
    assert (read(first).verified, read(second).verified) == ("false", "true")


def test_verify_stopped_by_time_goes_on_where_it_was(
    swept: None, scene: dict[str, Any], superuser_url: str
) -> None:
    """Case 160: the search is cut into pieces, and the sum is the same."""
    gone = erase(scene["person"])
    PLANTS["unknown table"][2](superuser_url, scene)
    calls = 0
    while verify_open(now=timezone.now(), within_seconds=0) == 0:
        calls += 1
        assert calls < 500
        assert read(gone).sealed_needles
    row = read(gone)
    assert calls > 60
    assert row.verified == "false"
    assert failing(row) == {("extra_notes", "who")}
    assert row.receipt["search"]["tables"] > 60


def test_verify_needles_sealed_with_a_lost_key_fail(scene: dict[str, Any], settings: Any) -> None:
    gone = erase(scene["person"])
    settings.CREDENCE_ENCRYPTION_KEYS = ["Wm" * 20]
    row = verified(gone)
    assert row.verified == "false"
    assert failing(row) == {("", "needles_unreadable")}


def test_verify_short_name_is_no_needle_inside_other_words(committed_db: None) -> None:
    """A person called 7: neither sevens in numbers nor in others' texts are of that person."""
    tenant = make_tenant()
    person = talk(tenant, make_agent(tenant), "7", "What time does the ferry to Helsingborg leave?")
    talk(tenant, make_agent(tenant), "77", "It is 7 minutes past 7, and 7 of us are here, all 7.")
    row = verified(erase(person))
    assert (row.verified, row.findings) == ("true", [])


def test_verify_short_name_as_a_whole_value_is_found(
    swept: None, committed_db: None, superuser_url: str
) -> None:
    tenant = make_tenant()
    person = talk(tenant, make_agent(tenant), "7", "What time does the ferry to Helsingborg leave?")
    gone = erase(person)
    run_sql(
        "CREATE TABLE extra_notes (id int, who text, body jsonb);"
        "GRANT SELECT ON extra_notes TO credence_maint;"
        "INSERT INTO extra_notes VALUES (7, '7', %s)",
        lambda: json.dumps({"user_id": "7"}),
    )(superuser_url, {})
    row = verified(gone)
    assert failing(row) == {("extra_notes", "who"), ("extra_notes", "body")}


def test_collect_leaves_out_what_the_tenant_wrote_for_everybody(committed_db: None) -> None:
    tenant = make_tenant()
    prompt = "You are the friendly clerk of the Grand Budapest and you always answer in rhymes."
    agent = make_agent(tenant, system_prompt=prompt)
    person = talk(tenant, agent, "guest-4711", prompt, SAID)
    erasure = Erasure(tenant_id=tenant.pk, subject_id=person.pk, mode="all")
    with maintenance_transaction() as alias:
        found = needles.collect(alias=alias, erasure=erasure)
    phrases = [one.text for one in found.items if one.kind == "phrase"]
    assert phrases
    assert not any("grand budapest" in text for text in phrases)
    assert any("brooch" in text for text in phrases)


def test_collect_leaves_out_terms_that_others_have_corrected_too(scene: dict[str, Any]) -> None:
    """Found in a soak: the term stays in the vocabulary, since it is the other's word as well."""
    term, lone = "Wiener Schnellkochtopf mit Deckel", "Grazer Dampfgarer ohne Henkel"
    scope = scope_of(scene["tenant"])
    with scoped_transaction(scope):
        for person, terms in ((scene["person"], (term, lone)), (scene["other"], (term,))):
            thread = Thread.objects.in_scope(scope).get(end_user=person)
            for one in terms:
                Correction.objects.create(
                    tenant=scene["tenant"],
                    end_user=person,
                    thread=thread,
                    entity_type="product",
                    term=one,
                    term_key=one.casefold(),
                    created_by="test",
                )
    erasure = Erasure(tenant_id=scene["tenant"].pk, subject_id=scene["person"].pk, mode="all")
    with maintenance_transaction() as alias:
        found = needles.collect(alias=alias, erasure=erasure)
    phrases = [one.text for one in found.items if one.kind == "phrase"]
    assert not any("schnellkochtopf" in text for text in phrases)
    assert any("dampfgarer" in text for text in phrases)


def test_term_that_another_corrects_while_it_is_searched_is_no_remains(
    scene: dict[str, Any],
) -> None:
    """Found in a soak: the needles were sealed, then somebody else proposed the same term."""
    term = "Wiener Schnellkochtopf mit Deckel"
    scope = scope_of(scene["tenant"])

    def correct(person: EndUser) -> None:
        with scoped_transaction(scope):
            Correction.objects.create(
                tenant=scene["tenant"],
                end_user=person,
                thread=Thread.objects.in_scope(scope).filter(end_user=person)[0],
                entity_type="product",
                term=term,
                term_key=term.casefold(),
                created_by="test",
            )

    def propose() -> None:
        with scoped_transaction(scope):
            EntityCandidate.objects.create(
                tenant=scene["tenant"], entity_type="product", term=term,
                term_key=term.casefold(), status="pending", evidence_count=1,
            )  # fmt: skip

    correct(scene["person"])
    erased = erase(scene["person"])
    correct(scene["other"])
    propose()
    assert search_round(now=timezone.now(), within_seconds=60) == (0, True)
    assert read(erased).verified == Verified.PENDING
    assert search_round(now=timezone.now(), within_seconds=60) == (1, False)
    done = read(erased)
    assert (done.verified, done.status) == (Verified.TRUE, ErasureStatus.DONE)


def test_term_that_nobody_else_has_corrected_is_remains(scene: dict[str, Any]) -> None:
    term = "Wiener Schnellkochtopf mit Deckel"
    scope = scope_of(scene["tenant"])
    with scoped_transaction(scope):
        Correction.objects.create(
            tenant=scene["tenant"], end_user=scene["person"], entity_type="product",
            thread=Thread.objects.in_scope(scope).filter(end_user=scene["person"])[0],
            term=term, term_key=term.casefold(), created_by="test",
        )  # fmt: skip
    erased = erase(scene["person"])
    with scoped_transaction(scope):
        EntityCandidate.objects.create(
            tenant=scene["tenant"], entity_type="product", term=term,
            term_key=term.casefold(), status="pending", evidence_count=1,
        )  # fmt: skip
    assert search_round(now=timezone.now(), within_seconds=60) == (1, False)
    assert read(erased).verified == Verified.FALSE


def test_search_that_is_cut_off_is_rung_for_again(scene: dict[str, Any]) -> None:
    """Found in a soak: the rest waited for the next heartbeat, and so for minutes."""
    erase(scene["person"])
    assert search_round(now=timezone.now(), within_seconds=0) == (0, True)
    report = work_erasures(now=timezone.now(), within_seconds=0.01, tagged=no_tagged)
    assert (report.verified, report.is_more) == (0, True)
    report = work_erasures(now=timezone.now(), within_seconds=60, tagged=no_tagged)
    assert (report.verified, report.is_more) == (1, False)


def test_search_shows_life_while_it_goes_on(scene: dict[str, Any]) -> None:
    """Found in a soak: a supervisor took the long search for dead and killed it, again and again."""
    erase(scene["person"])
    shown: list[int] = []
    assert search_round(now=timezone.now(), within_seconds=60, between=lambda: shown.append(1)) == (
        1,
        False,
    )
    assert shown


def test_collect_for_tagged_has_the_tagged_values_alone(scene: dict[str, Any]) -> None:
    erasure = Erasure(tenant_id=scene["tenant"].pk, subject_id=scene["person"].pk, mode="tagged")
    with maintenance_transaction() as alias:
        found = needles.collect(alias=alias, erasure=erasure)
        narrowed = needles.collect(
            alias=alias,
            erasure=Erasure(
                tenant_id=scene["tenant"].pk,
                subject_id=scene["person"].pk,
                mode="tagged",
                kinds=["email"],
            ),
        )
    assert {one.text for one in found.items} == {PHONE}
    assert narrowed.items == ()


def test_verify_ledger_file_is_searched(scene: dict[str, Any]) -> None:
    gone = erase(scene["person"])
    ledger.append(
        entry=ledger.LedgerEntry(
            kind="held", id=USER_ID, tenant_id="tn", subject_id="s", at=timezone.now()
        )
    )
    row = verified(gone)
    assert failing(row) == {("file", "erasures.jsonl")}
