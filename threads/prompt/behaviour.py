"""Approved behaviour samples: the block that follows the agent's own system prompt. Pure.

Whatever an approved text holds, its role marks, template tokens and boundary lines lose their shape
here: a person approved what it says, not that it may pass for somebody else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from governance.behaviour.live import LiveSample
from governance.policy_rules import Policy
from memory.language import Language
from memory.ledger import BEHAVIOUR, Dropped, SectionRow
from memory.sanitize import sanitize
from memory.tokens import estimate
from memory.trust import ContextItem, Source

KIND: Final = "sample"
_SECTION_CAP: Final = "section_cap"


@dataclass(frozen=True, slots=True)
class _Words:
    """The fixed phrases of one language; {date}, {name}, … are replaced as plain text."""

    heading: str
    rule: str
    intent: str
    example: str
    asked: str
    answered: str


_WORDS: Final[dict[Language, _Words]] = {
    "zh": _Words(
        heading="[行为规范]\n以下规则、意图与示例经人工批准，请遵循；与上文冲突时以上文为准。",
        rule="- 规则（{date} 批准）：{content}",
        intent="- 意图「{name}」（{date} 批准）：{content}",
        example="- 示例（{date} 批准）：",
        asked="  提问：{text}",
        answered="  回答：{text}",
    ),
    "en": _Words(
        heading="[Approved Behaviour]\nA person approved these rules, intents and examples; follow"
        " them. Where one contradicts the text above, the text above holds.",
        rule="- Rule (approved {date}): {content}",
        intent="- Intent “{name}” (approved {date}): {content}",
        example="- Example (approved {date}):",
        asked="  Asked: {text}",
        answered="  Answered: {text}",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """The samples of one prompt: their block, their ledger row, what they say of themselves.

    `row` is None where no sample holds.
    """

    text: str = ""
    row: SectionRow | None = None
    items: tuple[ContextItem, ...] = ()

    def after(self, system_prompt: str) -> str:
        """Return the system prompt: the agent's own words, then the block."""
        return "\n\n".join(part for part in (system_prompt, self.text) if part)


NOTHING: Final = Behaviour()


def pack_samples(*, samples: Sequence[LiveSample], policy: Policy, language: Language) -> Behaviour:
    """Return the block of the samples that fit, whole and in order; the others are named.

    Within the policy's `behaviour_tokens` and `behaviour_samples`. Cost: linear in their text.
    """
    if not samples:
        return NOTHING
    words, cap = _WORDS[language], policy.count("behaviour_tokens")
    most = policy.count("behaviour_samples")
    lines = [words.heading]
    taken = estimate(words.heading) + 2
    shown: list[ContextItem] = []
    dropped: list[Dropped] = []
    for sample in samples:
        line = _line(sample, words)
        tokens = estimate(line) + 1
        if taken + tokens > cap or len(shown) >= most:
            dropped.append(Dropped(kind=KIND, id=sample.id, tokens=tokens, reason=_SECTION_CAP))
            continue
        taken += tokens
        lines.append(line)
        shown.append(_item(sample, line, tokens))
    granted = taken if shown else 0
    row = SectionRow(
        name=BEHAVIOUR,
        cap=cap,
        wanted=granted + sum(gone.tokens for gone in dropped),
        granted=granted,
        items=len(shown),
        dropped=tuple(dropped),
    )
    return Behaviour(text="\n".join(lines) if shown else "", row=row, items=tuple(shown))


def _line(sample: LiveSample, words: _Words) -> str:
    date = sample.approved_at.date().isoformat()
    if sample.kind == "example":
        return "\n".join(
            (
                words.example.replace("{date}", date),
                words.asked.replace("{text}", _clean(sample.input)),
                words.answered.replace("{text}", _clean(sample.output)),
            )
        )
    # The name last but one, and nothing after the content: neither is read for places again.
    if sample.kind == "intent":
        head, _, tail = words.intent.replace("{date}", date).partition("{name}")
        return head + _clean(sample.name) + tail.replace("{content}", _clean(sample.content))
    return words.rule.replace("{date}", date).replace("{content}", _clean(sample.content))


def _clean(text: str) -> str:
    """Return a text as data: cleaned before it stands in a line of ours, its own lines set in."""
    lines = (line.rstrip() for line in sanitize(text).text.splitlines())
    return "\n    ".join(line for line in lines if line)


def _item(sample: LiveSample, line: str, tokens: int) -> ContextItem:
    return ContextItem(
        section=BEHAVIOUR,
        kind=KIND,
        id=sample.id,
        tier="approved",
        source=Source(kind="sample", id=sample.id),
        created_at=sample.created_at,
        approved_at=sample.approved_at,
        content=line,
        tokens=tokens,
    )
