"""The OpenAI-compatible client: objections, retries, timeouts, secrets, closing, configuration."""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import aclosing

import pytest

from memory.providers.base import (
    TextDelta,
    Usage,
    complete,
)
from memory.providers.errors import (
    ProviderError,
    ProviderMisconfiguredError,
    ProviderRefusedHostError,
    ProviderTimeoutError,
)
from memory.providers.openai_compatible import OpenAICompatibleProvider
from tests.fakes.openai_replies import (
    JSON_TYPE,
    Answer,
    Body,
    Dribble,
    Hang,
    HangUp,
    Reply,
    Stream,
    chunk,
    event,
    redirect,
    status,
    text,
    tool_call,
)
from tests.fakes.openai_server import FakeOpenAI
from tests.memory.providers.conftest import KEY, Caller, request

HELLO = event(chunk({"content": "hello"}))
STOP = event(chunk({}, finish="stop"))
CALLED = event(chunk({"tool_calls": [tool_call("find", '{"q": "墨"}')]}))
BROKEN_HEAD = HangUp(after=b"HTTP/1.1 200 OK\r\ncontent-")
BROKEN_STREAM = Stream(parts=[HELLO], breaks=True)


class TestRetries:
    @pytest.mark.parametrize(
        ("code", "calls"),
        [(429, 3), (503, 3), (500, 2), (502, 2), (504, 2), (401, 1), (403, 1), (404, 1), (418, 1)],
    )
    def test_only_what_is_safe_is_repeated(
        self, caller: Caller, server: FakeOpenAI, code: int, calls: int
    ) -> None:
        server.answer_with(lambda _: status(code))
        with pytest.raises(ProviderError) as caught:
            caller.complete()
        assert caught.value.status == code
        assert len(server.requests) == calls

    def test_success_after_failures_is_a_success(self, caller: Caller, server: FakeOpenAI) -> None:
        server.script(status(503), HangUp(), text("at last"))
        assert caller.complete().text == "at last"

    def test_retry_after_is_waited_for(self, caller: Caller, server: FakeOpenAI) -> None:
        server.script(status(429, retry_after="3"), text("ok"))
        assert caller.complete().text == "ok"
        assert caller.waits == [3.0]

    def test_retry_after_too_long_fails_at_once(self, caller: Caller, server: FakeOpenAI) -> None:
        server.script(status(429, retry_after="3600"))
        with pytest.raises(ProviderError):
            caller.complete()
        assert caller.waits == []

    def test_connection_refused_is_repeated_then_fails(self, caller: Caller) -> None:
        caller.server.stop()
        with pytest.raises(ProviderError, match="cannot be reached"):
            caller.complete()
        assert len(caller.waits) == 2

    def test_close_before_any_byte_is_repeated(self, caller: Caller, server: FakeOpenAI) -> None:
        server.script(HangUp(), HangUp(), HangUp())
        with pytest.raises(ProviderError, match="cannot be reached"):
            caller.complete()
        assert len(server.requests) == 3

    @pytest.mark.parametrize("reply", [BROKEN_HEAD, BROKEN_STREAM])
    def test_never_repeated_once_bytes_have_come(
        self, caller: Caller, server: FakeOpenAI, reply: Reply
    ) -> None:
        server.answer_with(lambda _: reply)
        with pytest.raises(ProviderError):
            caller.complete()
        assert len(server.requests) == 1

    def test_redirects_are_not_followed_case_182(self, caller: Caller, server: FakeOpenAI) -> None:
        """Case 182: a 302 leads nowhere."""
        with FakeOpenAI() as other:
            server.script(redirect(other.base_url + "/chat/completions"))
            with pytest.raises(ProviderError, match="redirect"):
                caller.complete()
            assert other.requests == []
        assert len(server.requests) == 1


class TestTimeouts:
    def test_silence_before_the_headers(self, caller: Caller, server: FakeOpenAI) -> None:
        hang = Hang()
        server.script(hang)
        with pytest.raises(ProviderTimeoutError, match="begin"):
            caller.complete(timeouts={"first_token_seconds": 0.1})
        assert server.requests[0].client_left.wait(10)

    def test_silence_after_the_headers(self, caller: Caller, server: FakeOpenAI) -> None:
        server.script(Answer(first_delay_seconds=60))
        with pytest.raises(ProviderTimeoutError, match="begin"):
            caller.complete(timeouts={"first_token_seconds": 0.1})

    def test_silence_between_tokens(self, caller: Caller, server: FakeOpenAI) -> None:
        server.script(Answer(deltas=["a", "b"], delay_seconds=60))
        with pytest.raises(ProviderTimeoutError, match="go on"):
            caller.complete(timeouts={"between_tokens_seconds": 0.1})

    @pytest.mark.parametrize(
        "dribble",
        [
            Dribble(data=b": keep-alive\n\n", every_seconds=0.02),
            Dribble(data=event(chunk({"content": ""})), every_seconds=0.02),
            Dribble(data=event(chunk({"role": "assistant"})), every_seconds=0.02),
            Dribble(data=b"x", every_seconds=0.02, in_head=True),
            Dribble(data=b" ", every_seconds=0.02, headers=JSON_TYPE),
            Dribble(data=b"d", every_seconds=0.02),
        ],
    )
    def test_signs_of_life_are_no_tokens_case_185(
        self, caller: Caller, server: FakeOpenAI, dribble: Dribble
    ) -> None:
        """Case 185: a byte now and then does not keep a call alive."""
        server.script(dribble)
        with pytest.raises(ProviderTimeoutError, match="begin"):
            caller.complete(timeouts={"first_token_seconds": 0.25})
        assert server.requests[0].client_left.wait(10)

    def test_tokens_for_ever_end_with_the_total_case_185(
        self, caller: Caller, server: FakeOpenAI
    ) -> None:
        server.script(Dribble(data=HELLO, every_seconds=0.02))
        with pytest.raises(ProviderTimeoutError, match="finish"):
            caller.complete(timeouts={"total_seconds": 0.4})

    def test_hanging_after_the_finish_is_a_success(
        self, caller: Caller, server: FakeOpenAI
    ) -> None:
        usage = event({"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2}})
        server.script(Stream(parts=[HELLO, STOP, usage, b":\n\n"], delay_seconds=0.15))
        assert caller.complete().usage == Usage(input_tokens=1, output_tokens=2)

    def test_a_slow_reader_is_not_the_servers_fault(
        self, caller: Caller, server: FakeOpenAI
    ) -> None:
        async def read_slowly(provider: OpenAICompatibleProvider) -> str:
            seen = ""
            async for part in provider.stream(request=request()):
                if isinstance(part, TextDelta):
                    seen += part.text
                    await asyncio.sleep(0.2)
            return seen

        server.script(Answer(deltas=["a", "b", "c"]))
        assert caller.use(read_slowly, timeouts={"between_tokens_seconds": 0.1}) == "abc"


class TestSecrets:
    def test_key_is_stripped_from_details_case_191(
        self, caller: Caller, server: FakeOpenAI
    ) -> None:
        """Case 191: not the key, not a part of it, not another one's."""
        messages = [
            f"Incorrect API key provided: {KEY}.",
            f"Incorrect API key provided: {KEY[:9]}****{KEY[-5:]}.",
            "Bad key sk-proj-abc123def456ghi789 given",
            "Authorization: Bearer abcdefgh12345678 refused",
        ]
        server.script(*(status(401, message=message) for message in messages))
        for _ in messages:
            with pytest.raises(ProviderError) as caught:
                caller.complete()
            detail = caught.value.detail
            assert "API key" in detail
            for secret in (KEY, KEY[:9], KEY[-5:], "abc123", "12345678"):
                assert secret not in detail

    def test_prompt_is_not_quoted_in_details(self, caller: Caller, server: FakeOpenAI) -> None:
        said = "Invalid content: '学生李明的电话是13800138000'"
        server.script(status(422, message=said), status(422, message=said, code="bad_content"))
        with pytest.raises(ProviderError) as caught:
            caller.complete("请记住：学生李明的电话是13800138000。")
        assert "李明" not in caught.value.detail
        assert "bad_content" in caught.value.detail

    def test_nothing_is_logged_of_prompt_or_key(
        self, caller: Caller, server: FakeOpenAI, caplog: pytest.LogCaptureFixture
    ) -> None:
        with caplog.at_level(logging.DEBUG):
            caller.complete("a very private question")
        everything = " ".join(record.getMessage() for record in caplog.records)
        assert "private question" not in everything
        for name in ("openai", "httpx2", "httpcore2"):
            assert not logging.getLogger(f"{name}.any").isEnabledFor(logging.DEBUG)
        assert KEY not in everything

    def test_no_traceback_carries_the_request(self, caller: Caller, server: FakeOpenAI) -> None:
        server.script(status(401, message="no"))
        with pytest.raises(ProviderError) as caught:
            caller.complete()
        assert caught.value.__cause__ is None
        assert caught.value.__context__ is None

    def test_config_does_not_print_its_key(self, caller: Caller) -> None:
        assert KEY not in repr(caller.config())


class TestClosing:
    def test_leaving_early_closes_the_connection(self, caller: Caller, server: FakeOpenAI) -> None:
        hang = Hang()
        server.script(Answer(deltas=["a", "b"], gate=hang.release, gate_after=1))

        async def leave(provider: OpenAICompatibleProvider) -> None:
            async with aclosing(provider.stream(request=request())) as events:
                async for _ in events:
                    break
            left = server.requests[0].client_left
            assert await asyncio.to_thread(left.wait, 10)

        caller.use(leave)

    def test_cancelling_closes_the_connection(self, caller: Caller, server: FakeOpenAI) -> None:
        server.script(Hang())

        async def cancel(provider: OpenAICompatibleProvider) -> None:
            task = asyncio.create_task(complete(provider, request=request()))
            await asyncio.to_thread(server.wait_for_requests, 1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await asyncio.to_thread(server.requests[0].client_left.wait, 10)

        caller.use(cancel)

    def test_connections_are_used_again(self, caller: Caller, server: FakeOpenAI) -> None:
        async def often(provider: OpenAICompatibleProvider) -> None:
            for _ in range(5):
                await complete(provider, request=request())

        caller.use(often)
        assert server.connections == 1

    def test_a_kept_connection_that_died_is_replaced(
        self, caller: Caller, server: FakeOpenAI
    ) -> None:
        async def work(provider: OpenAICompatibleProvider) -> str:
            await complete(provider, request=request())
            await asyncio.to_thread(server.drop_connections)
            return (await complete(provider, request=request("again"))).text

        assert caller.use(work) == "again"

    def test_many_streams_at_once(self, caller: Caller, server: FakeOpenAI) -> None:
        async def many(provider: OpenAICompatibleProvider) -> list[str]:
            asked = [request(f"第{at}问") for at in range(150)]
            answers = await asyncio.gather(*(complete(provider, request=one) for one in asked))
            return [answer.text for answer in answers]

        assert caller.use(many) == [f"第{at}问" for at in range(150)]


class TestConfiguration:
    @pytest.mark.parametrize(
        "base_url",
        [
            None,
            "",
            "ftp://127.0.0.1/",
            "http://",
            "http://u:p@127.0.0.1/",
            "http://[::1",
            "x y",
            "http://127.0.0.1/\r\n",
            "http://127.0.0.1/\x07",
            "http://１２７.0.0.1/",
        ],
    )
    def test_unusable_base_url_is_refused(self, caller: Caller, base_url: str | None) -> None:
        with pytest.raises(ProviderMisconfiguredError):
            caller.complete(base_url=base_url)

    def test_host_off_the_list_is_refused(self, caller: Caller, server: FakeOpenAI) -> None:
        with pytest.raises(ProviderRefusedHostError):
            caller.complete(allowed_hosts=("api.example.com",))
        assert server.connections == 0

    def test_key_no_header_can_carry_is_refused(self, caller: Caller) -> None:
        for key in ("sk-\r\nX-Evil: 1", "sk-密钥"):
            with pytest.raises(ProviderMisconfiguredError):
                caller.complete(api_key=key)

    def test_rebinding_to_a_public_address_is_refused_case_182(
        self, caller: Caller, server: FakeOpenAI
    ) -> None:
        """Case 182: a name that means loopback once and the world the next time."""
        answers = [["127.0.0.1"], ["93.184.216.34"]]
        base_url = f"http://model.internal:{server.port}/v1"
        hosts = ("model.internal",)

        async def twice(provider: OpenAICompatibleProvider) -> None:
            assert (await complete(provider, request=request("one"))).text == "one"
            await asyncio.to_thread(server.drop_connections)
            with pytest.raises(ProviderRefusedHostError):
                await complete(provider, request=request("two"))

        caller.use(
            twice,
            base_url=base_url,
            allowed_hosts=hosts,
            resolve=lambda host, port: answers.pop(0),
        )
        assert [sent.body["messages"][-1]["content"] for sent in server.requests] == ["one"]
        assert server.requests[0].headers["host"] == f"model.internal:{server.port}"


def test_error_bodies_are_not_kept_whole(caller: Caller, server: FakeOpenAI) -> None:
    server.script(Body(status=418, content=json.dumps({"error": "x" * 5000}).encode()))
    with pytest.raises(ProviderError) as caught:
        caller.complete()
    assert len(caught.value.detail) < 300


def test_provider_that_always_fails_is_done_with_soon(server: FakeOpenAI) -> None:
    """With the real waits; the bound, 20 s, is far above what backoff alone takes."""
    server.answer_with(lambda _: status(503))
    caller = Caller(server)

    async def run() -> None:
        provider = OpenAICompatibleProvider(caller.config())
        try:
            with pytest.raises(ProviderError):
                await complete(provider, request=request())
        finally:
            await provider.aclose()

    asyncio.run(asyncio.wait_for(run(), 20))
    assert len(server.requests) == 3
