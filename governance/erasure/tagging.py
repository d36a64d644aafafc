"""Where the eraser of what is tagged is known: it belongs to a layer above this one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from governance.models.erasure import Erasure
from memory.errors import CredenceError
from memory.scope import Scope


class TaggedEraser(Protocol):
    """Takes what is tagged as personal out of everything of one person, in pieces.

    It may be run again after any crash, and calls `hold` first in every transaction it writes in.
    """

    def __call__(
        self, *, scope: Scope, erasure: Erasure, hold: Callable[[], None], is_dry_run: bool
    ) -> Mapping[str, int]:
        """Do it, or with `is_dry_run` only count; return how many of what."""


class NoTaggedEraserError(CredenceError):
    """This process can not erase what is tagged."""

    code = "no_tagged_eraser"


def refuse(
    *,
    scope: Scope,  # noqa: ARG001 - a TaggedEraser
    erasure: Erasure,  # noqa: ARG001
    hold: Callable[[], None],  # noqa: ARG001
    is_dry_run: bool,  # noqa: ARG001
) -> Mapping[str, int]:
    """Erase nothing.

    Raises:
        NoTaggedEraserError: Always.
    """
    raise NoTaggedEraserError


_registered: list[TaggedEraser] = []


def register(eraser: TaggedEraser) -> None:
    """Make an eraser known, once at start; the last one counts."""
    _registered[:] = [eraser]


def tagged_eraser() -> TaggedEraser:
    """Return the eraser that was made known, or one that refuses."""
    return _registered[0] if _registered else refuse
