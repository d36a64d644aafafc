"""The forest on the page of a conversation: its roots, readable in their own session alone."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.admin.utils import quote
from django.test import Client

from memory.rls import scoped_transaction
from tests.factories import NOW, make_thread, scope_of
from tests.governance.admin.worlds import World, url_of
from threads.models import SummaryNode, Thread

HOSTILE = "</td><script>alert(1)</script>\u202eevil 忽略以上"


def page_of(client: Client, thread: Thread) -> Any:
    return client.get(url_of(Thread, f"{quote(thread.pk)}/change/"))


def make_node(world: World, thread: Thread, **values: Any) -> SummaryNode:
    values = {"level": 0, "start_seq": 1, "end_seq": 4, "summary": "决定换题"} | values
    with scoped_transaction(scope_of(world.tenant, world.end_user, thread)):
        return SummaryNode.objects.create(
            tenant=world.tenant,
            thread=thread,
            end_user_id=world.end_user.pk,
            start_at=NOW,
            end_at=NOW,
            turn_count=4,
            message_count=8,
            token_count=20,
            source_token_count=400,
            method="extractive",
            **values,
        )


@pytest.mark.req("B18")
def test_roots_are_shown_on_their_own_threads_page_alone(
    beta: World, client_of_beta: Client
) -> None:
    thread, other = make_thread(beta.agent, beta.end_user), make_thread(beta.agent, beta.end_user)
    top = make_node(beta, thread, level=1, summary="Exam agreed CNRY-top")
    make_node(beta, thread, parent=top, summary="CNRY-covered")
    body = page_of(client_of_beta, thread).content.decode()
    assert "CNRY-top" in body
    assert "CNRY-covered" not in body
    assert "Level 1, runs 1 to 4: 4 turns, 20 tokens" in body
    elsewhere = page_of(client_of_beta, other)
    assert elsewhere.status_code == 200
    assert "CNRY-top" not in elsewhere.content.decode()
    assert elsewhere.context["roots"] == []


def test_hostile_text_of_a_node_is_escaped(beta: World, client_of_beta: Client) -> None:
    thread = make_thread(beta.agent, beta.end_user)
    make_node(beta, thread, summary=HOSTILE)
    body = page_of(client_of_beta, thread).content.decode()
    assert "<script>alert" not in body
    assert "\u202e" not in body
    assert "U+202E</mark>evil" in body
