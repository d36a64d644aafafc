"""The house rules that no linter knows: budgets, names, the lock files, what may not be committed."""

from __future__ import annotations

import ast
import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
APPS = ("config", "governance", "memory", "threads")
MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 60
# "core" is none here: core memory is a word of this product.
ATTICS = {"utils", "util", "helpers", "helper", "common", "misc", "tools_misc", "stuff"}
LOCKS = ("requirements.lock", "requirements-dev.lock")


def tracked_files() -> list[Path]:
    """Every file of the repository, also one not yet added, without what git ignores."""
    listed = subprocess.run(
        ["git", "-c", f"safe.directory={ROOT}", "ls-files", "-z", "-co", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return [path for name in listed.split("\0") if name and (path := ROOT / name).is_file()]


def python_files() -> list[Path]:
    found = [path for path in tracked_files() if path.suffix == ".py"]
    assert len(found) > 20
    return found


def written_by_hand(paths: list[Path]) -> list[Path]:
    return [path for path in paths if "migrations" not in path.parts]


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(text_of(path))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def project() -> dict[str, object]:
    loaded: dict[str, object] = tomllib.loads(text_of(ROOT / "pyproject.toml"))
    return loaded


@pytest.mark.req("E01")
def test_layout_and_building_blocks_are_the_required_ones() -> None:
    wanted = {
        "manage.py",
        "pyproject.toml",
        "config",
        "memory",
        "threads",
        "governance",
        "templates",
    }
    assert wanted - {path.name for path in ROOT.iterdir()} == set()
    blocks = {
        "django",
        "djangorestframework",
        "django-q2",
        "psycopg",
        "django-guardian",
        "tiktoken",
        "pgvector",
        "pytest-django",
    }
    assert blocks <= locked(ROOT / "requirements-dev.lock").keys()


def test_files_stay_within_the_budget() -> None:
    long = {
        str(path.relative_to(ROOT)): count
        for path in written_by_hand(python_files())
        if (count := len(text_of(path).splitlines())) > MAX_FILE_LINES
    }
    assert long == {}


def test_functions_stay_within_the_budget() -> None:
    long = {
        f"{path.relative_to(ROOT)}:{node.name}": length
        for path in written_by_hand(python_files())
        for node in functions(path)
        if node.end_lineno is not None
        and (length := node.end_lineno - node.lineno + 1) > MAX_FUNCTION_LINES
    }
    assert long == {}


def test_no_module_is_an_attic() -> None:
    found = [path for path in python_files() if ATTICS & {path.stem, *path.relative_to(ROOT).parts}]
    assert found == []


def test_every_module_says_what_it_is_for() -> None:
    silent = [
        path
        for path in written_by_hand(python_files())
        if path.stat().st_size and not ast.get_docstring(ast.parse(text_of(path)))
    ]
    assert silent == []


def test_every_package_folder_has_its_init() -> None:
    """A folder without one is a namespace package, and the import contracts would not see it."""
    folders = {path.parent for path in python_files() if path.relative_to(ROOT).parts[0] in APPS}
    assert [folder for folder in sorted(folders) if not (folder / "__init__.py").exists()] == []


def test_hooks_are_local() -> None:
    """Hooks of foreign repositories would be fetched at install time, unlocked."""
    hooks = ROOT / ".pre-commit-config.yaml"
    declared = re.findall(r"-\s*repo:\s*(\S+)", text_of(hooks)) if hooks.exists() else []
    assert [repo for repo in declared if repo != "local"] == []


def test_no_file_names_a_package_registry() -> None:
    """Whoever builds this uses the registry their own tools are set up for."""
    names = (
        "pypi" + ".org",
        "python" + "hosted",
        "npmjs" + ".org",
        "index" + "-url",
        "find" + "-links",
    )
    found = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in tracked_files()
        for name in names
        if name in text_of(path)
    ]
    assert found == []


def test_every_dependency_says_why_it_is_there() -> None:
    lines = text_of(ROOT / "pyproject.toml").split("\n[tool.", 1)[0].splitlines()
    is_entry = re.compile(r'^  "[A-Za-z]').match
    entries = [number for number, line in enumerate(lines) if is_entry(line)]
    assert len(entries) > 30
    assert [lines[n] for n in entries if not lines[n - 1].strip().startswith("# ")] == []


@pytest.mark.parametrize("name", LOCKS)
def test_lock_has_a_version_and_hashes_for_everything_and_no_host(name: str) -> None:
    text = text_of(ROOT / name)
    blocks = re.split(r"\n(?=[a-z0-9])", text.strip())
    for block in blocks:
        first = block.splitlines()[0]
        assert re.match(r"^[a-z0-9.-]+(\[[a-z,]+\])?==[^ ]+( ; .+)? \\$", first), first
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", block), first
    assert "://" not in text
    assert [line for line in text.splitlines() if line.startswith("-")] == []


def test_locks_hold_every_dependency_and_agree() -> None:
    runtime, development = (locked(ROOT / name) for name in LOCKS)
    metadata = project()
    declared = metadata["project"]["dependencies"]  # type: ignore[index]
    groups = metadata["dependency-groups"]["dev"]  # type: ignore[index]
    assert {plain(entry) for entry in declared} <= runtime.keys()
    assert {plain(entry) for entry in groups} <= development.keys()
    assert runtime.items() <= development.items()


def locked(path: Path) -> dict[str, str]:
    return dict(re.findall(r"^([a-z0-9.-]+)(?:\[[a-z,]+\])?==([^ ]+)", text_of(path), re.MULTILINE))


def plain(requirement: str) -> str:
    """Return a requirement's name in the normal form of lock files."""
    name = re.split(r"[\[<>=!~ ;]", requirement, maxsplit=1)[0]
    return re.sub(r"[-_.]+", "-", name).lower()
