"""Cases from public bug reports that no other test runs: D6, D9, E5, E6, M3, M8."""

from __future__ import annotations

import unicodedata
from typing import Any

import pytest
from django.db import DatabaseError, connection

from governance.models import AuditEntry
from governance.redlines import mask_redlines
from governance.secrets import strip_secrets
from memory.models import EndUser
from memory.rls import scoped_transaction
from tests.factories import scope_of
from tests.fakes.openai_replies import text
from tests.talking import last_of, new_thread, ops_of, prepare, roll, summary_of, tell
from tests.threads.api.client import Place, agent_body
from tests.threads.api.stage import Stage
from threads.events import Completed
from threads.models import Agent

NAMES = ("太郎", "Jānis", "محمد", "José Núñez", "Zoë 老师", "Đặng Thị Hằng")


@pytest.mark.parametrize(
    "said", ["凭证为{}，请保密", "凭证为{}", "キーは{}です", "열쇠는{}입니다", "키:{}。"]
)
def test_secret_beside_cjk_letters_is_found_d6(said: str) -> None:
    """D6: there is no word boundary between a Chinese character and a key."""
    secret = "sk_test_" + "51HqLyjWDarjtT1zdp7dcABCDEF"
    shown = strip_secrets(said.replace("{}", secret)).text
    assert secret not in shown
    assert "51HqLyjW" not in shown


@pytest.mark.parametrize(
    "said", ["身份证号110101199003074514。", "他的身份证号是110101199003074514吗"]
)
def test_identity_number_beside_cjk_letters_is_found_d6(said: str) -> None:
    """D6, for what is beyond the red line."""
    assert "110101199003074514" not in mask_redlines(said, language="zh").text


@pytest.mark.django_db
@pytest.mark.parametrize("name", NAMES)
def test_name_of_any_script_is_taken_and_the_same_in_any_form_d9(a: Place, name: str) -> None:
    """D9: é as one letter and as two are one person, one agent."""
    composed, decomposed = (unicodedata.normalize(form, name) for form in ("NFC", "NFD"))
    path = f"/v1/agents/{a.agent.pk}/threads"
    made = [a.api.post(path, {"user_id": one}) for one in (decomposed, composed)]
    assert [answer.status_code for answer in made] == [201, 201]
    with scoped_transaction(scope_of(a.tenant)):
        people = EndUser.objects.in_scope(scope_of(a.tenant)).filter(user_id=composed)
        assert people.count() == 1
    for one in (decomposed, composed):
        listed = a.api.get(path, {"user_id": one}).json()["results"]
        assert len(listed) == 2
    first = a.api.post("/v1/agents", agent_body(a, name=decomposed))
    again = a.api.post("/v1/agents", agent_body(a, name=composed))
    assert (first.status_code, first.json()["name"]) == (201, composed)
    assert (again.status_code, again.json()["code"]) == (409, "name_taken")


@pytest.mark.django_db
def test_agent_without_a_number_of_output_tokens_has_a_default_e6(a: Place) -> None:
    """E6: a default applies and is written down, and every prompt has its target from it."""
    made = a.api.post("/v1/agents", agent_body(a)).json()
    assert made["max_output_tokens"] == 1024
    with scoped_transaction(scope_of(a.tenant)):
        rows = AuditEntry.objects.in_scope(scope_of(a.tenant))
        assert rows.filter(action="agent_created", target_id=made["id"]).count() == 1
    answer = a.api.post(f"/v1/agents/{made['id']}/context", {"input": "问", "user_id": "u"}).json()
    assert answer["context"]["target_budget"] == min(int(8192 * 0.8), 8192 - 1024)


def test_request_names_the_most_tokens_of_the_answer_e6(stage: Stage) -> None:
    """E6: no provider is called without a bound."""
    stage.server.script(text("done"))
    prepared = prepare(stage.key, stage.agent, "hi")
    assert isinstance(last_of(prepared), Completed)
    (request,) = stage.server.requests
    assert request.body["max_tokens"] == stage.agent.max_output_tokens


def test_long_answer_near_the_limit_is_summarised_once_e5(stage: Stage) -> None:
    """E5, for the strategy rolling: what was rolled is not rolled again."""
    stage.server.answer_with(lambda body: text("2026-06-12 决定把第三题换成红黑树。"))
    thread = new_thread(stage.agent)
    tell(thread, [("写得长一点", "很长的回答。" * 1200), ("短", "短"), ("再", "好")])
    for _ in range(3):
        roll(thread)
    assert len(stage.server.requests) == len(ops_of(thread)) == 1
    assert (summary_of(thread).version, summary_of(thread).covered_turns) == (1, 1)


HOSTILE_IDS = (
    "' OR 1=1--",
    "th_1'); DROP TABLE threads_run;--",
    "{$ne: null}",
    "%",
    "_",
    "../../x",
)


@pytest.mark.django_db
@pytest.mark.parametrize("hostile", HOSTILE_IDS)
def test_hostile_id_or_value_finds_nothing_and_breaks_nothing_m3(a: Place, hostile: str) -> None:
    """M3: as an id in a body, and as the value of a filter."""
    asked = {"input": "问", "user_id": "u", "thread_id": hostile}
    answer = a.api.post(f"/v1/agents/{a.agent.pk}/run", asked)
    assert (answer.status_code, answer.json()["code"]) == (400, "thread_mismatch")
    listed = a.api.get(f"/v1/agents/{a.agent.pk}/threads", {"user_id": hostile})
    assert (listed.status_code, listed.json()["results"]) == (200, [])
    nested: dict[str, Any] = {"input": "问", "user_id": {"$gt": hostile}}
    assert a.api.post(f"/v1/agents/{a.agent.pk}/run", nested).status_code == 400
    with scoped_transaction(scope_of(a.tenant)):
        assert Agent.objects.in_scope(scope_of(a.tenant)).filter(pk=a.agent.pk).exists()


@pytest.mark.django_db
def test_error_of_the_database_is_told_by_a_request_id_alone_m8(
    a: Place, caplog: pytest.LogCaptureFixture
) -> None:
    """M8: a statement fails with words of the inside; they are in no answer."""

    def failing(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if "threads_agent" in sql:
            raise DatabaseError('relation "threads_agent" holds CNRY-secret')
        return execute(sql, params, many, context)

    with connection.execute_wrapper(failing):
        answer = a.api.get("/v1/agents")
    assert (answer.status_code, answer.json()["code"]) in {
        (500, "internal_error"),
        (503, "database_unavailable"),
    }
    assert answer.json()["request_id"] == answer.headers["X-Request-ID"] != ""
    for word in ("threads_agent", "CNRY", "relation", "DatabaseError"):
        assert word not in answer.content.decode()
