"""The search after an erasure: it finds what was left anywhere, and nothing else."""

from __future__ import annotations

import base64
import json
import pickle
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from django.core import signing
from django.utils import timezone

from governance import ledger
from governance.erasure import needles
from governance.erasure.needles import Needle, Needles
from governance.erasure.receipts import sha256_of
from governance.erasure.verifying import verify_open
from governance.models.erasure import Erasure
from memory.rls import maintenance_transaction, scoped_transaction
from tests.factories import make_agent, make_end_user, make_run, make_tenant, make_thread, scope_of
from tests.governance.erasure.scenes import erase, read
from threads.models import Message

USER_ID = "margarethe.oelsen-4711"
SAID = "Yesterday I hid the emerald brooch of aunt Wilhelmina under the third floorboard."
SAID_ZH = "我把外婆留下的翡翠胸针藏在阁楼第三块地板下面了"
PHONE = "13800138000"


def _talk(tenant: Any, agent: Any, user_id: str, *texts: str) -> Any:
    person = make_end_user(tenant, user_id)
    thread = make_thread(agent, person, external_key=f"thread-of-{user_id}", title=texts[0][:60])
    for number, text in enumerate(texts):
        run = make_run(thread, input=text, output="Noted.", external_id=f"{user_id}-{number}")
        with scoped_transaction(scope_of(tenant)):
            Message.objects.create(
                tenant=tenant,
                thread=thread,
                run=run,
                end_user=person,
                position=0,
                role="user",
                content=text,
                pii=_tags(text),
            )
    return person


def _tags(text: str) -> list[dict[str, Any]]:
    start = text.find(PHONE)
    return [{"kind": "phone", "start": start, "end": start + 11}] if start >= 0 else []


@pytest.fixture
def scene(committed_db: None) -> dict[str, Any]:
    """Two people of one tenant, and one of another, each with a talk."""
    tenant, stranger = make_tenant(), make_tenant()
    agent = make_agent(
        tenant, system_prompt="You serve the house of Oelsen and Sons, and are brief."
    )
    texts = (SAID, SAID_ZH, f"My number is {PHONE}, do call me.")
    person = _talk(tenant, agent, USER_ID, *texts)
    other = _talk(tenant, agent, "bystander-9", "The weather in Kopenhagen was rather mild today.")
    foreign = _talk(stranger, make_agent(stranger), USER_ID, SAID)
    return {"tenant": tenant, "person": person, "other": other, "foreign": foreign}


def verified(erasure: Erasure) -> Erasure:
    """Search, and return the row afterwards."""
    assert verify_open(now=timezone.now(), within_seconds=60) == 1
    return read(erasure)


def failing(erasure: Erasure) -> set[tuple[str, str]]:
    """Where something was found that must not be there."""
    return {
        (one.get("table", ""), one.get("column", one.get("problem")))
        for one in erasure.findings
        if not one["is_mention"]
    }


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


def test_verify_twice_ends_once(scene: dict[str, Any]) -> None:
    erase(scene["person"])
    now = timezone.now()
    assert verify_open(now=now, within_seconds=60) == 1
    assert verify_open(now=now, within_seconds=60) == 0


def _admin_log(superuser_url: str, scene: dict[str, Any]) -> None:
    message = json.dumps([{"changed": {"fields": [SAID]}}])
    with psycopg.connect(superuser_url, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO auth_user (id, password, is_superuser, username, first_name, last_name,"
            " email, is_staff, is_active, date_joined)"
            " VALUES (77, '', false, 'staff-77', '', '', '', true, true, now())"
        )
        connection.execute(
            "INSERT INTO django_admin_log (action_time, object_id, object_repr, action_flag,"
            " change_message, user_id) VALUES (now(), '1', 'x', 2, %s, 77)",
            [message],
        )


def _sql(statement: str, value: Callable[[], object]) -> Callable[[str, dict[str, Any]], None]:
    def plant(superuser_url: str, scene: dict[str, Any]) -> None:
        with psycopg.connect(superuser_url, autocommit=True) as connection:
            connection.execute("SET session_replication_role = replica")
            for part in statement.split(";")[:-1]:
                connection.execute(part)
            connection.execute(statement.rsplit(";", maxsplit=1)[-1], [value()])

    return plant


def _session() -> str:
    data = {"note": [SAID_ZH] * 4}
    return signing.dumps(data, salt="django.contrib.sessions.SessionStore", compress=True)


def _task() -> str:
    return base64.b64encode(pickle.dumps({"args": (SAID,), "kwargs": {"n": 1}})).decode()


PLANTS: dict[str, tuple[str, str, Callable[[str, dict[str, Any]], None]]] = {
    "admin log": ("django_admin_log", "change_message", _admin_log),
    "task arguments": (
        "django_q_task",
        "args",
        _sql(
            "INSERT INTO django_q_task (id, name, func, args, started, stopped, success,"
            " attempt_count) VALUES ('t1', 'n', 'f', %s, now(), now(), true, 1)",
            _task,
        ),
    ),
    "queued payload": (
        "django_q_ormq",
        "payload",
        _sql(
            "INSERT INTO django_q_ormq (key, payload, lock) VALUES ('k', %s, now())",
            lambda: signing.dumps({"a": [SAID] * 3}, compress=True),
        ),
    ),
    "session": (
        "django_session",
        "session_data",
        _sql(
            "INSERT INTO django_session (session_key, session_data, expire_date)"
            " VALUES ('s1', %s, now())",
            _session,
        ),
    ),
    "words of a search index": (
        "extra_search",
        "words",
        _sql(
            "CREATE TABLE extra_search (id int, words tsvector);"
            "GRANT SELECT ON extra_search TO credence_maint;"
            "INSERT INTO extra_search VALUES (1, to_tsvector('english', %s))",
            lambda: SAID,
        ),
    ),
    "unknown table": (
        "extra_notes",
        "who",
        _sql(
            "CREATE TABLE extra_notes (id int, who text);"
            "GRANT SELECT ON extra_notes TO credence_maint;"
            "INSERT INTO extra_notes VALUES (1, %s)",
            lambda: USER_ID,
        ),
    ),
    "unknown schema": (
        "attic.extra_box",
        "raw",
        _sql(
            "CREATE SCHEMA attic;"
            "CREATE TABLE attic.extra_box (raw bytea);"
            "GRANT USAGE ON SCHEMA attic TO credence_maint;"
            "GRANT SELECT ON attic.extra_box TO credence_maint;"
            "INSERT INTO attic.extra_box VALUES (%s)",
            lambda: zlib.compress(SAID_ZH.encode()),
        ),
    ),
    "escaped JSON": (
        "extra_json",
        "body",
        _sql(
            "CREATE TABLE extra_json (body text);"
            "GRANT SELECT ON extra_json TO credence_maint;"
            "INSERT INTO extra_json VALUES (%s)",
            lambda: json.dumps({"said": SAID_ZH}),
        ),
    ),
    "number written otherwise": (
        "extra_phone",
        "tel",
        _sql(
            "CREATE TABLE extra_phone (tel text);"
            "GRANT SELECT ON extra_phone TO credence_maint;"
            "INSERT INTO extra_phone VALUES (%s)",
            lambda: "+86 138-0013-8000",
        ),
    ),
    "audit detail": (
        "governance_auditentry",
        "detail",
        _sql(
            "INSERT INTO governance_auditentry (id, tenant_id, at, actor, action, target_kind,"
            " target_id, detail) VALUES ('aud_x', 'tn_x', now(), 'a', 'b', 'c', 'd', %s)",
            lambda: json.dumps({"user": USER_ID}),
        ),
    ),
}


@pytest.fixture
def swept(superuser_url: str) -> Iterator[None]:
    """Take the extra tables away afterwards."""
    yield
    with psycopg.connect(superuser_url, autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS attic CASCADE")
        for name in ("search", "notes", "json", "phone", "secret"):
            connection.execute(f"DROP TABLE IF EXISTS extra_{name}")


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
    person = _talk(
        tenant, make_agent(tenant), "7", "What time does the ferry to Helsingborg leave?"
    )
    _talk(tenant, make_agent(tenant), "77", "It is 7 minutes past 7, and 7 of us are here, all 7.")
    row = verified(erase(person))
    assert (row.verified, row.findings) == ("true", [])


def test_verify_short_name_as_a_whole_value_is_found(
    swept: None, committed_db: None, superuser_url: str
) -> None:
    tenant = make_tenant()
    person = _talk(
        tenant, make_agent(tenant), "7", "What time does the ferry to Helsingborg leave?"
    )
    gone = erase(person)
    _sql(
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
    person = _talk(tenant, agent, "guest-4711", prompt, SAID)
    erasure = Erasure(tenant_id=tenant.pk, subject_id=person.pk, mode="all")
    with maintenance_transaction() as alias:
        found = needles.collect(alias=alias, erasure=erasure)
    phrases = [one.text for one in found.items if one.kind == "phrase"]
    assert phrases
    assert not any("grand budapest" in text for text in phrases)
    assert any("brooch" in text for text in phrases)


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
