"""Reading an upload: bytes of a known media type to plain text, within bounds of time and memory.

HTML and PDF are read in a process of their own, which is ended when it takes too long: what a
stranger made may cost any parser any time, and a fault in it must not be ours.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import BoundedSemaphore
from typing import Final

from governance.knowledge.charsets import decode
from governance.knowledge.problems import (
    DocumentTextError,
    DocumentTooLongError,
    ReadersBusyError,
    UnreadableDocumentError,
)
from memory.errors import CredenceError

MOST_BYTES: Final = 20 * 1024 * 1024
MOST_CHARACTERS: Final = 2_000_000
MEDIA_TYPES: Final = ("text/plain", "text/markdown", "text/html", "application/pdf")
SECONDS: Final = 15.0
_APART: Final = {"text/html": "html", "application/pdf": "pdf"}
# Two at once and one that waits: readers never take every thread that serves requests.
_SLOTS: Final = BoundedSemaphore(2)
_PLACES: Final = BoundedSemaphore(3)
_PATIENCE_SECONDS: Final = 10.0
_ROOT: Final = str(Path(__file__).resolve().parents[2])
_START: Final = (
    "import sys; sys.path.insert(0, sys.argv[1]);"
    " from governance.knowledge.reader import main; main()"
)
_ERRORS: Final = (UnreadableDocumentError, DocumentTextError, DocumentTooLongError)


def read_document(*, raw: bytes, media_type: str) -> str:
    """Return the plain text of a file, headings as `#` lines. Never empty.

    Cost: linear for text; about 0.2 s for a process and 6 ms a page of PDF.

    Args:
        raw: The file.
        media_type: One of MEDIA_TYPES.

    Raises:
        UnreadableDocumentError: Too large, of another type, broken, locked, empty, or too slow.
        DocumentTextError: It holds a NUL.
        DocumentTooLongError: Its text is too long.
        ReadersBusyError: Other files are being read.
    """
    if len(raw) > MOST_BYTES:
        raise UnreadableDocumentError(f"A document is at most {MOST_BYTES} bytes.")
    if media_type not in MEDIA_TYPES:
        raise UnreadableDocumentError(f"A document is one of: {', '.join(MEDIA_TYPES)}.")
    kind = _APART.get(media_type)
    text = _read_apart(raw, kind) if kind else decode(raw)
    if len(text) > MOST_CHARACTERS:
        raise DocumentTooLongError
    if not text.strip():
        raise UnreadableDocumentError("The document holds no text.")
    return text


def _read_apart(raw: bytes, kind: str) -> str:
    with _one_of_two():
        done = _run_reader(raw, kind)
    return _answer(done)


@contextmanager
def _one_of_two() -> Iterator[None]:
    if not _PLACES.acquire(blocking=False):
        raise ReadersBusyError
    try:
        if not _SLOTS.acquire(timeout=_PATIENCE_SECONDS):
            raise ReadersBusyError
        try:
            yield
        finally:
            _SLOTS.release()
    finally:
        _PLACES.release()


def _run_reader(raw: bytes, kind: str) -> bytes:
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-c", _START, _ROOT, kind, str(MOST_CHARACTERS)],
            input=raw,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"LANG": "C.UTF-8"},
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise UnreadableDocumentError("The document takes too long to read.") from error
    return done.stdout


def _answer(stdout: bytes) -> str:
    try:
        answer = json.loads(stdout)
    except ValueError as error:  # Ended by a limit, or by a fault of the library.
        raise UnreadableDocumentError("The document takes too much to read.") from error
    if "text" in answer:
        return str(answer["text"])
    raise _error(str(answer["code"]), str(answer["detail"]))


def _error(code: str, detail: str) -> CredenceError:
    kind = next((kind for kind in _ERRORS if kind.code == code), UnreadableDocumentError)
    return kind(detail)
