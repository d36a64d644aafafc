"""Writes the API reference, in Markdown, from the OpenAPI document.

One page for each tag, one section for each operation: the key's scope, parameters, body, answers,
refusals, and a curl line that can be pasted where $URL and $KEY are set (see docs/api.md).
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from docs.site.examples import BODIES, QUERIES
from docs.site.schemas import Field, Schemas

# What the pages are for, in the order in which they stand.
TAGS: Final = {
    "Runs": "Ask an agent, and read how its answer came about.",
    "Threads": "Conversations: their turns, messages, summaries and corrections.",
    "Memory": "What is kept of a person beyond a conversation, and how it is found and decided on.",
    "Knowledge": "Documents that answers may draw on, once somebody has admitted them.",
    "People": "Persons: export, erasure, holds, links to the chat page.",
    "Administration": "Agents, providers, policy, keys, teams, background work, audit, costs.",
    "Service": "Is it alive, is it able to work?",
}
_METHODS: Final = ("get", "post", "put", "patch", "delete")
# A refusal that at least this share of the operations has is told once, not everywhere.
_USUAL_SHARE: Final = 0.4
# So many codes are all that a status has.
_ANY: Final = 12
# What a view says of a query parameter that it refuses to do without.
_NEEDED: Final = "Needed."


@dataclass(frozen=True, slots=True)
class Operation:
    """One method of one path."""

    method: str
    path: str
    told: Mapping[str, Any]

    @property
    def anchor(self) -> str:
        """The id of its section."""
        return f"op-{str(self.told['operationId']).replace('_', '-')}"

    @property
    def scope(self) -> str:
        """What a key must hold; nothing where no key is asked for."""
        ways = self.told.get("security") or [{}]
        return "".join(next(iter(ways[0].values()), [])) if ways[0] else ""

    def refusals(self) -> Iterator[tuple[str, str]]:
        """Status and codes of each problem answer."""
        for status, answer in sorted(self.told["responses"].items()):
            if status >= "4":
                yield status, str(answer["description"]).removeprefix("code: ")


def pages(document: Mapping[str, Any]) -> dict[str, str]:
    """The pages of a document: text by file name, in the order of TAGS.

    Raises:
        ValueError: An operation has a tag that TAGS does not know.
    """
    operations = [
        Operation(method, path, told)
        for path, methods in document["paths"].items()
        for method, told in methods.items()
        if method in _METHODS
    ]
    unknown = {operation.told["tags"][0] for operation in operations} - TAGS.keys()
    if unknown:
        raise ValueError(f"Say in docs/site/reference.py what these are: {', '.join(unknown)}")
    writer = _Writer(Schemas(document["components"]["schemas"]), _usual(operations))
    found = {
        f"{tag.lower()}.md": writer.page(
            tag, [operation for operation in operations if operation.told["tags"][0] == tag]
        )
        for tag in TAGS
    }
    return found | {"errors.md": writer.errors(operations)}


def _usual(operations: list[Operation]) -> dict[str, str]:
    counts = Counter(refusal for operation in operations for refusal in operation.refusals())
    enough = len(operations) * _USUAL_SHARE
    return {status: codes for (status, codes), count in counts.items() if count >= enough}


class _Writer:
    def __init__(self, schemas: Schemas, usual: Mapping[str, str]) -> None:
        self._schemas = schemas
        self._usual = usual

    def page(self, tag: str, operations: list[Operation]) -> str:
        rows = (
            f"| {_verb(one)} | `{one.path}` | [{one.told['summary']}](#{one.anchor}) |"
            for one in operations
        )
        listed = "\n".join(rows)
        sections = "\n".join(self._section(one) for one in operations)
        return (
            f"# {tag}\n\n{TAGS[tag]} What all operations have in common is in"
            f" [the API](../api.md).\n\n| | path | |\n|---|---|---|\n{listed}\n\n{sections}"
        )

    def _section(self, one: Operation) -> str:
        told = one.told
        parts = [
            f"({one.anchor})=\n## {told['summary']}",
            f"{_verb(one)} `{one.path}`",
            f"Scope of the key: `{one.scope}`" if one.scope else "No key is asked for.",
            _told(told),
            self._parameters(told.get("parameters", ())),
            self._body(told),
            self._example(one),
            self._answers(told),
            self._refusals(one),
        ]
        return "\n\n".join(part for part in parts if part) + "\n"

    def _parameters(self, parameters: Iterable[Mapping[str, Any]]) -> str:
        ordered = sorted(parameters, key=lambda one: ("path", "query", "header").index(one["in"]))
        fields = [
            Field(
                name=one["name"],
                type=self._schemas.said(one["schema"]),
                is_needed=_is_needed(one),
                meaning=_said_of(one),
            )
            for one in ordered
        ]
        return _table("Parameters", fields)

    def _body(self, told: Mapping[str, Any]) -> str:
        body = told.get("requestBody")
        if not body:
            return ""
        return "\n\n".join(
            _table(f"Body, `{media}`", list(self._schemas.fields(content["schema"])))
            for media, content in body["content"].items()
        )

    def _answers(self, told: Mapping[str, Any]) -> str:
        parts = []
        for status, answer in sorted(told["responses"].items()):
            if status >= "4":
                continue
            for media, content in answer.get("content", {"": {}}).items():
                fields = list(self._schemas.fields(content["schema"])) if content else []
                is_told = answer["description"] != told["summary"]
                what = f"Answer {status}" + (f", `{media}`" if media else "")
                what += f": {answer['description']}" if is_told else ""
                parts.append(_table(what, fields, is_sent=False) if fields else f"**{what}**")
        return "\n\n".join(dict.fromkeys(parts))

    def _refusals(self, one: Operation) -> str:
        own = [told for told in one.refusals() if self._usual.get(told[0]) != told[1]]
        usual = [status for status, codes in one.refusals() if self._usual.get(status) == codes]
        lines = [
            f"- {status}: " + ("[one of these](errors.md)" if _is_any(codes) else _coded(codes))
            for status, codes in own
        ]
        if usual:
            lines.append(f"- [as everywhere](errors.md): {', '.join(usual)}")
        return "**Refusals**\n\n" + "\n".join(lines) if lines else ""

    def _example(self, one: Operation) -> str:
        body = self.example_body(one.told)
        is_stream = "text/event-stream" in str(one.told["responses"])
        is_default = one.method.upper() == ("POST" if body is not None else "GET")
        verb = "" if is_default else f"-X {one.method.upper()} "
        lines = [f'curl -s{"N" * is_stream} {verb}"$URL{_filled(one)}"']
        if one.scope:
            lines.append('-H "Authorization: Bearer $KEY"')
        if body is not None:
            told = json.dumps(body, ensure_ascii=False).replace("'", "’")
            lines += ["-H 'Content-Type: application/json'", f"-d '{told}'"]
        command = " \\\n  ".join(lines)
        return f"```sh\n{command}\n```"

    def example_body(self, told: Mapping[str, Any]) -> Any:
        """A body that the operation takes, or None where it takes none."""
        content = told.get("requestBody", {}).get("content", {}).get("application/json")
        if content is None:
            return None
        if told["operationId"] in BODIES:
            return BODIES[told["operationId"]]
        given = [example["value"] for example in content.get("examples", {}).values()]
        shortest = min(given, key=lambda one: len(json.dumps(one)), default=None)
        return shortest or self._schemas.example(content["schema"])

    def errors(self, operations: list[Operation]) -> str:
        """The page of all codes: by status, and where each occurs."""
        where: dict[tuple[str, str], list[Operation]] = {}
        for one in operations:
            for status, codes in one.refusals():
                for code in codes.split(", "):
                    found = where.setdefault((status, code), [])
                    if not _is_any(codes) or self._usual.get(status) == codes:
                        found.append(one)
        rows = [
            f"| {status} | `{code}` | {_where(found, len(operations))} |"
            for (status, code), found in sorted(where.items())
        ]
        table = "\n".join(rows)
        return (
            "# Errors\n\nEvery refusal is `application/problem+json`; `code` is stable, `detail` says"
            " what to do about it. A status that stands under *as everywhere* can come from any"
            " operation that has the part it is about: a body, an id, a query.\n\n"
            f"| status | code | where |\n|---|---|---|\n{table}\n"
        )


_VARIABLES: Final = {"user": "PERSON", "key": "ITEM_KEY", "key_id": "KEY_ID"}
_PLACES: Final = {"path": "In the path.", "query": "", "header": "A header."}


def _is_any(codes: str) -> bool:
    """Does an operation name every code of a status, since it does not say which occur?"""
    return codes.count(", ") >= _ANY


def _where(found: list[Operation], total: int) -> str:
    if len(found) >= total * _USUAL_SHARE:
        return "everywhere"
    return ", ".join(
        f"[{one.told['operationId']}]({one.told['tags'][0].lower()}.md#{one.anchor})"
        for one in found
    )


def _told(told: Mapping[str, Any]) -> str:
    """What is said of an operation; a view's own words about what its method returns are not."""
    words = str(told.get("description", ""))
    return "" if words.startswith("Return ") else words


def _verb(one: Operation) -> str:
    return f'<span class="verb {one.method}">{one.method.upper()}</span>'


def _coded(codes: str) -> str:
    return ", ".join(f"`{code}`" for code in codes.split(", "))


def _filled(one: Operation) -> str:
    """The path with $NAMES for its parts, and with a query where one is needed."""
    path = re.sub(r"\{(\w+)\}", lambda found: f"${_variable(found.group(1))}", one.path)
    query = QUERIES.get(one.told["operationId"])
    return path + (f"?{query}" if query else "")


def _said_of(parameter: Mapping[str, Any]) -> str:
    words = parameter.get("description", "")
    return " ".join(filter(None, (_PLACES[parameter["in"]], words if words != _NEEDED else "")))


def _variable(name: str) -> str:
    """What a part of a path is called in a shell, where USER and KEY are taken."""
    return _VARIABLES.get(name, name.removesuffix("_id").upper())


def _is_needed(parameter: Mapping[str, Any]) -> bool:
    return bool(parameter.get("required")) or parameter.get("description") == _NEEDED


def _table(caption: str, fields: list[Field], *, is_sent: bool = True) -> str:
    """A table of fields; of what is sent it says which must be there."""
    if not fields:
        return ""
    mark = {True: ' <b class="needed">needed</b>', False: ""}
    rows = "\n".join(
        f"| `{field.name}`{mark[is_sent and field.is_needed]}"
        f" | {_cell(field.type)} | {_cell(field.meaning)} |"
        for field in fields
    )
    return f"**{caption}**\n\n| name | type | |\n|---|---|---|\n{rows}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
