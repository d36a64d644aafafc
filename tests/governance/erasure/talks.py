"""Two people of one tenant and one of another, who talk; and what the search said of them."""

from __future__ import annotations

from typing import Any

from django.utils import timezone

from governance.erasure.verifying import verify_open
from governance.models.erasure import Erasure
from memory.rls import scoped_transaction
from tests.factories import make_agent, make_end_user, make_run, make_tenant, make_thread, scope_of
from tests.governance.erasure.scenes import read
from threads.models import Message

USER_ID = "margarethe.oelsen-4711"
SAID = "Yesterday I hid the emerald brooch of aunt Wilhelmina under the third floorboard."
SAID_ZH = "我把外婆留下的翡翠胸针藏在阁楼第三块地板下面了"
PHONE = "13800138000"


def talk(tenant: Any, agent: Any, user_id: str, *texts: str) -> Any:
    """A person with a thread in which each text is a turn."""
    person = make_end_user(tenant, user_id)
    thread = make_thread(agent, person, external_key=f"thread-of-{user_id}", title=texts[0][:60])
    for number, text in enumerate(texts):
        run = make_run(thread, input=text, output="Noted.", external_id=f"{user_id}-{number}")
        with scoped_transaction(scope_of(tenant)):
            Message.objects.create(
                tenant=tenant,
                thread=thread,
                run=run,
                end_user=person,
                position=0,
                role="user",
                content=text,
                pii=_tags(text),
            )
    return person


def _tags(text: str) -> list[dict[str, Any]]:
    start = text.find(PHONE)
    return [{"kind": "phone", "start": start, "end": start + 11}] if start >= 0 else []


def make_scene() -> dict[str, Any]:
    """Two people of one tenant, and one of another, each with a talk."""
    tenant, stranger = make_tenant(), make_tenant()
    agent = make_agent(
        tenant, system_prompt="You serve the house of Oelsen and Sons, and are brief."
    )
    texts = (SAID, SAID_ZH, f"My number is {PHONE}, do call me.")
    person = talk(tenant, agent, USER_ID, *texts)
    other = talk(tenant, agent, "bystander-9", "The weather in Kopenhagen was rather mild today.")
    foreign = talk(stranger, make_agent(stranger), USER_ID, SAID)
    return {"tenant": tenant, "person": person, "other": other, "foreign": foreign}


def verified(erasure: Erasure) -> Erasure:
    """Search, and return the row afterwards."""
    assert verify_open(now=timezone.now(), within_seconds=60) == 1
    return read(erasure)


def failing(erasure: Erasure) -> set[tuple[str, str]]:
    """Where something was found that must not be there."""
    return {
        (one.get("table", ""), one.get("column", one.get("problem")))
        for one in erasure.findings
        if not one["is_mention"]
    }
