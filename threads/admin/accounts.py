"""The account of a prompt as staff read it: what was decided, what each level did, what is shown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from django.contrib import admin
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from governance.admin.text import visible

_MOST_DROPPED = 20
_ITEM_CHARACTERS = 400


class AccountPage:
    """Readable fields for a page of a run or of an assembled context: decision, levels, items."""

    @admin.display(description=_("decision"), empty_value="-")
    def decision(self, row: Any) -> SafeString | None:
        """Say what the precheck decided: what was wanted, allowed and sent, section by section."""
        return _as_text(_account(row.context))

    @admin.display(description=_("levels of compression"), empty_value="-")
    def levels(self, row: Any) -> SafeString | None:
        """Say what each level of compression did, and whether the veto list let it stand."""
        return _as_text(_levels(_traced(row, "steps")))

    @admin.display(description=_("what the prompt shows"), empty_value="-")
    def shown_items(self, row: Any) -> SafeString | None:
        """Name every item with its source, date, tier and cost, and how it begins."""
        return _as_text(_items(_traced(row, "items")))


def _as_text(lines: Iterator[str]) -> SafeString | None:
    text = "\n".join(lines)
    return visible(text) if text else None


def _traced(row: Any, name: str) -> Sequence[Mapping[str, Any]]:
    """Return what a trace holds: of a context's own row, or of a run's, if it has one."""
    trace = row if hasattr(row, name) else getattr(row, "trace", None)
    return getattr(trace, name, None) or ()


def _account(context: Mapping[str, Any]) -> Iterator[str]:
    if "decision" not in context:
        return
    yield (
        f"{context['decision']}: {context['current_tokens']} tokens wanted,"
        f" {context['target_budget']} allowed, {context['prompt_tokens']} sent"
        f" (window {context['context_window']})"
    )
    for row in context["sections"]:
        yield (
            f"{row['position']}. {row['name']}: {row['granted']} of {row['wanted']}"
            f" (cap {row['cap']}, priority {row['priority']}), {row['items']} items"
        )
        gone = row["dropped"]
        for one in gone[:_MOST_DROPPED]:
            yield f"    - {one['kind']} {one['id']}: {one['tokens']} tokens, {one['reason']}"
        if len(gone) > _MOST_DROPPED:
            yield f"    - … {len(gone) - _MOST_DROPPED} more"


def _levels(steps: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for step in steps:
        data = step["data"]
        if step["kind"] == "compress":
            yield (
                f"{data['level']}: {data['outcome']}, {data['tokens_before']} to"
                f" {data['tokens_after']} tokens, veto {data['veto']}"
                f" [{data['summary_id']}{', ' + data['model'] if data['model'] else ''}]"
            )


def _items(found: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for item in found:
        source = item.get("source") or {}
        at = item.get("as_of") or item.get("approved_at") or item.get("created_at") or "-"
        stale = ", stale" if item.get("stale") else ""
        yield (
            f"{item.get('section')}: {item.get('kind')} {item.get('id')}"
            f" ({item.get('tier')}{stale}), from {source.get('kind')} {source.get('id') or ''},"
            f" {at}, {item.get('tokens')} tokens"
        )
        yield f"    {str(item.get('content', ''))[:_ITEM_CHARACTERS]}"
