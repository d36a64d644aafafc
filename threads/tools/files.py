"""write_artifact: files that a run writes, kept in hand until it has succeeded."""

from __future__ import annotations

import unicodedata
from typing import Final

from governance.secrets import strip_secrets
from memory.ids import new_id
from memory.sanitize.invisible import strip_invisible
from threads.tools.arguments import Arguments
from threads.tools.records import NewArtifact, ToolRefusedError, ToolResult
from threads.tools.specs import MOST_ARTIFACTS, MOST_CONTENT_CHARACTERS, MOST_NAME_CHARACTERS

# Control, formatting (bidirectional ones too), lone surrogates, unassigned, line separators.
_UNSEEN: Final = frozenset({"Cc", "Cf", "Cs", "Cn", "Co", "Zl", "Zp"})
# Kept where they join what is seen, as in emoji; strip_invisible finds those that do not.
_JOINERS: Final = frozenset("\u200c\u200d")
# Stands where the model wrote NUL or half a character.
_MENDED: Final = "\ufffd"
_REFUSED_NAMES: Final = frozenset({".", ".."})


class WrittenFiles:
    """What one run has written so far, by name; a name keeps its id when it is written again."""

    def __init__(self) -> None:
        """Begin with nothing written."""
        self._files: dict[str, NewArtifact] = {}

    @property
    def all(self) -> tuple[NewArtifact, ...]:
        """The last version of each name, in the order of their first writing."""
        return tuple(self._files.values())

    def write(self, arguments: Arguments) -> ToolResult:
        """Take a file in hand, without its secrets. Touches no database.

        Raises:
            ToolRefusedError: The name is not a plain file name, or there are too many files.
        """
        name = _checked_name(arguments.text("name"))
        known = self._files.get(name)
        if known is None and len(self._files) >= MOST_ARTIFACTS:
            raise ToolRefusedError(f"One answer may have at most {MOST_ARTIFACTS} files.")
        content = strip_secrets(arguments.text("content")).text
        if len(content) > MOST_CONTENT_CHARACTERS:
            raise ToolRefusedError(f"content is over {MOST_CONTENT_CHARACTERS:,} characters.")
        file = NewArtifact(
            id=known.id if known else new_id("art"),
            name=name,
            content=content,
            bytes=len(content.encode()),
        )
        self._files[name] = file
        did = "Replaced" if known else "Wrote"
        text = f"{did} {file.id} “{name}”, {file.bytes} bytes. It is kept if your answer succeeds."
        said = f"{did.lower()} {file.id} “{name}”, {file.bytes} bytes"
        return ToolResult(text=text, summary=said, candidates=1, kept=1)


def _checked_name(given: str) -> str:
    """Return the name in its composed form and without secrets."""
    name = unicodedata.normalize("NFC", given.strip())
    if not name or name in _REFUSED_NAMES or "/" in name or "\\" in name:
        raise ToolRefusedError("name must be a plain file name, without folders.")
    if any(_is_unseen(letter) for letter in name) or strip_invisible(name)[1]:
        raise ToolRefusedError("name has control or invisible characters.")
    name = strip_secrets(name).text
    if len(name) > MOST_NAME_CHARACTERS:
        raise ToolRefusedError(f"name is over {MOST_NAME_CHARACTERS} characters.")
    return name


def _is_unseen(letter: str) -> bool:
    is_joiner = letter in _JOINERS
    return letter == _MENDED or (unicodedata.category(letter) in _UNSEEN and not is_joiner)
