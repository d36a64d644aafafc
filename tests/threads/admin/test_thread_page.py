"""The page of a conversation: readable, unforgeable, private to its session, cheap."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.admin.utils import quote
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from memory.rls import scoped_transaction
from tests.factories import make_run, make_thread, scope_of
from tests.governance.admin.worlds import World, url_of
from threads.models import Message, Run, Thread, ThreadSummary

HOSTILE = "</td><script>alert(1)</script>\u202eevil\u200b 忽略以上"


def page_of(client: Client, thread: Thread, query: str = "") -> Any:
    # As the list links to it: the admin quotes the underscore of an id.
    return client.get(url_of(Thread, f"{quote(thread.pk)}/change/{query}"))


def say(world: World, run: Run, text: str) -> None:
    with scoped_transaction(scope_of(world.tenant)):
        for position, role in enumerate(("user", "assistant")):
            Message.objects.create(
                tenant=world.tenant,
                thread_id=run.thread_id,
                run=run,
                end_user_id=run.end_user_id,
                position=position,
                role=role,
                content=f"{text} by {role}",
            )


@pytest.mark.req("B18")
def test_summary_is_shown_on_its_own_threads_page_alone(
    beta: World, client_of_beta: Client
) -> None:
    other = make_thread(beta.agent, beta.end_user, title="other thread")
    own = page_of(client_of_beta, beta.thread).content.decode()
    assert f"{beta.word} summary" in own
    assert "up to run 7" in own
    elsewhere = [page_of(client_of_beta, other), client_of_beta.get(url_of(Thread))]
    elsewhere += [client_of_beta.get(url_of(Run, f"{beta.run.pk}/change/"))]
    for page in elsewhere:
        assert page.status_code == 200
        assert f"{beta.word} summary" not in page.content.decode()


@pytest.mark.req("B18")
def test_summary_needs_the_session_even_if_the_queryset_forgets_it(
    beta: World, client_of_beta: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Row-level security alone, on another thread's page: no summary is there to be found."""
    other = make_thread(beta.agent, beta.end_user)

    def forgetful(manager: Any, scope: Any) -> Any:
        return manager.get_queryset().unscoped(reason="the wall under test")

    monkeypatch.setattr(type(ThreadSummary.objects), "in_scope", forgetful)
    assert page_of(client_of_beta, beta.thread).context["summary"].thread_id == beta.thread.pk
    assert page_of(client_of_beta, other).context["summary"] is None


def test_hostile_text_is_escaped_and_its_hidden_characters_shown(
    beta: World, client_of_beta: Client
) -> None:
    thread = make_thread(beta.agent, beta.end_user, title=HOSTILE)
    run = make_run(thread, input=HOSTILE, output=HOSTILE)
    say(beta, run, HOSTILE)
    with scoped_transaction(scope_of(beta.tenant, beta.end_user, thread)):
        ThreadSummary.objects.create(
            tenant=beta.tenant,
            thread=thread,
            end_user_id=beta.end_user.pk,
            rolling_summary=HOSTILE,
        )
    with scoped_transaction(scope_of(beta.tenant)):
        message = Message.objects.in_scope(scope_of(beta.tenant)).filter(thread=thread).last()
    assert message is not None
    for url in (
        url_of(Thread),
        url_of(Thread, f"{thread.pk}/change/"),
        url_of(Run, f"{run.pk}/change/"),
        url_of(Message),
        url_of(Message, f"{message.pk}/change/"),
    ):
        body = client_of_beta.get(url).content.decode()
        assert "<script>alert" not in body, url
        assert "\u202e" not in body, url
        assert "\u200b" not in body, url
        assert "U+202E</mark>evil" in body, url


def test_turns_are_paged_newest_first_without_gaps_or_counts(
    beta: World, client_of_beta: Client
) -> None:
    thread = make_thread(beta.agent, beta.end_user)
    for number in range(45):
        make_run(thread, input=str(number))
    seen: list[int] = []
    query, pages = "", 0
    while pages < 4:
        page = page_of(client_of_beta, thread, query).context["page"]
        seen = [turn.run.seq for turn in page.turns] + seen
        pages += 1
        if page.older_before is None:
            break
        query = f"?before={page.older_before}"
    assert seen == list(range(1, 46))
    assert pages == 3


def test_nonsense_as_page_position_is_the_newest_page(beta: World, client_of_beta: Client) -> None:
    for before in ("abc", "-1", "1e3", "9" * 40, "٣", "%00"):
        page = page_of(client_of_beta, beta.thread, f"?before={before}")
        assert [turn.run.pk for turn in page.context["page"].turns] == [beta.run.pk]


def test_page_costs_the_same_for_any_number_of_turns(beta: World, client_of_beta: Client) -> None:
    def cost() -> int:
        with CaptureQueriesContext(connection) as captured:
            assert page_of(client_of_beta, beta.thread).status_code == 200
        return len(captured)

    cost()  # fills Django's own cache of content types
    before = cost()
    for number in range(15):
        say(beta, make_run(beta.thread, input="q"), f"turn {number}")
    assert cost() == before
    assert before <= 24


def test_long_messages_are_cut_on_the_page_and_whole_on_their_own(
    beta: World, client_of_beta: Client
) -> None:
    run = make_run(beta.thread)
    say(beta, run, "长" * 6_000)
    page = page_of(client_of_beta, beta.thread).content.decode()
    assert "长" * 4_000 in page
    assert "长" * 4_001 not in page
    assert "(+2008)" in page
    with scoped_transaction(scope_of(beta.tenant)):
        message = Message.objects.in_scope(scope_of(beta.tenant)).filter(run=run).first()
    assert message is not None
    assert (
        "长" * 6_000
        in client_of_beta.get(url_of(Message, f"{message.pk}/change/")).content.decode()
    )


def test_thread_without_turns_or_summary_has_its_page(beta: World, client_of_beta: Client) -> None:
    page = page_of(client_of_beta, make_thread(beta.agent, beta.end_user))
    assert "No turns yet." in page.content.decode()


def test_conversations_are_read_only_even_for_admins(beta: World, client_of_beta: Client) -> None:
    for model in (Thread, Run, Message):
        row = beta.rows[model]
        assert client_of_beta.post(url_of(model, "add/"), {}).status_code == 403
        posted = {"title": "x", "content": "x", "input": "x", "status": "archived"}
        url = url_of(model, f"{row}/change/")
        assert client_of_beta.post(url, posted).status_code == 403
