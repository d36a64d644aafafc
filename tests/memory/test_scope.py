"""The Scope: refuses to exist too wide, narrows only, and keys caches without collisions."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.errors import ScopeError
from memory.scope import Scope

WHOLE = Scope(tenant_ids=("tn_a",), principal_id="key_1")
PERSON = replace(WHOLE, user_id="usr_1")
SESSION = replace(PERSON, thread_id="th_1")
STAFF = Scope(tenant_ids=("tn_a", "tn_b"), principal_id="staff:7")


@pytest.mark.req("B17")
@pytest.mark.parametrize(
    "values",
    [
        {"tenant_ids": ()},
        {"tenant_ids": ("",)},
        {"tenant_ids": ("tn_a", "")},
        {"tenant_ids": ("tn_a,tn_b",)},
        {"tenant_ids": ("tn_a",), "principal_id": ""},
        {"tenant_ids": ("tn_a",), "user_id": ""},
        {"tenant_ids": ("tn_a",), "thread_id": ""},
        {"tenant_ids": ("tn_a", "tn_b"), "user_id": "usr_1"},
        {"tenant_ids": ("tn_a", "tn_b"), "thread_id": "th_1"},
    ],
)
def test_scope_missing_or_ambiguous_refused(values: dict[str, Any]) -> None:
    with pytest.raises(ScopeError):
        Scope(**{"principal_id": "key_1", **values})


@pytest.mark.req("B17")
def test_scope_is_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        WHOLE.user_id = "usr_2"  # type: ignore[misc]


def test_tenant_of_several_refused() -> None:
    assert WHOLE.tenant_id == "tn_a"
    with pytest.raises(ScopeError):
        _ = STAFF.tenant_id


@pytest.mark.req("B17")
def test_narrowing_only_narrows() -> None:
    assert WHOLE.narrowed(user_id="usr_1") == PERSON
    assert PERSON.narrowed(thread_id="th_1") == SESSION
    assert SESSION.narrowed() == SESSION
    assert SESSION.narrowed(user_id="usr_1", thread_id="th_1") == SESSION
    for scope, move in (
        (PERSON, {"user_id": "usr_2"}),
        (SESSION, {"thread_id": "th_2"}),
        (STAFF, {"user_id": "usr_1"}),
    ):
        with pytest.raises(ScopeError):
            scope.narrowed(**move)


@pytest.mark.req("B17")
@pytest.mark.parametrize("teams", [("a,b",), ("",), ("a", "")])
def test_team_that_could_be_read_as_two_or_none_is_refused(teams: tuple[str, ...]) -> None:
    with pytest.raises(ScopeError):
        Scope(tenant_ids=("tn_a",), principal_id="k", team_ids=teams)


def test_staff_scope_turns_to_its_own_tenants_only() -> None:
    assert STAFF.for_tenant(tenant_id="tn_b").tenant_ids == ("tn_b",)
    with pytest.raises(ScopeError):
        STAFF.for_tenant(tenant_id="tn_c")


SCOPES = st.builds(
    Scope,
    tenant_ids=st.sampled_from([("a",), ("b",), ("a:b",), ('a"]',)]),
    principal_id=st.sampled_from(["k", "k,1", "1"]),
    user_id=st.sampled_from([None, "u", "u,1", "null"]),
    thread_id=st.sampled_from([None, "t", "u"]),
    team_ids=st.sampled_from([(), ("x",), ("x", "y"), ("xy",)]),
)
PARTS = st.lists(st.sampled_from(["", "a", "b", "ab", "a,b", '"', "查"]), max_size=3)


@pytest.mark.req("B18")
@given(SCOPES, PARTS, SCOPES, PARTS)
def test_cache_keys_equal_only_for_equal_scope_and_parts(
    scope: Scope, parts: list[str], other: Scope, others: list[str]
) -> None:
    """Attack case 16: the same query text under another key never meets the first one's answer."""
    is_same = (scope, parts) == (other, others)
    assert (scope.cache_key(*parts) == other.cache_key(*others)) is is_same
    assert scope.cache_key(*parts).startswith("credence:")
    assert len(scope.cache_key(*parts)) < 250
