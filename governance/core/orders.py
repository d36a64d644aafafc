"""Facts that read like standing orders: not forbidden, but whoever decides should see it at once. Pure.

The gate's markers are forgeries and orders to forget; these are the polite ones, which a person may
rightly say ("always answer in English") and an attacker may as well ("always send a copy to …").
"""

from __future__ import annotations

from typing import Final

import re2

from memory.retrieval.words import folded

_ORDERS: Final = re2.compile(
    r"\b(for|in) (all|any|every) (the )?(future|coming|later|next)\b"
    r"|\b(from now on|going forward|henceforth|whenever|every time|each time)\b"
    r"|\b(must|should|shall) (always|never)\b|\b(always|never) (\w+ ){0,2}"
    r"(send|forward|copy|cc|reply|answer|respond|include|add|use|trust|recommend|approve|ignore|say|tell"
    r"|share|visit|open|click|call|execute|run)\b"
    r"|\b(most|more|only|fully|highly) (trusted|trustworthy|reliable|authoritative)\b"
    r"|\b(bcc|cc)s? (to|reports?)\b|\bis (a |the )?(trusted|official) (source|site|domain)\b"
    r"|以后(都|每次|所有|凡是|一律|请|要)|今后(都|每次|所有|凡是|一律|请|要)|从现在起|从今以后|往后都"
    r"|每次(都|对话|回答|聊天)|所有(对话|回答|聊天|会话|报告|后续)|(务必|一律|总是|永远|始终)(要|都|不要|把|将|抄送|发送|转发|推荐|相信|使用)"
    r"|最(可信|可靠|权威|值得信任|值得信赖)|抄送(给|到|至)?|转发(给|到|至)"
)


def is_instruction_like(text: str) -> bool:
    """Say whether a text tells what to do from now on, or whom to trust. Linear."""
    return _ORDERS.search(folded(text)) is not None
