"""Other names of what is asked for: found, weighed, traced, and only in their own tenant."""

from __future__ import annotations

from typing import Any

import pytest

from governance.entities.editing import EntityChange, change_entity
from governance.policy import change_policy
from governance.policy_rules import effective
from memory.models import Entity
from memory.retrieval.results import Retrieval
from memory.rls import scoped_transaction
from tests.factories import NOW, make_run
from tests.recalling import Talk, make_talk
from tests.shelving import Person, make_model, make_person, shelve, toy_vector
from tests.talking import tell
from tests.vocabulary import BY, entity_of, read, wide
from threads.models import Run
from threads.recall.finding import QuestionVector, Wanted, find

POLICY = effective({"retrieval_limit_ms": 10_000})
FULL_EN, SHORT_EN = "Directorate General of Internal Affairs", "DGIA"
FULL_ZH, SHORT_ZH = "客户关系管理系统", "客关"
CASES = [
    pytest.param(
        FULL_EN,
        SHORT_EN,
        "The Directorate General of Internal Affairs is led by Bob since May.",
        "Who leads DGIA?",
        id="alias-en",
    ),
    pytest.param(
        FULL_EN,
        SHORT_EN,
        "DGIA moved to the harbour district in spring.",
        "Where is the Directorate General of Internal Affairs?",
        id="term-en",
    ),
    pytest.param(
        FULL_ZH, SHORT_ZH, "客户关系管理系统每周三晚上升级。", "客关什么时候升级？", id="alias-zh"
    ),
    pytest.param(
        FULL_ZH,
        SHORT_ZH,
        "客关的密码每季度要换一次。",
        "客户关系管理系统的密码多久换？",
        id="term-zh",
    ),
    pytest.param(
        FULL_EN,
        "内务总局",
        "内务总局的负责人是王芳。",
        "Directorate General of Internal Affairs?",
        id="across-languages",
    ),
]
NOISE = [
    "I had noodles for lunch today.",
    "今天中午吃了牛肉面。",
    "The train to Vienna leaves at nine.",
    "周末打算去爬山。",
    "My sister plays the cello.",
    "打印机又没墨了。",
]


def search(person: Person, text: str, model: Any = None, **values: Any) -> Retrieval:
    vector = QuestionVector()
    if model is not None:
        vector = QuestionVector(vector=toy_vector(text), model_id=model.pk, model_kind="usem3")
    options: dict[str, Any] = {"tool": "search", "kinds": ("recall",), "limit": 10} | values
    with scoped_transaction(person.scope):
        return find(
            scope=person.scope,
            wanted=Wanted(text=text, **options),
            asked=vector,
            policy=POLICY,
            now=NOW,
        )


def know(person: Person, term: str, alias: str, **values: Any) -> Entity:
    entity = entity_of(person.thread, term, "organisation", **values)
    change = EntityChange(add_aliases=[alias])
    return change_entity(scope=wide(entity), entity_id=entity.pk, change=change, by=BY, now=NOW)


@pytest.mark.req("D08")
@pytest.mark.parametrize("has_vectors", [False, True])
@pytest.mark.parametrize(("term", "alias", "text", "question"), CASES)
def test_search_by_one_name_finds_what_says_the_other(
    db: None, term: str, alias: str, text: str, question: str, has_vectors: bool
) -> None:
    person, stranger = make_person(), make_person()
    models = {}
    for one in (person, stranger):
        models[one.tenant.pk] = make_model(one.tenant) if has_vectors else None
        shelve(one, [*NOISE, text], model=models[one.tenant.pk])
    know(person, term, alias)
    found = search(person, question, models[person.tenant.pk])
    assert [hit.content for hit in found.hits][:1] == [text]
    assert found.trace.entities == 1
    assert found.hits[0].parts["entities"] > 0
    assert found.trace.as_json()["entities"] == 1
    theirs = search(stranger, question, models[stranger.tenant.pk])
    assert theirs.trace.entities == 0
    assert all("entities" not in hit.parts for hit in theirs.hits)
    before = {hit.content: hit.scores.relevance for hit in theirs.hits}
    assert before.get(text, 0) < found.hits[0].scores.relevance


@pytest.mark.req("D08")
def test_without_a_named_entity_the_answer_is_the_same_to_the_last_bit(db: None) -> None:
    person = make_person()
    model = make_model(person.tenant)
    shelve(person, [*NOISE, "数据库备份每晚十点。", "The backup runs at ten."], model=model)
    questions = ("数据库几点备份？", "When does the backup run?", "noodles")
    before = [search(person, question, model).hits for question in questions]
    know(person, FULL_EN, SHORT_EN)
    assert [search(person, question, model).hits for question in questions] == before


@pytest.mark.req("D09")
def test_weight_lifts_what_speaks_of_it_and_stays_bounded(db: None) -> None:
    person = make_person()
    shelve(person, [*NOISE, "DGIA is in town.", "The town has a Directorate General."])
    entity = know(person, "Directorate General", SHORT_EN)
    gains = []
    for weight in (0.1, 1.0, 5.0, 100.0):
        with scoped_transaction(wide(entity)):
            Entity.objects.in_scope(wide(entity)).filter(pk=entity.pk).update(weight=weight)
        gains.append(max(hit.parts["entities"] for hit in search(person, "DGIA in town").hits))
    assert gains == sorted(gains)
    assert gains[0] < gains[1] / 3
    assert gains[3] < 1.5


@pytest.mark.req("D11")
def test_changed_vocabulary_holds_from_the_next_search_on(db: None) -> None:
    person = make_person()
    text = "The Directorate General of Internal Affairs is led by Bob."
    shelve(person, [*NOISE, text])
    entity = know(person, FULL_EN, SHORT_EN)
    assert search(person, "Who leads DGIA?").trace.entities == 1
    for change, named in (
        (EntityChange(remove_aliases=[SHORT_EN]), 0),
        (EntityChange(add_aliases=[SHORT_EN]), 1),
        (EntityChange(status="retired"), 0),
        (EntityChange(status="active"), 1),
    ):
        change_entity(scope=wide(entity), entity_id=entity.pk, change=change, by=BY, now=NOW)
        assert search(person, "Who leads DGIA?").trace.entities == named


def test_question_that_names_many_things_stays_bounded(db: None) -> None:
    person = make_person()
    shelve(person, NOISE)
    for number in range(12):
        entity_of(person.thread, f"Thing{number}x")
    question = " ".join(f"Thing{number}x" for number in range(12))
    assert search(person, question).trace.entities == 8


def ended(talk: Talk, said: str, answered: str, status: str) -> None:
    """A run of our own that has ended so."""
    run = make_run(
        talk.thread,
        origin="run",
        status="running",
        input=said,
        output="",
        finished_at=None,
        lease_until=NOW,
    )
    with scoped_transaction(talk.wide):
        rows = Run.objects.in_scope(talk.wide).filter(pk=run.pk)
        rows.update(status=status, output=answered, finished_at=NOW)


@pytest.mark.req("D09")
@pytest.mark.parametrize("text", ["Who leads DGIA?", "ＤＧＩＡ在哪里？"])
def test_indexing_a_succeeded_run_raises_what_its_input_names(
    committed_db: None, text: str
) -> None:
    talk = make_talk()
    entity = entity_of(talk.thread, "DGIA")
    ended(talk, text, "no DGIA here", "succeeded")
    ended(talk, "hello", "DGIA!", "succeeded")
    ended(talk, "DGIA again", "", "failed")
    talk.index()
    row = read(entity)
    assert row.last_hit_at == NOW
    assert row.weight == pytest.approx(1.1)
    talk.index()
    assert read(entity).weight == pytest.approx(1.1)
    assert not talk.failures()


@pytest.mark.req("D09")
def test_turns_made_elsewhere_raise_only_where_policy_learns_from_them(committed_db: None) -> None:
    for learns, weight in ((False, 1.0), (True, 1.1)):
        talk: Talk = make_talk()
        change_policy(scope=talk.wide, changes={"learn_from_turns": learns}, now=NOW)
        entity = entity_of(talk.thread, "数据中心")
        tell(talk.thread, [("数据中心在哪里？", "在北京。")], created_at=NOW)
        talk.index()
        assert read(entity).weight == pytest.approx(weight)
        with scoped_transaction(talk.wide):
            assert Run.objects.in_scope(talk.wide).get().origin == "import"
