"""What the chat page shows and what its buttons do."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from governance.core.candidates import add_candidate
from governance.core.clearing import StatedFact
from governance.models import AuditEntry, CoreCandidate, EntityCandidate
from governance.permissions import Role
from governance.policy import policy_for
from memory.models import CoreFact, MemoryItem
from memory.rls import scoped_transaction
from tests.factories import (
    make_artifact,
    make_provider,
    make_run,
    make_staff,
    make_thread,
    scope_of,
)
from tests.threads.api.client import Place
from tests.threads.pages.conftest import Sitter, by_link, sit
from threads.models import Agent, Run, RunTrace, Thread

CHINESE = {"Accept-Language": "zh-CN,zh;q=0.9"}


class TagReader(HTMLParser):
    """The names of all attributes that a browser would see."""

    def __init__(self) -> None:
        super().__init__()
        self.attributes: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes.update(name for name, _ in attrs)


def waiting(place: Place, fact: str) -> CoreCandidate:
    scope = scope_of(place.tenant)
    with scoped_transaction(scope):
        policy = policy_for(scope=scope, agent_overrides={})
    added = add_candidate(
        scope=scope, end_user_id=place.person.pk, policy=policy, now=timezone.now(),
        stated=StatedFact(fact=fact, origin="run", by="worker", run_id=place.run.pk),
    )  # fmt: skip
    assert added.candidate is not None
    return added.candidate


def change(place: Place, model: Any, pk: str, **values: Any) -> None:
    scope = scope_of(place.tenant)
    with scoped_transaction(scope):
        model.objects.in_scope(scope).filter(pk=pk).update(**values)


@pytest.mark.req("A14")
def test_the_page_opens_the_latest_active_thread_or_a_new_one(a: Place, sitter: Sitter) -> None:
    older = make_thread(a.agent, a.person, title="an older one")
    scope = scope_of(a.tenant)
    with scoped_transaction(scope):
        Thread.objects.in_scope(scope).filter(pk=older.pk).update(
            updated_at=a.thread.updated_at.replace(year=2020)
        )
    page = sitter.get().content.decode()
    assert f'data-thread="{a.thread.pk}"' in page
    assert a.run.output in page
    fresh = sitter.get("?new=1").content.decode()
    assert 'data-thread=""' in fresh
    sitter.post(f"threads/{a.thread.pk}/archive")
    assert f'data-thread="{older.pk}"' in sitter.get().content.decode()
    sitter.post(f"threads/{older.pk}/archive")
    assert 'data-thread=""' in sitter.get().content.decode()


def test_a_thread_that_is_gone_leads_to_the_page(sitter: Sitter) -> None:
    answer = sitter.get("?thread=th_00000000000000000000000000")
    assert (answer.status_code, answer["Location"]) == (302, sitter.at())


def test_titles_are_searched_renamed_archived_and_brought_back(a: Place, sitter: Sitter) -> None:
    make_thread(a.agent, a.person, title="期末试卷")
    found = sitter.get("history?q=试卷").content.decode()
    assert "期末试卷" in found
    assert a.thread.title not in found
    assert "No conversation has that" in sitter.get("history?q=%25").content.decode()
    renamed = sitter.post(f"threads/{a.thread.pk}/rename", {"title": " <b>新的 </b> "})
    assert "&lt;b&gt;新的 &lt;/b&gt;" in renamed.content.decode()
    gone = sitter.post(f"threads/{a.thread.pk}/archive")
    assert gone["X-Credence-Thread"] == f"{a.thread.pk} archived"
    assert "新的" not in gone.content.decode()
    assert "新的" in sitter.get("history?archived=1").content.decode()
    refused = sitter.post("ask", {"input": "x", "thread_id": a.thread.pk})
    assert refused.json()["code"] == "thread_archived"
    back = sitter.post(f"threads/{a.thread.pk}/archive", {"back": "1"})
    assert back["X-Credence-Thread"] == f"{a.thread.pk} active"


def test_an_empty_title_is_refused_with_its_field(a: Place, sitter: Sitter) -> None:
    answer = sitter.post(f"threads/{a.thread.pk}/rename", {"title": "   "})
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["field"] == "title"


@pytest.mark.parametrize("text", ["a\0b", "x" * 200_001, "   "])
def test_a_question_that_can_not_be_kept_is_refused(sitter: Sitter, text: str) -> None:
    answer = sitter.post("ask", {"input": text})
    assert answer.status_code in (400, 422)
    assert answer["Content-Type"] == "application/problem+json"


def test_a_thread_of_more_turns_than_a_page_opens_backwards(a: Place, sitter: Sitter) -> None:
    for number in range(40):
        make_run(a.thread, input=f"question {number:02}", output="ok")
    page = sitter.get().content.decode()
    asked = re.findall(r"question (\d\d)", page)
    assert asked == [f"{number:02}" for number in range(10, 40)]
    before = re.search(r"turns\?before=(\d+)", page)
    assert before is not None
    earlier = sitter.get(f"threads/{a.thread.pk}/turns?before={before[1]}").content.decode()
    assert re.findall(r"question (\d\d)", earlier) == [f"{number:02}" for number in range(10)]
    assert a.canary in earlier
    assert "before=" not in earlier


@pytest.mark.parametrize("before", ["x", "-1", "٣", "9" * 40, ""])
def test_a_place_to_go_on_from_that_is_none_shows_the_end(
    a: Place, sitter: Sitter, before: str
) -> None:
    answer = sitter.get(f"threads/{a.thread.pk}/turns", data={"before": before})
    assert answer.status_code == 200
    assert a.run.output in answer.content.decode()


def test_hostile_words_are_shown_as_words(a: Place, sitter: Sitter) -> None:
    hostile = "<script>alert(1)</script><img src=x onerror=alert(2)>"
    change(a, Run, a.run.pk, input=hostile, output=hostile, tool_steps=[
        {"name": hostile, "arguments": hostile, "result": hostile, "reference_id": hostile}
    ])  # fmt: skip
    change(a, Thread, a.thread.pk, title=hostile)
    change(a, Agent, a.agent.pk, name=hostile)
    waiting(a, "<img src=x onerror=alert(3)>")
    make_artifact(a.run, name=f"{hostile[:40]}.md")
    page = sitter.get().content.decode()
    body = re.sub(
        r"<script type=\"module\"[^>]*></script>|<script id=\"words\".*?</script>", "", page
    )
    assert "<script" not in body
    assert "<img" not in body
    reader = TagReader()
    reader.feed(body)
    assert not [name for name in reader.attributes if name.startswith("on") or name == "style"]
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in body


def test_the_page_loads_own_files_only_and_says_so(sitter: Sitter) -> None:
    page = sitter.get()
    policy = page["Content-Security-Policy"]
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    for address in re.findall(r"(?:src|href)=\"([^\"]*)\"", page.content.decode()):
        assert address.startswith(("/", "#", "?", "data:,")), address


@pytest.mark.req("A14")
def test_files_are_saved_not_shown_and_continued_only_by_a_press(a: Place, sitter: Sitter) -> None:
    artifact = make_artifact(a.run, name='试卷 "A".html', content="<script>alert(1)</script>")
    page = sitter.get().content.decode()
    assert f'data-continue="{a.run.pk}"' in page
    assert '<input type="hidden" name="continues" value="">' in page
    answer = sitter.get(f"runs/{a.run.pk}/artifacts/{artifact.pk}")
    assert answer.content.decode() == "<script>alert(1)</script>"
    assert answer["Content-Type"] == "text/plain; charset=utf-8"
    assert answer["Content-Disposition"].startswith("attachment; filename*=UTF-8''%E8%AF%95")
    assert answer["X-Content-Type-Options"] == "nosniff"


def test_continuing_on_a_strangers_files_is_refused(a: Place, b: Place, sitter: Sitter) -> None:
    answer = sitter.post("ask", {"input": "x", "continues": b.run.pk})
    assert (answer.status_code, answer.json()["code"]) == (400, "run_mismatch")


def test_a_fact_waits_is_confirmed_by_its_person_and_deleted(a: Place, sitter: Sitter) -> None:
    candidate = waiting(a, "喜欢宋体五号字")
    assert "喜欢宋体五号字" in sitter.get("memory").content.decode()
    panel = sitter.post(f"memory/candidates/{candidate.pk}/confirm").content.decode()
    assert 'data-waiting="0"' in panel
    scope = scope_of(a.tenant)
    with scoped_transaction(scope):
        fact = CoreFact.objects.in_scope(scope).get()
    assert (fact.decided_by_kind, fact.decided_by_id) == ("end_user", a.person.pk)
    again = sitter.post(f"memory/candidates/{candidate.pk}/reject")
    assert (again.status_code, again.json()["code"]) == (409, "already_decided")
    gone = sitter.post(f"memory/facts/{fact.pk}/forget").content.decode()
    assert "喜欢宋体五号字" not in gone
    with scoped_transaction(scope):
        assert not CoreFact.objects.in_scope(scope).exists()


def test_a_fact_added_by_hand_takes_no_effect_before_it_is_confirmed(
    a: Place, sitter: Sitter
) -> None:
    panel = sitter.post("memory/facts", {"fact": "I teach on Tuesdays"}).content.decode()
    assert 'data-waiting="1"' in panel
    scope = scope_of(a.tenant)
    with scoped_transaction(scope):
        assert not CoreFact.objects.in_scope(scope).exists()
    refused = sitter.post("memory/facts", {"fact": "身份证号 11010519491231002X"})
    assert refused.status_code in (200, 422)
    assert "11010519491231002X" not in sitter.get("memory").content.decode()


def test_what_is_deleted_while_it_waits_stays_rejected(a: Place, sitter: Sitter) -> None:
    candidate = waiting(a, "likes tea")
    assert (
        "likes tea" not in sitter.post(f"memory/candidates/{candidate.pk}/reject").content.decode()
    )
    scope = scope_of(a.tenant)
    with scoped_transaction(scope):
        assert CoreCandidate.objects.in_scope(scope).get(pk=candidate.pk).status == "rejected"


def test_staff_that_speak_for_a_person_decide_as_staff(a: Place, staff: Any) -> None:
    candidate = waiting(a, "likes coffee")
    client, answer = sit(staff, a, a.person.user_id)
    sitter = Sitter(client, answer["Location"].split("/")[2])
    assert sitter.post(f"memory/candidates/{candidate.pk}/confirm").status_code == 200
    scope = scope_of(a.tenant)
    with scoped_transaction(scope):
        fact = CoreFact.objects.in_scope(scope).get()
    assert fact.decided_by_kind == "staff"


def test_others_facts_are_out_of_reach(a: Place, b: Place, sitter: Sitter) -> None:
    candidate = waiting(b, "theirs")
    for tail in (f"memory/candidates/{candidate.pk}/confirm",
                 f"memory/candidates/{candidate.pk}/reject",
                 "memory/facts/fact_00000000000000000000000000/forget"):  # fmt: skip
        assert sitter.post(tail).status_code == 404, tail
    assert "theirs" not in sitter.get("memory").content.decode()


def test_a_preference_is_shown_and_deleted(a: Place, sitter: Sitter) -> None:
    path = "/v1/memories/user_preferences/answer_language"
    body = {"user_id": a.person.user_id, "title": "Language", "content": "用中文回答"}
    assert a.api.send("PUT", path, body).status_code == 201
    assert "用中文回答" in sitter.get("memory").content.decode()
    gone = sitter.post("memory/preferences/answer_language/forget")
    assert "用中文回答" not in gone.content.decode()
    scope = scope_of(a.tenant)
    with scoped_transaction(scope):
        assert not MemoryItem.objects.in_scope(scope).exists()


def test_what_was_used_tells_where_from_how_sure_and_how_much(a: Place, sitter: Sitter) -> None:
    scope = scope_of(a.tenant)
    item = {
        "section": "core", "kind": "core_fact", "id": "fact_1", "tier": "approved",
        "content": "喜欢 <b>宋体</b>", "tokens": 7, "approved_at": "2026-10-01T08:00:00Z",
        "stale": True, "score": 0.5,
    }  # fmt: skip
    with scoped_transaction(scope):
        RunTrace.objects.create(
            tenant=a.tenant, run=a.run, end_user=a.person, messages=[{"role": "user"}],
            items=[item], created_at=timezone.now(),
        )  # fmt: skip
    told = sitter.get(f"runs/{a.run.pk}/used").content.decode()
    for part in ("Confirmed facts", "confirmed by a person", "10/01/2026", "7 tokens", "old",
                 "喜欢 &lt;b&gt;宋体&lt;/b&gt;"):  # fmt: skip
        assert part in told, part
    chinese = sitter.get(f"runs/{a.run.pk}/used", headers=CHINESE).content.decode()
    for part in ("已确认的事实", "经人确认", "较旧", "这次回答用到了什么"):
        assert part in chinese, part


def test_an_answer_without_a_trace_says_so(a: Place, sitter: Sitter) -> None:
    assert "no longer kept" in sitter.get(f"runs/{a.run.pk}/used").content.decode()


def test_a_term_put_right_waits_for_staff(a: Place, sitter: Sitter) -> None:
    body = {"wrong": "标日", "term": "标准日本语", "entity_type": "course"}
    told = sitter.post(f"threads/{a.thread.pk}/terms", body).content.decode()
    assert "标准日本语" in told
    assert "/admin/" not in told
    scope = scope_of(a.tenant)
    with scoped_transaction(scope):
        assert not EntityCandidate.objects.in_scope(scope).filter(status="approved").exists()


@pytest.mark.parametrize(
    ("status", "code", "words"),
    [
        ("failed", "provider_timeout", "did not answer in time"),
        ("failed", "something_new", "No answer came"),
        ("rejected", "context_over_budget", "too long"),
        ("cancelled", None, "Stopped."),
        ("running", None, "Still answering"),
    ],
)
def test_turns_without_an_answer_say_why(
    a: Place, sitter: Sitter, status: str, code: str | None, words: str
) -> None:
    now = timezone.now()
    run = make_run(
        a.thread, status=status, error_code=code, error_detail="SECRET DETAIL",
        lease_until=now if status == "running" else None,
        finished_at=None if status == "running" else now,
    )  # fmt: skip
    told = sitter.get(f"runs/{run.pk}").content.decode()
    assert words in told
    assert "SECRET DETAIL" not in told
    assert ("data-poll" in told) == (status == "running")


def test_the_page_speaks_the_browsers_language(a: Place, sitter: Sitter) -> None:
    page = sitter.get(headers=CHINESE).content.decode()
    assert '<html lang="zh-hans">' in page
    for part in ("新建会话", "待确认", "已确认", "偏好", "发送", "回车发送"):
        assert part in page, part
    assert "New conversation" not in page


def crossing(place: Place) -> None:
    """Let the place's agent have an own cloud and a fallback of another vendor."""
    own = make_provider(place.tenant, name="own", locality="cloud", vendor="alpha")
    other = make_provider(place.tenant, name="other", locality="cloud", vendor="beta")
    change(place, Agent, place.agent.pk, provider=own, memory_fallback_provider=other)


@pytest.mark.req("A15")
def test_the_notice_stands_before_text_crosses_and_staff_agree_once(a: Place, staff: Any) -> None:
    crossing(a)
    person = by_link(a)
    page = person.get().content.decode()
    assert "Answers come from alpha" in page
    assert "can also go to beta" in page
    assert "Nothing goes there before that is agreed to." in page
    assert "consent" not in page
    assert person.post("consent").status_code == 403
    client, answer = sit(staff, a)
    sitter = Sitter(client, answer["Location"].split("/")[2])
    assert sitter.at("consent") in sitter.get().content.decode()
    told = sitter.post("consent").content.decode()
    assert "That was agreed to on" in told
    sitter.post("consent")
    scope = scope_of(a.tenant)
    with scoped_transaction(scope):
        agent = Agent.objects.in_scope(scope).get(pk=a.agent.pk)
        entries = list(
            AuditEntry.objects.in_scope(scope).filter(action="cross_vendor_consent_given")
        )
    assert agent.cross_vendor_consent_at is not None
    assert [(one.target_id, one.actor) for one in entries] == [(a.agent.pk, f"staff:{staff.pk}")]


@pytest.mark.req("A15")
def test_only_staff_who_set_policy_can_agree(a: Place) -> None:
    crossing(a)
    client, answer = sit(make_staff(a.tenant, Role.CURATOR), a)
    sitter = Sitter(client, answer["Location"].split("/")[2])
    assert sitter.post("consent").status_code == 403


def test_no_notice_where_nothing_crosses(a: Place, sitter: Sitter) -> None:
    assert "notice-title" not in sitter.get().content.decode()


def test_a_page_costs_no_more_statements_for_more_threads_and_facts(
    a: Place, sitter: Sitter
) -> None:
    def cost() -> int:
        with CaptureQueriesContext(connection) as seen:
            assert sitter.get(f"?thread={a.thread.pk}").status_code == 200
        return len(seen)

    cost()  # what is read once a process
    alone = cost()
    for number in range(40):
        make_run(make_thread(a.agent, a.person, title=f"thread {number}"))
        make_run(a.thread)
        waiting(a, f"likes number {number}")
    assert cost() <= alone + 1
