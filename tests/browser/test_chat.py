"""The chat page in a real browser, before a whole instance as `make run` starts it.

Writes docs/figures/pages/chat-*.png.
"""

from __future__ import annotations

import re
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.chrome import browser_path
from tests.browser.looking import no_foreign_requests, picture, quiet
from tests.fakes.openai_replies import Answer, calls, status, text
from tests.fakes.openai_server import FakeOpenAI
from tests.instance import Instance

pytestmark = [
    pytest.mark.browser,
    pytest.mark.timeout(300),
    pytest.mark.skipif(browser_path() is None, reason="no Chromium is installed here"),
]
PATIENCE_MS = 20_000
expect.set_options(timeout=PATIENCE_MS)
LONG = "Donaudampfschifffahrtselektrizitaetenhauptbetriebswerkbauunterbeamtengesellschaft" * 2
MARKDOWN = (
    "# Plan\n\n1. **Read** the syllabus\n2. Draft, then check\n\n| Part | Points |\n|---|---|\n"
    "| Choice | 20 |\n| 编程 | 32 |\n\n```python\nprint('好')\n```\n\n![pixel](https://evil.example/p.png)"
    " <script>document.title = 'taken'</script>"
)


class Model(FakeOpenAI):
    """A model that answers questions by script; memory work finds nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting: dict[str, deque[Any]] = {}
        self.asked: list[Mapping[str, Any]] = []
        self.answer_with(self._answered)

    def _answered(self, body: Mapping[str, Any]) -> Any:
        # The prompt of a run ends with the question, in its tool rounds too; others do not.
        spoken = [one for one in body["messages"] if one["role"] == "user"]
        last = str(spoken[-1]["content"]).rstrip()
        for question, replies in self.waiting.items():
            if last.endswith(question) and replies and "NONE" not in str(body["messages"][0]):
                self.asked.append(body)
                return replies.popleft()
        return text("NONE")

    def script_for(self, question: str, *replies: Any) -> None:
        """Answer the calls of a run that asks this."""
        self.waiting[question] = deque(replies)


@pytest.fixture(scope="module")
def model() -> Iterator[Model]:
    """What the scripted agent asks."""
    server = Model()
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def instance() -> Iterator[Instance]:
    """A served demo."""
    with Instance() as started:
        yield started


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """An English reader's page, on a desk."""
    yield from _page(browser, locale="en-US")


@pytest.fixture
def chinese_page(browser: Browser) -> Iterator[Page]:
    """A Chinese reader's page."""
    yield from _page(browser, locale="zh-CN")


def _page(browser: Browser, **options: Any) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1440, "height": 900}, **options)
    opened = context.new_page()
    with no_foreign_requests(context), quiet(opened):
        yield opened
    context.close()


def sign_in(page: Page, instance: Instance) -> None:
    """Come to the choice of agents as the demo's staff."""
    page.goto(f"{instance.base_url}/chat/")
    page.locator("#id_username").fill("admin")
    page.locator("#id_password").fill(instance.demo["admin"]["password"])
    page.locator("[type=submit]").click()


def sit(page: Page, agent: str, user_id: str = "") -> None:
    """Talk to an agent, as oneself or for a person."""
    card = page.locator("form.agent", has=page.get_by_text(agent, exact=True))
    card.locator("[name=user_id]").fill(user_id)
    card.get_by_role("button").click()


def ask(page: Page, question: str) -> Any:
    """Ask, wait for the whole answer, and return its bubble."""
    before = page.locator(".turn").count()
    page.locator("#question").fill(question)
    page.locator("#question").press("Enter")
    bubble = page.locator(".turn").nth(before)
    expect(bubble).to_have_attribute("data-status", re.compile("succeeded|failed|cancelled"))
    return bubble


def made_agent(instance: Instance, model: Model, name: str, **values: Any) -> None:
    """Make an agent of demo-support that asks the scripted model."""
    provider = instance.manage(
        "create_provider", "--tenant", "demo-support", "--name", f"{name} provider",
        "--base-url", model.base_url, "--locality", "local", "--json",
    )  # fmt: skip
    assert provider.returncode == 0, provider.stderr
    made = instance.manage(
        "create_agent", "--tenant", "demo-support", "--name", name, "--provider",
        f"{name} provider", "--model", "fake-1", "--context-window", "8192", "--json",
        *values.get("extra", ()),
    )  # fmt: skip
    assert made.returncode == 0, made.stderr


@pytest.mark.req("A14")
def test_a_newcomer_from_the_first_visit_to_an_approved_term_in_an_answer(
    page: Page, instance: Instance
) -> None:
    sign_in(page, instance)
    expect(page.get_by_role("heading", name="Whom do you want to talk to?")).to_be_visible()
    picture(page, "chat-choose-en")
    sit(page, "Support assistant")
    expect(page.locator("#empty")).to_be_visible()
    picture(page, "chat-empty-en")

    ask(page, "Our new router is called ARX six. When does its warranty end?")
    ask(page, "Please answer me in short sentences from now on.")
    address = page.url
    assert "thread=th_" in address
    page.reload()
    assert page.url == address
    expect(page.locator(".turn")).to_have_count(2)
    expect(page.locator(".threads li")).to_have_count(1)

    page.get_by_role("button", name="Put a term right").last.click()
    sheet = page.locator("#sheet")
    sheet.get_by_label("As it was said").fill("ARX six")
    sheet.get_by_label("As it should be").fill("ARX6")
    sheet.get_by_label("What it is").select_option("product")
    picture(page, "chat-term-en")
    sheet.get_by_role("button", name="Propose").click()
    expect(sheet).to_contain_text("“ARX6” is proposed")
    with page.context.expect_page() as opened:
        sheet.get_by_role("link", name="To the terms that wait").click()
    admin = opened.value
    link = admin.get_by_role("link", name="ARX6")
    for _ in range(40):  # the worker proposes it a moment later
        if link.count():
            break
        admin.wait_for_timeout(500)
        admin.reload()
    link.first.click()
    admin.get_by_role("button", name="Approve", exact=True).click()
    expect(admin.get_by_text("approved").first).to_be_visible()
    admin.close()

    page.keyboard.press("Escape")
    bubble = ask(page, "What do we know about the ARX6?")
    bubble.get_by_role("link", name="What was used").click()
    expect(sheet).to_contain_text("ARX6")
    expect(sheet).to_contain_text("confirmed by a person")
    picture(page, "chat-used-en")


def test_new_thread_history_search_rename_archive(page: Page, instance: Instance) -> None:
    sign_in(page, instance)
    sit(page, "Support assistant (lossless threads)")
    ask(page, "First subject: invoices")
    page.get_by_role("link", name="New conversation").click()
    expect(page.locator(".turn")).to_have_count(0)
    ask(page, f"Second subject: {LONG}")
    expect(page.locator(".threads li")).to_have_count(2)
    page.locator("#find").fill("invoices")
    expect(page.locator(".threads li")).to_have_count(1)
    page.locator("#find").fill("")
    expect(page.locator(".threads li")).to_have_count(2)

    row = page.locator(".threads li", has_text="invoices")
    row.locator("summary").click()
    row.get_by_label("Title").fill("发票")
    row.get_by_role("button", name="Rename").click()
    expect(page.locator(".threads")).to_contain_text("发票")
    current = page.locator(".threads li.current")
    current.locator("summary").click()
    current.get_by_role("button", name="Archive").click()
    expect(page.locator("#archived-note")).to_be_visible()
    expect(page.locator("#question")).to_be_disabled()
    picture(page, "chat-archived-en")
    page.get_by_label("Archived").check()
    row = page.locator(".threads li", has_text="Second subject")
    row.locator("summary").click()
    row.get_by_role("button", name="Bring back").click()
    expect(page.locator("#question")).to_be_enabled()
    page.goto(page.url.split("?")[0])  # the latest active one again
    expect(page.locator(".turn")).to_contain_text("Second subject")


def test_streaming_stop_tools_files_and_markdown(
    page: Page, instance: Instance, model: Model
) -> None:
    tools = ("--tools", "write_artifact,memory_search")
    made_agent(instance, model, "Scripted", extra=tools)
    sign_in(page, instance)
    sit(page, "Scripted")

    gate = threading.Event()
    slow = Answer(deltas=["One. ", "Two. ", "Three."], gate=gate, gate_after=2)
    model.script_for("Count slowly", slow)
    page.locator("#question").fill("Count slowly")
    page.locator("#question").press("Enter")
    expect(page.locator(".streaming .text")).to_have_text("One. Two. ")
    expect(page.locator("#send")).to_be_hidden()
    picture(page, "chat-streaming-en")
    gate.set()
    expect(page.locator(".turn .text").last).to_have_text("One. Two. Three.")
    expect(page.locator("#stop")).to_be_hidden()

    never = threading.Event()
    endless = Answer(deltas=["Begun ", "and never ended"], gate=never, gate_after=1)
    model.script_for("Never end", endless)
    page.locator("#question").fill("Never end")
    page.locator("#question").press("Enter")
    expect(page.locator(".streaming .text")).to_have_text("Begun ")
    page.get_by_role("button", name="Stop").click()
    expect(page.locator(".turn").last).to_have_attribute("data-status", "cancelled")
    expect(page.locator(".turn").last).to_contain_text("Nothing of it is remembered")
    never.set()

    wrote = '{"name": "plan.md", "content": "# Plan"}'
    model.script_for("Write a plan", calls(("write_artifact", wrote)), text(MARKDOWN))
    bubble = ask(page, "Write a plan")
    expect(bubble.locator(".text table")).to_be_visible()
    assert bubble.locator("img, script").count() == 0
    assert page.title() != "taken"
    bubble.get_by_text("Tools used: 1").click()
    expect(bubble).to_contain_text("write_artifact")
    with page.expect_download() as saved:
        bubble.get_by_role("link", name="plan.md").click()
    assert Path(saved.value.path()).read_text(encoding="utf-8") == "# Plan"
    picture(page, "chat-files-en")

    assert page.locator("[name=continues]").input_value() == ""
    bubble.get_by_role("button", name="Continue on these files").click()
    expect(page.locator("#continuing")).to_be_visible()
    seen = len(model.asked)
    model.script_for("Go on", text("Continued."))
    ask(page, "Go on")
    assert "plan.md" in str(model.asked[seen])
    expect(page.locator("#continuing")).to_be_hidden()


def test_what_fails_says_so_and_keeps_the_question(
    page: Page, instance: Instance, model: Model
) -> None:
    made_agent(instance, model, "Broken")
    sign_in(page, instance)
    sit(page, "Broken")
    model.script_for("Does this work?", *[status(400, message="no such model")] * 3)
    bubble = ask(page, "Does this work?")
    expect(bubble.locator(".problem")).to_be_visible()
    expect(page.locator("#question")).to_have_value("Does this work?")
    picture(page, "chat-failed-en")


def test_facts_are_confirmed_and_deleted_by_one_press(page: Page, instance: Instance) -> None:
    sign_in(page, instance)
    sit(page, "Support assistant", "customer-reader-1")
    panel = page.locator("#memory")
    panel.get_by_label("Something to remember").fill("Prefers e-mail to calls")
    panel.get_by_role("button", name="Add").click()
    expect(panel.locator("li", has_text="Prefers e-mail")).to_be_visible()
    picture(page, "chat-memory-en")
    panel.get_by_role("button", name="Confirm").click()
    expect(panel.locator(".panel")).to_have_attribute("data-waiting", "0")
    page.on("dialog", lambda dialog: dialog.accept())
    panel.locator("li", has_text="Prefers e-mail").get_by_role("button", name="Delete").click()
    expect(panel).not_to_contain_text("Prefers e-mail")


def test_a_person_with_a_link_in_chinese_on_a_desk_dark_and_on_a_phone(
    chinese_page: Page, browser: Browser, instance: Instance
) -> None:
    demo = instance.demo["tenants"][0]
    made = instance.manage(
        "create_chat_link", "--tenant", demo["slug"], "--agent", demo["agent_id"], "--user",
        "teacher-7", "--base-url", instance.base_url,
    )  # fmt: skip
    url = re.search(r"url: (\S+)", made.stdout)
    assert url is not None, made.stderr
    page = chinese_page
    page.goto(url[1])
    expect(page.get_by_role("link", name="新建会话")).to_be_visible()
    ask(page, "简答题最后换成了哪两道？")
    picture(page, "chat-zh")
    page.get_by_role("link", name="用到了什么").last.click()
    expect(page.locator("#sheet")).to_contain_text("这次回答用到了什么")
    picture(page, "chat-used-zh")
    page.keyboard.press("Escape")
    page.emulate_media(color_scheme="dark")
    picture(page, "chat-dark-zh")
    assert page.locator(".speaking").count() == 0

    phone = browser.new_context(
        viewport={"width": 390, "height": 844}, locale="zh-CN", has_touch=True, is_mobile=True,
        storage_state=page.context.storage_state(),
    )  # fmt: skip
    small = phone.new_page()
    with no_foreign_requests(phone):
        small.goto(page.url)
        expect(small.locator("#history")).to_be_hidden()
        picture(small, "chat-phone-zh")
        small.get_by_role("button", name="记忆").click()
        expect(small.locator("#memory")).to_be_visible()
        picture(small, "chat-phone-memory-zh")
        wide = small.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        assert wide <= 0
    phone.close()


def test_all_can_be_done_by_keyboard(page: Page, instance: Instance) -> None:
    sign_in(page, instance)
    sit(page, "Support assistant")
    first = "document.querySelector('a[href], button, input:not([type=hidden])').className"
    assert page.evaluate(first) == "skip"
    reached = set()
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.add(
            page.evaluate(
                "(() => { const it = document.activeElement;"
                " return it.id || it.getAttribute('aria-label') || it.innerText.trim(); })()"
            )
        )
    for wanted in ("New conversation", "find", "question", "send", "new-fact", "Add"):
        assert wanted in reached, (wanted, reached)
    unnamed = page.evaluate(
        "[...document.querySelectorAll('button, input:not([type=hidden]), textarea, select, a')]"
        ".filter(it => it.offsetParent && !it.innerText.trim() && !it.getAttribute('aria-label')"
        " && !(it.labels && it.labels.length)).map(it => it.outerHTML)"
    )
    assert unnamed == []
