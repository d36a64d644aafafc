"""A summary without a model: the most telling sentences, dated, in the order they were said."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from memory.compression.anchors import Anchor, is_in
from memory.compression.folding import fold
from memory.compression.open_items import still_open
from memory.compression.turns import SummaryTurn
from memory.language import Language
from memory.providers.sentences import Sentence, idf, sentences_of, terms_of
from memory.tokens import estimate, truncate_end

_MAX_PER_TURN = 3
_SAME_SHARE = 0.8
# What the user said weighs more than what was answered; what is still open must not get lost.
_USER_WEIGHT = 1.4
_OLD_WEIGHT = 1.2
_OPEN_WEIGHT = 2.0
# Above every weight that words can give a line.
_PINNED_WEIGHT = 1e6
_OPEN_ITEM_WEIGHT = 2 * _PINNED_WEIGHT

_DECISION = re.compile(
    "决定|确定|确认|改成|改为|必须|不要|约定|截止|要求|偏好|喜欢|采用|选用|完成|上线"
    r"|\b(?:decid|agreed|must|never|always|prefer|deadline|confirm|will use|chose|due|shipped|fixed)",
    re.IGNORECASE,
)
_OPEN = re.compile(
    r"待办|未完成|尚未|还没|\b(?:open|todo|to do|pending|outstanding)\b", re.IGNORECASE
)
_NAME = re.compile(
    r"(?<=[a-z,;] )[A-Z][\w-]+|[A-Z]{2,}\d*|《[^》]{1,40}》|“[^”]{1,40}”|「[^」]{1,40}」"
)
_NUMBER = re.compile(r"\d")
_SPEAKERS: dict[Language, tuple[str, str]] = {
    "zh": ("用户：", "助手："),
    "en": ("User: ", "Assistant: "),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    """A candidate line of the summary: where it stands, which turn it is from, what it is worth."""

    order: int
    turn: int | None
    text: str
    terms: frozenset[str]
    weight: float


def extractive_summary(
    *,
    previous: str,
    turns: Sequence[SummaryTurn],
    language: Language,
    max_tokens: int,
    pinned: Sequence[Anchor] = (),
) -> str:
    """Return a summary of `previous` and `turns` made of their own sentences.

    Deterministic; never above `max_tokens` by the heuristic estimate; empty only if there is
    nothing to summarise or no room for a character. Linear in the length of the texts but for
    comparing the chosen lines with each other, and of every line with every anchor. Red lines are
    the caller's.

    Args:
        previous: The summary so far; its open lines come before all others, but those that the
            turns say are done.
        turns: What has to be folded in, oldest first.
        language: Of the speakers' names.
        max_tokens: The cap of the summary.
        pinned: Anchors that must not get lost: of the lines that hold one the best comes first.
    """
    lines = [*_old_lines(previous), *_new_lines(turns, language)]
    items = still_open(previous=previous, turns=turns)
    chosen = _choose(_kept_open(_pinned(_weighed(lines), pinned), items), max_tokens)
    while chosen:
        text = "\n".join(line.text for line in chosen)
        if estimate(text) <= max_tokens:
            return text
        chosen.remove(min(chosen, key=lambda line: (line.weight, line.order)))
    return truncate_end(_last_resort(previous, turns, language), max_tokens=max_tokens)


def telling_weights(texts: Sequence[str]) -> list[float]:
    """Return how much each of `texts` tells among the others; higher tells more. Linear."""
    lines = [_line(f"- {text}", terms_of(text), turn=None, weight=1.0) for text in texts]
    return [line.weight for line in _weighed(lines)]


def _old_lines(previous: str) -> Iterator[_Line]:
    """Yield the lines of the summary so far, as they are."""
    for text in filter(None, (line.strip() for line in previous.splitlines())):
        yield _line(text, terms_of(text), turn=None, weight=_OLD_WEIGHT)


def _new_lines(turns: Sequence[SummaryTurn], language: Language) -> Iterator[_Line]:
    """Yield the sentences of the turns, dated and with their speaker."""
    user, assistant = _SPEAKERS[language]
    for turn in turns:
        for sentence in sentences_of([turn.user_text]):
            yield _said(turn, user, sentence, _USER_WEIGHT)
        answer = "" if turn.is_failed else turn.assistant_text
        for sentence in sentences_of([answer]):
            yield _said(turn, assistant, sentence, 1.0)


def _said(turn: SummaryTurn, speaker: str, sentence: Sentence, weight: float) -> _Line:
    """Return one sentence of a turn as a line."""
    dated = f"- {turn.date} " if turn.date else "- "
    return _line(dated + speaker + sentence.text, sentence.terms, turn=turn.seq, weight=weight)


def _line(text: str, terms: Sequence[str], *, turn: int | None, weight: float) -> _Line:
    """Return a line, its order still to be given."""
    return _Line(order=0, turn=turn, text=text, terms=frozenset(terms), weight=weight)


def _weighed(lines: Sequence[_Line]) -> list[_Line]:
    """Return the lines in order, their weight multiplied by the information in them."""
    rarity = idf([Sentence(text=line.text, date=None, terms=tuple(line.terms)) for line in lines])
    return [
        _Line(
            order=order,
            turn=line.turn,
            text=line.text,
            terms=line.terms,
            weight=line.weight * _information(line, rarity),
        )
        for order, line in enumerate(lines)
    ]


def _information(line: _Line, rarity: dict[str, float]) -> float:
    """Return how much a line tells: rare words a length, numbers, names, decisions, open items."""
    weight = sum(rarity[term] for term in sorted(line.terms)) / math.sqrt(len(line.terms) + 3)
    bonus = 1.0
    bonus += 0.2 * bool(_NUMBER.search(line.text.partition(" ")[2]))
    bonus += 0.2 * min(len(_NAME.findall(line.text)), 2)
    bonus += 0.8 * bool(_DECISION.search(line.text))
    return weight * bonus * (_OPEN_WEIGHT if _OPEN.search(line.text) else 1.0)


def _pinned(lines: Sequence[_Line], anchors: Sequence[Anchor]) -> list[_Line]:
    """Return the lines, for each anchor the most telling one that holds it put above the rest."""
    if not anchors:
        return list(lines)
    folded = [fold(line.text) for line in lines]
    raised: set[int] = set()
    for anchor in anchors:
        holding = [at for at, text in enumerate(folded) if is_in(anchor, text)]
        if holding and raised.isdisjoint(holding):
            raised.add(max(holding, key=lambda at: (lines[at].weight, -at)))
    return [
        replace(line, weight=line.weight + _PINNED_WEIGHT) if at in raised else line
        for at, line in enumerate(lines)
    ]


def _kept_open(lines: Sequence[_Line], items: Sequence[str]) -> list[_Line]:
    """Return the lines, those of the summary so far that are open still put above the rest."""
    return [
        replace(line, weight=line.weight + _OPEN_ITEM_WEIGHT)
        if line.turn is None and line.text.endswith(tuple(items))
        else line
        for line in lines
    ]


def _choose(lines: Sequence[_Line], max_tokens: int) -> list[_Line]:
    """Return the most telling lines that fit, no two the same, in their own order."""
    chosen: list[_Line] = []
    per_turn: dict[int, int] = {}
    room = max_tokens
    for line in sorted(lines, key=lambda line: (-line.weight, line.order)):
        cost = estimate(line.text) + 1
        is_full = line.turn is not None and per_turn.get(line.turn, 0) >= _MAX_PER_TURN
        is_crowded = is_full and line.weight < _PINNED_WEIGHT
        if cost > room or is_crowded or any(_is_same(line, other) for other in chosen):
            continue
        chosen.append(line)
        room -= cost
        if line.turn is not None:
            per_turn[line.turn] = per_turn.get(line.turn, 0) + 1
    return sorted(chosen, key=lambda line: line.order)


def _is_same(line: _Line, other: _Line) -> bool:
    """Say whether two lines say the same, numbers included; open items only word for word."""
    if line.weight >= _OPEN_ITEM_WEIGHT:
        return line.text == other.text
    terms, others = line.terms, other.terms
    if {term for term in terms ^ others if term.isdigit()}:
        return False
    return len(terms & others) >= _SAME_SHARE * max(len(terms), len(others), 1)


def _last_resort(previous: str, turns: Sequence[SummaryTurn], language: Language) -> str:
    """Return something for turns without one quotable sentence, or with no room for any."""
    for turn in turns:
        if words := " ".join(turn.user_text.split()):
            return f"{turn.date} {words}".strip()
    if previous.strip():
        return previous.strip()
    if not turns:
        return ""
    first, last = turns[0].seq, turns[-1].seq
    return (
        f"第 {first} 至 {last} 轮：无文字"
        if language == "zh"
        else f"Turns {first} to {last}: no text"
    )
