"""What is still to be done: its lines in a summary, and whether a new text lost one of them. Pure.

One reading of open lines for all: the check of a rolling summary and of a node, the summary without
a model, and the list of what no shortening of a prompt may lose.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

import re2

from memory.compression.turns import SummaryTurn
from memory.providers.sentences import sentences_of, terms_of
from memory.tokens import estimate, truncate_end

# Of the telling words of an item, in one and the same line.
_COVERED: Final = 0.7
_MOST_LINES: Final = 2_000
_BULLETS: Final = "-*•·–"
_HEAD = re2.compile(
    r"(?i)^[\s\-*•·–]*(?:[\[(（]?\d{4}-\d{2}-\d{2}[\])）]?\s*[:：]?\s*)?"
    r"(?P<item>(?:待办|待辦|open)(?:事项|事項| items?)?\**\s*[:：]\**(?P<said>.*))$"
)
_LABEL = re2.compile(r"(?i)(?:待办|待辦|\bopen)(?:事项|事項| items?)?\**\s*[:：]\**")
_APART = re2.compile(r"[;；]")
_DATE = re2.compile(r"^\d{4}-\d{2}-\d{2}\b")
_HAN = re2.compile(r"[\x{3400}-\x{4dbf}\x{4e00}-\x{9fff}]")
_FILLERS: Final = frozenset("的了在是和与及把将要需请再也都就给我你他她它们这那个待办")
_NUMERALS: Final = frozenset("零一二三四五六七八九十百千万两甲乙丙丁上中下")
_DONE = re2.compile(
    r"(?i)完成|已|办好|办妥|好了|取消|不再|无需|解决|交付|提交|上线|发出|关闭|搞定|结束"
    r"|\b(?:done|complet\w+|finish\w+|ship\w+|deliver\w+|sent|submitt\w+|cancel\w+|dropped|closed"
    r"|resolved|fixed|no longer|booked|settled|paid|answered|merged|released)\b"
)
# In talk, other than in a summary, many of these words stand in wishes, plans and questions.
_NOT_YET = re2.compile(
    r"(?i)[?？]|[吗呢么]\s*[。！!.]*$|没(?:[^问错]|$)|未|尚|(?:^|[^特级分区])别|请(?:[^柬假]|$)"
    r"|记得|需要|必须|应该|打算|准备|计划|争取|才能"
    r"|[要得会将再能可]\pL{0,4}(?:完成|办|取消|解决|交付|提交|上线|发出|关闭|搞定|结束)"
    r"|(?:完成|解决|交付|提交|上线|发出|搞定|结束)之?[前后]|前(?:完成|解决|交付|提交|上线|发出|搞定|结束)"
    r"|\b(?:not|never|yet|please|will|must|should|shall|cannot|could|would|may|might|needs?|until|once"
    r"|if|when|remember|(?:can|to) (?:be|get|have)|to (?:complete|finish|ship|deliver|submit|cancel))\b"
    r"|n['’]t\b|['’]ll\b"
)
_CLAUSE = re2.compile(r"[，,；;：:]")
_NOTHING = re2.compile(r"(?i)^[^\pL\pN]*(?:无|暂无|没有|none|nothing|n/a)?[^\pL\pN]*$")
_ENDING = re2.compile(r"(?:ing|ed|es|s|e)$")


def open_lines(summary: str) -> tuple[str, ...]:
    """Return the open items of a summary as they stand in it, from their label on.

    A line names itself one with 待办： or Open: at its head, behind a bullet or a date; under a
    label alone on its line each bullet is one.
    """
    return tuple(item for _, item in _found(summary))


def still_open(*, previous: str, turns: Sequence[SummaryTurn]) -> tuple[str, ...]:
    """Return the open lines of `previous` but those that a sentence of the new turns says are done.

    The answer of a failed turn says nothing.
    """
    items = open_lines(previous)
    if not items:
        return ()
    said = [turn.user_text for turn in turns]
    said += [turn.assistant_text for turn in turns if not turn.is_failed]
    sentences = [sentence.text for sentence in sentences_of(said)]
    words = [_words(line) for line in sentences if _is_done(line)]
    return tuple(item for item in items if not all(_is_covered(one, words) for one in _each(item)))


def are_open_lines_lost(*, open_before: Iterable[str], summary: str) -> bool:
    """Say whether an open line is neither open still in `summary` nor named there as done.

    Items joined with semicolons are looked for one by one. Where nothing open is in the language
    of an item, and no less is open than before, its numbers alone are compared.
    """
    items = [one for item in open_before for one in _each(item)]
    still = list(_open_still(summary))
    told = [_LABEL.split(line, maxsplit=1)[0] for line in summary.splitlines()]
    return are_items_lost(open_before=items, still=still, told=told, is_translated=True)


def are_items_lost(
    *,
    open_before: Iterable[str],
    still: Iterable[str],
    told: Iterable[str],
    is_translated: bool = False,
) -> bool:
    """Say whether an item that was open is neither open still nor named as done.

    Args:
        open_before: The items, without labels.
        still: What is open now.
        told: The other lines, of which some may say that an item is done.
        is_translated: An item may be open still in other words: in another language.
    """
    now_open = list(still)
    done = (line for line in told if _DONE.search(line))
    lines = [_words(line) for line in islice((*now_open, *done), _MOST_LINES)]
    items = list(open_before)
    scripts = {bool(_HAN.search(line)) for line in now_open}
    may_be_other_words = is_translated and len(now_open) >= len(items)
    for item in items:
        is_foreign = may_be_other_words and bool(_HAN.search(item)) not in scripts
        if not _is_covered(item, lines, least=0.0 if is_foreign else _COVERED):
            return True
    return False


def cut_before_open_lines(text: str, *, max_tokens: int) -> str:
    """Return a summary within `max_tokens`: its other lines are cut first, at their end.

    Where the open lines alone are too many, the summary is cut at its end as any text.
    """
    if estimate(text) <= max_tokens:
        return text
    lines = text.splitlines()
    places = {at for at, _ in _found(text)}
    kept = "\n".join(line for at, line in enumerate(lines) if at in places)
    others = "\n".join(line for at, line in enumerate(lines) if at not in places)
    room = max_tokens - estimate(kept) - 1
    while kept and room >= 0:
        both = "\n".join(filter(None, (truncate_end(others, max_tokens=room), kept)))
        over = estimate(both) - max_tokens
        if over <= 0:
            return both
        room -= over
    return truncate_end(text, max_tokens=max_tokens)


def _found(summary: str) -> Iterator[tuple[int, str]]:
    """Yield the open items with the numbers of their lines."""
    is_under_label = False
    for at, line in enumerate(summary.splitlines()):
        head = _HEAD.match(line)
        bare = line.strip().lstrip(_BULLETS).strip()
        if head:
            is_under_label = not head["said"].strip()
            if not _NOTHING.match(head["said"]):
                yield at, head["item"].strip()
        elif is_under_label and bare and line.lstrip()[0] in _BULLETS and not _DATE.match(bare):
            yield at, bare
        else:
            is_under_label = is_under_label and not bare


def _is_done(sentence: str) -> bool:
    """Say whether a sentence of the talk tells in one of its clauses that something is done."""
    clauses = _CLAUSE.split(sentence)
    return any(_DONE.search(clause) and not _NOT_YET.search(clause) for clause in clauses)


def _open_still(summary: str) -> Iterator[str]:
    """Yield what a model shows as open, also behind a label inside of a line."""
    found = dict(_found(summary))
    for at, line in enumerate(summary.splitlines()):
        parts = _LABEL.split(line, maxsplit=1)
        if len(parts) > 1:
            yield parts[1]
        elif at in found:
            yield found[at]


def _each(item: str) -> list[str]:
    """Return the items that share one line, without its label."""
    return [one for one in _APART.split(_LABEL.sub(" ", item, count=1)) if one.strip()]


def _is_covered(item: str, lines: Iterable[frozenset[str]], *, least: float = _COVERED) -> bool:
    """Say whether one line holds the numbers and most of the telling words of an item."""
    words = _words(item)
    numbers = {word for word in words if word.isdigit() or (word in _NUMERALS and least > 0)}
    most = least * len(words)
    return not words or any(numbers <= line and len(words & line) >= most for line in lines)


def _words(text: str) -> frozenset[str]:
    """Return the telling words of a text, folded: Han characters, and the stems of other words."""
    letters = {letter for letter in _HAN.findall(text) if letter not in _FILLERS}
    folded = _HAN.sub(" ", text)
    return frozenset(letters | {_stem(term) for term in terms_of(folded)})


def _stem(word: str) -> str:
    """Return an English word without its commonest endings, roughly."""
    return _ENDING.sub("", word) if len(word) > len("done") else word
