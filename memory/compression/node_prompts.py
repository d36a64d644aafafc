"""The prompt that asks a model for a summary node: one JSON object, in the conversation's language."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from memory.compression.node_content import HEADINGS, LIST_NAMES, NodeChild, NodeSource
from memory.compression.summary import SHARED_RULES, TASK_LINE, length_rule, turns_lines
from memory.language import Language

# The open items stand first, so that an answer cut off at its end has them all.
_RULES_ZH: Final = (
    "你在为一段长对话写摘要节点。用户消息里是其中一段对话，或几个依次相接的摘要节点，请整理成一个摘要节点。",
    (
        "1. 只输出一个 JSON 对象，不要代码框、开场白和解释。键依次为：open_items（尚未办完的事）、"
        "decisions（已作出的决定和变更）、pitfalls（走过的弯路、踩过的坑、失败的原因）、"
        "files（提到的文件名或路径）、timeline（经过）。前四项是字符串数组；timeline 是"
        '{"date": "年-月-日", "text": "一句话"} 的数组，按时间先后。没有内容的项写空数组。'
    ),
    (
        "2. 保留数字、日期、金额、编号、姓名、文件名和用户的偏好。几个节点里仍未办完的待办一条也不能丢，"
        "照原话写进 open_items；已办完的不再列入，在 timeline 里写明已完成。"
    ),
)
_RULES_EN: Final = (
    (
        "You write one summary node of a long conversation. The user message holds a stretch of it, or"
        " several summary nodes that follow each other; condense them into one node."
    ),
    (
        "1. Output one JSON object alone: no code fence, no introduction, no explanation. Its keys, in"
        " this order: open_items (what is still to be done), decisions (decisions and changes made),"
        " pitfalls (what went wrong and why), files (names or paths of files), timeline (what"
        ' happened). The first four are arrays of strings; timeline is an array of {"date":'
        ' "YYYY-MM-DD", "text": "one sentence"} in the order of time. Write [] where there is nothing.'
    ),
    (
        "2. Keep numbers, dates, amounts, identifiers, names, file names and the user's preferences."
        " Lose no open item of the nodes: copy each that is still open into open_items; those that are"
        " done are left out there and named as done in the timeline."
    ),
)
NODE_RULES: Final[dict[Language, tuple[str, ...]]] = {
    "zh": (*_RULES_ZH, *SHARED_RULES["zh"]),
    "en": (*_RULES_EN, *SHARED_RULES["en"]),
}
_CHILD: Final[dict[Language, str]] = {"zh": "摘要节点 {n}", "en": "summary node {n}"}
_LABEL: Final[dict[Language, str]] = {"zh": "{name}：", "en": "{name}: "}


def node_messages(*, source: NodeSource, language: Language, max_tokens: int) -> tuple[str, str]:
    """Return the system text and the user text that ask for a summary node.

    Holds nothing of an agent: no system prompt, no name. All texts are sanitised by the caller.

    Args:
        source: What the node is made from.
        language: The language of prompt and node.
        max_tokens: The cap of the node as it will be read, told as a number of words.
    """
    limit = length_rule(language=language, max_tokens=max_tokens)
    system_text = "\n".join((TASK_LINE, *NODE_RULES[language], limit))
    if source.turns:
        return system_text, "\n".join(turns_lines(turns=source.turns, language=language))
    return system_text, "\n\n".join(_child_texts(source.children, language))


def _child_texts(children: Sequence[NodeChild], language: Language) -> Iterator[str]:
    """Yield the nodes below, each with its span and every line with its date or its list's name."""
    for number, child in enumerate(children, start=1):
        lines = [f"[{child.span} {_CHILD[language].replace('{n}', str(number))}]"]
        lines += [
            f"- [{entry.date}] {entry.text}" if entry.date else f"- {entry.text}"
            for entry in child.content.timeline
        ]
        for name in LIST_NAMES:
            label = _LABEL[language].replace("{name}", HEADINGS[language][name])
            lines += [f"- {label}{text}" for text in getattr(child.content, name)]
        yield "\n".join(lines)
