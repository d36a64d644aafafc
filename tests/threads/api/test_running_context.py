"""What a thread brings into a prompt, whichever of the two ways a run is asked for."""

from __future__ import annotations

from typing import Any

import pytest
import re2

from tests.asgi_client import AsgiClient
from tests.factories import make_end_user
from tests.fakes.openai_replies import text
from tests.talking import new_thread, tell
from tests.threads.api.stage import ASK, Stage

TAG = re2.compile(r"#[0-9a-f]{20}")
TURNS = [("出一份数据结构试卷", "出好了，四道简答题。"), ("Swap question three", "Swapped.")]


@pytest.mark.req("A12")
def test_json_and_stream_bring_the_same_thread_into_the_prompt(stage: Stage) -> None:
    stage.server.script(text("好。"), text("好。"))
    threads = []
    for user_id in ("teacher-8", "teacher-9"):
        thread = new_thread(stage.agent, make_end_user(stage.tenant, user_id))
        tell(thread, TURNS)
        threads.append(ASK | {"user_id": user_id, "thread_id": thread.pk})

    async def scene(client: AsgiClient) -> Any:
        await client.post(stage.run_path, threads[0])
        async with client.stream(stage.stream_path, threads[1]) as stream:
            await stream.over()

    stage.play(scene)
    by_json, by_stream = (request.body["messages"] for request in stage.server.requests)
    assert "四道简答题" in by_json[-1]["content"]
    assert "Swapped." in by_json[-1]["content"]
    contents = [
        [TAG.sub("#", message["content"]) for message in messages]
        for messages in (by_json, by_stream)
    ]
    assert contents[0] == contents[1]
