"""The sidebar: rooms by what one comes for, none forgotten, none shown that one may not see."""

from __future__ import annotations

from typing import Any

from django.test import Client

from governance.admin.sidebar import GROUPS
from governance.admin.site import site
from governance.models import AuditEntry
from governance.permissions import Role
from tests.factories import make_staff
from tests.governance.admin.worlds import World, signed_in, url_of
from threads.models import Run

CHINESE = {"Accept-Language": "zh-CN"}


def groups_of(client: Client) -> list[Any]:
    return list(client.get(url_of(Run)).context["available_apps"])


def test_every_room_is_in_one_group() -> None:
    grouped = [label for group in GROUPS for label in group.rooms]
    assert sorted(grouped) == sorted(model._meta.label_lower for model in site._registry)


def test_sidebar_follows_the_groups(client_of_beta: Client) -> None:
    shown = groups_of(client_of_beta)
    assert [group["app_label"] for group in shown] == [group.name for group in GROUPS]
    html = client_of_beta.get(url_of(Run)).content.decode()
    assert html.index("Waiting for a decision") < html.index("Conversations")
    assert html.count('aria-current="page"') == 2  # the sidebar, and the menu of narrow windows


def test_sidebar_leaves_out_what_is_not_granted(beta: World) -> None:
    reader = signed_in(make_staff(beta.tenant, role=Role.READER))
    rooms = {room["model"] for group in groups_of(reader) for room in group["models"]}
    assert Run in rooms
    assert AuditEntry not in rooms


def test_sidebar_speaks_chinese(client_of_beta: Client) -> None:
    html = client_of_beta.get(url_of(Run), headers=CHINESE).content.decode()
    for word in ("待决定", "人员", "会话", "运行维护", "设置", "注销"):
        assert word in html
    assert "Waiting for a decision" not in html


def test_lists_are_named_after_their_rows_and_not_after_an_app(client_of_beta: Client) -> None:
    html = client_of_beta.get(url_of(Run)).content.decode()
    assert "<h1>Runs</h1>" in html
    assert '/admin/threads/"' not in html
