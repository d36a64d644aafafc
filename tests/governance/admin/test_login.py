"""The admin's door: attack 52."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from axes.models import AccessAttempt
from django.contrib.auth.models import User
from django.db.models import F
from django.test import AsyncClient, Client, RequestFactory
from django.utils import timezone

from governance.attempts import forget_attempts
from governance.peers import address_of
from memory.conf import login_cool_off

LOGIN = "/admin/login/"
ELSEWHERE = "198.51.100.7"
TRIES = 10


@pytest.fixture
def staff(db: None) -> list[str]:
    """Two names that may sign in, each with its own password."""
    names = ["ada", "berta"]
    for name in names:
        User.objects.create_user(name, password=f"right horse of {name}", is_staff=True)
    return names


def words(name: str, *, is_right: bool) -> dict[str, str]:
    return {"username": name, "password": f"right horse of {name}" if is_right else "wrong horse"}


def enter(name: str, *, is_right: bool = True, client: Client | None = None, **more: Any) -> Any:
    return (client or Client()).post(LOGIN, words(name, is_right=is_right), **more)


def lock(name: str) -> list[int]:
    """Give ten wrong passwords, from ten addresses if one believes the header."""
    return [
        enter(name, is_right=False, headers={"X-Forwarded-For": f"203.0.113.{turn}"}).status_code
        for turn in range(TRIES)
    ]


@pytest.mark.req("B18")
def test_ten_wrong_passwords_lock_the_door_to_the_right_one_case_52(staff: list[str]) -> None:
    assert lock("ada") == [200] * (TRIES - 1) + [429]
    client = Client()
    answer = enter("ada", client=client)
    assert answer.status_code == 429
    assert 0 < int(answer.headers["Retry-After"]) <= login_cool_off().total_seconds()
    assert "Too many wrong passwords" in answer.content.decode()
    assert "ada" not in answer.content.decode()
    assert client.get("/admin/").status_code == 302
    chinese = enter("ada", headers={"Accept-Language": "zh-hans"})
    assert "密码错误次数过多" in chinese.content.decode()


def test_lock_holds_for_one_name_at_one_address_case_52(staff: list[str]) -> None:
    lock("ada")
    assert enter("ada").status_code == 429
    assert enter("berta").status_code == 302
    assert enter("ada", REMOTE_ADDR=ELSEWHERE).status_code == 302


def test_lock_ends_after_the_cool_off_and_no_knock_prolongs_it_case_52(staff: list[str]) -> None:
    lock("ada")
    nearly = login_cool_off() - timedelta(minutes=1)
    AccessAttempt.objects.update(attempt_time=F("attempt_time") - nearly)
    assert enter("ada").status_code == 429
    assert enter("ada", is_right=False).status_code == 429
    AccessAttempt.objects.update(attempt_time=F("attempt_time") - timedelta(minutes=2))
    assert enter("ada").status_code == 302


def test_right_password_forgets_the_wrong_ones_before_it_case_52(staff: list[str]) -> None:
    for _ in range(2):
        for _ in range(TRIES - 1):
            assert enter("ada", is_right=False).status_code == 200
        assert enter("ada").status_code == 302


def test_lock_is_answered_alike_over_asgi_case_52(staff: list[str]) -> None:
    lock("ada")
    answer = async_to_sync(AsyncClient().post)(LOGIN, words("ada", is_right=True))
    assert answer.status_code == 429
    assert "Too many wrong passwords" in answer.content.decode()


def test_login_takes_a_new_session_and_never_leads_away_case_52(staff: list[str]) -> None:
    """Session fixation, and next=//evil."""
    client = Client()
    client.cookies["sessionid"] = "chosenbytheattacker0000000000000"
    away = words("ada", is_right=True) | {"next": "//evil.example/x"}
    answer = client.post(LOGIN, away)
    assert answer.status_code == 302
    assert "evil" not in answer.headers["Location"]
    assert answer.cookies["sessionid"].value != "chosenbytheattacker0000000000000"


def test_post_without_csrf_token_is_refused_and_not_counted_case_52(staff: list[str]) -> None:
    strict = Client(enforce_csrf_checks=True)
    assert enter("ada", client=strict).status_code == 403
    assert enter("ada", is_right=False, client=strict).status_code == 403
    assert not AccessAttempt.objects.exists()


def test_failed_logins_hold_no_password_and_are_forgotten_after_30_days(staff: list[str]) -> None:
    enter("ada", is_right=False)
    enter("berta", is_right=False)
    kept = AccessAttempt.objects.get(username="berta")
    assert "horse" not in kept.post_data
    now = timezone.now()
    AccessAttempt.objects.filter(username="ada").update(attempt_time=now - timedelta(days=31))
    kept_until = now - timedelta(days=29)
    AccessAttempt.objects.filter(username="berta").update(attempt_time=kept_until)
    assert forget_attempts(now=now) == 1
    assert [row.username for row in AccessAttempt.objects.all()] == ["berta"]


@pytest.mark.parametrize(
    ("proxies", "forwarded", "expected"),
    [
        (0, "203.0.113.9", "198.51.100.7"),
        (1, "", "198.51.100.7"),
        (1, "203.0.113.9, 192.0.2.4", "192.0.2.4"),
        (2, "192.0.2.4", "198.51.100.7"),
        (1, "no address", "0.0.0.0"),
        (1, "2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
        (1, "::ffff:192.0.2.4", "192.0.2.4"),
    ],
)
def test_address_is_the_connections_or_what_own_proxies_say_case_52(
    settings: Any, proxies: int, forwarded: str, expected: str
) -> None:
    settings.CREDENCE_TRUSTED_PROXIES = proxies
    request = RequestFactory().get(
        "/", REMOTE_ADDR="198.51.100.7", headers={"X-Forwarded-For": forwarded}
    )
    assert address_of(request) == expected
