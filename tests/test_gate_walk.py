"""No way around the gate: who writes long-term memory, and what it takes, read from the sources.

Text that is remembered enters the database in `memory.store` alone, whose functions take it as
`Cleared`; and only `governance.gate` makes one. The walk knows writers by their shapes: a model that
is constructed or written through its manager, and SQL that inserts or updates a table's name.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from governance import models as governance_models
from memory import models as memory_models

ROOT = Path(__file__).parent.parent
PACKAGES = ("memory", "governance", "threads", "config")
LONG_TERM = {
    "memory": (
        "RecallEntry KnowledgeDocument KnowledgeChunk MemoryItem MemoryItemVersion CoreFact Entity"
        " BehaviourSample IndexEntry"
    ).split(),
    "governance": "CoreCandidate EntityCandidate Correction".split(),
}
NAMES = {name for names in LONG_TERM.values() for name in names}
TABLES = {f"{app}_{name.lower()}" for app, names in LONG_TERM.items() for name in names}
_SQL = re.compile(r"\b(?:insert\s+into|update)\s+\"?([a-z_]+)\"?", re.IGNORECASE)
_CALLS = frozenset(
    "create bulk_create update bulk_update get_or_create update_or_create acreate aupdate".split()
)
# Where rows are touched outside of the store, without any text: file, function, why.
_DECIDED = "status, who and when; what staff said of it is no memory"
WITHOUT_TEXT = {
    ("governance/knowledge/decisions.py", "_decide"): _DECIDED,
    ("governance/entities/decisions.py", "approve_candidate"): "the entity it became",
    ("governance/entities/decisions.py", "reject_candidate"): _DECIDED,
    ("governance/entities/decisions.py", "reopen_candidate"): _DECIDED,
    ("governance/entities/decisions.py", "_is_second"): "who approved first",
    ("governance/entities/decisions.py", "_mark_approved"): _DECIDED,
    ("threads/recall/knowledge_jobs.py", "index_knowledge"): "counts the chunks of a document",
    ("governance/erasure/operations.py", ""): "takes names away from what is erased next",
    ("governance/erasure/vocabulary.py", ""): "counts evidence anew, unlinks and deletes",
    ("governance/erasure/vocabulary.py", "_take_apart"): "retires what nobody knows how to unmerge",
}
# What the functions above may set, and nothing else.
TEXTLESS_COLUMNS = frozenset(
    "status reason decided_by decided_at first_approved_by entity_id merged_into_id chunk_count"
    " updated_at".split()
)
# Who may take what stands in memory for cleared, and why.
TAKES_STORED = {
    "governance/items/items.py": "what is released was held behind the gate",
    "threads/forgetting/remembered.py": "what is masked stood behind the gate, and says less",
    "threads/recall/knowledge_jobs.py": "chunks are cut from a stored document",
    "threads/recall/reindexing.py": "records are packed anew from stored entries",
}
WRITERS = ("add_", "put_", "change_", "set_", "edit_", "save_")
# Names that carry no words of anybody: ids, roles, kinds, tiers, switches of the caller.
NO_TEXT = frozenset(
    "id entry_id recall_id chunk_id item_id fact_id sample_id candidate_id correction_id entity_id"
    " document_id run_id source_run_id thread_id agent_id end_user_id team_id shelf_id model_id"
    " external_id tenant_id role kind tier origin media_type decided_by status category name"
    " action method error_code source reason language key key_folded fact_key term_key op"
    " sha256 actor by flags other ask kept pii".split()
)


def sources() -> Iterator[tuple[str, ast.Module]]:
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            if "/migrations/" not in name:
                yield name, ast.parse(path.read_text())


def functions(tree: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    """Yield every node with the name of the function it stands in, "" outside of any."""

    def walk(node: ast.AST, inside: str) -> Iterator[tuple[str, ast.AST]]:
        for child in ast.iter_child_nodes(node):
            is_function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
            name = child.name if is_function else inside  # type: ignore[attr-defined]
            yield name, child
            yield from walk(child, name)

    return walk(tree, "")


def mentioned(node: ast.AST, known: dict[str, set[str]]) -> set[str]:
    """Return the long-term models that an expression names, also through local variables."""
    found: set[str] = set()
    for part in ast.walk(node):
        name = part.id if isinstance(part, ast.Name) else getattr(part, "attr", "")
        found |= {name} & NAMES
        if isinstance(part, ast.Name):
            found |= known.get(part.id, set())
    return found


def helpers_in(tree: ast.Module) -> dict[str, set[str]]:
    """Return the functions that answer rows of long-term models, with those models."""
    return {
        node.name: mentioned(node, {})
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
        and node.returns is not None
        and "QuerySet" in ast.unparse(node.returns)
    }


def targets_of(node: ast.AST, known: dict[str, set[str]]) -> set[str]:
    """Return the models or tables that one node writes."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return {table.lower() for table in _SQL.findall(node.value)} & TABLES
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return {node.func.id} & NAMES
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return mentioned(node.func.value, known) if node.func.attr in _CALLS else set()
    return set()


def writers_in(tree: ast.Module) -> Iterator[tuple[str, str, int]]:
    """Yield (function, model or table, line) of everything that writes long-term rows.

    What a local name was made of counts as what it is: `rows = Model.objects...; rows.update()`.
    """
    helpers = helpers_in(tree)
    known: dict[str, set[str]] = dict(helpers)
    last = ""
    for inside, node in functions(tree):
        if inside != last:
            known, last = dict(helpers), inside
        if isinstance(node, ast.Assign):
            is_rows = ".objects" in ast.unparse(node.value) or _is_on(node.value, known)
            rows = mentioned(node.value, known) if is_rows else set()
            known |= {one.id: rows for one in node.targets if isinstance(one, ast.Name)}
        for target in targets_of(node, known):
            yield inside, target, getattr(node, "lineno", 0)


def _is_on(value: ast.expr, known: dict[str, set[str]]) -> bool:
    """Say whether an expression goes on with rows that have a name: `rows.filter(...)`, `_rows(s)`."""
    while isinstance(value, ast.Call | ast.Attribute):
        value = value.func if isinstance(value, ast.Call) else value.value
    return isinstance(value, ast.Name) and bool(known.get(value.id))


def strays(name: str, tree: ast.Module) -> list[str]:
    if name.startswith("memory/store/"):
        return []
    return [
        f"{name}:{line} {inside or 'module'} writes {target}"
        for inside, target, line in writers_in(tree)
        if (name, inside) not in WITHOUT_TEXT
    ]


@pytest.mark.req("B14", "A21", "B20")
def test_long_term_rows_are_written_by_the_store_alone() -> None:
    assert [one for name, tree in sources() for one in strays(name, tree)] == []


@pytest.mark.req("B14")
def test_every_exception_of_the_walk_is_still_needed() -> None:
    used = {
        (name, inside)
        for name, tree in sources()
        for inside, _, _ in writers_in(tree)
        if not name.startswith("memory/store/")
    }
    assert set(WITHOUT_TEXT) <= used
    for name in TAKES_STORED:
        assert "stored(" in (ROOT / name).read_text()


@pytest.mark.req("B14")
def test_exceptions_of_the_walk_set_nothing_but_columns_without_text() -> None:
    names = {name for name, _ in WITHOUT_TEXT}
    set_there = {
        (name, keyword.arg)
        for name, tree in sources()
        if name in names
        for inside, node in functions(tree)
        if (name, inside) in WITHOUT_TEXT and isinstance(node, ast.Call)
        if isinstance(node.func, ast.Attribute) and node.func.attr in _CALLS
        for keyword in node.keywords
    }
    assert set_there
    assert {column for _, column in set_there} <= TEXTLESS_COLUMNS


@pytest.mark.req("B14")
def test_the_walk_knows_every_long_term_table() -> None:
    for app, module in (("memory", memory_models), ("governance", governance_models)):
        for name in LONG_TERM[app]:
            table = getattr(module, name)._meta.db_table
            assert table == f"{app}_{name.lower()}"


@pytest.mark.req("B14")
@pytest.mark.parametrize(
    "source",
    [
        "def f(x):\n    RecallEntry(said=x).save()",
        "def f(x):\n    MemoryItem.objects.create(content=x)",
        "def f(x):\n    rows = CoreFact.objects.in_scope(s).filter(pk=x)\n    rows.update(fact=x)",
        "def f(x):\n    rows = Correction.objects.in_scope(s)\n    rows = rows.filter(pk=1)\n    rows.update(right=x)",
        "S = 'INSERT INTO memory_coretable'\nT = 'insert into memory_corefact (id) values (1)'",
        "S = 'UPDATE governance_corecandidate SET fact = 1'",
        "def f(x):\n    BehaviourSample.objects.get_queryset().unscoped(reason='').bulk_create([x])",
        "def g(s) -> QuerySet[Entity]:\n    return Entity.objects\ndef f(x):\n    g(s).update(name=x)",
    ],
)
def test_the_walk_sees_a_writer_of_each_shape(source: str) -> None:
    assert strays("threads/somewhere.py", ast.parse(source))


@pytest.mark.req("B14")
@pytest.mark.parametrize(
    "source",
    [
        "def f(x):\n    return CoreFact.objects.in_scope(s).filter(pk=x).first()",
        "def f(x):\n    Message.objects.bulk_create(x)",
        "S = 'UPDATE threads_message SET terms = 1'",
    ],
)
def test_the_walk_leaves_readers_alone(source: str) -> None:
    assert strays("threads/somewhere.py", ast.parse(source)) == []


@pytest.mark.req("B14")
def test_only_the_gate_makes_cleared_texts() -> None:
    makers = {
        name
        for name, tree in sources()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] == "Cleared"
        if ast.unparse(node.keywords[0].value) != "''"
    }
    takers = {
        name
        for name, tree in sources()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in {"stored", "gate.stored"}
    }
    assert makers == {"governance/gate.py"}
    assert takers == set(TAKES_STORED)


def is_plain_text(annotation: ast.expr | None) -> bool:
    """Say whether an annotation lets a bare string through."""
    words = set(re.findall(r"\w+", ast.unparse(annotation))) if annotation else set()
    return "str" in words and not words & {"Cleared", "Mapping"}


def texts_taken(node: ast.stmt) -> Iterator[tuple[str, ast.expr | None]]:
    """Yield the parameters of a public writer, or the fields of what one takes."""
    if isinstance(node, ast.ClassDef) and node.name.startswith("New"):
        for field in node.body:
            if isinstance(field, ast.AnnAssign):
                yield ast.unparse(field.target), field.annotation
    if isinstance(node, ast.FunctionDef) and node.name.startswith(WRITERS):
        for argument in (*node.args.args, *node.args.kwonlyargs):
            yield argument.arg, argument.annotation


def loose_texts(tree: ast.Module) -> Iterator[str]:
    """Yield what the writers of a module take as bare text."""
    for node in tree.body:
        for name, annotation in texts_taken(node):
            is_name = name in NO_TEXT or name.endswith(
                ("_id", "_key", "_type", "_kind", "_by", "_code")
            )
            if is_plain_text(annotation) and not is_name:
                yield f"{getattr(node, 'name', '')}.{name}"


@pytest.mark.req("B14")
def test_writers_of_the_store_take_their_texts_cleared() -> None:
    loose = [
        f"{name}: {one}"
        for name, tree in sources()
        if name.startswith("memory/store/")
        for one in loose_texts(tree)
    ]
    assert loose == []


@pytest.mark.req("B14")
@pytest.mark.parametrize(
    "source",
    [
        "def add_fact(*, scope: Scope, fact: str) -> None: ...",
        "class NewFact:\n    fact: str | None",
    ],
)
def test_a_writer_that_takes_bare_text_is_seen(source: str) -> None:
    assert list(loose_texts(ast.parse(source)))
