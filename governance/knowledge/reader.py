"""What runs in the process that reads one file: limits first, then the reader of its kind.

Takes the file on standard input and answers with one object of JSON on standard output. It has no
settings, no database and nothing in its environment; governance.knowledge.reading starts it.
"""

from __future__ import annotations

import json
import resource
import sys
from typing import Final

from memory.errors import CredenceError

MEMORY_BYTES: Final = 2 * 1024**3
CPU_SECONDS: Final = 12


def main() -> None:
    """Read, answer, end. A killed process has answered nothing."""
    limit()
    kind, most_characters = sys.argv[2], int(sys.argv[3])
    raw = sys.stdin.buffer.read()
    try:
        answer = {"text": read(raw, kind=kind, most_characters=most_characters)}
    except CredenceError as error:
        answer = {"code": error.code, "detail": error.detail}
    sys.stdout.write(json.dumps(answer))


def limit() -> None:
    """Bound this process: memory, time, no files written, no further processes."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def read(raw: bytes, *, kind: str, most_characters: int) -> str:
    """Return the text of a file of kind `html` or `pdf`.

    Raises:
        CredenceError: It can not be read.
    """
    # Each library costs a tenth of a second to load; a file needs one of them.
    if kind == "pdf":
        from governance.knowledge.pdf_text import pdf_text  # noqa: PLC0415

        return pdf_text(raw, most_characters=most_characters)
    from governance.knowledge.html_text import html_text  # noqa: PLC0415

    return html_text(raw)
