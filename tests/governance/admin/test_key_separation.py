"""Keys that would propose and approve: refused in the admin as in the API, free to the operator."""

from __future__ import annotations

from io import StringIO

from django.core.management import call_command
from django.test import Client
from django.utils import timezone

from governance.keys import authenticate
from governance.models import ApiKey
from governance.policy import change_policy
from tests.factories import make_tenant, scope_of
from tests.governance.admin.test_rooms import in_scope_of, make_key_by_form, secret_in
from tests.governance.admin.worlds import World


def test_a_key_of_both_is_refused_by_the_form_until_policy_allows_it(
    beta: World, client_of_beta: Client
) -> None:
    before = len(in_scope_of(beta, ApiKey))
    answer = make_key_by_form(client_of_beta, beta, scopes=["govern", "write"])
    assert answer.status_code == 200
    assert "govern_with_write" in answer.content.decode()
    assert len(in_scope_of(beta, ApiKey)) == before
    changes = {"govern_with_write": True}
    change_policy(scope=scope_of(beta.tenant), changes=changes, now=timezone.now())
    allowed = make_key_by_form(client_of_beta, beta, scopes=["govern", "write"])
    assert authenticate(raw=secret_in(allowed), now=timezone.now()).key_scopes == {
        "govern",
        "write",
    }


def test_the_operators_command_makes_any_key_and_says_so(committed_db: None) -> None:
    tenant = make_tenant()
    out, err = StringIO(), StringIO()
    words = ("create_api_key", "--tenant", tenant.slug, "--scopes", "govern,write")
    call_command(*words, stdout=out, stderr=err)
    assert "key: cr_" in out.getvalue()
    assert "proposes and approves" in err.getvalue()
    call_command(*words[:-1], "govern,read", stdout=out, stderr=(quiet := StringIO()))
    assert quiet.getvalue() == ""
