"""The catalogue of Chinese words: read, compiled without gettext's tools, and compared.

`python -m tests.catalogue` writes the compiled file anew, so that no machine needs msgfmt.
Source of the format: GNU gettext manual, "The Format of GNU MO Files".
"""

from __future__ import annotations

import ast
import struct
from pathlib import Path

ROOT = Path(__file__).parents[1]
APPS = ("governance", "threads")
FOLDERS = {app: ROOT / app / "locale" / "zh_Hans" / "LC_MESSAGES" for app in APPS}
_MAGIC = 0x950412DE
_HEADER = 28


def read(path: Path) -> dict[str, str]:
    """The words of a catalogue: msgid to msgstr. Neither plurals nor contexts are used."""
    found: dict[str, str] = {}
    key, parts = "", {"msgid": "", "msgstr": ""}
    for line in [*path.read_text(encoding="utf-8").splitlines(), "msgid "]:
        word, _, rest = line.partition(" ")
        if word == "msgid":
            if key == "msgstr":
                assert parts["msgid"] not in found, parts["msgid"]
                found[parts["msgid"]] = parts["msgstr"]
            parts = {"msgid": "", "msgstr": ""}
        if word in parts:
            key = word
            parts[key] = ast.literal_eval(rest) if rest else ""
        elif line.startswith('"'):
            parts[key] += ast.literal_eval(line)
    return found


def all_words() -> dict[str, str]:
    """The words of all catalogues; the header apart, none stands in two."""
    found: dict[str, str] = {}
    for folder in FOLDERS.values():
        words = read(folder / "django.po")
        assert found.keys() & words.keys() <= {""}, sorted(found.keys() & words.keys())
        found |= words
    return found


def compiled(words: dict[str, str]) -> bytes:
    """A catalogue as gettext reads it: two tables of lengths and places, then the texts."""
    pairs = sorted((key.encode(), value.encode()) for key, value in words.items())
    place = _HEADER + 16 * len(pairs)
    tables, texts = [b"", b""], b""
    for side in (0, 1):
        for pair in pairs:
            tables[side] += struct.pack("<II", len(pair[side]), place + len(texts))
            texts += pair[side] + b"\0"
    second = _HEADER + 8 * len(pairs)
    head = struct.pack("<7I", _MAGIC, 0, len(pairs), _HEADER, second, 0, second + 8 * len(pairs))
    return head + tables[0] + tables[1] + texts


if __name__ == "__main__":
    for folder in FOLDERS.values():
        (folder / "django.mo").write_bytes(compiled(read(folder / "django.po")))
