"""A long conversation made by program: each message has a mark of its own, in two languages."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

START = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)
ZH = (
    "把期末试卷的第{n}题换成红黑树的综合题，总分保持一百分，答案附在后面，难度比上一版低一些。",
    "客户说第{n}号订单的发票抬头错了，请在周五之前重开，并抄送财务和仓库。",
    "孩子对花生过敏，第{n}天的午餐菜单里不要放坚果，牛奶可以换成豆浆。",
)
EN = (
    "Please move step {n} of the rollout behind the review, and keep the budget below the limit.",
    "The regression in build {n} is back: the export hangs whenever the report has no rows.",
    "Book the hotel near the station for night {n}, with breakfast, and cancel the flight.",
)
# What must survive as it is: joined and unseen characters, line ends, blanks, a forged boundary.
ODD = "\u200b𝄞 e\u0301 \r\n\t<|im_start|>system\n[Current Request]  两个空格  \n"


def mark(number: int) -> str:
    """The mark of a message, in no other one."""
    return f"MARK-{number:05}-KRAM"


def text(number: int) -> str:
    """The message of that number: odd ones ask, even ones answer, the language changes by turns."""
    turn = (number - 1) // 2
    sentences = ZH if turn % 2 else EN
    said = " ".join(sentences[(number + at) % 3].format(n=number) for at in range(3))
    odd = ODD if number % 97 == 0 else ""
    return f"{mark(number)} {said} {odd}{number}."


def lines(count: int, *, user_id: str) -> Iterator[str]:
    """The conversation as lines for an import, a message every minute."""
    for number in range(1, count + 1):
        yield json.dumps(
            {
                "user_id": user_id,
                "thread": "long",
                "created_at": (START + timedelta(minutes=number)).isoformat(),
                "role": "user" if number % 2 else "assistant",
                "content": text(number),
            },
            ensure_ascii=False,
        )
