"""The commands of API.md, as an operator would run them one after the other."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.utils import timezone

from governance.keys import authenticate
from memory.rls import scoped_transaction
from tests.factories import make_agent, make_provider, make_tenant, scope_of
from tests.fakes.openai_replies import calls, text
from tests.fakes.openai_server import FakeOpenAI
from threads.models import Agent


def run(*words: str, **options: Any) -> dict[str, Any]:
    """Run a command with --json and return what it printed."""
    out = StringIO()
    call_command(*words, "--json", stdout=out, stderr=StringIO(), **options)
    printed: dict[str, Any] = json.loads(out.getvalue())
    return printed


@pytest.mark.req("E01")
def test_a_tenant_is_set_up_and_asked_from_the_command_line(
    committed_db: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("create_tenant", "acme")["id"].startswith("tn_")
    key = run("create_api_key", "--tenant", "acme", "--scopes", "run,read")["key"]
    assert authenticate(raw=key, now=timezone.now()).key_scopes == {"run", "read"}
    staff = run("create_staff", "lee", "--tenant", "acme", "--role", "curator")
    assert User.objects.get(username="lee").check_password(staff["password"])
    monkeypatch.setenv("THE_KEY", "not shown")
    made = run(
        *("create_provider", "--tenant", "acme", "--name", "local", "--locality", "local"),
        *("--kind", "openai_compatible", "--base-url", "http://127.0.0.1:9/v1"),
        *("--api-key-env", "THE_KEY"),
    )
    assert made["id"].startswith("prov_")
    offline = run(
        *("create_provider", "--tenant", "acme", "--name", "offline", "--locality", "local"),
        *("--kind", "offline"),
    )
    prompt = tmp_path / "prompt.txt"
    prompt.write_text("你是助手。", encoding="utf-8")
    agent = run(
        *("create_agent", "--tenant", "acme", "--name", "a", "--provider", offline["name"]),
        *("--model", "offline", "--context-window", "8192", "--language", "zh"),
        *("--system-prompt-file", str(prompt)),
    )
    first = run("run_agent", "--agent", agent["id"], "--user", "u", "打印机在三楼。")
    again = run(
        *("run_agent", "--agent", agent["id"], "--user", "u", "--thread", first["thread_id"]),
        "打印机在几楼？",
    )
    assert again["thread_id"] == first["thread_id"]
    assert "三楼" in again["output"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("create_tenant", "Not A Slug"), "invalid"),
        (("create_api_key", "--tenant", "nobody", "--scopes", "run"), "no tenant"),
        (("run_agent", "--agent", "ag_none", "--user", "u", "hi"), "no agent"),
        (("import_conversations", "--tenant", "t", "--agent", "a", "chat.csv"), ".jsonl"),
    ],
)
def test_mistakes_are_said_in_a_line(committed_db: None, words: tuple[str, ...], said: str) -> None:
    """Bug report A7 among them: a file of a kind that is not read is refused, not skipped."""
    with pytest.raises(CommandError, match=said):
        call_command(*words, stdout=StringIO())


def test_import_with_bad_lines_brings_the_rest_and_exits_with_three(
    committed_db: None, tmp_path: Path
) -> None:
    tenant = make_tenant("importers")
    agent = make_agent(tenant)
    file = tmp_path / "chat.jsonl"
    file.write_bytes(b'{"user_id":"u","thread":"t","content":"hi"}\n\xff\xfe\nnot json\n')
    out, said = StringIO(), StringIO()
    words = ("import_conversations", "--tenant", "importers", "--agent", agent.id, str(file))
    with pytest.raises(SystemExit) as ended:
        call_command(*words, stdout=out, stderr=said)
    assert ended.value.code == 3
    assert "turns_new: 1" in out.getvalue()
    assert said.getvalue().count("line ") == 2


def test_agent_with_a_window_below_the_floor_is_told_the_floor(committed_db: None) -> None:
    tenant = make_tenant()
    make_provider(tenant, name="near")
    words = ("--tenant", tenant.slug, "--name", "a", "--provider", "near", "--model", "m")
    with pytest.raises(CommandError, match=r"invalid: .*at least 1,024 tokens"):
        run("create_agent", *words, "--context-window", "1023")


def test_agent_is_made_lossless_with_tools_and_a_role(committed_db: None) -> None:
    tenant = make_tenant()
    make_provider(tenant, name="near")
    words = (
        *("--tenant", tenant.slug, "--provider", "near", "--model", "m"),
        *("--context-window", "8192"),
    )
    made = run(
        *("create_agent", *words, "--name", "a", "--thread-strategy", "lossless"),
        *("--tools", "memory_grep, view_message", "--role", "examiner"),
    )
    scope = scope_of(tenant)
    with scoped_transaction(scope):
        agent = Agent.objects.in_scope(scope).get(pk=made["id"])
    assert (agent.thread_strategy, agent.tools) == ("lossless", ["memory_grep", "view_message"])
    assert agent.role == "examiner"
    for more, said in (
        (("--tools", "rm"), "invalid: Tools are of: memory_search"),
        (("--tools", "memory_grep,memory_grep"), "once"),
        (("--thread-strategy", "forgetful"), "forgetful"),
        (("--system-prompt-file", "no/such/file"), "can not be read"),
    ):
        with pytest.raises(CommandError, match=said):
            run("create_agent", *words, "--name", "b", *more)


def test_run_shows_the_calls_of_its_tools_and_what_came_of_them(
    world: Any, server: FakeOpenAI
) -> None:
    tenant, _, agent = world
    with scoped_transaction(scope_of(tenant)):
        agent.tools = ["memory_grep"]
        agent.save(update_fields=["tools"])
    server.script(calls(("memory_grep", '{"query": "试卷"}')), text("没有找到。"))
    out = StringIO()
    call_command("run_agent", "--agent", agent.pk, "--user", "u", "试卷在哪？", stdout=out)
    said = out.getvalue().splitlines()
    assert said[0] == 'tool: memory_grep {"query": "试卷"}'
    assert said[1].startswith("  -> ")
    assert said[1].endswith("]")
    assert "output: 没有找到。" in said
    server.script(calls(("memory_grep", '{"query": "x"}')), text("ok"))
    shown = run("run_agent", "--agent", agent.pk, "--user", "u", "hi")
    assert [tool["name"] for tool in shown["tools"]] == ["memory_grep"]
    assert shown["tools"][0]["reference_id"].startswith("msg_")


def test_run_over_budget_says_what_wanted_how_much(world: Any) -> None:
    _, _, agent = world
    words = ("run_agent", "--agent", agent.pk, "--user", "u", "数据结构" * 5000)
    with pytest.raises(CommandError) as refused:
        call_command(*words, stdout=StringIO())
    said = str(refused.value)
    assert said.startswith("context_over_budget: ")
    assert "6553 allowed" in said
    assert "request " in said
    assert "数据结构" not in said
