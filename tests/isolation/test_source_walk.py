"""Walks over the source: no undecided query, no SQL built from text, no third definer function.

The walk's own functions are tried on small programs first: a walk that finds nothing anywhere
would pass.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from memory.checks import walled_models

ROOT = Path(__file__).parents[2]
PACKAGES = ("memory", "governance", "threads", "config")
WALLED = frozenset(model.__name__ for model in walled_models().values())
# What may follow `.objects`: a decision, or an INSERT of a row that RLS checks.
DECIDED = frozenset({"in_scope", "unscoped", "create", "bulk_create", "using", "get_queryset"})
# Modules that write SQL out of names, none of which a stranger chose.
SQL_WRITERS = frozenset({"memory/rls.py"})
# Definitions of functions that read as their owner: the two of the design.
DEFINERS = {
    "memory/migrations/0003_walls.py": "credence_due_jobs",
    "governance/migrations/0003_walls.py": "credence_key_by_prefix",
}
RAW_WAYS = frozenset({"raw", "extra", "RawSQL"})


def sources() -> list[Path]:
    found = [path for name in PACKAGES for path in sorted((ROOT / name).rglob("*.py"))]
    assert len(found) > 80
    return found


def place(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def undecided(tree: ast.AST) -> Iterator[int]:
    """Lines where a walled model's manager is asked without a decision as the next word."""
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Attribute) and node.attr in MANAGERS):
            continue
        if not (isinstance(node.value, ast.Name) and node.value.id in WALLED):
            continue
        following = parents.get(node)
        if not (isinstance(following, ast.Attribute) and following.attr in DECIDED) or (
            following.attr in ("using", "get_queryset") and not _is_decided_next(following, parents)
        ):
            yield node.lineno


MANAGERS = frozenset({"objects", "_default_manager", "_base_manager"})


def _is_decided_next(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> bool:
    call = parents.get(node)
    following = parents.get(call) if isinstance(call, ast.Call) else None
    return isinstance(following, ast.Attribute) and following.attr in ("in_scope", "unscoped")


def constants(tree: ast.Module) -> set[str]:
    """Names of module constants whose SQL is text, or built of such constants alone."""
    known: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if is_constant(node.value, known):
                known |= {target.id for target in targets if isinstance(target, ast.Name)}
    return known


def is_constant(node: ast.AST, known: set[str]) -> bool:
    """Say whether an expression is a string literal, or joins only literals and constants."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str)
    if isinstance(node, ast.Name):
        return node.id in known
    if isinstance(node, ast.JoinedStr):
        return all(is_constant(part, known) for part in node.values)
    if isinstance(node, ast.FormattedValue):
        return is_constant(node.value, known)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return is_constant(node.left, known) and is_constant(node.right, known)
    return False


def built_sql(tree: ast.Module) -> Iterator[int]:
    """Lines where SQL is put together from something that is not a constant, or bypasses the ORM."""
    known = constants(tree)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        name = node.func.id if isinstance(node.func, ast.Name) else name
        if name in RAW_WAYS and node.args:
            yield node.lineno
        if name in ("execute", "executemany", "executescript") and node.args:
            query = node.args[0]
            is_built = isinstance(query, ast.JoinedStr | ast.BinOp) or _is_formatting(query)
            if is_built and not is_constant(query, known):
                yield node.lineno


def _is_formatting(node: ast.AST) -> bool:
    """Say whether a call formats text: `"…".format(…)` and `" ".join(…)`, not psycopg.sql's."""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("format", "join", "format_map")
        and isinstance(node.func.value, ast.Constant)
    )


@pytest.mark.parametrize(
    ("program", "is_found"),
    [
        ("Run.objects.all()", True),
        ("Run.objects.filter(pk=1)", True),
        ("Run.objects.get(pk=1)", True),
        ("rows = Run.objects", True),
        ("Run._base_manager.get(pk=1)", True),
        ("Run.objects.using('maint').all()", True),
        ("Run.objects.get_queryset().count()", True),
        ("Run.objects.in_scope(scope).filter(pk=1)", False),
        ("Run.objects.using('maint').unscoped(reason='sweep')", False),
        ("Run.objects.create(tenant=t)", False),
        ("User.objects.get(pk=1)", False),
    ],
)
def test_walk_knows_an_undecided_query(program: str, is_found: bool) -> None:
    assert bool(list(undecided(ast.parse(program)))) is is_found


@pytest.mark.parametrize(
    ("program", "is_found"),
    [
        ("cursor.execute(f'SELECT {x}')", True),
        ("cursor.execute('SELECT ' + x)", True),
        ("cursor.execute('SELECT %s' % x)", True),
        ("cursor.execute('SELECT {}'.format(x))", True),
        ("cursor.execute(' '.join(x))", True),
        ("Run.objects.raw(x)", True),
        ("rows.extra(where=['1'], select=x) or rows.extra(x)", True),
        ("RawSQL(x, [])", True),
        ("_A = 'a'\n_B = f'{_A} b'\ncursor.execute(_B + ' c')", False),
        ("def f(x):\n    _A = x\n    cursor.execute(f'{_A}')", True),
        ("cursor.execute('SELECT %s', [x])", False),
    ],
)
def test_walk_knows_built_sql(program: str, is_found: bool) -> None:
    assert bool(list(built_sql(ast.parse(program)))) is is_found


@pytest.mark.req("B17")
@pytest.mark.req("B18")
def test_no_query_on_a_walled_model_is_undecided() -> None:
    found = [
        f"{place(path)}:{line}"
        for path in sources()
        if "migrations" not in path.parts
        for line in undecided(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert found == []


@pytest.mark.req("B18")
def test_no_sql_is_built_from_text() -> None:
    found = [
        f"{place(path)}:{line}"
        for path in sources()
        if "migrations" not in path.parts and place(path) not in SQL_WRITERS
        for line in built_sql(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert found == []


@pytest.mark.req("B18")
def test_no_definer_function_but_the_two_lookups() -> None:
    found = {}
    for path in [*sources(), *ROOT.glob("config/**/*.sql")]:
        text = path.read_text(encoding="utf-8")
        heads = re.findall(
            r"CREATE\s+(?:OR\s+REPLACE\s+)?FUNCTION\s+(\w+)(.*?)\$\$", text, re.DOTALL
        )
        definers = [name for name, head in heads if "SECURITY DEFINER" in head]
        if definers:
            found[place(path)] = ", ".join(definers)
    assert found == DEFINERS


@pytest.mark.req("B18")
def test_scope_is_set_per_transaction_in_one_place() -> None:
    """A setting of the session would be handed on with a pooled connection."""
    setters = []
    for path in sources():
        text = path.read_text(encoding="utf-8")
        if "SELECT set_config(" in text:
            setters.append(place(path))
        assert not re.search(r"\bSET\s+(SESSION\s+)?credence\.", text, re.IGNORECASE), path
    assert setters == ["memory/rls.py"]
