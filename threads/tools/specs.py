"""The tools a model may be given: their parameters, limits and JSON schemas. Pure data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from memory.providers.base import ToolSpec
from threads.recall.messages import MOST_SEARCHED, MOST_SEARCHED_CHARACTERS
from threads.recall.patterns import MOST_WILDCARDS

MOST_ARGUMENT_BYTES: Final = 64 * 1024
MOST_QUERY_CHARACTERS: Final = 200
MOST_NAME_CHARACTERS: Final = 200
MOST_CONTENT_CHARACTERS: Final = 200_000
MOST_ARTIFACTS: Final = 20
# The gate counts what is left of a text; how much may be handed to it.
_MOST_ITEM_CHARACTERS: Final = 8_000
# JSON may write each character of a file as two escapes of six bytes.
_CONTENT_BYTES: Final = 12 * MOST_CONTENT_CHARACTERS

Kind = Literal["text", "count", "start", "end"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One parameter: text of `least` to `most` characters, a whole number, or a time.

    `default` is what a count is where nothing is said; `choices` are the words a model is offered.
    """

    name: str
    kind: Kind
    description: str
    is_required: bool = False
    least: int = 1
    most: int = MOST_QUERY_CHARACTERS
    default: int | None = None
    choices: tuple[str, ...] = ()

    def schema(self) -> dict[str, object]:
        """Return its JSON schema."""
        if self.kind == "count":
            bounds = {"type": "integer", "minimum": self.least, "maximum": self.most}
            described = {**bounds, "description": self.description}
            return described if self.default is None else {**described, "default": self.default}
        if self.choices:
            words = list(self.choices)
            return {"type": "string", "enum": words, "description": self.description}
        if self.kind == "text":
            bounds = {"type": "string", "minLength": self.least, "maxLength": self.most}
            return {**bounds, "description": self.description}
        return {"type": "string", "description": self.description}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """One tool; its arguments are at most `most_bytes` of JSON."""

    name: str
    description: str
    parameters: tuple[Parameter, ...]
    most_bytes: int = MOST_ARGUMENT_BYTES

    def spec(self) -> ToolSpec:
        """Return it as a provider is told of it."""
        required = [parameter.name for parameter in self.parameters if parameter.is_required]
        schema: dict[str, object] = {
            "type": "object",
            "properties": {parameter.name: parameter.schema() for parameter in self.parameters},
            "additionalProperties": False,
        }
        if required:
            schema["required"] = required
        return ToolSpec(name=self.name, description=self.description, parameters=schema)


_START = Parameter(
    name="start_time",
    kind="start",
    description="Nothing before it: YYYY-MM-DD or YYYY-MM-DDTHH:MM:SSZ (UTC if no zone).",
)
_END = Parameter(
    name="end_time",
    kind="end",
    description="Nothing after it, same form; a date alone includes that whole day.",
)

_GREP = Tool(
    name="memory_grep",
    description=(
        "Find this user's past messages, in all conversations of your role, and memory items that"
        " contain a text, newest first. Literal, upper and lower case alike, except that * stands for any"
        f" characters (at most {MOST_WILDCARDS}). Full-width and half-width letters differ."
        " Returns message ids and excerpts; open one with view_message."
    ),
    parameters=(
        Parameter(
            name="query", kind="text", description="The text to find.", is_required=True
        ),
        _START,
        _END,
        Parameter(
            name="limit", kind="count", description="Most results.", least=1, most=100, default=20
        ),
    ),
)  # fmt: skip
_SEARCH = Tool(
    name="memory_search",
    description=(
        "Search what is remembered of this user's conversations in your role, by meaning and by"
        " keywords, best first; use it when you do not know the exact words. Messages are found"
        f" by keywords: the first {MOST_SEARCHED_CHARACTERS:,} characters of the newest"
        f" {MOST_SEARCHED:,} that have one. Returns ids, dates, scores and excerpts; open one with"
        " view_message."
    ),
    parameters=(
        Parameter(name="query", kind="text", description="What to find.", is_required=True),
        Parameter(
            name="limit", kind="count", description="Most results.", least=1, most=20, default=5
        ),
    ),
)
_KNOWLEDGE = Tool(
    name="kb_search",
    description=(
        "Search the knowledge base by meaning and by keywords, best first. It holds reference"
        " material, not confirmed facts. Returns passages with title, date, score and chunk id;"
        " open one with view_message."
    ),
    parameters=(
        Parameter(name="query", kind="text", description="What to find.", is_required=True),
        Parameter(
            name="limit", kind="count", description="Most results.", least=1, most=20, default=5
        ),
    ),
)
_VIEW = Tool(
    name="view_message",
    description=(
        "Read the original behind an id: a message (msg_), what is recalled of a turn (rec_), a"
        " memory item (mem_), a confirmed fact (fact_), a passage of the knowledge base (chunk_), a"
        " shortened tool result (its reference id), a summary node of this conversation (node_) or a file (art_), files only of this run or of"
        " the run it goes on with. Long ones come in pages; the first line names the next offset."
    ),
    parameters=(
        Parameter(
            name="message_id", kind="text", description="The id.", is_required=True, most=64
        ),
        Parameter(
            name="offset",
            kind="count",
            description="Characters to leave out at the start.",
            least=0,
            most=10_000_000,
            default=0,
        ),
    ),
)  # fmt: skip
_TIMELINE = Tool(
    name="view_chat_history_summary",
    description=(
        "Read a timeline of this user's conversations in your role, newest first: their titles,"
        " times and last turns, and the summary of the present one."
    ),
    parameters=(
        Parameter(
            name="limit",
            kind="count",
            description="Most conversations.",
            least=1,
            most=30,
            default=10,
        ),
    ),
)
_WRITE = Tool(
    name="write_artifact",
    description=(
        f"Write a text file for the user: at most {MOST_CONTENT_CHARACTERS:,} characters, at most"
        f" {MOST_ARTIFACTS} files in one answer. The same name again replaces it. It is kept if"
        " your answer succeeds."
    ),
    parameters=(
        Parameter(
            name="name",
            kind="text",
            description="A plain file name such as paper.md, without folders.",
            is_required=True,
            most=MOST_NAME_CHARACTERS,
        ),
        Parameter(
            name="content",
            kind="text",
            description="The whole text of the file.",
            is_required=True,
            least=0,
            most=MOST_CONTENT_CHARACTERS,
        ),
    ),
    most_bytes=MOST_ARGUMENT_BYTES + _CONTENT_BYTES,
)
_UPSERT = Tool(
    name="memory_upsert",
    description=(
        "Remember one thing about this user for later conversations in your role, under a key: how"
        " far something is (progress) or what to keep in mind (memo). The same key again replaces"
        " it, so reuse the key there is. What the user prefers is read-only for you. It is stored"
        " if your answer succeeds."
    ),
    parameters=(
        Parameter(
            name="category",
            kind="text",
            description="progress or memo.",
            is_required=True,
            choices=("progress", "memo"),
        ),
        Parameter(
            name="key",
            kind="text",
            description="snake_case, such as standard_japanese; at most 64 characters.",
            is_required=True,
        ),
        Parameter(
            name="title",
            kind="text",
            description="A short name of it, at most 200 characters.",
            is_required=True,
            most=_MOST_ITEM_CHARACTERS,
        ),
        Parameter(
            name="content",
            kind="text",
            description="What to remember, at most 500 characters.",
            is_required=True,
            most=_MOST_ITEM_CHARACTERS,
        ),
    ),
)
TOOLS: Final[Mapping[str, Tool]] = {
    tool.name: tool for tool in (_GREP, _SEARCH, _KNOWLEDGE, _VIEW, _TIMELINE, _UPSERT, _WRITE)
}


def tools_among(names: Iterable[str]) -> tuple[Tool, ...]:
    """Return the tools that an agent's list names, each once, in our order; others are left out."""
    wanted = frozenset(names)
    return tuple(tool for name, tool in TOOLS.items() if name in wanted)
