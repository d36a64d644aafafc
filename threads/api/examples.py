"""Examples for the documentation page."""

from __future__ import annotations

from typing import Final

from drf_spectacular.utils import OpenApiExample

RUN_EXAMPLES: Final = (
    OpenApiExample(
        "A question with a fact and some material",
        value={
            "input": "出一份数据结构试卷",
            "user_id": "teacher-7",
            "thread_id": None,
            "facts": [
                {
                    "label": "库存",
                    "value": "12",
                    "as_of": "2026-06-12T08:00:00Z",
                    "source": "erp.stock",
                }
            ],
            "materials": [{"title": "考试大纲", "content": "…", "source": "wiki", "as_of": None}],
            "metadata": {"channel": "web"},
        },
        request_only=True,
    ),
    OpenApiExample(
        "The shortest question",
        value={"input": "Which orders are open?", "user_id": "customer-42"},
        request_only=True,
    ),
)
