"""Putting a prompt together: the past, then sections in their order before the request. Pure.

The system prompt holds only the agent's own words; everything remembered or handed in stands before
the user's request, each section inside the untrusted boundary (DESIGN 6).
"""

from __future__ import annotations

from collections.abc import Sequence

from memory.boundary import Wording, compose_request
from memory.providers.base import ChatMessage
from memory.tokens import count_messages


def build_messages(
    *,
    system_prompt: str,
    wording: Wording,
    tag: str,
    sections: Sequence[str],
    request: str,
    past: Sequence[ChatMessage] = (),
) -> tuple[ChatMessage, ...]:
    """Return the prompt: the agent's system prompt if it has one, the past, the user's message.

    The last message ends with the request, byte for byte.
    """
    content = compose_request(
        wording=wording, tag=tag, sections=sections, request=request, has_history=bool(past)
    )
    system = (ChatMessage(role="system", content=system_prompt),) if system_prompt else ()
    return (*system, *past, ChatMessage(role="user", content=content))


def prompt_tokens(messages: Sequence[ChatMessage]) -> int:
    """Estimate what a prompt costs, framing included."""
    return count_messages([(message.role, message.content) for message in messages])
