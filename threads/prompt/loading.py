"""Loading what a prompt is made from: the past by the agent's strategy, its tools, its counter."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from random import SystemRandom
from typing import Final

from django.utils.crypto import salted_hmac

from governance.behaviour.live import live_samples
from memory.boundary import Wording, new_tag, wording_for
from memory.language import resolve
from memory.scope import Scope
from threads.lossless.reading import read_lossless
from threads.models import ThreadStrategy
from threads.past import Past
from threads.places import Setting
from threads.prompt.behaviour import pack_samples
from threads.prompt.core import SECTION as CORE
from threads.prompt.core import core_candidates
from threads.prompt.given import PromptInput
from threads.prompt.preferences import SECTION as PREFERENCES
from threads.prompt.preferences import preference_candidates
from threads.request import RunRequest
from threads.rolling import read_rolling
from threads.token_fits import counter_of
from threads.tools.artifacts import read_workspace
from threads.tools.box import ToolBox
from threads.tools.records import WorkspaceFile

_RANDOM: Final = SystemRandom()
_TAG_SALT: Final = "credence.threads.tag"
_TAG_DIGITS: Final = 10  # it stands around every message of the past


def load_prompt(
    *, setting: Setting, request: RunRequest, question: str, now: datetime, has_tools: bool = True
) -> tuple[PromptInput, ToolBox | None]:
    """Return what one prompt is made from, and the tools its run may call, if it has any.

    Inside the caller's transaction. Cost: two queries for preferences and facts of a known person; no
    other for a new thread, one under the strategy rolling, up to four under lossless; a few more to
    go on with another run's artefacts.
    """
    agent, policy, scope = setting.agent, setting.policy, setting.scope
    wording = wording_for(resolve(agent.language, question))
    tag = _tag(setting)
    workspace = _workspace(scope, request)
    tools = _tools(setting, wording, workspace) if has_tools else None
    given = PromptInput(
        agent=agent,
        policy=policy,
        wording=wording,
        tag=tag,
        past=_past(setting, wording, tag, now),
        counter=counter_of(agent),
        request=request,
        question=question,
        now=now,
        is_bootstrap=setting.is_bootstrap,
        tools=tools.specs() if tools else (),
        remembered={
            CORE: core_candidates(scope=scope),
            PREFERENCES: preference_candidates(
                scope=scope, role=agent.role, language=wording.language, now=now
            ),
        },
        workspace=workspace,
        behaviour=pack_samples(
            samples=live_samples(agent), policy=policy, language=wording.language
        ),
    )
    return given, tools


def _tag(setting: Setting) -> str:
    """Return a tag nobody can guess: of the thread, where prefix caches matter, else a fresh one."""
    if setting.agent.thread_strategy != ThreadStrategy.LOSSLESS or setting.thread_id is None:
        return new_tag(_RANDOM)
    digest = salted_hmac(_TAG_SALT, setting.thread_id, algorithm="sha256").hexdigest()
    return f"#{digest[:_TAG_DIGITS]}"


def _past(setting: Setting, wording: Wording, tag: str, now: datetime) -> Past:
    scope, agent, policy = setting.scope, setting.agent, setting.policy
    if agent.thread_strategy == ThreadStrategy.LOSSLESS and setting.thread_id is not None:
        return read_lossless(
            scope=scope,
            thread_id=setting.thread_id,
            agent=agent,
            policy=policy,
            wording=wording,
            tag=tag,
            now=now,
        )
    return read_rolling(
        scope=scope,
        thread_id=setting.thread_id or "",
        view=setting.view,
        wording=wording,
        tag=tag,
        policy=policy,
        is_for_rounds=bool(agent.tools),
    )


def _workspace(scope: Scope, request: RunRequest) -> tuple[WorkspaceFile, ...]:
    if request.continues_run_id is None:
        return ()
    return read_workspace(scope=scope, run_id=request.continues_run_id)


def _tools(
    setting: Setting, wording: Wording, workspace: Sequence[WorkspaceFile]
) -> ToolBox | None:
    """Return the tools of an agent that has any, and may call them at least once."""
    agent, policy = setting.agent, setting.policy
    if not agent.tools or policy.count("tool_rounds") == 0:
        return None
    return ToolBox(
        scope=setting.scope,
        agent_id=agent.pk,
        role=agent.role,
        language=wording.language,
        tools=agent.tools,
        policy=policy,
        workspace=workspace,
    )
