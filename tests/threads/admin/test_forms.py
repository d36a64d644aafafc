"""Adding and changing agents and providers: inside one tenant, in plain words, keys unseen."""

from __future__ import annotations

from typing import Any

import pytest
from django.conf import settings as django_settings
from django.contrib.admin.models import LogEntry
from django.test import Client

from governance.models import AuditEntry
from memory.ids import new_id
from memory.providers.crypto import open_sealed
from memory.rls import scoped_transaction
from tests.factories import make_agent, make_provider, scope_of
from tests.governance.admin.worlds import World, signed_in, url_of
from tests.threads.admin.blind_urls import SmugglingAgentAdmin
from threads.models import Agent, Provider

LEAKS = ("duplicate key", "constraint", "violates", "DETAIL", "psycopg", "insert into", "_uniq")


def row_of(world: World, model: Any, pk: str) -> Any:
    with scoped_transaction(scope_of(world.tenant)):
        return model.objects.in_scope(scope_of(world.tenant)).get(pk=pk)


def count_of(world: World, model: Any) -> int:
    with scoped_transaction(scope_of(world.tenant)):
        return int(model.objects.in_scope(scope_of(world.tenant)).count())


def provider_values(world: World, **more: Any) -> dict[str, Any]:
    return {
        "tenant": world.tenant.pk,
        "name": "new provider",
        "kind": "openai_compatible",
        "base_url": "http://127.0.0.1:9/v1",
        "locality": "local",
        "vendor": "acme",
        "timeouts": "{}",
        "is_active": "on",
    } | more


def agent_values(world: World, **more: Any) -> dict[str, Any]:
    return {
        "tenant": world.tenant.pk,
        "name": "new agent",
        "system_prompt": "你是老师的助手。",
        "provider": world.provider.pk,
        "model": "m",
        "context_window": 8192,
        "max_output_tokens": 512,
        "language": "zh",
        "role": "default",
        "thread_strategy": "rolling",
        "policy": "{}",
        "is_active": "on",
    } | more


def errors_of(answer: Any) -> dict[str, list[str]]:
    assert answer.status_code == 200
    assert not [leak for leak in LEAKS if leak in answer.content.decode()]
    return {name: list(texts) for name, texts in answer.context["adminform"].form.errors.items()}


def add(client: Client, model: Any, values: dict[str, Any]) -> Any:
    return client.post(url_of(model, "add/"), values)


def change(client: Client, row: Any, values: dict[str, Any]) -> Any:
    return client.post(url_of(type(row), f"{row.pk}/change/"), values)


def test_agent_is_added_and_changed_with_audit(beta: World, client_of_beta: Client) -> None:
    assert add(client_of_beta, Agent, agent_values(beta)).status_code == 302
    with scoped_transaction(scope_of(beta.tenant)):
        agent = Agent.objects.in_scope(scope_of(beta.tenant)).get(name="new agent")
    assert (agent.tenant_id, agent.language) == (beta.tenant.pk, "zh")
    values = agent_values(beta, name="renamed")
    del values["tenant"]
    assert change(client_of_beta, agent, values).status_code == 302
    changed = row_of(beta, Agent, agent.pk)
    assert changed.name == "renamed"
    assert changed.updated_at > agent.updated_at
    with scoped_transaction(scope_of(beta.tenant)):
        entries = AuditEntry.objects.in_scope(scope_of(beta.tenant)).filter(target_id=agent.pk)
        logged = [(entry.action, entry.actor, entry.detail) for entry in entries.order_by("id")]
    assert [entry[0] for entry in logged] == ["agent_created", "agent_updated"]
    assert {entry[1] for entry in logged} == {f"staff:{beta.staff.pk}"}
    assert "name" in logged[1][2]["names"]
    assert "你" not in str(logged)


@pytest.mark.req("B18")
@pytest.mark.parametrize("name", ["tenant", "tenant_id"])
def test_moving_a_row_by_a_forged_tenant_is_an_error_and_moves_nothing(
    name: str, alpha: World, beta: World, client_of_beta: Client
) -> None:
    """Attack 26."""
    forged = agent_values(beta, name="moved") | {name: alpha.tenant.pk}
    errors = errors_of(change(client_of_beta, beta.agent, forged))
    assert errors == {"__all__": ["A row can not be moved to another tenant."]}
    assert row_of(beta, Agent, beta.agent.pk).name == beta.agent.name
    assert count_of(alpha, Agent) == 1


@pytest.mark.req("B18")
def test_moving_a_row_between_two_own_tenants_is_refused_too(alpha: World, beta: World) -> None:
    beta.staff.groups.add(alpha.staff.groups.get())
    client = signed_in(beta.staff)
    forged = agent_values(beta) | {"tenant": alpha.tenant.pk}
    assert "__all__" in errors_of(change(client, beta.agent, forged))
    mixed = errors_of(add(client, Agent, agent_values(beta, provider=alpha.provider.pk)))
    assert mixed == {"provider": ["This belongs to another tenant."]}
    smuggled = agent_values(beta, provider=alpha.provider.pk)
    assert "provider" in errors_of(change(client, beta.agent, smuggled))
    assert row_of(beta, Agent, beta.agent.pk).provider_id == beta.provider.pk


@pytest.mark.req("B18")
def test_foreign_and_unknown_references_get_the_same_answer(
    alpha: World, beta: World, client_of_beta: Client
) -> None:
    """Attack 26: `space=<A>` and its like."""
    for name, prefix, foreign in (
        ("provider", "prov", alpha.provider.pk),
        ("memory_fallback_provider", "prov", alpha.provider.pk),
        ("tenant", "tn", alpha.tenant.pk),
    ):
        answers = [
            errors_of(add(client_of_beta, Agent, agent_values(beta, **{name: pk})))
            for pk in (foreign, new_id(prefix))
        ]
        assert answers[0] == answers[1]
        assert set(answers[0]) == {name}
    assert (count_of(alpha, Agent), count_of(beta, Agent)) == (1, 1)


def test_change_form_offers_providers_of_the_rows_tenant_only(alpha: World, beta: World) -> None:
    beta.staff.groups.add(alpha.staff.groups.get())
    page = signed_in(beta.staff).get(url_of(Agent, f"{beta.agent.pk}/change/")).content.decode()
    assert beta.provider.name in page
    assert alpha.provider.name not in page


def test_taken_names_and_bad_numbers_are_told_in_words(beta: World, client_of_beta: Client) -> None:
    taken = errors_of(add(client_of_beta, Agent, agent_values(beta, name=beta.agent.name)))
    assert taken == {"__all__": ["An active agent has that name."]}
    small = errors_of(add(client_of_beta, Agent, agent_values(beta, context_window=1023)))
    assert small == {"context_window": ["At least 1024 tokens."]}
    wide = errors_of(add(client_of_beta, Agent, agent_values(beta, max_output_tokens=8192)))
    assert list(wide) == ["max_output_tokens"]
    same = errors_of(add(client_of_beta, Provider, provider_values(beta, name=beta.provider.name)))
    assert same == {"__all__": ["Provider with this Tenant and Name already exists."]}


def test_strategy_and_tools_are_chosen_among_those_there_are(
    beta: World, client_of_beta: Client
) -> None:
    tools = ["memory_grep", "view_message"]
    values = agent_values(beta, thread_strategy="lossless", tools=tools)
    assert add(client_of_beta, Agent, values).status_code == 302
    with scoped_transaction(scope_of(beta.tenant)):
        agent = Agent.objects.in_scope(scope_of(beta.tenant)).get(name="new agent")
    assert (agent.thread_strategy, agent.tools) == ("lossless", tools)
    page = client_of_beta.get(url_of(Agent, f"{agent.pk}/change/")).content.decode()
    assert page.count("checked") >= len(tools)
    assert change(client_of_beta, agent, agent_values(beta)).status_code == 302
    emptied = row_of(beta, Agent, agent.pk)
    assert (emptied.thread_strategy, emptied.tools) == ("rolling", [])
    for bad in ({"tools": ["rm"]}, {"thread_strategy": "forgetful"}):
        assert list(errors_of(add(client_of_beta, Agent, agent_values(beta, **bad)))) == list(bad)


def test_another_tenants_name_is_free(alpha: World, beta: World, client_of_beta: Client) -> None:
    """Attack 19: unique per tenant, so that nothing can be learned from a refusal."""
    values = agent_values(beta, name=alpha.agent.name)
    assert add(client_of_beta, Agent, values).status_code == 302


def test_what_only_the_database_refuses_is_a_neutral_form_error(
    alpha: World,
    beta: World,
    client_of_beta: Client,
    settings: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Attack 34: unique keys, NUL and deferred composite keys answer without SQL or foreign names."""
    settings.ROOT_URLCONF = "tests.threads.admin.blind_urls"
    neutral = ["These values can not be stored: one is taken already, or does not fit the others."]
    taken = add(client_of_beta, Provider, provider_values(beta, name=beta.provider.name))
    assert errors_of(taken) == {"__all__": neutral}
    monkeypatch.setattr(SmugglingAgentAdmin, "smuggled", alpha.provider.pk)
    over_the_fence = add(client_of_beta, Agent, agent_values(beta))
    assert errors_of(over_the_fence) == {"__all__": neutral}
    assert alpha.word not in over_the_fence.content.decode()
    assert (count_of(beta, Agent), count_of(beta, Provider)) == (1, 1)


@pytest.mark.parametrize("field", ["policy", "timeouts", "name", "base_url"])
def test_nul_and_surrogates_in_forms_are_form_errors(
    field: str, beta: World, client_of_beta: Client
) -> None:
    model: Any = Agent if field == "policy" else Provider
    values = agent_values(beta) if field == "policy" else provider_values(beta)
    hostile = ["\0", "a\0b"]
    if field in ("policy", "timeouts"):
        hostile += ['{"a\\u0000": 1}', '{"total_seconds": "\\ud800"}', "[" * 50_000, "{'a': 1}"]
    for text in hostile:
        assert errors_of(add(client_of_beta, model, values | {field: text}))


def test_policy_is_checked_as_everywhere(beta: World, client_of_beta: Client) -> None:
    for policy in ('{"unheard_of": 1}', '{"recall_top_k": 999}', "[1]", '"x"'):
        errors = errors_of(add(client_of_beta, Agent, agent_values(beta, policy=policy)))
        assert set(errors) <= {"policy", "__all__"}, policy
    good = agent_values(beta, policy='{"recall_top_k": 5}')
    assert add(client_of_beta, Agent, good).status_code == 302


def test_fallback_never_carries_memory_to_another_vendor(
    beta: World, client_of_beta: Client
) -> None:
    cloud = make_provider(beta.tenant, locality="cloud", vendor="one", kind="openai_compatible")
    same = make_provider(beta.tenant, locality="cloud", vendor="one", kind="openai_compatible")
    other = make_provider(beta.tenant, locality="cloud", vendor="two", kind="openai_compatible")
    local = beta.provider
    for own, fallback, is_fine in (
        (cloud, same, True),
        (cloud, local, True),
        (cloud, other, False),
        (local, cloud, False),
    ):
        values = agent_values(
            beta, name=new_id("ag"), provider=own.pk, memory_fallback_provider=fallback.pk
        )
        answer = add(client_of_beta, Agent, values)
        assert (answer.status_code == 302) is is_fine, (own.vendor, fallback.vendor)
        assert is_fine or list(errors_of(answer)) == ["memory_fallback_provider"]


def test_provider_key_goes_in_sealed_and_never_comes_out(
    beta: World, client_of_beta: Client
) -> None:
    """Cases 46 and kin: write-only, shown as set or not set."""
    secret = "sk-very-secret-Zq8"
    assert add(client_of_beta, Provider, provider_values(beta, api_key=secret)).status_code == 302
    with scoped_transaction(scope_of(beta.tenant)):
        provider = Provider.objects.in_scope(scope_of(beta.tenant)).get(name="new provider")
    sealed = provider.sealed_api_key
    assert secret not in sealed
    assert open_sealed(sealed, keys=django_settings.CREDENCE_ENCRYPTION_KEYS) == secret
    for tail in ("", f"{provider.pk}/change/", f"{provider.pk}/history/"):
        page = client_of_beta.get(url_of(Provider, tail)).content.decode()
        assert secret not in page
        assert sealed not in page
    assert not [entry for entry in LogEntry.objects.all() if secret in entry.change_message]
    kept = provider_values(beta, vendor="other")
    assert change(client_of_beta, provider, kept).status_code == 302
    assert row_of(beta, Provider, provider.pk).sealed_api_key == sealed
    assert change(client_of_beta, provider, kept | {"remove_api_key": "on"}).status_code == 302
    assert row_of(beta, Provider, provider.pk).sealed_api_key == ""


def test_provider_form_with_errors_does_not_echo_the_key(
    beta: World, client_of_beta: Client
) -> None:
    values = provider_values(beta, api_key="sk-very-secret-Zq8", base_url="ftp://x")
    answer = add(client_of_beta, Provider, values)
    assert list(errors_of(answer)) == ["base_url"]
    assert "sk-very-secret-Zq8" not in answer.content.decode()


def test_provider_address_must_be_on_the_operators_list(
    beta: World, client_of_beta: Client
) -> None:
    for url in (
        "http://evil.example/v1",
        "http://169.254.169.254/",
        "",
        "not a url",
        "http://１２７.0.0.1/",
    ):
        answer = add(client_of_beta, Provider, provider_values(beta, base_url=url))
        assert list(errors_of(answer)) == ["base_url"], url


def test_provider_key_no_header_can_carry_is_a_form_error(
    beta: World, client_of_beta: Client
) -> None:
    for api_key in ("sk-\u0007", "sk-密钥"):
        answer = add(client_of_beta, Provider, provider_values(beta, api_key=api_key))
        assert list(errors_of(answer)) == ["api_key"], api_key


@pytest.mark.parametrize(("window", "expected"), [(8192, 1024), (2048, 512)])
def test_agent_without_a_limit_of_its_answer_gets_the_apis_default(
    beta: World, client_of_beta: Client, window: int, expected: int
) -> None:
    values = agent_values(beta, context_window=window, max_output_tokens="")
    assert add(client_of_beta, Agent, values).status_code == 302
    with scoped_transaction(scope_of(beta.tenant)):
        made = Agent.objects.in_scope(scope_of(beta.tenant)).get(name="new agent")
    assert made.max_output_tokens == expected


def test_provider_timeouts_are_known_names_and_seconds(beta: World, client_of_beta: Client) -> None:
    for bad in ('{"x": 1}', '{"total_seconds": -1}', '{"total_seconds": true}', "[]x", "[3]"):
        answer = add(client_of_beta, Provider, provider_values(beta, timeouts=bad))
        assert list(errors_of(answer)) == ["timeouts"], bad
    good = provider_values(beta, timeouts='{"total_seconds": 12.5}')
    assert add(client_of_beta, Provider, good).status_code == 302


def test_list_of_agents_shows_names_of_providers_without_a_query_each(
    beta: World, client_of_beta: Client, django_assert_max_num_queries: Any
) -> None:
    for _number in range(12):
        make_agent(beta.tenant)
    with django_assert_max_num_queries(16):
        assert client_of_beta.get(url_of(Agent)).context["cl"].result_count == 13


def test_provider_moved_to_another_host_wants_its_key_again(
    beta: World, client_of_beta: Client
) -> None:
    """Whoever may change the address must not be able to have the old key sent to it."""
    add(client_of_beta, Provider, provider_values(beta, api_key="sk-very-secret-Zq8"))
    with scoped_transaction(scope_of(beta.tenant)):
        provider = Provider.objects.in_scope(scope_of(beta.tenant)).get(name="new provider")
    moved = provider_values(beta, base_url="http://127.0.0.1:10/v1")
    assert list(errors_of(change(client_of_beta, provider, moved))) == ["api_key"]
    assert row_of(beta, Provider, provider.pk).base_url == provider.base_url
    assert change(client_of_beta, provider, moved | {"api_key": "sk-new"}).status_code == 302


def test_retire_deletes_unused_agents_and_deactivates_the_others(
    beta: World, client_of_beta: Client
) -> None:
    unused = make_agent(beta.tenant)
    chosen = {"action": "retire", "_selected_action": [unused.pk, beta.agent.pk], "index": 0}
    answer = client_of_beta.post(url_of(Agent), chosen, follow=True)
    assert "Done for 2" in answer.content.decode()
    assert count_of(beta, Agent) == 1
    assert not row_of(beta, Agent, beta.agent.pk).is_active
    assert change(client_of_beta, beta.agent, agent_values(beta)).status_code == 403
    assert client_of_beta.get(url_of(Agent, f"{beta.agent.pk}/change/")).status_code == 200
