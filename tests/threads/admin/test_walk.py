"""The walk over every admin page: cases 25, 28 and 29 of attacks.md, for each registered room."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import Group, User
from django.db import connection, models
from django.test import Client
from django.test.utils import CaptureQueriesContext

from governance.admin.base import ScopedModelAdmin
from governance.admin.filters import filter_parameters
from governance.admin.site import site
from governance.permissions import Permission, Role
from memory.ids import new_id
from memory.querysets import ScopedQuerySet
from tests.factories import make_staff
from tests.governance.admin.worlds import ROOMS, World, fill, signed_in, url_of

Model = type[models.Model]
CSRF = re.compile(r'name="csrfmiddlewaretoken" value="\w+"')


def room_of(model: Model) -> ScopedModelAdmin[Any]:
    room = site._registry[model]
    assert isinstance(room, ScopedModelAdmin)
    return room


def shown_strings(response: Any, world: World, *, asked: str = "") -> set[str]:
    """What of a world's strings an answer holds in body, headers, cookies; not what was asked."""
    text = response.content.decode() + str(dict(response.headers)) + response.cookies.output()
    if asked:
        text = text.replace(asked, "?")
    return {string for string in world.strings() if string in text}


def unknown_like(pk: str) -> str:
    return new_id(pk.partition("_")[0])


def foreign_keys() -> Iterator[tuple[Model, str, Any]]:
    for model in ROOMS:
        for field in model._meta.local_fields:
            if isinstance(field, models.ForeignKey):
                yield model, field.name, field.remote_field.model


def test_every_registered_room_is_scoped_and_walked() -> None:
    """A room without a case here, or off the scoped base, fails the build."""
    assert set(site._registry) == set(ROOMS)
    for model in ROOMS:
        assert room_of(model).has_delete_permission.__func__ is (  # type: ignore[attr-defined]
            ScopedModelAdmin.has_delete_permission
        )


def test_accounts_schedules_and_grants_are_not_registered() -> None:
    labels = {model._meta.app_label for model in site._registry}
    assert labels == {"memory", "governance", "threads"}
    assert {User, Group}.isdisjoint(site._registry)
    assert site is not admin.site


@pytest.mark.req("B18")
def test_own_staff_sees_own_rows(beta: World, client_of_beta: Client) -> None:
    """The control of the walk: what is hidden from others is there to be seen."""
    for model in ROOMS:
        row = beta.rows[model]
        listed = client_of_beta.get(url_of(model))
        assert row in listed.content.decode(), model
        page = client_of_beta.get(url_of(model, f"{row}/change/"))
        assert row in page.content.decode() or "_save" in page.content.decode(), model
        assert client_of_beta.get(url_of(model, f"{row}/history/")).status_code == 200, model


@pytest.mark.req("B18")
def test_lists_filters_and_search_show_nothing_of_another_tenant(
    alpha: World, client_of_beta: Client
) -> None:
    """Attack 25: changelist, filter sidebar, raw-id popup, search box."""
    for model in ROOMS:
        for query in ("", "?_popup=1", "?all=", "?p=1", "?_facets=True"):
            response = client_of_beta.get(url_of(model) + query)
            assert response.status_code == 200, (model, query)
            assert shown_strings(response, alpha) == set(), (model, query)
        for sought in (alpha.word, alpha.rows[model]):
            response = client_of_beta.get(url_of(model), {"q": sought})
            assert response.context["cl"].result_count == 0, (model, sought)


@pytest.mark.req("B18")
def test_filtering_by_a_foreign_id_is_answered_like_an_unknown_one(
    alpha: World, client_of_beta: Client
) -> None:
    for model in ROOMS:
        for name in filter_parameters(model, room_of(model).list_filter):
            if not name.endswith("__id__exact"):
                continue
            target: Any = model._meta.get_field(name.partition("__")[0]).related_model
            pks = (alpha.rows[target], unknown_like(alpha.rows[target]))
            answers = [client_of_beta.get(url_of(model), {name: pk}) for pk in pks]
            bodies = {
                CSRF.sub("", answer.content.decode()).replace(pk, "?")
                for answer, pk in zip(answers, pks, strict=True)
            }
            assert [answer.status_code for answer in answers] == [200, 200], (model, name)
            assert len(bodies) == 1, (model, name)


@pytest.mark.req("B18")
@pytest.mark.parametrize("page", ["change", "history", "delete"])
@pytest.mark.parametrize("method", ["get", "post"])
def test_a_foreign_id_is_answered_like_an_unknown_one(
    method: str, page: str, alpha: World, client_of_beta: Client
) -> None:
    """Attack 25: change form, history, delete confirmation of another tenant's row."""
    for model in ROOMS:
        answers = []
        for pk in (alpha.rows[model], unknown_like(alpha.rows[model])):
            ask = getattr(client_of_beta, method)
            response = ask(url_of(model, f"{pk}/{page}/"), follow=True)
            assert shown_strings(response, alpha, asked=pk) == set(), model
            body = CSRF.sub("", response.content.decode()).replace(pk, "?")
            answers.append((response.status_code, response.redirect_chain, body))
        assert answers[0] == answers[1], model


def test_nobody_deletes(beta: World, client_of_beta: Client) -> None:
    """Rows end by erasure and expiry, which know what hangs on them."""
    for model in ROOMS:
        url = url_of(model, f"{beta.rows[model]}/delete/")
        assert client_of_beta.get(url).status_code == 403, model
        assert client_of_beta.post(url, {"post": "yes"}).status_code == 403, model
        assert beta.rows[model] in client_of_beta.get(url_of(model)).content.decode(), model


@pytest.mark.req("B18")
def test_add_forms_offer_nothing_of_another_tenant(alpha: World, client_of_beta: Client) -> None:
    """Attack 25: foreign-key drop-downs of the add form."""
    for model in ROOMS:
        response = client_of_beta.get(url_of(model, "add/"))
        expected = 200 if room_of(model).add_permission else 403
        assert response.status_code == expected, model
        assert shown_strings(response, alpha) == set(), model


@pytest.mark.req("B18")
def test_autocomplete_finds_nothing_of_another_tenant(
    alpha: World, beta: World, client_of_beta: Client
) -> None:
    """Attack 25: the search behind every foreign key, whether a form uses it or not."""
    for model, name, target in foreign_keys():
        asked = {
            "app_label": model._meta.app_label,
            "model_name": str(model._meta.model_name),
            "field_name": name,
        }
        answers = {
            term: client_of_beta.get("/admin/autocomplete/", asked | {"term": term})
            for term in ("", "a", alpha.word, alpha.rows.get(target, "usr_none"))
        }
        for term, response in answers.items():
            assert response.status_code == (200 if target in ROOMS else 403), (model, name)
            assert shown_strings(response, alpha) == set(), (model, name, term)
        if target in ROOMS:
            found = {entry["id"] for entry in answers[""].json()["results"]}
            assert beta.rows[target] in found, (model, name)


@pytest.mark.req("B18")
def test_second_wall_down_row_level_security_still_hides_other_tenants(
    alpha: World, beta: World, client_of_beta: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Querysets that forget their scope: the pages are as tight as before."""

    def forgetful(rows: Any, scope: Any) -> Any:
        return rows.unscoped(reason="the wall under test")

    monkeypatch.setattr(ScopedQuerySet, "in_scope", forgetful)
    for model in ROOMS:
        response = client_of_beta.get(url_of(model))
        assert beta.rows[model] in response.content.decode(), model
        assert shown_strings(response, alpha) == set(), model
    for model in ROOMS:
        row = client_of_beta.get(url_of(model, f"{alpha.rows[model]}/change/"))
        assert row.status_code == 302, model


@pytest.mark.req("B18")
def test_taken_off_a_role_an_open_session_loses_the_tenant_at_once(
    alpha: World, beta: World
) -> None:
    """Attack 29, second half."""
    group = alpha.staff.groups.get()
    beta.staff.groups.add(group)
    client = signed_in(beta.staff)
    for model in ROOMS:
        assert alpha.rows[model] in client.get(url_of(model)).content.decode(), model
    beta.staff.groups.remove(group)
    for url in ("/admin/", *(url_of(model) for model in ROOMS)):
        assert shown_strings(client.get(url), alpha) == set(), url


def queries_of(client: Client, url: str) -> int:
    with CaptureQueriesContext(connection) as captured:
        assert client.get(url).status_code == 200
    return len(captured)


def test_lists_cost_the_same_for_any_number_of_rows(beta: World, client_of_beta: Client) -> None:
    """No N+1: session, account, grants, count, page, filters, and nothing for each row."""
    client_of_beta.get("/admin/")
    before = {model: queries_of(client_of_beta, url_of(model)) for model in ROOMS}
    for number in range(3):
        fill(beta.tenant, f"beta-{number}", staff=beta.staff)
    after = {model: queries_of(client_of_beta, url_of(model)) for model in ROOMS}
    assert after == before
    assert max(after.values()) <= 12  # of which four open, scope and close the transaction


@pytest.mark.req("B18")
def test_readers_write_nowhere(beta: World) -> None:
    """A reader's add, change and actions are refused, whatever a page offered."""
    reader = signed_in(make_staff(beta.tenant, role=Role.READER))
    for model in ROOMS:
        room, row = room_of(model), beta.rows[model]
        is_hidden = room.view_permission is not Permission.VIEW
        assert reader.get(url_of(model)).status_code == (403 if is_hidden else 200), model
        for tail in ("add/", f"{row}/change/"):
            assert reader.post(url_of(model, tail), {"name": "x"}).status_code == 403, model
        for action in (*(room.actions or ()), "delete_selected"):
            chosen = {"action": str(action), "_selected_action": row, "index": 0}
            assert reader.post(url_of(model), chosen).status_code == 403, model


def test_unusable_values_are_refused_without_an_error_of_ours(
    beta: World, client_of_beta: Client
) -> None:
    """NUL in ids, filters, search and selections; look-ups nobody declared (cases 8, 34)."""
    for model in ROOMS:
        row = beta.rows[model]
        for query, expected in {
            "?q=%00": {200},
            "?q=a%00b": {200},
            "?tenant__id__exact=%00": {400},
            "?tenant__slug__startswith=h": {400},
            "?digest__startswith=0": {400},
            "?sealed_api_key__startswith=g": {400},
            "?id__startswith=x": {400},
            "?foo=1": {400},
            "?_to_field=tenant": {400},
            "?p=99999": {200, 302},
            "?p=abc": {200, 302},
            "?created_at__gte=nonsense": {302, 400},
        }.items():
            status = client_of_beta.get(url_of(model) + query).status_code
            assert status in expected, (model, query, status)
        assert client_of_beta.get(url_of(model, f"{row}%00/change/")).status_code == 302, model
        assert client_of_beta.get(url_of(model, "../../etc/change/")).status_code < 500, model
        chosen = {"action": "none", "_selected_action": "\0", "index": 0}
        assert client_of_beta.post(url_of(model), chosen).status_code == 403, model
    asked = "app_label=threads&model_name=run&field_name=thread&term=%00"
    assert client_of_beta.get(f"/admin/autocomplete/?{asked}").status_code == 200


def test_pages_speak_chinese(beta: World, client_of_beta: Client) -> None:
    for model in ROOMS:
        for tail in ("", f"{beta.rows[model]}/change/", f"{beta.rows[model]}/history/"):
            response = client_of_beta.get(url_of(model, tail), headers={"Accept-Language": "zh-CN"})
            assert response.status_code == 200, model
            assert "注销" in response.content.decode(), model
