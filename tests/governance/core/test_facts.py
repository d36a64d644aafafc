"""Core facts: changing, restoring, deleting, their use, and who may make one at all."""

from __future__ import annotations

import ast
import re
from datetime import timedelta
from pathlib import Path

import pytest

import memory
from governance.core import facts
from governance.core.problems import (
    CoreFullError,
    FactEndedError,
    FactRefusedError,
    SameFactError,
)
from governance.policy import change_policy
from memory.errors import NotFoundError
from memory.models import CoreFact, IndexEntry
from memory.rls import scoped_transaction
from tests.factories import NOW, scope_of
from tests.governance.core.desks import STAFF, Desk, make_desk

ROOT = Path(memory.__file__).parent.parent
LATER = NOW + timedelta(days=50)


def change(desk: Desk, fact_id: str, **values: object) -> CoreFact:
    return facts.change_fact(
        scope=desk.scope,
        fact_id=fact_id,
        by=STAFF,
        now=LATER,
        **values,  # type: ignore[arg-type]
    )


def packed(desk: Desk) -> bytes:
    with scoped_transaction(desk.scope):
        return bytes(IndexEntry.objects.in_scope(desk.scope).get(kind="core").packed)


def test_changed_fact_is_gated_audited_and_indexed_anew(desk: Desk) -> None:
    fact = desk.hold("I prefer tea")
    before = packed(desk)
    with pytest.raises(FactRefusedError):
        change(desk, fact.pk, fact="小明考了 58 分")
    assert desk.facts() == ["I prefer tea"]
    changed = change(desk, fact.pk, fact="I prefer oolong", subject="drink")
    assert (changed.fact, changed.subject, changed.valid_from) == ("I prefer oolong", "drink", NOW)
    assert packed(desk) != before
    assert desk.entries() == [fact.pk]
    change(desk, fact.pk, fact="I prefer oolong")
    assert desk.audited("core_fact") == ["memory_written", "core_fact_changed", "memory_written"]


def test_changed_fact_frees_its_old_words(desk: Desk) -> None:
    fact = desk.hold("I prefer tea")
    change(desk, fact.pk, fact="I prefer oolong")
    assert desk.add("I prefer tea").is_new
    other = desk.hold("I prefer milk")
    with pytest.raises(SameFactError):
        change(desk, other.pk, fact="i prefer OOLONG")


@pytest.mark.req("A20")
def test_evicted_fact_can_be_restored_while_there_is_room(desk: Desk) -> None:
    change_policy(scope=scope_of(desk.tenant), changes={"core_facts": 1}, now=NOW)
    first = desk.hold("I prefer tea")
    second = desk.hold("I prefer milk", days=1, may_evict=True)
    assert desk.facts() == ["I prefer milk"]
    with pytest.raises(CoreFullError):
        change(desk, first.pk, is_restored=True)
    with pytest.raises(FactEndedError):
        change(desk, first.pk, fact="I prefer oolong")
    facts.delete_fact(scope=desk.scope, fact_id=second.pk, now=NOW)
    for _ in range(2):
        change(desk, first.pk, is_restored=True)
    assert desk.facts() == ["I prefer tea"]
    assert desk.audited("core_fact").count("core_fact_restored") == 1


def test_superseded_fact_is_not_restored(desk: Desk) -> None:
    old = desk.hold("blue", "colour")
    desk.hold("red", "colour", days=1)
    with pytest.raises(FactEndedError):
        change(desk, old.pk, is_restored=True)


def test_deleted_fact_leaves_neither_words_nor_entries(desk: Desk) -> None:
    fact = desk.hold("I prefer CNRY tea", "drink")
    newer = desk.hold("I prefer oolong", "drink", days=1)
    facts.delete_fact(scope=desk.scope, fact_id=newer.pk, now=NOW)
    facts.delete_fact(scope=desk.scope, fact_id=fact.pk, now=NOW)
    assert (desk.stored(), desk.candidates(), desk.entries()) == ([], [], [])
    with pytest.raises(NotFoundError):
        facts.delete_fact(scope=desk.scope, fact_id=fact.pk, now=NOW)
    assert desk.audited("core_fact").count("core_fact_deleted") == 2


@pytest.mark.req("A20")
def test_use_moves_forward_only_and_orders_facts(desk: Desk) -> None:
    old = desk.hold("I prefer tea")
    new = desk.hold("I prefer milk", days=5)
    assert desk.facts() == [new.fact, old.fact]
    touch = {"scope": desk.scope, "end_user_id": desk.person.pk, "fact_ids": [old.pk]}
    facts.touch(**touch, now=LATER)  # type: ignore[arg-type]
    facts.touch(**touch, now=NOW)  # type: ignore[arg-type]
    assert desk.facts() == [old.fact, new.fact]
    assert next(one for one in desk.stored() if one.pk == old.pk).last_used_at == LATER
    other = make_desk()
    assert facts.touch(**touch | {"end_user_id": other.person.pk}, now=LATER) == 0  # type: ignore[arg-type]


def test_another_persons_fact_is_not_there(desk: Desk) -> None:
    fact = make_desk().hold("I prefer tea")
    with pytest.raises(NotFoundError):
        change(desk, fact.pk, fact="mine")
    with pytest.raises(NotFoundError):
        facts.delete_fact(scope=desk.scope, fact_id=fact.pk, now=NOW)


def calls_of(name: str) -> set[tuple[str, str]]:
    """Where product code calls a function or class of that name: (module, function)."""
    found = set()
    for package in ("config", "threads", "governance", "memory"):
        for path in sorted((ROOT / package).rglob("*.py")):
            tree = ast.parse(path.read_text())
            for holder in ast.walk(tree):
                if not isinstance(holder, ast.FunctionDef | ast.AsyncFunctionDef):
                    continue
                for node in ast.walk(holder):
                    if isinstance(node, ast.Call) and _called(node) == name:
                        found.add((str(path.relative_to(ROOT)), holder.name))
    return found


def _called(node: ast.Call) -> str:
    function = node.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


@pytest.mark.req("A19")
def test_nothing_but_a_confirmation_makes_a_fact() -> None:
    assert calls_of("CoreFact") == {("memory/store/core_facts.py", "add_fact")}
    assert calls_of("add_fact") == {("governance/core/candidates.py", "_let_hold")}
    assert calls_of("_let_hold") == {("governance/core/candidates.py", "_confirm_waiting")}
    assert {name for _, name in calls_of("_confirm_waiting")} == {"confirm_candidate"}
    for path in (ROOT / name for name in ("threads", "governance", "memory")):
        for module in path.rglob("*.py"):
            text = module.read_text()
            assert "INSERT INTO memory_corefact" not in text, module
            assert not re.search(r"CoreFact\.objects[\w.()\s]*\.(?:bulk_|get_or_)?create", text), (
                module
            )
    makers = {path for path, _ in calls_of("confirm_candidate")}
    assert all("learning" not in path and "recall" not in path for path in makers), makers
    assert "governance/core/service.py" in makers
