"""A day of staff in a real browser: a correction comes in, is read, approved, used, fades, comes back.

Writes the pictures of docs/governance.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import time_machine
from django.contrib.auth.models import User
from django.utils import timezone

from governance.core.candidates import add_candidate
from governance.core.clearing import StatedFact
from governance.permissions import Role
from memory.models import Entity, Tenant
from memory.rls import scoped_transaction
from tests.browser.chrome import Chrome, browser_path
from tests.browser.served import Service, served
from tests.factories import (
    MadeKey,
    make_agent,
    make_key,
    make_provider,
    make_staff,
    make_tenant,
    scope_of,
)
from tests.governance.admin.learned import policy
from threads.models import Agent, Run

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]

PICTURES = Path(__file__).parents[2] / "docs" / "figures" / "governance"
MOST_BYTES = 150_000
LONG = (
    "Donaudampfschifffahrtselektrizitaetenhauptbetriebswerkbauunterbeamtengesellschaft"
    + "长词" * 15
)
MORNING = datetime(2026, 11, 2, 8, 30, tzinfo=UTC)


@dataclass(frozen=True, kw_only=True)
class Words:
    """One language's day."""

    name: str
    accept: str
    slug: str
    said: str
    wrong: str
    term: str
    kind: str
    other: str
    again: str
    facts: tuple[tuple[str, str, str], ...]
    new_fact: tuple[str, str, str]
    approve: str
    confirm: str
    lowered: str
    approved_item: str


ENGLISH = Words(
    name="en",
    accept="en-GB",
    slug="support",
    said="Our router is called ARX6, not AXR six. Which firmware is the newest one for it?",
    wrong="AXR six",
    term="ARX6",
    kind="product",
    other="Is there a firmware for the ARX6 that fixes the reboots?",
    again="My ARX6 reboots at two in the morning.",
    facts=(
        ("Prefers to be called in the afternoon", "phone calls", "Please call me in the afternoon."),
        ("Has two ARX6 in the warehouse", "devices", "We have two of them in the warehouse."),
    ),
    new_fact=(
        "Prefers to be called in the morning", "phone calls",
        "From now on please call me in the morning, the afternoon does not work any more.",
    ),
    approve="Approve",
    confirm="Confirm",
    lowered="1 weights were lowered.",
    approved_item="ARX6 (product)",
)  # fmt: skip
CHINESE = Words(
    name="zh",
    accept="zh-CN",
    slug="school",
    said="教材叫《标准日本语》，不是标日本语，请记住，以后都这样写。",
    wrong="标日本语",
    term="标准日本语",
    kind="textbook",
    other="标准日本语初级上册一共有多少课？",
    again="请按标准日本语第三课出五道填空题。",
    facts=(
        ("教五年级数学", "年级", "我今年教五年级的数学。"),
        ("每周三下午教研", "教研时间", "我们每周三下午教研。"),
    ),
    new_fact=("教六年级数学", "年级", "从这学期起我改教六年级的数学了，五年级由王老师接手。"),
    approve="批准",
    confirm="确认",
    lowered="已降低 1 个权重。",
    approved_item="标准日本语（textbook",
)


@dataclass
class Day:
    """One tenant on one day: its staff, its caller, a browser."""

    words: Words
    service: Service
    chrome: Chrome
    tenant: Tenant
    agent: Agent
    staff: User
    key: MadeKey

    def ask(self, text: str, thread_id: str | None = None) -> Any:
        body: dict[str, Any] = {"input": text, "user_id": "visitor-7"}
        if thread_id:
            body["thread_id"] = thread_id
        answer = self.service.call(self.key, f"/v1/agents/{self.agent.pk}/run", body)
        assert answer["status"] == "succeeded", answer
        self.service.work(self.tenant)
        return answer

    def log_in(self) -> None:
        self.chrome.open(f"{self.service.base_url}/admin/login/?next=/admin/")
        if self.chrome.evaluate("!!document.querySelector('#user-tools')"):
            return  # the session of yesterday still holds
        self.chrome.fill("#id_username", self.staff.username)
        self.chrome.fill("#id_password", "right horse")
        self.chrome.click("input[type=submit]")
        self.chrome.until("!!document.querySelector('#user-tools')")

    def room(self, path: str) -> None:
        self.chrome.open(f"{self.service.base_url}/admin/{path}")

    def first_row(self) -> None:
        self.chrome.click("#result_list tbody tr:first-child th a")

    def choose(self, choice: str) -> None:
        self.chrome.click(f'button[name=choice][value="{choice}"]')

    def picture(self, name: str) -> None:
        assert self.chrome.spills() == [], name
        path = PICTURES / f"{name}-{self.words.name}.png"
        self.chrome.shot(path)
        assert 5_000 < path.stat().st_size < MOST_BYTES, (name, path.stat().st_size)

    def entity(self) -> Entity:
        with scoped_transaction(scope_of(self.tenant)):
            return Entity.objects.in_scope(scope_of(self.tenant)).get(term=self.words.term)


@pytest.fixture(params=[ENGLISH, CHINESE], ids=lambda words: words.name)
def day(
    request: pytest.FixtureRequest, committed_db: None, settings: Any, tmp_path: Path
) -> Iterator[Day]:
    assert browser_path(), "install Debian's package chromium to run this"
    words: Words = request.param
    settings.STATIC_ROOT = tmp_path
    PICTURES.mkdir(parents=True, exist_ok=True)
    with time_machine.travel(MORNING, tick=True):
        tenant = make_tenant(words.slug)
        provider = make_provider(tenant, name="offline")
        agent = make_agent(tenant, provider, language=words.name)
        staff = make_staff(tenant, role=Role.CURATOR)
        key = make_key(tenant, scopes=("run", "read", "write"))
    with served() as service, Chrome(language=words.accept) as chrome:
        yield Day(words, service, chrome, tenant, agent, staff, key)


@pytest.mark.req("E05")
@pytest.mark.req("D11")
def test_correction_is_read_approved_used_fades_and_comes_back(day: Day) -> None:
    words, chrome = day.words, day.chrome
    with time_machine.travel(MORNING, tick=True):
        said = day.ask(words.said)
        thread = said["thread_id"]
        path = f"/v1/threads/{thread}/corrections"
        messages = day.service.call(day.key, f"/v1/threads/{thread}/messages")["results"]
        mine = next(one for one in messages if one["role"] == "user")
        day.service.call(
            day.key, path,
            {"term": words.term, "entity_type": words.kind, "wrong": words.wrong,
             "right": words.term, "message_id": mine["id"]},
        )  # fmt: skip
        day.service.work(day.tenant)
        before = day.ask(words.other)
        assert used_in(day, before) == []

        day.log_in()
        day.picture("index")
        day.room("governance/entitycandidate/")
        assert words.term in chrome.text()
        day.picture("entity-queue")
        day.first_row()
        for evidence in (words.wrong, words.said, thread):
            assert evidence in chrome.text(), evidence
        day.picture("entity-candidate")
        chrome.dark(is_dark=True)
        day.picture("entity-candidate-dark")
        chrome.dark(is_dark=False)
        assert keyboard_reaches(chrome, f"BUTTON {words.approve}")
        chrome.press("Enter", 13)
        assert day.entity().status == "active"
        day.picture("entity-candidate-approved")

        used = used_in(day, day.ask(words.other))
        assert [(item["kind"], item["tier"]) for item in used] == [("entity", "approved")]
        assert used[0]["approved_at"].startswith("2026-11-02")
        assert words.approved_item in used[0]["content"]
        first_weight = day.entity().weight
        assert first_weight > 1.0
    with time_machine.travel(MORNING + timedelta(days=91), tick=True):
        day.log_in()
        day.room("memory/entity/decay/")
        assert words.term in chrome.text()
        assert day.entity().weight == first_weight
        day.picture("entity-decay-preview")
        chrome.click("button.final")
        assert words.lowered in chrome.text()
        low = day.entity().weight
        assert low == pytest.approx(first_weight * 0.9)
    with time_machine.travel(MORNING + timedelta(days=92), tick=True):
        (item,) = used_in(day, day.ask(words.again, thread))
        assert item["weight"] == pytest.approx(low, abs=1e-3)
        assert day.entity().weight == pytest.approx(low * 1.1)
        day.log_in()
        day.room("memory/entity/")
        day.picture("entities")
        day.first_row()
        assert chrome.evaluate("document.querySelectorAll('svg.drawing circle').length") == 4
        day.picture("entity-weights")


@pytest.mark.req("A18")
@pytest.mark.req("E05")
def test_fact_is_read_beside_what_it_ends_and_confirmed(day: Day) -> None:
    words, chrome = day.words, day.chrome
    with time_machine.travel(MORNING, tick=True):
        said = day.ask(words.said)
        for fact in words.facts:
            learn(day, said, fact, 0.6)
        day.log_in()
        for _fact in words.facts:
            day.room("governance/corecandidate/?status__exact=pending")
            day.first_row()
            day.choose("confirm")
        learn(day, said, words.new_fact, 0.8)
        learn(day, said, (LONG, "x", LONG), 0.3)
        day.room("governance/corecandidate/")
        day.picture("core-queue")
        day.first_row()
        for shown in (words.new_fact[0], words.new_fact[2], words.facts[0][0]):
            assert shown in chrome.text(), shown
        day.picture("core-candidate")
        assert not chrome.evaluate("document.querySelector('#id_reject_reason').checkValidity()")
    with time_machine.travel(MORNING + timedelta(hours=1), tick=True):
        day.room("governance/corecandidate/")
        day.first_row()
        day.choose("confirm")
        day.picture("core-candidate-confirmed")
        day.room("memory/corefact/")
        assert words.new_fact[0] in chrome.text()
        day.picture("core-facts")
        day.room("governance/corecandidate/?status__exact=pending")
        day.first_row()
        assert chrome.spills() == []


def learn(day: Day, said: Any, fact: tuple[str, str, str], confidence: float) -> None:
    """What the extraction of the run would have found."""
    text, subject, evidence = fact
    scope = scope_of(day.tenant)
    with scoped_transaction(scope):
        run = Run.objects.in_scope(scope).get(pk=said["id"])
    add_candidate(
        scope=scope,
        end_user_id=str(run.end_user_id),
        stated=StatedFact(
            fact=text, subject=subject, evidence=evidence, origin="run", by="worker",
            run_id=run.pk, confidence=confidence,
        ),
        policy=policy(),
        now=timezone.now(),
    )  # fmt: skip


def used_in(day: Day, answer: Any) -> list[dict[str, Any]]:
    """The terms that a run's prompt showed."""
    trace = day.service.call(day.key, f"/v1/runs/{answer['id']}/context")
    return [item for item in trace["items"] if item["kind"] == "entity"]


def keyboard_reaches(chrome: Chrome, wanted: str) -> bool:
    """Whether the tab key alone leads to a button; it has the focus then."""
    chrome.evaluate("document.querySelector('.desk a, .desk button').focus()")
    return any(chrome.tab().startswith(wanted) for _ in range(40))
