"""A lossless thread's messages being put together, and made smaller step by step until they fit. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from memory.boundary import (
    acknowledgement,
    close_history_line,
    frame_history,
    open_history_line,
)
from memory.providers.base import ChatMessage
from threads.lossless.texts import MESSAGE_TOKENS, ShownText, ThreadTexts
from threads.lossless.turns import LoadedTurn, ShownNode, ShownTurn, shorten_node, show_turn
from threads.past import LAST_TURNS
from threads.turn_cutting import TURN_OVERHEAD_TOKENS, fit_turns

# The last turns are in every prompt that shows anything.


@dataclass(kw_only=True)
class Draft:
    """What a prompt shows of a thread, in its order, and what has left it.

    Attributes:
        waiting: How many turns before the middle are not shown and wait for their summary.
        gone: The turns that have left, in the order they left.
        gone_nodes: The roots that have left, likewise.
    """

    texts: ThreadTexts
    can_open_originals: bool
    head: list[ShownTurn]
    nodes: list[ShownNode]
    middle: list[ShownTurn]
    tail: list[ShownTurn]
    waiting: int = 0
    stand_in: ShownText | None = None
    gone: list[LoadedTurn] = field(default_factory=list)
    gone_nodes: list[ShownNode] = field(default_factory=list)
    uncut: dict[str, ShownTurn] = field(init=False)

    def __post_init__(self) -> None:
        """Remember the turns that may be cut as they are now."""
        self.uncut = {shown.turn.run_id: shown for shown in (*self.head, *self.tail)}

    @property
    def turns(self) -> list[ShownTurn]:
        """The turns as shown, oldest first."""
        return [*self.head, *self.middle, *self.tail]

    def outline(self) -> str:
        """Return the skeleton message; empty if there is nothing but turns."""
        lines = [node.text.content for node in self.nodes]
        if self.stand_in:
            lines.append(self.stand_in.content)
        if self.waiting:
            lines.append(self.texts.wording.awaiting.replace("{count}", str(self.waiting)))
        if not lines:
            return ""
        return self.texts.outline(nodes=lines, can_open_originals=self.can_open_originals)

    def messages(self) -> tuple[ChatMessage, ...]:
        """Return the messages, user and assistant by turns, within the lines of the history."""
        plain = [message for turn in self.head for message in turn.messages]
        plain += self._outline_messages()
        plain += [message for turn in (*self.middle, *self.tail) for message in turn.messages]
        if not plain:
            return ()
        wording, tag = self.texts.wording, self.texts.tag
        ends = (plain[0].content, plain[-1].content)
        first, last = frame_history(wording=wording, tag=tag, messages=ends)
        plain[0] = ChatMessage(role=plain[0].role, content=first)
        plain[-1] = ChatMessage(role=plain[-1].role, content=last)
        return tuple(plain)

    def _outline_messages(self) -> list[ChatMessage]:
        outline = self.outline()
        if not outline:
            return []
        said = acknowledgement(wording=self.texts.wording, tag=self.texts.tag)
        return [
            ChatMessage(role="user", content=outline),
            ChatMessage(role="assistant", content=said),
        ]

    def tokens(self) -> int:
        """Return what the messages cost, counted text by text, each once."""
        turns = self.turns
        outline = self._outline_messages()
        if not (turns or outline):
            return 0
        count = self.texts.count
        cost = sum(turn.tokens for turn in turns)
        cost += sum(count(message.content) + MESSAGE_TOKENS for message in outline)
        begins_with_turn = bool(self.head) or not outline
        ends_with_turn = bool(self.middle or self.tail) or not outline
        first = (turns[0].messages if begins_with_turn else outline)[0].content
        last = (turns[-1].messages if ends_with_turn else outline)[-1].content
        wording, tag = self.texts.wording, self.texts.tag
        opened = f"{open_history_line(wording=wording, tag=tag)}\n{first}"
        closed = f"{last}\n{close_history_line(wording=wording, tag=tag)}"
        return cost + count(opened) - count(first) + count(closed) - count(last)

    def clear(self) -> None:
        """Leave everything out."""
        self.gone += [shown.turn for shown in self.turns]
        self.gone_nodes += self.nodes
        self.head, self.nodes, self.middle, self.tail = [], [], [], []
        self.stand_in, self.waiting = None, 0


def shrink(draft: Draft, *, cap: int) -> None:
    """Make `draft` cost at most `cap` tokens, losing the least: see `_STEPS` for the order.

    If not even the last turns fit, cut to the least, it is empty. Cost: cheap arithmetic for each
    step; only turns that are cut are cleaned and counted anew.
    """
    for step in _STEPS:
        while (over := draft.tokens() - cap) > 0 and step(draft, over):
            pass
        if over <= 0:
            _use_room(draft, cap)
            return
    draft.clear()


def _drop_middle(draft: Draft, over: int) -> bool:
    """Let the oldest turns of the middle leave, as many as cost `over`."""
    count = 0
    while over > 0 and count < len(draft.middle):
        over -= draft.middle[count].tokens
        count += 1
    draft.gone += [shown.turn for shown in draft.middle[:count]]
    del draft.middle[:count]
    draft.waiting += count
    return count > 0


def _shorten_nodes(draft: Draft, over: int) -> bool:
    """Show the oldest roots as lines of reference, as many as save `over`."""
    is_changed = False
    for index, node in enumerate(draft.nodes):
        if over <= 0:
            break
        short = shorten_node(texts=draft.texts, node=node)
        over -= node.text.tokens - short.text.tokens
        is_changed = is_changed or short is not node
        draft.nodes[index] = short
    return is_changed


def _cut_head(draft: Draft, over: int) -> bool:
    """Cut the head turns in the middle."""
    cut = _cut(draft, draft.head, over)
    missing = len(draft.head) - len(cut)
    if not _is_less(cut, draft.head) or not _may_lose(draft, missing):
        return False
    draft.gone += [shown.turn for shown in draft.head[:missing]]
    draft.head = cut
    return True


def _cut_tail(draft: Draft, over: int) -> bool:
    """Cut the tail turns in the middle, the newest the least."""
    cut = _cut(draft, draft.tail, over)
    missing = len(draft.tail) - len(cut)
    if not _is_less(cut, draft.tail) or len(cut) < min(LAST_TURNS, len(draft.tail)):
        return False
    draft.gone += [shown.turn for shown in draft.tail[:missing]]
    draft.tail = cut
    return True


def _is_less(cut: Sequence[ShownTurn], turns: Sequence[ShownTurn]) -> bool:
    return sum(shown.tokens for shown in cut) < sum(shown.tokens for shown in turns)


def _may_lose(draft: Draft, count: int) -> bool:
    """Say whether the last turns are still there with `count` of the older ones gone."""
    total = len(draft.turns)
    return not count or total - count >= LAST_TURNS


def _cut(draft: Draft, turns: Sequence[ShownTurn], over: int) -> list[ShownTurn]:
    """Return the turns costing about `over` less, without the oldest that have no room."""
    texts = draft.texts
    loaded = [shown.turn for shown in turns]
    room = sum(shown.tokens for shown in turns) - over - sum(map(_frame_tokens(texts), turns))
    fitted = fit_turns(
        turns=[turn.told() for turn in loaded],
        wording=texts.wording,
        limit=max(room + len(turns) * TURN_OVERHEAD_TOKENS, 0),
        read_marks=lambda: [turn.marks(texts.wording) for turn in loaded],
    )
    cut = []
    for turn, told in zip(loaded[len(loaded) - len(fitted) :], fitted, strict=True):
        shown = show_turn(texts=texts, turn=turn, fitted=told, is_bare=True)
        uncut = draft.uncut[turn.run_id]
        cut.append(shown if shown.tokens < uncut.tokens else uncut)
    return cut


def _frame_tokens(texts: ThreadTexts) -> Callable[[ShownTurn], int]:
    """Return the function that says what a shown turn costs beyond its question and answer."""

    def beyond(shown: ShownTurn) -> int:
        return shown.tokens - texts.count(shown.question.body) - texts.count(shown.answer.body)

    return beyond


def _drop_head(draft: Draft, _over: int) -> bool:
    """Let the oldest head turn leave, if it is not one of the last two."""
    if not draft.head or not _may_lose(draft, 1):
        return False
    draft.gone.append(draft.head.pop(0).turn)
    return True


def _drop_node(draft: Draft, _over: int) -> bool:
    """Let the oldest root leave."""
    if not draft.nodes:
        return False
    draft.gone_nodes.append(draft.nodes.pop(0))
    return True


def _drop_stand_in(draft: Draft, _over: int) -> bool:
    """Let the stand-in leave, then the notice of turns that wait: the ledger names both."""
    if not (draft.stand_in or draft.waiting):
        return False
    draft.stand_in, draft.waiting = None, 0
    return True


def _drop_tail(draft: Draft, _over: int) -> bool:
    """Let the oldest tail turn leave, if it is not one of the last two."""
    if not draft.tail or not _may_lose(draft, 1):
        return False
    draft.gone.append(draft.tail.pop(0).turn)
    return True


# What is lost least comes first.
_STEPS: Final[Sequence[Callable[[Draft, int], bool]]] = (
    _drop_middle,
    _shorten_nodes,
    _cut_head,
    _cut_tail,
    _drop_head,
    _drop_node,
    _drop_stand_in,
    _drop_tail,
)


def _use_room(draft: Draft, cap: int) -> None:
    """Give what the last steps left over to the tail, where it was cut further than need be."""
    room = cap - draft.tokens()
    tail = list(draft.tail)
    if room <= 0 or not any(shown.is_cut for shown in tail):
        return
    cut = _cut(draft, tail, -room)
    if len(cut) == len(tail):
        draft.tail = cut
        if draft.tokens() > cap:
            draft.tail = tail
