"""Filling a fresh instance with two demo tenants; running again finds them and changes nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from django.utils import timezone

from governance.keys import UnauthenticatedError, authenticate, create_key
from governance.models import KeyScope
from governance.permissions import Role
from governance.policy import change_policy, policy_for
from governance.tenants import SlugTakenError, create_staff, create_tenant, find_tenant
from memory.models import Tenant
from memory.rls import scoped_transaction
from memory.scope import Scope
from threads.agents import create_agent
from threads.imports import import_conversations
from threads.models import Agent, ThreadStrategy
from threads.providers import create_provider

ADMIN_NAME: Final = "admin"
_DEMO: Final = Path(__file__).parent / "demo"
_WINDOW_TOKENS: Final = 8192
_TOOLS: Final = (
    "memory_search",
    "memory_grep",
    "view_message",
    "view_chat_history_summary",
    "write_artifact",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoTenant:
    """What makes one demo tenant; `user_id` and `question` are asked once over HTTP.

    `agent` owns the imported conversations and rolls summaries; `lossless_agent` stands beside it
    for threads that keep a forest of summary nodes.
    """

    slug: str
    name: str
    language: str
    agent: str
    lossless_agent: str
    system_prompt: str
    file: str
    user_id: str
    question: str


DEMO_TENANTS: Final = (
    DemoTenant(
        slug="demo-school",
        name="示范学校",
        language="zh",
        agent="备课助手",
        lossless_agent="备课助手（无损长对话）",
        system_prompt="你是一名帮助老师备课和出卷的助手，用中文回答，先给结论。",
        file="teacher_zh.jsonl",
        user_id="teacher-7",
        question="上次那份数据结构期末试卷的简答题最后换成了哪两道？",
    ),
    DemoTenant(
        slug="demo-support",
        name="Demo support desk",
        language="en",
        agent="Support assistant",
        lossless_agent="Support assistant (lossless threads)",
        system_prompt="You help the support desk of a small electronics shop. Answer briefly.",
        file="support_en.jsonl",
        user_id="cust-4711",
        question="Which firmware fixed the customer's router?",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seeded:
    """One demo tenant as it now is; `thread_id` is the newest imported thread."""

    demo: DemoTenant
    api_key: str
    agent_id: str
    thread_id: str
    is_new: bool

    def as_json(self) -> dict[str, str]:
        """Return its entry in var/demo.json."""
        return {"slug": self.demo.slug, "api_key": self.api_key, "agent_id": self.agent_id}


def seed(*, var: Path, admin_password: str, say: Callable[[str], None]) -> list[Seeded]:
    """Create what is missing of the demo and return it, with a working key for each tenant."""
    known = _known_keys(var)
    return [_seed_one(demo, known.get(demo.slug, ""), admin_password, say) for demo in DEMO_TENANTS]


def _known_keys(var: Path) -> dict[str, str]:
    path = var / "demo.json"
    if not path.is_file():
        return {}
    data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return {tenant["slug"]: tenant["api_key"] for tenant in data.get("tenants", [])}


def _seed_one(
    demo: DemoTenant, known_key: str, admin_password: str, say: Callable[[str], None]
) -> Seeded:
    now = timezone.now()
    tenant = _tenant(demo, now)
    scope = Scope(tenant_ids=(tenant.id,), principal_id="local-run")
    _allow_one_key(scope, now)
    create_staff(
        scope=scope, username=ADMIN_NAME, password=admin_password, role=Role.ADMIN, now=now
    )
    for role in (Role.CURATOR, Role.COMPLIANCE):
        create_staff(scope=scope, username=ADMIN_NAME, password=None, role=role, now=now)
    agent, is_new = _agents(scope, demo, now)
    if is_new:
        with (_DEMO / demo.file).open(encoding="utf-8") as lines:
            report = import_conversations(
                scope=scope, agent=agent, lines=lines, now=now, learns=True
            )
        say(f"{demo.slug}: {report.turns_new} turns in {report.threads} threads imported")
    return Seeded(
        demo=demo,
        api_key=_key(scope, known_key, now),
        agent_id=agent.pk,
        thread_id=_newest_thread(scope, agent, demo.user_id),
        is_new=is_new,
    )


def _tenant(demo: DemoTenant, now: datetime) -> Tenant:
    try:
        return create_tenant(slug=demo.slug, name=demo.name, now=now, actor="local-run")
    except SlugTakenError:
        return find_tenant(slug=demo.slug)


def _allow_one_key(scope: Scope, now: datetime) -> None:
    """Let the demo's one key both propose and approve, as whoever tries it out does."""
    with scoped_transaction(scope):
        is_on = policy_for(scope=scope, agent_overrides={}).is_on("govern_with_write")
    if not is_on:
        change_policy(scope=scope, changes={"govern_with_write": True}, now=now)


def _agents(scope: Scope, demo: DemoTenant, now: datetime) -> tuple[Agent, bool]:
    """Return the agent of the imported conversations, and whether the demo is new."""
    with scoped_transaction(scope):
        found = Agent.objects.in_scope(scope).filter(name=demo.agent).first()
    if found is not None:
        return found, False
    provider = create_provider(
        scope=scope, values={"name": "offline", "kind": "offline", "locality": "local"}, now=now
    )
    _make_agent(scope, demo, provider.pk, ThreadStrategy.LOSSLESS, now)
    return _make_agent(scope, demo, provider.pk, ThreadStrategy.ROLLING, now), True


def _make_agent(
    scope: Scope, demo: DemoTenant, provider_id: str, strategy: ThreadStrategy, now: datetime
) -> Agent:
    return create_agent(
        scope=scope,
        values={
            "name": demo.agent if strategy == ThreadStrategy.ROLLING else demo.lossless_agent,
            "provider_id": provider_id,
            "model": "offline",
            "context_window": _WINDOW_TOKENS,
            "system_prompt": demo.system_prompt,
            "language": demo.language,
            "thread_strategy": strategy,
            "tools": list(_TOOLS),
        },
        now=now,
    )


def _key(scope: Scope, known: str, now: datetime) -> str:
    """Return the key of the last start if it still works, else a new one with every scope."""
    try:
        if known and authenticate(raw=known, now=now).tenant_id == scope.tenant_id:
            return known
    except UnauthenticatedError:
        pass
    with scoped_transaction(scope):
        return create_key(scope=scope, scopes=KeyScope.values, now=now, name="demo").secret


def _newest_thread(scope: Scope, agent: Agent, user_id: str) -> str:
    """Return the demo person's newest imported thread."""
    with scoped_transaction(scope):
        rows = agent.threads.in_scope(scope).filter(
            end_user__user_id=user_id, external_key__isnull=False
        )
        newest = rows.order_by("-updated_at", "-id").values_list("id", flat=True)
        return str(newest.first() or "")
