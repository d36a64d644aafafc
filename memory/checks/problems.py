"""What a check of the walls finds, in words for whoever runs the server."""

from __future__ import annotations

from dataclasses import dataclass

from memory.errors import CredenceError


@dataclass(frozen=True, slots=True, kw_only=True)
class WallProblem:
    """One hole in the walls of DESIGN section 3.

    Attributes:
        code: Stable word for the kind of hole.
        subject: The role, table, function or server it is in.
        detail: What is wrong.
        remedy: What to do about it.
    """

    code: str
    subject: str
    detail: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.subject}: {self.detail} {self.remedy}"


class WallsDownError(CredenceError):
    """The database does not keep tenants apart, so nothing is served."""

    code = "walls_down"

    def __init__(self, problems: tuple[WallProblem, ...]) -> None:
        """Keep the problems and say them all."""
        self.problems = problems
        lines = [f"- [{problem.code}] {problem}" for problem in problems]
        super().__init__("\n".join([str(type(self).__doc__), *lines]))
