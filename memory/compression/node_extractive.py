"""A summary node without a model: sentences picked from the turns, or lines from the nodes below."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import re2

from memory.compression.extractive import extractive_summary
from memory.compression.node_content import (
    NodeChild,
    NodeContent,
    NodeSource,
    TimelineEntry,
    fitted,
    rendered_whole,
)
from memory.compression.node_dates import split_date
from memory.compression.turns import SummaryTurn
from memory.language import Language
from memory.providers.sentences import terms_of
from memory.tokens import estimate

_MOST_FILES: Final = 20
_MOST_NAME_CHARACTERS: Final = 120
_FEWEST_TERMS: Final = 2
_LEAST_TOKENS: Final = 24
# What headings cost, and the share of a node that they and its files may take from the sentences.
_HEADINGS_TOKENS: Final = 12
_MOST_BESIDE: Final = 4
_SPEAKER = re2.compile(r"^(?:(用户|助手)：|(User|Assistant): )")
_OPEN_LABEL = re2.compile(r"(?i)^(?:待办|open|to[- ]?do)\s*[:：]\s*")
# Narrower than what weighs a sentence: a line in these lists stays when details go, level by level,
# and small talk is full of "always", "喜欢" and "还没有".
_DECISION = re2.compile(
    r"(?i)决定|确定用|确认|改成|改为|约定|说好|截止|采用|选用|定为|定在|定于|上线|必须"
    r"|\b(?:decided|(?:we|was|were|have|has) agreed|agreed (?:to|on|that)|will use"
    r"|chose to|settled on|going with|switch(?:ed)? to|deadline|confirmed|shipped|is due|due (?:by|on)"
    r"|must (?:not|be|use|keep))\b"
)
_OPEN = re2.compile(
    r"(?i)待办|未完成|尚未|还没(?:有)?(?:做完|完成|办|写|交|发|改|补|回复|解决|搞定|处理|确认|定下)"
    r"|(?:^|[\s(])(?:open|to[- ]do)\s*[:：]|\b(?:still open|open (?:item|question|issue|point)s?)\b"
    r"|\b(?:todo|pending|(?:is|are|still) outstanding)\b"
)
_FILE = re2.compile(
    r"(?i)[\pL\pN_][\pL\pN_./\\-]*\.(?:pyi?|jsx?|tsx?|json|ya?ml|toml|ini|cfg|md|rst|txt|csv|tsv"
    r"|sql|sh|html?|css|xml|java|kt|go|rs|c|cc|cpp|h|hpp|rb|php|swift|ipynb|docx?|xlsx?|pptx?|pdf"
    r"|tex|bib|proto|vue|conf|png|jpe?g|gif|svg|mp[34]|zip|tar|gz|log|lock)\b"
)
_BEFORE_NAME = re2.compile(r"^.*[为是在把将到看和与及的了叫做成发存改给见开个份]([^.]*[\pL\pN_]\.)")
_HAN = re2.compile(r"[\x{4e00}-\x{9fff}]")


def extractive_node(*, source: NodeSource, language: Language, max_tokens: int) -> NodeContent:
    """Return a node made of the source's own sentences; needs no model, deterministic, never empty.

    Its rendering fits into `max_tokens`, and is shorter than the source wherever that has more
    than some sixty tokens. Of the nodes below, every open item that fits is kept, whatever became
    of it: nobody here can tell. Red lines are the caller's. Linear but for comparing chosen lines.
    """
    limit = min(max_tokens, max(source.source_tokens - 1, _LEAST_TOKENS))
    if source.turns:
        made = _of_turns(source.turns, language, limit)
    else:
        made = _of_children(source.children)
    made = made if not made.is_empty else _nothing(source, language)
    kept = fitted(made, language=language, max_tokens=limit)
    return kept if estimate(rendered_whole(kept, language=language)) <= limit else _bare(kept)


def _of_turns(turns: Sequence[SummaryTurn], language: Language, limit: int) -> NodeContent:
    """Return the most telling sentences of the turns, each in the list it belongs to."""
    files = _files(turns)
    beside = estimate("\n".join(f"- {name}" for name in files)) + _HEADINGS_TOKENS
    picked = extractive_summary(
        previous="",
        turns=turns,
        language=language,
        max_tokens=limit - min(beside, limit // _MOST_BESIDE),
    )
    timeline: list[TimelineEntry] = []
    lists: dict[str, list[str]] = {"decisions": [], "open_items": []}
    for line in filter(None, picked.splitlines()):
        date, said = split_date(line.removeprefix("- "))
        bare = _SPEAKER.sub("", said)
        if _OPEN.search(bare):
            lists["open_items"].append(f"{date} {_OPEN_LABEL.sub('', bare)}".strip())
        elif _DECISION.search(bare):
            lists["decisions"].append(f"{date} {bare}".strip())
        else:
            timeline.append(TimelineEntry(date=date, text=_attributed(said)))
    telling = [entry for entry in timeline if len(terms_of(entry.text)) > _FEWEST_TERMS]
    return NodeContent(
        timeline=tuple(telling if telling or any(lists.values()) else timeline),
        decisions=tuple(lists["decisions"]),
        files=files,
        open_items=tuple(lists["open_items"]),
    )


def _attributed(said: str) -> str:
    """Return a sentence with its speaker in parentheses, where it is no role marker."""
    found = _SPEAKER.match(said)
    if not found:
        return said
    speaker = f"（{found.group(1)}）" if found.group(1) else f"({found.group(2)}) "
    return speaker + said[found.end() :]


def _files(turns: Sequence[SummaryTurn]) -> tuple[str, ...]:
    """Return the file names in the turns, each once, in the order of their first mention."""
    found: dict[str, None] = {}
    for turn in turns:
        answer = "" if turn.is_failed else turn.assistant_text
        for text in (turn.user_text, answer):
            found.update(dict.fromkeys(_name(name) for name in _FILE.findall(text)))
    return tuple(found)[:_MOST_FILES]


def _name(found: str) -> str:
    """Return a file name without the Chinese words that stand directly before it."""
    found = found[-_MOST_NAME_CHARACTERS:]
    return _BEFORE_NAME.sub(r"\1", found) if _HAN.search(found) else found


def _of_children(children: Sequence[NodeChild]) -> NodeContent:
    """Return everything the nodes below hold, by date, each line once."""
    contents = [child.content for child in children]
    entries = dict.fromkeys(entry for content in contents for entry in content.timeline)
    return NodeContent(
        timeline=tuple(sorted(entries, key=lambda entry: entry.date)),
        decisions=_once(line for content in contents for line in content.decisions),
        pitfalls=_once(line for content in contents for line in content.pitfalls),
        files=_once(line for content in contents for line in content.files),
        open_items=_once(line for content in contents for line in content.open_items),
    )


def _once(lines: Iterable[str]) -> tuple[str, ...]:
    """Return lines that differ in more than their date, case and punctuation, the first of each."""
    kept: dict[str, str] = {}
    for line in lines:
        kept.setdefault("".join(_letters(split_date(line)[1])), line)
    return tuple(kept.values())


def _letters(text: str) -> Iterator[str]:
    return (letter for letter in text.casefold() if letter.isalnum())


def _nothing(source: NodeSource, language: Language) -> NodeContent:
    """Return a node that says that there were no words."""
    if source.turns:
        first, last = source.turns[0].seq, source.turns[-1].seq
        text = (
            f"第 {first} 至 {last} 轮：无文字"
            if language == "zh"
            else f"Turns {first} to {last}: no text"
        )
        return NodeContent(timeline=(TimelineEntry(date=source.turns[0].date, text=text),))
    text = "无文字" if language == "zh" else "no text"
    return NodeContent(timeline=(TimelineEntry(date=source.children[0].span, text=text),))


def _bare(content: NodeContent) -> NodeContent:
    """Return the beginning of a node for which there is hardly room."""
    return NodeContent(timeline=(TimelineEntry(date="", text=content.texts[0][:1]),))
