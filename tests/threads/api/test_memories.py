"""Search, grep and timeline of a person's memory: what is found, for whom, and what is refused."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from memory.models import EndUser
from memory.providers.embeddings.base import EmbeddingTimeoutError
from memory.retrieval.words import message_terms
from memory.rls import scoped_transaction
from memory.store import Owner
from tests.factories import NOW, make_end_user, make_key, make_thread, scope_of
from tests.shelving import Person, file_document, make_model, make_person, shelve
from tests.threads.api.client import Api, Place, code_of
from tests.threads.recall.embedders import ToyEmbedder, use_embedder
from tests.threads.tools.rooms import Room

SEARCH, GREP = "/v1/memories/search", "/v1/memories/grep"
FIELDS = [
    "id", "kind", "content", "score", "scores", "parts", "tier", "source", "created_at",
    "confidence", "stale",
]  # fmt: skip


@pytest.fixture
def person(db: None) -> Person:
    return make_person()


@pytest.fixture
def api(person: Person) -> Api:
    return Api(make_key(person.tenant))


def search(api: Api, person: Any, query: str, **values: Any) -> list[dict[str, Any]]:
    user_id = person if isinstance(person, str) else person.end_user.user_id
    answer = api.post(SEARCH, {"query": query, "user_id": user_id} | values)
    assert answer.status_code == 200, answer.content
    results: list[dict[str, Any]] = answer.json()["results"]
    return results


def contents(results: list[dict[str, Any]]) -> list[str]:
    return [found["content"] for found in results]


@pytest.mark.req("B06")
def test_result_has_every_score_with_its_parts(person: Person, api: Api) -> None:
    (recalled,) = shelve(person, ["每日复盘和数据库备份方案"], confidence=0.9)
    (found,) = search(api, person, "数据库备份")
    assert list(found) == FIELDS
    assert (found["id"], found["kind"], found["tier"]) == (recalled, "recall", "observed")
    assert list(found["scores"]) == ["relevance", "recency", "credence", "frequency"]
    assert all(0 <= score <= 1 for score in found["scores"].values())
    assert found["parts"]
    assert all(isinstance(part, float) for part in found["parts"].values())
    assert found["source"]["kind"] == "run"
    assert found["created_at"] == "2026-11-02T09:00:00.000000Z"
    assert (found["confidence"], found["stale"]) == (0.9, False)


@pytest.mark.req("A27")
@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("备份", "每日复盘和数据库备份方案"),  # D1
        ("端到端测试结果", "先写端到端测试"),  # D3
        ("backups of the database", "The database backup runs at ten."),
    ],
)
def test_cases_d1_d3_are_found_without_embeddings_and_the_unrelated_is_not(
    person: Person, api: Api, query: str, text: str
) -> None:
    shelve(person, ["今天天气不错", text, "Lunch was fine."])
    assert contents(search(api, person, query))[0] == text
    assert search(api, person, "红烧肉怎么做才不腻") == []
    assert search(api, person, "How tall is Kilimanjaro?") == []


def test_case_d10_each_language_is_found_in_its_own(person: Person, api: Api) -> None:
    texts = ["陈老师住在柏林", "Frau Chen wohnt seit Mai in Berlin", "Chen moved to Berlin in May"]
    shelve(person, texts)
    for query, text in zip(
        ("陈老师住在哪里", "Wo wohnt Frau Chen?", "Where did Chen move?"), texts, strict=True
    ):
        assert text in contents(search(api, person, query))


def test_kinds_limit_and_least_score_bound_the_results(person: Person, api: Api) -> None:
    shelve(person, [f"数据库备份方案第{number}版" for number in range(12)])
    file_document(person.tenant, ["数据库备份由运维执行。"], title="手册")
    assert len(search(api, person, "数据库备份")) == 10
    assert len(search(api, person, "数据库备份", limit=3)) == 3
    (material,) = search(api, person, "数据库备份", kinds=["knowledge"])
    assert (material["kind"], material["tier"]) == ("knowledge", "material")
    assert material["source"]["kind"] == "document"
    assert search(api, person, "数据库备份", kinds=["item", "core"]) == []
    assert search(api, person, "数据库备份", min_score=1) == []


def test_case_h3_results_beyond_twenty_are_reached(person: Person, api: Api) -> None:
    shelve(person, [f"数据库备份方案 alpha{number}" for number in range(120)])
    assert len(search(api, person, "数据库备份方案", limit=100)) == 100


def test_as_of_shows_what_was_so_by_then(person: Person, api: Api) -> None:
    shelve(person, ["备份在九点", "备份在十点"], step=timedelta(days=2))
    found = search(api, person, "备份", as_of="2026-11-03T00:00:00Z")
    assert contents(found) == ["备份在九点"]


def test_role_sees_its_own_and_what_has_none(person: Person, api: Api) -> None:
    shelve(person, ["备份一"], role="tutor")
    shelve(person, ["备份二"], role="sales")
    assert len(search(api, person, "备份")) == 2
    assert contents(search(api, person, "备份", role="tutor")) == ["备份一"]


@pytest.mark.req("C09")
def test_messages_are_found_at_once_after_their_turn(a: Place) -> None:
    body = {"query": "期末试卷", "user_id": f"{a.canary}-user", "kinds": ["message"]}
    answer = a.api.post(SEARCH, body).json()
    assert [found["kind"] for found in answer["results"]] == ["message"]
    (found,) = answer["results"]
    assert list(found) == FIELDS
    assert (found["id"], found["tier"], found["source"]["id"]) == (
        a.message_id,
        "stated",
        a.run.pk,
    )
    assert answer["degraded"] is None


def test_messages_and_recall_stand_in_one_order(person: Person, api: Api) -> None:
    shelve(person, ["数据库备份方案"])
    kinds = ["recall", "message"]
    room = Room(
        person.tenant, person.agent, person.end_user, make_thread(person.agent, person.end_user)
    )
    room.say("数据库备份方案", terms=message_terms("数据库备份方案"), at=NOW)
    found = search(api, person, "数据库备份方案", kinds=kinds)
    assert {one["kind"] for one in found} == {"recall", "message"}
    scores = [one["score"] for one in found]
    assert scores == sorted(scores, reverse=True)


@pytest.mark.req("B07")
def test_slow_embedding_model_is_said_in_the_answer(
    person: Person, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelve(person, ["数据库备份方案"], model=make_model(person.tenant))
    body = {"query": "备份", "user_id": person.end_user.user_id}
    use_embedder(monkeypatch, ToyEmbedder(error=EmbeddingTimeoutError()))
    answer = api.post(SEARCH, body).json()
    assert answer["degraded"] == "embedding_unavailable"
    assert contents(answer["results"]) == ["数据库备份方案"]
    use_embedder(monkeypatch, ToyEmbedder())
    assert api.post(SEARCH, body).json()["degraded"] is None


@pytest.mark.req("B18")
@pytest.mark.req("B06")
def test_cases_16_and_c2_same_text_of_two_people_finds_each_its_own(
    person: Person, api: Api
) -> None:
    other = make_person(person.tenant)
    foreign = make_person(user_id=person.end_user.user_id)
    for whose, country in ((person, "USA"), (other, "France"), (foreign, "Chile")):
        shelve(whose, [f"I live in {country}"])
    query = "Where do I live?"
    for _ in range(2):
        assert contents(search(api, person, query)) == ["I live in USA"]
        assert contents(search(api, other, query)) == ["I live in France"]
        theirs = Api(make_key(foreign.tenant))
        assert contents(search(theirs, foreign, query)) == ["I live in Chile"]


@pytest.mark.req("B18")
def test_case_c2_nobody_else_is_meant_by_a_sign_a_list_or_nothing(person: Person, api: Api) -> None:
    shelve(person, ["I live in USA"])
    for path in (SEARCH, GREP):
        for unknown in ("*", "%", "nobody", "ALL", "' OR 1=1"):
            answer = api.post(path, {"query": "live", "user_id": unknown})
            assert (answer.status_code, answer.json()["results"]) == (200, [])
        bads: list[Any] = ["", " ", None, ["*"], [], {}, 7, True, "a\u0000", person.end_user.pk]
        for bad in bads:
            answer = api.post(path, {"query": "live", "user_id": bad})
            assert answer.status_code == 400, bad
        assert api.post(path, {"query": "live"}).status_code == 400
    with scoped_transaction(scope_of(person.tenant)):
        assert EndUser.objects.in_scope(scope_of(person.tenant)).count() == 1


def test_case_13_a_small_tenant_beside_a_large_one_gets_its_full_number(
    person: Person, api: Api
) -> None:
    large = make_person()
    shelve(large, [f"数据库备份方案 beta{number}" for number in range(400)])
    shelve(person, [f"数据库备份方案 alpha{number}" for number in range(40)])
    found = search(api, person, "数据库备份方案", limit=20)
    assert len(found) == 20
    assert all("alpha" in content for content in contents(found))


@pytest.mark.parametrize(
    "values",
    [
        {"query": ""},
        {"query": None},
        {"query": ["备份"]},
        {"query": "x" * 20_001},
        {"limit": 0},
        {"limit": 101},
        {"limit": "10"},
        {"limit": True},
        {"min_score": -0.1},
        {"min_score": 1.1},
        {"min_score": "0.2"},
        {"kinds": []},
        {"kinds": ["recall", "secrets"]},
        {"kinds": "recall"},
        {"as_of": "yesterday"},
        {"role": ""},
        {"tenant": "tn_other"},
        {"filters": {"user_id": "*"}},
    ],
)
def test_body_that_does_not_fit_is_refused(
    person: Person, api: Api, values: dict[str, Any]
) -> None:
    body = {"query": "备份", "user_id": person.end_user.user_id} | values
    answer = api.post(SEARCH, body)
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["field"].split(".")[0] == next(iter(values))


@pytest.mark.req("B17")
def test_key_of_another_person_or_role_is_refused(person: Person) -> None:
    shelve(person, ["备份一"], role="tutor")
    other = make_end_user(person.tenant, "other")
    bound = Api(make_key(person.tenant, end_user_id=other.pk))
    for user_id in (person.end_user.user_id, "nobody"):
        for path in (SEARCH, GREP):
            answer = bound.post(path, {"query": "备份", "user_id": user_id})
            assert code_of(answer) == (403, "forbidden")
        assert bound.get(f"/v1/users/{user_id}/timeline").status_code == 403
    assert bound.post(SEARCH, {"query": "备份", "user_id": "other"}).json()["results"] == []
    limited = Api(make_key(person.tenant, agent_id=person.agent.pk))
    assert search(limited, person, "备份") == []  # of another role than this agent's
    body = {"query": "备份", "user_id": person.end_user.user_id, "role": "tutor"}
    assert code_of(limited.post(SEARCH, body)) == (403, "forbidden")


def test_idempotency_key_is_ignored(person: Person, api: Api) -> None:
    body = {"query": "备份", "user_id": person.end_user.user_id}
    headers = {"Idempotency-Key": "one"}
    assert api.post(SEARCH, body, headers=headers).json()["results"] == []
    shelve(person, ["数据库备份"])
    again = api.post(SEARCH, body, headers=headers)
    assert len(again.json()["results"]) == 1
    assert "Idempotency-Replayed" not in again


@pytest.mark.req("A26")
def test_somebody_not_known_yet_finds_what_all_share_and_is_not_made(
    person: Person, api: Api
) -> None:
    file_document(person.tenant, ["the office opens at nine 九点开门"], title="office")
    file_document(person.tenant, ["my own key is at the office"], owner=person.owner)
    shelve(person, ["I open the office at nine"])
    asked = {"query": "when does the office open", "user_id": "not known yet"}
    results = api.post("/v1/memories/search", asked).json()["results"]
    assert [result["content"] for result in results] == ["the office opens at nine 九点开门"]
    assert "not known yet" not in str(api.get("/v1/users").json())


def test_team_knowledge_is_searched_for_members_alone(person: Person, api: Api) -> None:
    team = api.post("/v1/teams", {"name": "ops", "members": [person.end_user.user_id]}).json()
    file_document(person.tenant, ["备份口令单"], owner=Owner(team_id=team["id"]))
    make_end_user(person.tenant, "outsider")
    assert contents(search(api, person, "备份口令")) == ["备份口令单"]
    assert search(api, "outsider", "备份口令") == []
