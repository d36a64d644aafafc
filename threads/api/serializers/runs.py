"""Bodies of runs, turns and traces."""

from __future__ import annotations

from rest_framework import serializers

from threads.api.fields import (
    MOST_JSON_CHARS,
    Account,
    JsonObject,
    Money,
    PromptItem,
    SentMessage,
    StoredTime,
    StrictText,
    UserId,
    UtcTime,
)
from threads.api.serializers.base import Answer, Body
from threads.models import MessageRole, RunStatus

MAX_INPUT_CHARS = 200_000


class FactBody(Body):
    """A fact handed in: a value from a database step, with the time it was true."""

    label = StrictText(max_length=200)  # type: ignore[assignment]
    value = StrictText(max_length=10_000)
    as_of = UtcTime(required=False, allow_null=True, default=None)
    source = StrictText(  # type: ignore[assignment]
        max_length=200, required=False, allow_null=True, default=None
    )


class MaterialBody(Body):
    """Material handed in: something to read, not something that is so."""

    title = StrictText(max_length=300)
    content = StrictText(max_length=MAX_INPUT_CHARS)
    source = StrictText(  # type: ignore[assignment]
        max_length=200, required=False, allow_null=True, default=None
    )
    as_of = UtcTime(required=False, allow_null=True, default=None)


class ContinueBody(Body):
    """Which run's artefacts to continue on."""

    run_id = StrictText(max_length=255, required=False, allow_null=True, default=None)


class RunBody(Body):
    """A question."""

    input = StrictText(max_length=MAX_INPUT_CHARS)
    user_id = UserId()
    thread_id = StrictText(max_length=255, required=False, allow_null=True, default=None)
    facts = serializers.ListField(child=FactBody(), required=False, max_length=100)
    materials = serializers.ListField(child=MaterialBody(), required=False, max_length=50)
    metadata = JsonObject(
        required=False,
        help_text=f"The caller's own, kept with the run; at most {MOST_JSON_CHARS:,} characters of"
        " JSON.",
    )
    context = ContinueBody(required=False, allow_null=True)  # type: ignore[assignment]


class ContextBody(Body):
    """A question a prompt is to be assembled for."""

    input = StrictText(max_length=MAX_INPUT_CHARS)
    user_id = UserId()
    thread_id = StrictText(max_length=255, required=False, allow_null=True, default=None)
    facts = serializers.ListField(child=FactBody(), required=False, max_length=100)
    materials = serializers.ListField(child=MaterialBody(), required=False, max_length=50)


class TurnMessageBody(Body):
    """One utterance inside a turn made elsewhere."""

    role = serializers.ChoiceField(choices=MessageRole.choices)
    content = StrictText(max_length=MAX_INPUT_CHARS, allow_blank=True)
    tool_call_id = StrictText(max_length=200, required=False, allow_null=True, default=None)
    name = StrictText(max_length=200, required=False, allow_null=True, default=None)


class TurnBody(Body):
    """A turn made elsewhere."""

    input = StrictText(max_length=MAX_INPUT_CHARS)
    output = StrictText(max_length=MAX_INPUT_CHARS, allow_blank=True)
    status = serializers.ChoiceField(choices=[RunStatus.SUCCEEDED.value, RunStatus.FAILED.value])
    created_at = UtcTime(required=False, allow_null=True, default=None)
    messages = serializers.ListField(child=TurnMessageBody(), required=False, max_length=500)
    external_id = StrictText(max_length=255, required=False, allow_null=True, default=None)


class UsageAnswer(Answer):
    """Tokens as counted, and what they cost."""

    input_tokens = serializers.IntegerField()
    output_tokens = serializers.IntegerField()
    cost_usd = Money()


class ArtifactAnswer(Answer):
    """A file that a run made."""

    id = serializers.CharField()
    name = serializers.CharField()
    bytes = serializers.IntegerField(help_text="Of its UTF-8.")


class ArtifactContentAnswer(Answer):
    """A file that a run made, with its text."""

    id = serializers.CharField()
    run_id = serializers.CharField()
    name = serializers.CharField()
    bytes = serializers.IntegerField(help_text="Of its UTF-8.")
    content = serializers.CharField()
    created_at = UtcTime()


class RunAnswer(Answer):
    """A run: one question and its answer."""

    id = serializers.CharField()
    thread_id = serializers.CharField()
    agent_id = serializers.CharField()
    user_id = serializers.CharField(source="end_user.user_id")
    seq = serializers.IntegerField()
    status = serializers.ChoiceField(choices=RunStatus.choices)
    input = serializers.CharField()
    output = serializers.CharField()
    error_code = serializers.CharField(allow_null=True)
    external_id = serializers.CharField(allow_null=True)
    created_at = UtcTime()
    is_time_assumed = serializers.BooleanField(
        help_text="True for a turn made elsewhere without a time of its own: created_at is when it"
        " was recorded."
    )
    finished_at = UtcTime(allow_null=True)
    bootstrap = serializers.BooleanField()
    model = serializers.CharField()
    usage = UsageAnswer(source="*")
    context = Account(  # type: ignore[assignment]
        help_text="How the token budget was spent: figures are tokens."
    )
    artifacts = ArtifactAnswer(many=True, source="shown_artifacts", default=())


class StepAnswer(Answer):
    """One step of the road from question to answer."""

    seq = serializers.IntegerField()
    kind = serializers.CharField()
    started_at = StoredTime()
    ms = serializers.FloatField()
    data = JsonObject()  # type: ignore[assignment]


class TraceAnswer(Answer):
    """The steps of a run."""

    steps = StepAnswer(many=True)


class PromptMessageAnswer(Answer):
    """A message of the prompt as it was sent."""

    role = serializers.CharField()
    content = serializers.CharField()


class RunContextAnswer(Answer):
    """The prompt of a run's last call as it was, with the account of every item in it."""

    messages = serializers.ListField(child=SentMessage())
    context = Account(source="run.context")  # type: ignore[assignment]
    items = serializers.ListField(child=PromptItem())


class ContextAnswer(Answer):
    """A prompt assembled for a caller who calls models himself."""

    messages = PromptMessageAnswer(many=True)
    bootstrap = serializers.BooleanField()
    context = Account()  # type: ignore[assignment]
    items = serializers.ListField(child=PromptItem())
