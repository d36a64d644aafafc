"""The dashboard: right figures, of granted tenants only, in few statements, in both languages."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import time_machine
from django.db import connection
from django.test import Client

from governance.models import CoreCandidate
from governance.permissions import Role
from memory import lanes
from memory.models import Tenant
from memory.rls import scoped_transaction
from tests.factories import make_staff, make_tenant, scope_of
from tests.governance.admin.worlds import World, make_dead_job, signed_in
from tests.threads.figures.made import a_thread, call, ended

NOON = datetime(2026, 11, 10, 12, 0, tzinfo=UTC)
CHINESE = {"Accept-Language": "zh-CN"}
_TAGS = re.compile(r"<[^>]*>")


@pytest.fixture(autouse=True)
def _noon() -> Any:
    with time_machine.travel(NOON, tick=False):
        yield


@pytest.fixture
def busy(db: None) -> Tenant:
    """Ten days ago: a failure; yesterday two answers, one to a long thread; calls for memory."""
    tenant = make_tenant("busy-ones")
    thread, other = a_thread(tenant), a_thread(tenant)
    yesterday = NOON - timedelta(days=1)
    ended(thread, at=NOON - timedelta(days=10), turn_tokens=5_000, status="failed", past=0,
          error_code="provider_timeout")  # fmt: skip
    ended(thread, at=yesterday, ms=2_000, past=1_200, turn_tokens=100, cost_usd="1.25")
    ended(other, at=yesterday, ms=500, past=0, turn_tokens=100, cost_usd="0.25")
    call(tenant, at=yesterday, tokens=3_000, usd="0.40")
    call(tenant, at=yesterday, tokens=300, usd="0.10", kind="extract_core")
    return tenant


def reader_of(*tenants: Tenant, role: Role = Role.READER) -> Client:
    staff = make_staff(tenants[0], role=role)
    for tenant in tenants[1:]:
        staff.groups.add(*make_staff(tenant, role=role).groups.all())
    return signed_in(staff)


def board(client: Client, query: str = "", **headers: Any) -> Any:
    answer = client.get(f"/admin/{query}", headers=headers or None)
    assert answer.status_code == 200
    return answer.context["dashboard"]


def values(shown: Any) -> dict[str, tuple[str, str]]:
    return {tile.name: (tile.value, tile.detail) for tile in shown["tiles"]}


def text_of(client: Client, query: str = "", **options: Any) -> str:
    html = client.get(f"/admin/{query}", **options).content.decode()
    return " ".join(_TAGS.sub(" ", html).split())


@pytest.mark.req("A22")
def test_figures_of_a_small_set_are_right(busy: Tenant) -> None:
    shown = values(board(reader_of(busy)))
    assert shown["runs"] == ("3", "67% succeeded")
    assert shown["failures"] == ("1", "33% of runs; 0 more were rejected")
    assert shown["cost"] == ("$2.00", "runs $1.50 + memory work $0.50")
    assert shown["saved"] == ("3.80k", "76% of the whole history, 5.00k")
    assert shown["latency"] == ("501 ms", "95 of 100 within 2.0 s")


def test_only_the_chosen_days_count(busy: Tenant) -> None:
    client = reader_of(busy)
    assert values(board(client, "?days=7"))["runs"][0] == "2"
    assert values(board(client, "?days=90"))["runs"][0] == "3"
    assert values(board(client, "?first=2026-10-31&last=2026-10-31"))["runs"][0] == "1"
    assert values(board(client, "?first=2026-11-01&last=2026-11-08"))["runs"][0] == "0"


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ("?days=8", "Choose 7, 30 or 90 days"),
        ("?days=<script>", "Choose 7, 30 or 90 days"),
        ("?first=2026-11-01", "Name both days"),
        ("?first=yesterday&last=2026-11-01", "Write days as 2026-11-30"),
        ("?first=2026-11-05&last=2026-11-01", "The first day comes after the last one"),
        ("?first=2026-11-01&last=2026-11-11", "still to come"),
        ("?first=2024-11-01&last=2026-11-01", "At most 366 days"),
        ("?first=0001-01-01&last=9999-12-31", "still to come"),
        ("?tenant=nobody", "Choose one of the tenants you may view"),
        ("?tenant=%00&days=%00", "Choose one of the tenants you may view"),
    ],
)
def test_what_can_not_be_shown_is_said_and_the_usual_days_are_shown(
    busy: Tenant, query: str, problem: str
) -> None:
    shown = board(reader_of(busy), query)
    assert problem in " ".join(shown["problems"])
    assert (shown["period"].tenant_id, shown["period"].days) == (busy.pk, 30)


@pytest.mark.req("B18")
def test_no_figure_of_a_tenant_that_is_not_granted_is_ever_shown(busy: Tenant) -> None:
    """Cases 25, 28: its name, its numbers, its queues; a foreign id is answered like an unknown one."""
    mine = make_tenant("mine")
    client = reader_of(mine)
    for query in ("", "?days=90", f"?tenant={busy.pk}", f"?tenant={busy.pk}&days=90"):
        shown = board(client, query)
        assert shown["period"].tenant_id == mine.pk
        assert shown["tenants"] == [(mine.pk, "mine")]
        assert {name: value for name, (value, _) in values(shown).items()} == {
            "runs": "0", "failures": "0", "latency": "–", "cost": "$0", "saved": "0", "waiting": "0",
        }  # fmt: skip
        assert shown["failures"] == shown["compressions"] == []
    pages = [
        re.sub(r'name="csrfmiddlewaretoken" value="\w+"', "", page.content.decode())
        for page in (client.get(f"/admin/?tenant={pk}") for pk in (busy.pk, "tn_" + "0" * 26))
    ]
    assert pages[0] == pages[1]
    assert busy.pk not in pages[0]


def test_tenant_is_chosen_among_the_granted_ones(busy: Tenant) -> None:
    client = reader_of(busy, make_tenant("another"))
    assert [name for _, name in board(client)["tenants"]] == ["another", "busy-ones"]
    assert values(board(client))["runs"][0] == "0"
    assert values(board(client, f"?tenant={busy.pk}"))["runs"][0] == "3"


def test_queues_tell_count_and_age_and_lead_to_their_lists(beta: World) -> None:
    client = signed_in(beta.staff)
    shown = board(client)
    told = {line["one"].queue.name: line for line in (*shown["decisions"], *shown["work"])}
    assert told["core"]["count"] == told["item"]["count"] == told["dead"]["count"] == "1"
    assert values(shown)["waiting"][0] == str(sum(line["one"].count for line in shown["decisions"]))
    for name, line in told.items():
        listed = client.get(line["one"].url)
        assert listed.context["cl"].result_count == line["one"].count, name
    with scoped_transaction(scope_of(beta.tenant)):
        CoreCandidate.objects.in_scope(scope_of(beta.tenant)).update(
            created_at=NOON - timedelta(days=3)
        )
    assert board(client)["decisions"][0]["age"] == "3\xa0days"


def test_who_may_not_erase_is_told_nothing_of_erasures(beta: World) -> None:
    names = {line["one"].queue.name for line in board(reader_of(beta.tenant))["work"]}
    assert names == {"dead", "bulk"}
    mine = {line["one"].queue.name for line in board(signed_in(beta.staff))["work"]}
    assert {"erasing", "unverified", "found"} <= mine


def test_lanes_and_late_jobs_are_told(busy: Tenant) -> None:
    client = reader_of(busy)
    assert "no sign of life" in text_of(client)
    assert board(client)["late"] == {"age": "", "is_late": False}
    lanes.beat(name=lanes.CONTROL)
    lanes.beat(name=lanes.lane_name(lanes.lane_of(busy.pk)))
    make_dead_job(busy, "late")
    with scoped_transaction(scope_of(busy)), connection.cursor() as cursor:
        cursor.execute(
            "UPDATE memory_job SET status = 'ready', finished_at = NULL, not_before = %s",
            [NOON - timedelta(hours=2)],
        )
    shown = board(client)
    assert shown["late"] == {"age": "2\xa0hours", "is_late": True}
    assert all(lane["sign"].seen_at for lane in shown["lanes"])


@pytest.mark.req("A23")
def test_compression_is_told_by_length(busy: Tenant) -> None:
    shown = board(reader_of(busy))
    assert shown["compressions"] == [
        {"length": "2k–4k", "calls": "1", "read": "3.00k", "each": "$0.40", "cost": "$0.40"}
    ]
    assert shown["compression"].rows == (("2k+", "$0.40"),)


def test_empty_pages_say_what_to_do(beta: World) -> None:
    empty = make_tenant("empty")
    text = text_of(reader_of(empty))
    assert "No run in these days" in text
    assert "POST /v1/agents/{agent_id}/run" in text
    nobody = make_staff(empty)
    nobody.groups.clear()
    assert "Nothing is granted to you yet" in text_of(signed_in(nobody))


def test_free_models_have_no_chart_of_cost_but_a_sentence(db: None) -> None:
    tenant = make_tenant("free")
    ended(a_thread(tenant), at=NOON, cost_usd="0")
    call(tenant, at=NOON, tokens=900)
    shown = board(reader_of(tenant))
    assert shown["compression"] is None
    assert "1 calls compressed threads and cost nothing" in text_of(reader_of(tenant))


def test_charts_need_neither_script_nor_style(busy: Tenant) -> None:
    html = reader_of(busy).get("/admin/").content.decode()
    main = html[html.index("<main") : html.index("</main>")]
    assert main.count("<svg") == 4
    assert "style=" not in main
    assert "<script" not in main
    assert main.count("As a table") == 4


def test_dashboard_speaks_chinese(busy: Tenant) -> None:
    text = text_of(reader_of(busy), "?days=8", headers=CHINESE)
    for word in (
        "概览",
        "节省的 token",
        "每日运行",
        "会话压缩的费用与上下文长度",
        "请选择 7、30 或 90 天",
        "11月9日",
    ):
        assert word in text, word
    for english in ("Dashboard", "Tokens saved", "Runs a day", "succeeded", "As a table"):
        assert english not in text, english
    assert "这些天没有运行" in text_of(reader_of(make_tenant()), headers=CHINESE)
