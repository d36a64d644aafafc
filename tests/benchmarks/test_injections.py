"""What cleaning does to collections of attacks and of talk: counts, for docs/injection.md.

The collections belong to others and are not part of the repository. CREDENCE_DATA names a folder
with `security/injections-dev.jsonl` (text, label 1 for an attack) and `retrieval/*/corpus.jsonl`
(text); what is not there is reported as absent.
"""

from __future__ import annotations

import json
import os
import re
import sysconfig
from collections import Counter
from pathlib import Path

import pytest

from memory.boundary import CHINESE, ENGLISH
from memory.sanitize import joined_orders, sanitize
from tests.memory.test_injection_corpus import faults

pytestmark = [pytest.mark.bench, pytest.mark.filterwarnings("ignore")]
DATA = Path(os.environ.get("CREDENCE_DATA", "absent"))
# Transcripts name the speaker of each line; in Credence these are rows, not text.
SPEAKER = re.compile(r"(?m)^(?:User|Assistant|用户|助手)[:：] ?")


def rows(pattern: str) -> list[tuple[str, dict]]:
    """Every row of the files that match, with its folder's or file's name."""
    return [
        (path.parent.name if path.name == "corpus.jsonl" else path.stem, json.loads(line))
        for path in sorted(DATA.glob(pattern))
        for line in path.read_text(encoding="utf-8").splitlines()
    ]


def test_attacks(capsys):
    found = rows("security/injections-dev.jsonl")
    sizes: Counter[str] = Counter()
    changed: Counter[str] = Counter()
    rules: Counter[str] = Counter()
    broken: list[str] = []
    for _, row in found:
        kind = f"{row['source']} {'attack' if row['label'] else 'harmless'}"
        fired = sanitize(row["text"]).neutralised
        sizes[kind] += 1
        changed[kind] += bool(fired)
        rules.update(fired)
        texts = [row["text"]] * 7
        broken += [row["id"] for wording in (CHINESE, ENGLISH) if faults(wording, texts)]
    assert broken == []
    assert all(sanitize(once).text == once for _, row in found for once in [_clean(row)])
    with capsys.disabled():
        print("\nattacks: " + ("absent" if not found else f"boundary broken by {len(broken)}"))
        for kind, size in sorted(sizes.items()):
            print(f"  {kind}: {size} texts, {changed[kind]} changed")
        print(f"  rules: {dict(rules.most_common())}")


def test_talk(capsys):
    found = rows("retrieval/*/corpus.jsonl")
    sizes: Counter[str] = Counter()
    changed: Counter[str] = Counter()
    rules: Counter[str] = Counter()
    messages: dict[str, list[str]] = {}
    for name, row in found:
        sizes[name] += 1
        said = [one.strip() for one in SPEAKER.split(row["text"]) if one.strip()]
        messages.setdefault(f"{name} {row.get('group')}", []).extend(said)
        fired = {rule for one in said for rule in sanitize(one).neutralised}
        changed[name] += bool(fired)
        rules.update(fired)
    joined = sum(len(joined_orders(said)) for said in messages.values())
    with capsys.disabled():
        print("\ntalk: " + ("absent" if not found else f"{joined} joined orders"))
        for name, size in sorted(sizes.items()):
            print(f"  {name}: {size} texts, {changed[name]} changed")
        print(f"  rules: {dict(rules)}")


def test_manuals(capsys):
    """Read-me files of the installed packages: technical text full of code, badges and roles."""
    place = Path(sysconfig.get_paths()["purelib"])
    files = [path for end in ("METADATA", "*.md", "*.rst") for path in place.rglob(end)]
    rules: Counter[str] = Counter()
    size = changed = 0
    for path in files:
        for part in path.read_text(encoding="utf-8", errors="replace").split("\n\n"):
            fired = sanitize(part).neutralised
            size += bool(part.strip())
            changed += bool(fired)
            rules.update(fired)
    assert size
    with capsys.disabled():
        print(f"\nmanuals: {len(files)} files, {size} paragraphs, {changed} changed")
        print(f"  rules: {dict(rules.most_common())}")


def _clean(row: dict) -> str:
    return sanitize(row["text"]).text
