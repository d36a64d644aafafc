"""The built-in model: no network, no weights. It quotes what it was given and says so.

For a question it picks the sentences of its context that share the most telling words with it.
For memory work (a system message that begins `Task: summarize`) it picks the most informative
ones. The same prompt always brings the same answer.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence

from memory.providers.base import ChatEvent, ChatMessage, ChatRequest, Finished, TextDelta, Usage
from memory.providers.sentences import Sentence, idf, is_chinese, sentences_of, terms_of

MODEL = "offline-extractive"
REQUEST_MARKER = "[Current Request]"
SUMMARY_TASK = "Task: summarize"
MAX_QUOTES = 4
MIN_COVERED = 0.12  # share of the question's weight that a sentence must cover to be quoted
SUMMARY_SHARE = 0.4  # of the characters of the source
MAX_SUMMARY_CHARACTERS = 1_600
_DELTA_CHARACTERS = 12
_UNSEEN_WEIGHT = 0.5  # of a term that the context lacks, against one that stands there once
_SAME_SHARE = 0.8

NOTICE_ZH = "（离线摘录模型：只摘录已有内容，不自行作答。）"
NOTICE_EN = "(Offline extractive model: it only quotes what it was given.)"
_NOTHING_ZH = "已有内容里没有与此相关的句子。"
_NOTHING_EN = "Nothing it was given bears on this."
_TELLING = (
    "决定", "必须", "不要", "喜欢", "偏好", "待办", "约定", "截止", "要求", "改成", "确认",
    "decide", "must", "never", "always", "prefer", "todo", "deadline", "agreed", "need", "confirm",
)  # fmt: skip


class OfflineProvider:
    """A `ChatProvider` that answers by extraction; stateless, safe to share, calls no tools."""

    def __init__(self, *, count_tokens: Callable[[str], int] | None = None) -> None:
        """Count usage with `count_tokens`, or estimate it from the characters."""
        self._count = count_tokens or estimated_tokens

    async def stream(self, *, request: ChatRequest) -> AsyncGenerator[ChatEvent, None]:
        """Yield the answer in small pieces; see `ChatProvider.stream`.

        Cost: linear in the prompt, about 20 ms for 10,000 characters; no network.
        """
        answer = _answer(request.messages)
        answer, reason = self._within(answer, request.max_output_tokens)
        for at in range(0, len(answer), _DELTA_CHARACTERS):
            yield TextDelta(text=answer[at : at + _DELTA_CHARACTERS])
            await asyncio.sleep(0)
        usage = Usage(
            input_tokens=sum(self._count(text) for text in _read(request)),
            output_tokens=self._count(answer),
        )
        yield Finished(reason=reason, model=MODEL, usage=usage)

    def _within(self, answer: str, max_tokens: int) -> tuple[str, str]:
        lines = answer.split("\n")
        while len(lines) > 1 and self._count("\n".join(lines)) > max_tokens:
            lines.pop()
        text = "\n".join(lines)
        if self._count(text) <= max_tokens:
            return text, "stop"
        share = max_tokens / self._count(text)
        return text[: max(1, math.floor(len(text) * share))], "length"


_SUMMARY_HEADINGS = frozenset(
    {"已有摘要：", "（无）", "新的对话：", "Summary so far:", "(none)", "New turns:"}
)


def estimated_tokens(text: str) -> int:
    """Estimate tokens: one for a character outside Latin-1, one for four characters within."""
    wide = sum(1 for character in text if ord(character) > 0xFF)
    return wide + math.ceil((len(text) - wide) / 4)


def _read(request: ChatRequest) -> Iterator[str]:
    """Yield all that a model would be sent: the messages, and the tools though none is called."""
    for message in request.messages:
        yield message.content
    for tool in request.tools:
        yield f"{tool.name} {tool.description} {json.dumps(dict(tool.parameters))}"


def _answer(messages: Sequence[ChatMessage]) -> str:
    system = next((message.content for message in messages if message.role == "system"), "")
    spoken = [message for message in messages if message.role != "system"]
    if system.lstrip().startswith(SUMMARY_TASK):
        return _summary([message.content for message in spoken])
    context, question = _split(spoken)
    is_zh = is_chinese(question)
    quotes = _best(sentences_of(_without_own_words(context)), question)
    notice = NOTICE_ZH if is_zh else NOTICE_EN
    nothing = _NOTHING_ZH if is_zh else _NOTHING_EN
    lines = [_quoted(quote, is_zh=is_zh) for quote in quotes] or [nothing]
    return "\n".join([notice, *lines])


def _split(spoken: Sequence[ChatMessage]) -> tuple[list[str], str]:
    asked = max((at for at, message in enumerate(spoken) if message.role == "user"), default=None)
    if asked is None:
        return [message.content for message in spoken], ""
    remembered, marker, question = spoken[asked].content.rpartition(REQUEST_MARKER)
    others = [message.content for at, message in enumerate(spoken) if at != asked]
    return [*others, remembered] if marker else others, question.strip()


def _without_own_words(texts: Sequence[str]) -> Iterator[str]:
    """Leave out earlier answers of this model, which would be quoted within quotes."""
    own = (NOTICE_ZH, NOTICE_EN, _NOTHING_ZH, _NOTHING_EN)
    for text in texts:
        lines = text.split("\n")
        yield "\n".join(
            line
            for line in lines
            if not any(words in line for words in own)
            and not line.startswith(("- 「", "- “"))
            and line.strip() not in _SUMMARY_HEADINGS
        )


def _best(sentences: Sequence[Sentence], question: str) -> list[Sentence]:
    asked = set(terms_of(question))
    weights = idf(sentences)
    unseen = _UNSEEN_WEIGHT * math.log(1 + len(sentences))
    whole = sum(weights.get(term, unseen) for term in asked)
    scored = [
        (sum(weights[term] for term in asked & set(sentence.terms)) / whole, at)
        for at, sentence in enumerate(sentences)
        if whole and not _is_same(set(sentence.terms), asked)
    ]
    ranked = sorted((score, at) for score, at in scored if score >= MIN_COVERED)[::-1]
    picked = _distinct([at for _, at in ranked], sentences, MAX_QUOTES)
    return [sentences[at] for at in picked]


def _distinct(ranked: Sequence[int], sentences: Sequence[Sentence], limit: int) -> list[int]:
    picked: list[int] = []
    for at in ranked:
        terms = set(sentences[at].terms)
        if not any(_is_same(terms, set(sentences[other].terms)) for other in picked):
            picked.append(at)
        if len(picked) == limit:
            break
    return picked


def _is_same(terms: set[str], others: set[str]) -> bool:
    return len(terms & others) >= _SAME_SHARE * max(len(terms), len(others))


def _quoted(sentence: Sentence, *, is_zh: bool) -> str:
    date = sentence.date if sentence.date and sentence.date not in sentence.text else ""
    if is_zh:
        return f"- 「{sentence.text}」" + (f"（{date}）" if date else "")
    return f"- “{sentence.text}”" + (f" ({date})" if date else "")


def _summary(texts: Sequence[str]) -> str:
    source = "\n".join(texts)
    sentences = sentences_of(_without_own_words(texts))
    weights = idf(sentences)
    ranked = sorted(
        range(len(sentences)), key=lambda at: (-_information(sentences[at], weights), at)
    )
    room = min(int(len(source) * SUMMARY_SHARE), MAX_SUMMARY_CHARACTERS)
    lines: dict[int, str] = {}
    for at in _distinct(ranked, sentences, limit=40):
        line = _dated(sentences[at])
        if len(line) < room:
            lines[at] = line
            room -= len(line) + 1
    if not lines and ranked:
        return sentences[ranked[0]].text[: max(1, len(source) // 2)]
    nothing = _NOTHING_ZH if is_chinese(source) else _NOTHING_EN
    return "\n".join(lines[at] for at in sorted(lines)) or nothing


def _information(sentence: Sentence, weights: dict[str, float]) -> float:
    terms = set(sentence.terms)
    weight = sum(weights[term] for term in terms) / math.sqrt(len(terms) + 3)
    folded = sentence.text.casefold()
    telling = sum(1 for word in _TELLING if word in folded)
    return weight * (1 + 0.4 * min(telling, 2) + 0.2 * any(c.isdigit() for c in folded))


def _dated(sentence: Sentence) -> str:
    if sentence.date is None or sentence.date in sentence.text:
        return f"- {sentence.text}"
    return f"- {sentence.date} {sentence.text}"
