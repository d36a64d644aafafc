"""Bodies of what a tenant's admins manage."""

from __future__ import annotations

from typing import Any, Final

from rest_framework import serializers

from governance.models import KeyScope
from governance.policy_rules import RULES, Rule
from memory.models import JobStatus
from threads.agents import KNOWN_TOOLS, STRATEGIES
from threads.api.fields import Flag, JsonObject, Number, StrictText, UserId, UtcTime, WholeNumber
from threads.api.serializers.base import Answer, Body
from threads.models import Language, Locality, ProviderKind

_MOST_SECONDS: Final = 3600


class AgentPatchBody(Body):
    """What to change of an agent; `policy` and `tools` are replaced as a whole."""

    name = StrictText(max_length=200, required=False)
    system_prompt = StrictText(max_length=200_000, allow_blank=True, required=False)
    provider_id = StrictText(max_length=64, required=False)
    model = StrictText(max_length=200, required=False)
    context_window = WholeNumber(min_value=1024, max_value=100_000_000, required=False)
    max_output_tokens = WholeNumber(min_value=1, max_value=100_000_000, required=False)
    language = serializers.ChoiceField(choices=Language.choices, required=False)
    role = StrictText(max_length=64, required=False)
    thread_strategy = serializers.ChoiceField(choices=STRATEGIES, required=False)
    tools = serializers.ListField(
        child=serializers.ChoiceField(choices=KNOWN_TOOLS), required=False, max_length=20
    )
    memory_fallback_provider_id = StrictText(max_length=64, required=False, allow_null=True)
    policy = JsonObject(required=False)


class NewAgentBody(AgentPatchBody):
    """An agent to make."""

    name = StrictText(max_length=200)
    provider_id = StrictText(max_length=64)
    model = StrictText(max_length=200)
    context_window = WholeNumber(min_value=1024, max_value=100_000_000)


class AgentAnswer(Answer):
    """An agent."""

    id = serializers.CharField()
    name = serializers.CharField()
    system_prompt = serializers.CharField()
    provider_id = serializers.CharField()
    model = serializers.CharField()
    context_window = serializers.IntegerField()
    max_output_tokens = serializers.IntegerField()
    language = serializers.CharField()
    role = serializers.CharField()
    thread_strategy = serializers.CharField()
    tools = serializers.ListField(child=serializers.CharField())
    memory_fallback_provider_id = serializers.CharField(allow_null=True)
    policy = JsonObject()
    is_active = serializers.BooleanField()
    created_at = UtcTime()
    updated_at = UtcTime()


class TimeoutsBody(Body):
    """How long each phase of a model call may take, in seconds."""

    connect = Number(min_value=0.1, max_value=_MOST_SECONDS, required=False)
    first_token = Number(min_value=0.1, max_value=_MOST_SECONDS, required=False)
    between = Number(min_value=0.1, max_value=_MOST_SECONDS, required=False)
    total = Number(min_value=0.1, max_value=_MOST_SECONDS, required=False)


class ProviderPatchBody(Body):
    """What to change of a provider; `timeouts` are replaced as a whole."""

    name = StrictText(max_length=200, required=False)
    kind = serializers.ChoiceField(choices=ProviderKind.choices, required=False)
    base_url = StrictText(max_length=500, allow_blank=True, required=False)
    api_key = StrictText(max_length=2000, allow_blank=True, allow_null=True, required=False)
    locality = serializers.ChoiceField(choices=Locality.choices, required=False)
    vendor = StrictText(max_length=100, allow_blank=True, required=False)
    timeouts = TimeoutsBody(required=False)


class NewProviderBody(ProviderPatchBody):
    """A provider to make."""

    name = StrictText(max_length=200)
    kind = serializers.ChoiceField(choices=ProviderKind.choices)


class ProviderAnswer(Answer):
    """A provider; its key never comes back."""

    id = serializers.CharField()
    name = serializers.CharField()
    kind = serializers.CharField()
    base_url = serializers.CharField()
    has_api_key = serializers.SerializerMethodField()
    locality = serializers.CharField()
    vendor = serializers.CharField()
    timeouts = JsonObject()
    created_at = UtcTime()
    updated_at = UtcTime()

    def get_has_api_key(self, provider: Any) -> bool:
        """Say whether a key is stored."""
        return bool(provider.sealed_api_key)


class NewKeyBody(Body):
    """An API key to make."""

    name = StrictText(max_length=200, allow_blank=True, required=False, default="")
    scopes = serializers.ListField(
        child=serializers.ChoiceField(choices=KeyScope.choices), min_length=1, max_length=20
    )
    expires_at = UtcTime(required=False, allow_null=True, default=None)
    agent_id = StrictText(max_length=64, required=False, allow_null=True, default=None)
    user_id = UserId(required=False, allow_null=True, default=None)


class KeyAnswer(Answer):
    """An API key, without its secret."""

    id = serializers.CharField()
    name = serializers.CharField()
    prefix = serializers.CharField()
    scopes = serializers.ListField(child=serializers.CharField())
    agent_id = serializers.CharField(allow_null=True)
    user_id = serializers.SerializerMethodField()
    created_at = UtcTime()
    expires_at = UtcTime(allow_null=True)
    revoked_at = UtcTime(allow_null=True)
    last_used_at = UtcTime(allow_null=True)

    def get_user_id(self, key: Any) -> str | None:
        """Return the only person the key may act for, if it is limited to one."""
        return key.end_user.user_id if key.end_user_id else None


class NewKeyAnswer(KeyAnswer):
    """A key just made, with the one and only sight of its secret."""

    secret = serializers.CharField(required=False, help_text="Shown once; absent in a replay.")


class TeamPatchBody(Body):
    """What to change of a team; `members` are replaced as a whole."""

    name = StrictText(max_length=200, required=False)
    members = serializers.ListField(child=UserId(), required=False, max_length=1000)


class NewTeamBody(TeamPatchBody):
    """A team to make."""

    name = StrictText(max_length=200)


class TeamAnswer(Answer):
    """People who share team memory."""

    id = serializers.CharField()
    name = serializers.CharField()
    members = serializers.SerializerMethodField(help_text="The tenant's own user_ids.")
    created_at = UtcTime()

    def get_members(self, team: Any) -> list[str]:
        """Return the members' user_ids, sorted."""
        return sorted(member.end_user.user_id for member in team.members.all())


class JobAnswer(Answer):
    """A piece of background work."""

    id = serializers.CharField()
    kind = serializers.CharField()
    status = serializers.ChoiceField(choices=JobStatus.choices)
    attempts = serializers.IntegerField()
    thread_id = serializers.CharField(allow_null=True)
    run_id = serializers.CharField(allow_null=True)
    error_code = serializers.CharField()
    not_before = UtcTime()
    created_at = UtcTime()
    finished_at = UtcTime(allow_null=True)


class AuditTargetAnswer(Answer):
    """What was acted upon."""

    kind = serializers.CharField(source="target_kind")
    id = serializers.CharField(source="target_id")


class AuditAnswer(Answer):
    """Who did what to which object; internal ids only."""

    id = serializers.CharField()
    at = UtcTime()
    actor = serializers.CharField()
    action = serializers.CharField()
    target = AuditTargetAnswer(source="*")
    detail = JsonObject()
    sealed = serializers.BooleanField()


class UserAnswer(Answer):
    """A person the tenant serves."""

    id = serializers.CharField()
    user_id = serializers.CharField()
    created_at = UtcTime()


def _policy_field(rule: Rule) -> serializers.Field[Any, Any, Any, Any]:
    options: dict[str, Any] = {"required": False, "allow_null": True}
    bounds: dict[str, Any] = {"min_value": rule.low, "max_value": rule.high}
    if rule.choices:  # Checked by the rules; as named choices they would crowd the document.
        help_text = f"{', '.join(rule.choices)}; default {rule.default}"
        return StrictText(help_text=help_text, max_length=32, **options)
    if rule.unit == "switch":
        return Flag(**options)
    if rule.most_names:
        child = StrictText(max_length=40)
        return serializers.ListField(child=child, max_length=rule.most_names, **options)
    help_text = f"{rule.unit}; default {'none' if rule.default is None else rule.default}"
    if isinstance(rule.default, float):
        return Number(help_text=help_text, **bounds, **options)
    whole: dict[str, Any] = {name: int(bound) for name, bound in bounds.items()}
    return WholeNumber(help_text=help_text, **whole, **options)


class RuleAnswer(Answer):
    """Default, unit and bounds of one policy value."""

    default = serializers.JSONField()
    unit = serializers.CharField()
    low = serializers.FloatField(allow_null=True)
    high = serializers.FloatField(allow_null=True)
    choices = serializers.ListField(child=serializers.CharField())


_POLICY_FIELDS: dict[str, Any] = {name: _policy_field(rule) for name, rule in RULES.items()}
_POLICY_DOC = "The values to change; null sets one back to its default."
PolicyBody: type[Body] = type("PolicyBody", (Body,), {"__doc__": _POLICY_DOC, **_POLICY_FIELDS})
PolicyAnswer: type[Answer] = type(
    "PolicyAnswer",
    (Answer,),
    {
        "__doc__": "Every value of the tenant's policy, and under `rules` what each may be.",
        **_POLICY_FIELDS,
        "rules": serializers.DictField(child=RuleAnswer()),
    },
)
