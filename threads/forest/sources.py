"""What the next node of a forest is made from: the turns of a chunk, or the roots to merge.

Read in one short transaction; what must still hold when the node is stored is kept beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from django.db.models import TextField
from django.db.models.functions import MD5, Cast, Concat

from governance.policy import policy_for
from governance.policy_rules import Policy
from memory.compression.nodes import NodeChild, NodeContent, NodeSource, fitted
from memory.compression.turns import SummaryTurn
from memory.language import Language, dominant_language
from memory.querysets import ScopedQuerySet
from memory.rls import scoped_transaction
from memory.sanitize import break_joined, sanitize
from memory.scope import Scope
from memory.tokens import estimate, truncate_middle
from threads.forest.planning import ForestShape, text_limit
from threads.forest.reading import (
    RootNode,
    next_chunk,
    read_forest,
    roots_to_merge,
    shape_of,
)
from threads.history import SHOWN
from threads.models import Agent, Message, Run, RunStatus, SummaryNode, Thread, ThreadStrategy

_GAP: Final = " … "
_TOOL_LINE_TOKENS: Final = 80

# Run id and digest of its texts.
Digests = frozenset[tuple[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDraft:
    """A node to be written: its place in the forest, and what it is made from.

    Attributes:
        upto_seq: Where the forest ended when this was read (level 0).
        digests: The chunk's runs as read: id, and a digest of the texts (level 0).
        message_ids: All messages of those runs (level 0).
        child_ids: The nodes it will be the parent of (higher levels).
    """

    agent: Agent
    shape: ForestShape
    source: NodeSource
    language: Language
    level: int
    start_seq: int
    end_seq: int
    start_at: datetime
    end_at: datetime
    turn_count: int
    message_count: int
    source_token_count: int
    upto_seq: int = 0
    digests: Digests = frozenset()
    message_ids: frozenset[str] = frozenset()
    child_ids: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Keeper:
    """The agent of a lossless thread, and the numbers its forest grows by."""

    agent: Agent
    policy: Policy
    shape: ForestShape


def read_keeper(*, scope: Scope) -> Keeper | None:
    """Return who keeps a forest for the scope's thread, None if its agent does not.

    Inside the caller's transaction. Cost: three queries.
    """
    thread = Thread.objects.in_scope(scope).filter(pk=scope.thread_id).first()
    if thread is None:
        return None
    rows = Agent.objects.in_scope(scope).select_related("provider", "memory_fallback_provider")
    agent = rows.get(pk=thread.agent_id)
    if agent.thread_strategy != ThreadStrategy.LOSSLESS:
        return None
    policy = policy_for(scope=scope, agent_overrides=agent.policy)
    return Keeper(agent=agent, policy=policy, shape=shape_of(agent=agent, policy=policy))


def read_chunk(*, scope: Scope) -> NodeDraft | None:
    """Return the level-0 node that is due, None if none is. Cost: nine queries."""
    with scoped_transaction(scope):
        keeper = read_keeper(scope=scope)
        if keeper is None:
            return None
        agent, shape = keeper.agent, keeper.shape
        chunk = next_chunk(scope=scope, thread_id=scope.thread_id or "", shape=shape)
        if chunk is None:
            return None
        run_ids = [turn.run_id for turn in chunk.turns]
        rows = Run.objects.in_scope(scope).filter(pk__in=run_ids, status__in=SHOWN)
        # Digests first: whatever changes after them is seen when the node is stored.
        digests = digests_of(rows=rows)
        turns = load_texts(rows=rows)
        if len(turns) != len(run_ids):
            return None
        messages = Message.objects.in_scope(scope).filter(run_id__in=run_ids)
        message_ids = frozenset(messages.values_list("id", flat=True))
        return NodeDraft(
            agent=agent,
            shape=shape,
            source=NodeSource(turns=_bounded(turns, shape.source_tokens)),
            language=_language(agent, [turn.user_text for turn in turns]),
            level=0,
            start_seq=chunk.turns[0].seq,
            end_seq=chunk.turns[-1].seq,
            start_at=min(turn.created_at for turn in chunk.turns),
            end_at=max(turn.created_at for turn in chunk.turns),
            turn_count=len(chunk.turns),
            message_count=len(message_ids),
            source_token_count=sum(turn.tokens for turn in chunk.turns),
            upto_seq=chunk.upto_seq,
            digests=digests,
            message_ids=message_ids,
        )


def digests_of(*, rows: ScopedQuerySet[Run]) -> Digests:
    """Return runs' ids with a digest of all their texts, made by the database. Cost: one query."""
    tools = Cast("tool_steps", TextField())
    parts = [MD5("input"), MD5("output"), MD5(tools)]
    digest = Concat(*parts, output_field=TextField())
    return frozenset(rows.annotate(digest=digest).values_list("id", "digest"))


def load_texts(*, rows: ScopedQuerySet[Run]) -> list[SummaryTurn]:
    """Return the texts of runs as turns, in order; the one place that reads them for a forest.

    Of a failed turn only what the user said. Cost: one query.
    """
    columns = ("seq", "input", "output", "tool_steps", "created_at", "status")
    turns: list[SummaryTurn] = []
    for seq, question, answer, steps, at, status in rows.order_by("seq").values_list(*columns):
        is_failed = status == RunStatus.FAILED
        turns.append(
            SummaryTurn(
                seq=seq,
                user_text=question,
                assistant_text="" if is_failed else "\n".join((*_tool_texts(steps), answer)),
                at=at,
                is_failed=is_failed,
            )
        )
    return turns


def _tool_texts(steps: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield one line for each tool call between question and answer, with its reference id."""
    for step in steps:
        called = f"[{step.get('name', '')} {step.get('arguments', '')}]"
        found = f"{step.get('result', '')} {step.get('reference_id', '')}".strip()
        yield truncate_middle(f"{called} {found}", max_tokens=_TOOL_LINE_TOKENS, mark=_GAP)


def read_merge(*, scope: Scope) -> NodeDraft | None:
    """Return the node of a higher level that is due, None if none is; reads nodes only.

    Cost: five queries.
    """
    with scoped_transaction(scope):
        keeper = read_keeper(scope=scope)
        if keeper is None:
            return None
        agent, shape = keeper.agent, keeper.shape
        view = read_forest(scope=scope, thread_id=scope.thread_id or "")
        roots = roots_to_merge(view=view, shape=shape)
        if not roots:
            return None
        return _merge_draft(scope, agent, shape, roots)


def _merge_draft(
    scope: Scope, agent: Agent, shape: ForestShape, roots: Sequence[RootNode]
) -> NodeDraft:
    rows = SummaryNode.objects.in_scope(scope).filter(pk__in=[root.id for root in roots])
    nodes = list(rows.order_by("start_seq"))
    language = _language(agent, [node.summary for node in nodes])
    return NodeDraft(
        agent=agent,
        shape=shape,
        source=NodeSource(children=_bounded_children(nodes, shape.source_tokens, language)),
        language=language,
        level=nodes[0].level + 1,
        start_seq=nodes[0].start_seq,
        end_seq=nodes[-1].end_seq,
        start_at=min(node.start_at for node in nodes),
        end_at=max(node.end_at for node in nodes),
        turn_count=sum(node.turn_count for node in nodes),
        message_count=sum(node.message_count for node in nodes),
        source_token_count=sum(node.source_token_count for node in nodes),
        child_ids=frozenset(node.pk for node in nodes),
    )


def _bounded(turns: Sequence[SummaryTurn], most: int) -> tuple[SummaryTurn, ...]:
    """Return turns cleaned and within `most` tokens, the largest texts cut in the middle.

    Only what the model sees is cut; the originals stay as they are.
    """
    # First roughly: cleaning a text costs its length, and a giant one is cut anyway.
    cleaned = [
        replace(
            turn,
            user_text=sanitize(truncate_middle(turn.user_text, max_tokens=most, mark=_GAP)).text,
            assistant_text=sanitize(
                truncate_middle(turn.assistant_text, max_tokens=most, mark=_GAP)
            ).text,
        )
        for turn in turns
    ]
    # An order spread over several messages is harmless one by one: read together, it is not.
    said = break_joined([turn.user_text for turn in cleaned])
    cleaned = [replace(turn, user_text=text) for turn, text in zip(cleaned, said, strict=True)]
    texts = [text for turn in cleaned for text in (turn.user_text, turn.assistant_text)]
    limit = text_limit(text_tokens=[estimate(text) for text in texts], most=most)
    return tuple(
        replace(
            turn,
            user_text=truncate_middle(turn.user_text, max_tokens=limit, mark=_GAP),
            assistant_text=truncate_middle(turn.assistant_text, max_tokens=limit, mark=_GAP),
        )
        for turn in cleaned
    )


def _bounded_children(
    nodes: Sequence[SummaryNode], most: int, language: Language
) -> tuple[NodeChild, ...]:
    """Return nodes as sources, shortened if they were made when the window was larger."""
    limit = text_limit(text_tokens=[node.token_count for node in nodes], most=most)
    return tuple(
        NodeChild(
            content=fitted(
                NodeContent.from_json(node.content), language=language, max_tokens=limit
            ),
            start_at=node.start_at,
            end_at=node.end_at,
        )
        for node in nodes
    )


def _language(agent: Agent, said: Sequence[str]) -> Language:
    """Return the language the conversation is in; the agent's own, where it has one."""
    if agent.language == "zh":
        return "zh"
    if agent.language == "en":
        return "en"
    return "zh" if dominant_language(" ".join(said)) == "zh" else "en"
