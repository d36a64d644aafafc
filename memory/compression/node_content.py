"""What a summary node holds, what it is made of, and how it reads.

A node keeps five lists: a dated timeline, decisions, pitfalls, files and open items. Its rendering
is always within a cap, and `fitted` gives the content that the rendering shows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import Any, ClassVar, Final, Literal, get_args

from memory.compression.extractive import telling_weights
from memory.compression.turns import SummaryTurn
from memory.errors import CredenceError
from memory.language import Language
from memory.tokens import estimate, truncate_end

ListName = Literal["decisions", "pitfalls", "files", "open_items"]
SectionName = Literal["timeline", "decisions", "pitfalls", "files", "open_items"]

LIST_NAMES: Final[tuple[ListName, ...]] = get_args(ListName)
SECTION_NAMES: Final[tuple[SectionName, ...]] = get_args(SectionName)
HEADINGS: Final[dict[Language, dict[ListName, str]]] = {
    "zh": {"decisions": "决定", "pitfalls": "教训", "files": "文件", "open_items": "待办"},
    "en": {
        "decisions": "Decisions",
        "pitfalls": "Pitfalls",
        "files": "Files",
        "open_items": "Open",
    },
}
_COLON: Final[dict[Language, str]] = {"zh": "：", "en": ":"}
# What has to go last: an open item that is lost is never done, a lost detail can be looked up.
_TIERS: Final[dict[SectionName, int]] = {
    "open_items": 0,
    "decisions": 1,
    "pitfalls": 2,
    "timeline": 2,
    "files": 2,
}
# Decisions stay before details up to half of the cap; beyond it they go first, or a long past
# would be nothing else.
_MOST_DECISIONS: Final = 2
_LAST_TIER: Final = 3


class EmptyNodeSourceError(CredenceError):
    """A summary node is made of at least one turn, or of at least one node below it."""

    code = "empty_node_source"


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineEntry:
    """What happened, and when: `date` is an ISO day, two of them with " – ", or ""."""

    date: str
    text: str

    @property
    def line(self) -> str:
        """Return the entry as one line of text."""
        return f"{self.date} {self.text}".strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeContent:
    """The five lists of a summary node; every text is one line."""

    timeline: tuple[TimelineEntry, ...] = ()
    decisions: tuple[str, ...] = ()
    pitfalls: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    open_items: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Say whether there is nothing in it."""
        return not any(lines for _, lines in self.sections)

    @property
    def sections(self) -> tuple[tuple[SectionName, tuple[str, ...]], ...]:
        """Return the lists by name, in the order in which they are shown."""
        lists = ((name, getattr(self, name)) for name in LIST_NAMES)
        return ("timeline", tuple(entry.line for entry in self.timeline)), *lists

    @property
    def texts(self) -> tuple[str, ...]:
        """Return every line of it."""
        return tuple(line for _, lines in self.sections for line in lines)

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON values, as it is stored."""
        timeline = [{"date": entry.date, "text": entry.text} for entry in self.timeline]
        return {"timeline": timeline} | {name: list(getattr(self, name)) for name in LIST_NAMES}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> NodeContent:
        """Return what `as_json` gave; missing keys are empty."""
        return cls(
            timeline=tuple(
                TimelineEntry(date=entry["date"], text=entry["text"])
                for entry in stored.get("timeline", ())
            ),
            **{name: tuple(stored.get(name, ())) for name in LIST_NAMES},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeChild:
    """A node one level below, and the span of time it covers."""

    content: NodeContent
    start_at: datetime
    end_at: datetime

    @property
    def span(self) -> str:
        """Return the days it covers, as people write them."""
        first, last = f"{self.start_at:%Y-%m-%d}", f"{self.end_at:%Y-%m-%d}"
        return first if first == last else f"{first} – {last}"


@dataclass(frozen=True, kw_only=True)
class NodeSource:
    """What a node is made from: the turns themselves (level 0), or the nodes below it.

    Oldest first; the texts have been sanitised by the caller.
    """

    turns: tuple[SummaryTurn, ...] = ()
    children: tuple[NodeChild, ...] = ()

    def __post_init__(self) -> None:
        """Refuse a source of nothing, or of both kinds.

        Raises:
            EmptyNodeSourceError: There is nothing to summarise.
            ValueError: There are turns and nodes.
        """
        if not self.turns and not self.children:
            raise EmptyNodeSourceError
        if self.turns and self.children:
            raise ValueError("a node is made of turns or of nodes, not of both")

    @cached_property
    def source_tokens(self) -> int:
        """Return what the node replaces, by the heuristic estimate."""
        said = sum(estimate(t.user_text) + estimate(t.assistant_text) for t in self.turns)
        return said + sum(estimate("\n".join(child.content.texts)) for child in self.children)

    @property
    def open_before(self) -> tuple[str, ...]:
        """Return the open items of the nodes below, oldest first."""
        return tuple(item for child in self.children for item in child.content.open_items)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    """One line of a node: its list, its place in it, and what it tells."""

    section: SectionName
    place: int
    text: str
    weight: float
    tier: int
    _order: ClassVar[dict[SectionName, int]] = {name: at for at, name in enumerate(SECTION_NAMES)}

    @property
    def rank(self) -> tuple[float, ...]:
        """Return its place in the order of keeping: what must stay first."""
        return (self.tier, -self.weight, self._order[self.section], self.place)


def render(content: NodeContent, *, language: Language, max_tokens: int) -> str:
    """Return the node as text: the dated timeline, then each list under its heading.

    Never above `max_tokens` by the heuristic estimate: see `fitted` for what goes first.
    """
    kept = fitted(content, language=language, max_tokens=max_tokens)
    return truncate_end(rendered_whole(kept, language=language), max_tokens=max_tokens)


def rendered_whole(content: NodeContent, *, language: Language) -> str:
    """Return the node as text, whatever its length."""
    shown: list[str] = []
    for name, lines in content.sections:
        if name != "timeline" and lines:
            shown.append(HEADINGS[language][name] + _COLON[language])
        shown.extend(f"- {line}" for line in lines)
    return "\n".join(shown)


def fitted(content: NodeContent, *, language: Language, max_tokens: int) -> NodeContent:
    """Return the part of `content` that its rendering within `max_tokens` shows; deterministic.

    Details of the timeline, pitfalls and files go before decisions, as far as these take half the
    cap, and an open item only when nothing but open items is left; else the least telling first. Never empty
    unless `content` is: a single line too long is cut. Cost: one estimate a line.
    """
    if estimate(rendered_whole(content, language=language)) <= max_tokens:
        return content
    ranked = _ranked(content, max_tokens)
    chosen = _choose(ranked, language, max_tokens)
    while chosen:
        kept = _only(content, chosen)
        if estimate(rendered_whole(kept, language=language)) <= max_tokens:
            return kept
        chosen.pop()
    return _cut(ranked[0], language, max_tokens)


def _ranked(content: NodeContent, max_tokens: int) -> list[_Line]:
    """Return the lines of a node in the order of keeping."""
    room = max_tokens // _MOST_DECISIONS
    ranked: list[_Line] = []
    for line in sorted(_lines(content), key=lambda line: line.rank):
        cost = estimate(line.text) if line.section == "decisions" else 0
        ranked.append(line if cost <= room else replace(line, tier=_LAST_TIER))
        room -= min(cost, room)
    return sorted(ranked, key=lambda line: line.rank)


def _lines(content: NodeContent) -> Iterator[_Line]:
    """Yield the lines of a node with their weights."""
    placed = [
        (name, place, line) for name, lines in content.sections for place, line in enumerate(lines)
    ]
    weights = telling_weights([line for _, _, line in placed])
    for (name, place, line), weight in zip(placed, weights, strict=True):
        yield _Line(section=name, place=place, text=line, weight=weight, tier=_TIERS[name])


def _choose(ranked: Sequence[_Line], language: Language, max_tokens: int) -> list[_Line]:
    """Return the lines that fit, in the order of keeping; no detail where an open item did not."""
    chosen: list[_Line] = []
    headed: set[SectionName] = {"timeline"}
    room, is_item_missing = max_tokens, False
    for line in ranked:
        is_item = line.section == "open_items"
        if is_item_missing and not is_item:
            break
        cost = estimate(f"- {line.text}") + 1
        if line.section not in headed:
            cost += _heading_cost(line.section, language)
        if cost > room:
            is_item_missing |= is_item
            continue
        chosen.append(line)
        headed.add(line.section)
        room -= cost
    return chosen


def _heading_cost(name: SectionName, language: Language) -> int:
    if name == "timeline":
        return 0
    return estimate(HEADINGS[language][name] + _COLON[language]) + 1


def _only(content: NodeContent, chosen: Sequence[_Line]) -> NodeContent:
    """Return `content` with the chosen lines alone, in their own order."""
    kept = {(line.section, line.place) for line in chosen}
    lists = {
        name: tuple(line for at, line in enumerate(getattr(content, name)) if (name, at) in kept)
        for name in LIST_NAMES
    }
    timeline = tuple(entry for at, entry in enumerate(content.timeline) if ("timeline", at) in kept)
    return NodeContent(timeline=timeline, **lists)


def _cut(line: _Line, language: Language, max_tokens: int) -> NodeContent:
    """Return a node of one line, cut to what fits under its heading."""
    room = max_tokens - _heading_cost(line.section, language) - estimate("- ") - 1
    text = truncate_end(line.text, max_tokens=max(room, 1)) or line.text[:1]
    if line.section == "timeline":
        return NodeContent(timeline=(TimelineEntry(date="", text=text),))
    return NodeContent.from_json({line.section: [text]})
