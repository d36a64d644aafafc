"""Entries get their vectors: of the gated text alone, outside transactions, failures counted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.utils import timezone

from memory import jobs
from memory.models import Embedding, Shelf
from memory.providers.embeddings.registry import close_endpoints
from memory.rls import open_scope, scoped_transaction
from memory.sanitize import sanitize
from memory.scope import Scope
from memory.store import remove_entries
from tests.embedding import (
    CLOUD,
    READY,
    Embedded,
    ask_for_vectors,
    endpoint_model,
    models_of,
    vectors_of,
    work,
)
from tests.factories import NOW, make_agent, make_provider, make_tenant, make_thread, scope_of
from tests.fakes.openai_embeddings import DIMENSIONS, Embeddings, fake_vector
from tests.fakes.openai_replies import status
from tests.fakes.openai_server import FakeOpenAI
from tests.recalling import make_talk
from tests.shelving import Person, file_document, make_person, shelve
from tests.talking import tell
from threads.recall import filling
from threads.recall.embedding_jobs import embed_entries
from threads.recall.models_in_use import forget_active_models

pytestmark = pytest.mark.django_db
NOT_ALLOWED = Embedded("failed", 1, "embedding_not_allowed")


@pytest.fixture(autouse=True)
def _nothing_kept() -> Iterator[None]:
    forget_active_models()
    yield
    close_endpoints()


def with_local_agent(person: Person) -> None:
    """The person's agent runs on this host, as by default."""
    assert person.agent.provider.locality == "local"


def cloud_person(**agent: Any) -> Person:
    """A person who talks with an agent of a cloud's provider."""
    person = make_person()
    provider = make_provider(person.tenant, locality="cloud", vendor="acme")
    made = make_agent(person.tenant, provider=provider, **agent)
    thread = make_thread(made, person.end_user)
    return Person(person.tenant, person.end_user, made, thread)


@pytest.mark.req("D05")
def test_the_first_job_gives_a_tenant_the_default_model_and_its_vectors() -> None:
    person = make_person()
    shelve(person, ["The printer is upstairs.", "打印机在三楼。"], answers=["Noted.", "好的"])
    file_document(person.tenant, ["Opening hours", "营业时间"])
    assert vectors_of(person.tenant) == {}
    ask_for_vectors(person.tenant)
    assert work(person.tenant) == []
    assert models_of(person.tenant) == {"usem3": "active"}
    assert vectors_of(person.tenant) == dict.fromkeys(
        ["The printer is upstairs.", "打印机在三楼。", "Opening hours", "营业时间"], READY
    )


def test_an_entry_is_embedded_once_and_later_jobs_take_only_what_is_new(
    server: FakeOpenAI,
) -> None:
    person = make_person()
    endpoint_model(person.tenant, server)
    shelve(person, ["one", "二"], answers=["uno", ""])
    ask_for_vectors(person.tenant)
    work(person.tenant)
    assert sorted(server.embedded_texts) == ["one\nuno", "二"]
    shelve(person, ["three"])
    ask_for_vectors(person.tenant)
    work(person.tenant)
    assert server.embedded_texts[2:] == ["three"]
    ask_for_vectors(person.tenant)
    work(person.tenant)
    assert len(server.embedded_texts) == 3


def test_many_entries_go_in_batches_that_grow_each_committed(
    server: FakeOpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filling, "_FIRST_BATCH", 2)
    person = make_person()
    endpoint_model(person.tenant, server)
    shelve(person, [f"text {number} 号" for number in range(21)])
    ask_for_vectors(person.tenant)
    work(person.tenant)
    sizes = [len(request.body["input"]) for request in server.requests]
    assert sizes == [2, 4, 8, 7]
    assert set(vectors_of(person.tenant).values()) == {READY}
    scope = person.scope
    with scoped_transaction(scope):
        shelf = Shelf.objects.in_scope(scope).get()
        versions = Embedding.objects.in_scope(scope).values_list("version", flat=True).distinct()
        assert len(versions) == len(sizes)
        assert max(versions) == shelf.version


def test_no_transaction_is_open_while_texts_are_embedded(server: FakeOpenAI) -> None:
    person = make_person()
    endpoint_model(person.tenant, server)
    shelve(person, ["x"])
    seen: list[Any] = []

    def answer(body: Any) -> Embeddings:
        seen.append(body)
        return Embeddings()

    server.embed_with(answer)
    ask_for_vectors(person.tenant)
    assert work(person.tenant) == []
    assert len(seen) == 1
    assert open_scope() is None


@pytest.mark.req("D04")
def test_only_text_that_passed_the_gate_reaches_the_embedder_attack_107(
    server: FakeOpenAI,
) -> None:
    talk = make_talk()
    endpoint_model(talk.tenant, server)
    secret = "sk-proj-4f9aQ7zL2mX8bV6nC3kJ5hG1"
    tell(
        talk.thread,
        [
            (f"My key is {secret}, keep it. 我的密码是 hunter2secret!", "I will not keep it."),
            ("half \u202e pair\u200b of words, and a \x07bell", "ok"),
        ],
    )
    talk.index()
    ask_for_vectors(talk.tenant)
    work(talk.tenant)
    sent = "\n".join(server.embedded_texts)
    assert secret not in sent
    assert not {"\u202e", "\u200b", "\x07"} & set(sent)
    stored = [sanitize(f"{row.said}\n{row.answered}").text for row in talk.recalled()]
    assert sorted(server.embedded_texts) == sorted(stored)


@pytest.mark.parametrize(
    ("vector", "code"),
    [
        ([0.1] * (DIMENSIONS + 1), "wrong_length"),
        ([float("nan")] * DIMENSIONS, "not_finite"),
        ([0.0] * DIMENSIONS, "not_a_direction"),
    ],
)
@pytest.mark.req("D05")
def test_a_bad_vector_is_stored_as_failed_counted_and_retried_five_times_bug_j2(
    server: FakeOpenAI, vector: list[float], code: str
) -> None:
    person = make_person()
    endpoint_model(person.tenant, server)
    shelve(person, ["good", "坏"])

    def make(texts: Any) -> list[Any]:
        return [vector if "坏" in text else fake_vector(text) for text in texts]

    server.embed_with(lambda body: Embeddings(make=make))
    for attempt in range(1, 8):
        ask_for_vectors(person.tenant)
        assert work(person.tenant) == []
        assert vectors_of(person.tenant) == {
            "good": READY,
            "坏": Embedded("failed", min(attempt, 5), code),
        }
    assert server.embedded_texts.count("坏") == 5


def test_a_text_that_failed_is_mended_by_a_later_job(server: FakeOpenAI) -> None:
    person = make_person()
    endpoint_model(person.tenant, server)
    shelve(person, ["mend me"])
    server.script_embeddings(Embeddings(dimensions=3))
    for _ in range(2):
        ask_for_vectors(person.tenant)
        work(person.tenant)
    assert vectors_of(person.tenant) == {"mend me": Embedded("ready", 2, "")}


def test_an_endpoint_that_is_down_fails_the_job_and_marks_no_text(server: FakeOpenAI) -> None:
    person = make_person()
    endpoint_model(person.tenant, server)
    shelve(person, ["wait", "等"])
    server.script_embeddings(status(500))
    ask_for_vectors(person.tenant)
    assert work(person.tenant) == ["embedding_unavailable"]
    assert vectors_of(person.tenant) == {}


def test_one_text_that_is_refused_fails_alone(server: FakeOpenAI) -> None:
    person = make_person()
    endpoint_model(person.tenant, server)
    shelve(person, ["fine", "refuse me", "也好"])

    def answer(body: Any) -> Any:
        return status(400) if "refuse me" in body["input"] else Embeddings()

    server.embed_with(answer)
    ask_for_vectors(person.tenant)
    assert work(person.tenant) == []
    assert vectors_of(person.tenant) == {
        "fine": READY,
        "也好": READY,
        "refuse me": Embedded("failed", 1, "embedding_refused"),
    }


def test_an_endpoint_that_refuses_everything_is_not_asked_for_each_text(
    server: FakeOpenAI,
) -> None:
    person = make_person()
    endpoint_model(person.tenant, server)
    shelve(person, [f"text {number}" for number in range(12)])
    server.embed_with(lambda body: status(422))
    ask_for_vectors(person.tenant)
    assert work(person.tenant) == ["embedding_refused"]
    assert len(server.requests) == 4
    assert len(vectors_of(person.tenant)) == 3


def test_an_entry_erased_meanwhile_is_passed_over(server: FakeOpenAI) -> None:
    person = make_person()
    endpoint_model(person.tenant, server)
    gone, _ = shelve(person, ["erase me", "keep me"])

    scope = person.scope
    with scoped_transaction(scope):
        shelf_id = Shelf.objects.in_scope(scope).get().pk
    claim = _claim(person, shelf_id)
    original = filling._embedded

    def and_erase(*args: Any) -> Any:
        found = original(*args)
        with scoped_transaction(scope):
            remove_entries(scope=scope, shelf_id=shelf_id, recall_ids=[gone])
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(filling, "_embedded", and_erase)
        embed_entries(scope=scope, claim=claim)
    assert vectors_of(person.tenant) == {"keep me": READY}


def test_a_claim_that_was_lost_writes_nothing(server: FakeOpenAI) -> None:
    person = make_person()
    endpoint_model(person.tenant, server)
    shelve(person, ["x"])
    scope = person.scope
    with scoped_transaction(scope):
        shelf_id = Shelf.objects.in_scope(scope).get().pk
    claim = _claim(person, shelf_id)
    with scoped_transaction(scope):
        jobs.complete(scope=scope, claim=claim, now=timezone.now())
    with pytest.raises(jobs.LeaseLostError):
        embed_entries(scope=scope, claim=claim)
    assert vectors_of(person.tenant) == {}


@pytest.mark.req("A28")
def test_text_of_a_local_agent_never_goes_to_a_cloud(server: FakeOpenAI) -> None:
    local = make_person()
    with_local_agent(local)
    provider = make_provider(local.tenant, locality="cloud", vendor="Elsewhere")
    agent = make_agent(local.tenant, provider=provider)
    same = Person(local.tenant, local.end_user, agent, make_thread(agent, local.end_user))
    endpoint_model(local.tenant, server, provider=CLOUD)
    shelve(local, ["stays here", "留下"])
    shelve(same, ["may go"])
    file_document(local.tenant, ["a handbook"])
    ask_for_vectors(local.tenant)
    work(local.tenant)
    assert server.embedded_texts == ["may go"]
    assert vectors_of(local.tenant) == {
        "stays here": NOT_ALLOWED,
        "留下": NOT_ALLOWED,
        "a handbook": NOT_ALLOWED,
        "may go": READY,
    }
    ask_for_vectors(local.tenant)
    work(local.tenant)
    assert vectors_of(local.tenant)["stays here"] == NOT_ALLOWED


@pytest.mark.parametrize(("consent", "sent"), [(None, []), (NOW, ["whose is it"])])
def test_another_vendor_needs_the_consent(
    server: FakeOpenAI, consent: Any, sent: list[str]
) -> None:
    person = cloud_person(cross_vendor_consent_at=consent)
    endpoint_model(person.tenant, server, provider=CLOUD)
    shelve(person, ["whose is it"])
    ask_for_vectors(person.tenant)
    work(person.tenant)
    assert server.embedded_texts == sent


def test_a_provider_that_is_switched_off_is_not_asked(server: FakeOpenAI) -> None:
    person = make_person()
    endpoint_model(person.tenant, server, provider={"is_active": False})
    shelve(person, ["x"])
    ask_for_vectors(person.tenant)
    assert work(person.tenant) == ["embedding_unavailable"]
    assert server.requests == []
    assert vectors_of(person.tenant) == {}


def test_switched_off_vectors_make_no_model_and_no_vector(settings: Any) -> None:
    settings.CREDENCE_EMBEDDING_MODEL = "none"
    person = make_person()
    shelve(person, ["x"])
    ask_for_vectors(person.tenant)
    assert work(person.tenant) == []
    assert models_of(person.tenant) == {}
    assert vectors_of(person.tenant) == {}


def test_new_entries_get_vectors_of_the_active_model_and_of_one_being_built(
    server: FakeOpenAI,
) -> None:
    person = make_person()
    active = endpoint_model(person.tenant, server)
    building = endpoint_model(person.tenant, server, name="next", status="building")
    shelve(person, ["both"])
    ask_for_vectors(person.tenant)
    work(person.tenant)
    assert vectors_of(person.tenant, active) == vectors_of(person.tenant, building)
    assert [request.body["model"] for request in server.requests] == ["fake-embed", "next"]


def test_a_persons_job_sees_no_other_persons_texts(server: FakeOpenAI) -> None:
    tenant = make_tenant()
    one, other = make_person(tenant), make_person(tenant)
    endpoint_model(tenant, server)
    shelve(one, ["mine"])
    shelve(other, ["theirs"])
    with scoped_transaction(scope_of(tenant)):
        theirs = Shelf.objects.in_scope(scope_of(tenant)).get(end_user_id=other.end_user.pk).pk
    forged = _claim(one, theirs)
    embed_entries(scope=one.scope, claim=forged)
    assert server.embedded_texts == []
    assert vectors_of(tenant) == {}


def test_what_a_batch_costs_does_not_grow_with_it(
    server: FakeOpenAI, django_assert_max_num_queries: Any
) -> None:
    person = make_person()
    endpoint_model(person.tenant, server)
    shelve(person, [f"text {number}" for number in range(15)])
    with scoped_transaction(person.scope):
        shelf_id = Shelf.objects.in_scope(person.scope).get().pk
    claim = _claim(person, shelf_id)
    with django_assert_max_num_queries(40):
        embed_entries(scope=person.scope, claim=claim)
    assert set(vectors_of(person.tenant).values()) == {READY}


def _claim(person: Person, shelf_id: str) -> jobs.Claim:
    scope = Scope(tenant_ids=(person.tenant.pk,), principal_id="worker", user_id=person.end_user.pk)
    job = jobs.embed_job(shelf_id=shelf_id, end_user_id=person.end_user.pk)
    with scoped_transaction(scope):
        jobs.enqueue(scope=scope, job=job, now=timezone.now())
    ((job_id, tenant_id),) = [
        due
        for due in jobs.due_jobs(lane=jobs.lane_of(person.tenant.pk), most=50)
        if due[1] == person.tenant.pk
    ]
    claim = jobs.claim(job_id=job_id, tenant_id=tenant_id)
    assert claim is not None
    return claim
