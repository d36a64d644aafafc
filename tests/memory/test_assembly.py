"""Putting the prompt together."""

from __future__ import annotations

import random
from typing import Any

import pytest

from memory.assembly import build_messages, prompt_tokens
from memory.boundary import CHINESE, new_tag
from memory.tokens import estimate

TAG = new_tag(random.Random(3))


@pytest.mark.parametrize("system", ["", "You help."])
def test_request_alone_is_sent_as_it_is(system: Any) -> None:
    request = '{"a": {b}} %s {0.__class__}\n'
    messages = build_messages(
        system_prompt=system, wording=CHINESE, tag=TAG, sections=("", ""), request=request
    )
    assert messages[-1].content == request
    assert [message.role for message in messages] == (["system"] if system else []) + ["user"]
    assert prompt_tokens(messages) >= estimate(request) + estimate(system)
