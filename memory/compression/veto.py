"""What no shortening of a prompt may lose, checked on the prompt as assembled. Pure.

Patterns only: a text, an id or an anchor is in the messages or it is not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from memory.compression.anchors import Anchor, held_by
from memory.compression.folding import fold, holds
from memory.providers.base import ChatMessage, ToolSpec

_BETWEEN = "\n\x00\n"  # nothing that is looked for can run over it


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedText:
    """A text that stands in the prompt as it is: a sample, a preference, a confirmed core fact."""

    kind: str
    id: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentTurn:
    """One of the last turns; it is there if any of `needles` is: the whole of it, or its cut form.

    Empty needles say nothing; a turn without any other is not looked for.
    """

    id: str
    needles: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class VetoList:
    """What must be in the prompt before and after each level of compression.

    Texts are given as they stand in the prompt, cleaned. `request` ends the last user message,
    byte for byte; `anchors` and `open_items` must be held by what was remembered, that is outside
    of the system prompt and the request; each of `tool_calls` (ids) is followed by its result.
    """

    system_prompt: str = ""
    request: str = ""
    tools: tuple[ToolSpec, ...] = ()
    fixed: tuple[FixedText, ...] = ()
    recent: tuple[RecentTurn, ...] = ()
    tool_calls: tuple[str, ...] = ()
    reference_ids: tuple[str, ...] = ()
    anchors: tuple[Anchor, ...] = ()
    open_items: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """Something on the veto list that the prompt lacks, named without quoting it.

    `id` is its own id; of anchors and open items, which have none, their number in the list.
    """

    kind: str
    id: str

    def __str__(self) -> str:
        """Return it as traces show it."""
        return f"{self.kind}:{self.id}"


def missing(
    veto: VetoList, *, messages: Sequence[ChatMessage], tools: Sequence[ToolSpec]
) -> tuple[Missing, ...]:
    """Return what of the veto list is not in `messages` and `tools`, in the order of the list.

    Linear in the length of the messages for each entry of the list; folds them once.
    """
    return tuple(_missing(veto, messages, tools))


def _missing(
    veto: VetoList, messages: Sequence[ChatMessage], tools: Sequence[ToolSpec]
) -> Iterator[Missing]:
    """Yield what is missing."""
    system_texts = [message.content for message in messages if message.role == "system"]
    if veto.system_prompt and not any(veto.system_prompt in text for text in system_texts):
        yield Missing(kind="system_prompt", id="")
    if not _last_user_text(messages).endswith(veto.request):
        yield Missing(kind="request", id="")
    offered = {tool.name: tool for tool in tools}
    for tool in veto.tools:
        if offered.get(tool.name) != tool:
            yield Missing(kind="tool", id=tool.name)
    given = _without_request(messages, veto.request)
    everything = _joined(given)
    for fixed in veto.fixed:
        if fixed.text.strip() not in everything:
            yield Missing(kind=fixed.kind, id=fixed.id)
    yield from _missing_calls(veto, messages)
    past = _joined([message for message in given if message.role != "system"])
    yield from _missing_turns(veto, past)
    yield from _missing_words(veto, past)


def _missing_calls(veto: VetoList, messages: Sequence[ChatMessage]) -> Iterator[Missing]:
    """Yield the tool calls that are not there, or not followed by their result."""
    called: set[str] = set()
    answered: set[str] = set()
    for message in messages:
        called.update(call.id for call in message.tool_calls)
        if message.role == "tool" and message.tool_call_id in called:
            answered.add(message.tool_call_id or "")
    for call_id in veto.tool_calls:
        if call_id not in answered:
            yield Missing(kind="tool_call", id=call_id)


def _missing_turns(veto: VetoList, past: str) -> Iterator[Missing]:
    """Yield the last turns that are not there in any form, and the references that are gone."""
    for turn in veto.recent:
        needles = [needle.strip() for needle in turn.needles if needle.strip()]
        if needles and not any(needle in past for needle in needles):
            yield Missing(kind="turn", id=turn.id)
    for reference_id in veto.reference_ids:
        if not holds(needle=reference_id, text=past, is_word=True):
            yield Missing(kind="reference", id=reference_id)


def _missing_words(veto: VetoList, past: str) -> Iterator[Missing]:
    """Yield the anchors and open items that what was remembered does not hold."""
    held = {anchor.folded for anchor in held_by(veto.anchors, past)}
    for number, anchor in enumerate(veto.anchors, 1):
        if anchor.folded not in held:
            yield Missing(kind="anchor", id=f"{anchor.kind}.{number}")
    folded = fold(past) if veto.open_items else ""
    for number, item in enumerate(veto.open_items, 1):
        if fold(item) not in folded:
            yield Missing(kind="open_item", id=str(number))


def _last_user_text(messages: Sequence[ChatMessage]) -> str:
    """Return the content of the last user message, "" if there is none."""
    return next((m.content for m in reversed(messages) if m.role == "user"), "")


def _without_request(messages: Sequence[ChatMessage], request: str) -> list[ChatMessage]:
    """Return the messages, the last user message without the request at its end."""
    kept = list(messages)
    for at in range(len(kept) - 1, -1, -1):
        if kept[at].role == "user":
            kept[at] = replace(kept[at], content=kept[at].content.removesuffix(request))
            break
    return kept


def _joined(messages: Sequence[ChatMessage]) -> str:
    """Return all texts of the messages, the arguments of tool calls included."""
    return _BETWEEN.join(
        text
        for message in messages
        for text in (message.content, *(call.arguments for call in message.tool_calls))
    )
