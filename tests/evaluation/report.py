"""The figures as Markdown and as a chart: numbers only, nothing of the sets' texts. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from governance.policy_rules import RULES
from tests.benchmarks.line_chart import Line, line_chart
from tests.evaluation.asking import Asked, Ingested
from tests.evaluation.datasets import EvalSet
from tests.evaluation.scoring import HEADLINE, Scored
from tests.evaluation.silence import Point, curve

BEGIN: Final = "<!-- figures: written by make eval -->"
END: Final = "<!-- end of figures -->"
DEFAULT_THRESHOLD: Final = float(str(RULES["min_relevance"].default))
US: Final = "**Credence**"
_MEASURES: Final = {
    "recall@3": "R@3",
    "recall@10": "R@10",
    "hit@5": "hit@5",
    "mrr": "MRR",
    "ndcg@10": "nDCG@10",
}
_SHOWN: Final = sorted({*(step / 10 for step in range(10)), DEFAULT_THRESHOLD})
_FINE: Final = tuple(step / 50 for step in range(51))


@dataclass(frozen=True, slots=True, kw_only=True)
class SetResult:
    """All that was found out about one set; `others` are the baselines by name."""

    of: EvalSet
    asked: Asked
    scored: Scored
    others: Mapping[str, Scored]


def quality(results: Sequence[SetResult]) -> list[str]:
    """Return the tables of what was found: of the headline questions, then by category."""
    lines = [_row("set", "questions", "system", *_MEASURES.values())]
    lines += [_rule(3 + len(_MEASURES))]
    for result in results:
        for label, scored in (*result.others.items(), (US, result.scored)):
            of = scored.figures[HEADLINE]
            lines += [_row(result.of.name, int(of["n"]), label, *_shares(of, _MEASURES))]
    lines += ["", "By category, the questions that are not counted above too:", ""]
    lines += [_row("set", "category", "questions", *_MEASURES.values(), "R@10 of BM25")]
    lines += [_rule(4 + len(_MEASURES))]
    for result in results:
        for category in sorted(set(result.scored.figures) - {HEADLINE, "all"}):
            of = result.scored.figures[category]
            bm25 = result.others["BM25"].figures[category] if "BM25" in result.others else {}
            cells = (result.of.name, category, int(of["n"]), *_shares(of, _MEASURES))
            lines += [_row(*cells, *_shares(bm25, ["recall@10"]))]
    return lines


def isolation(results: Sequence[SetResult]) -> list[str]:
    """Return how many results were of somebody else."""
    shown = sum(len(hits) for result in results for hits in result.asked.found.values())
    foreign = sum(result.scored.foreign for result in results)
    unknown = sum(result.scored.unknown for result in results)
    told = f"Of {shown:,} results, **{foreign} were another person's**, {unknown} of unknown origin"
    return [f"{told}; all sets stand in one tenant."]


def points_of(result: SetResult, thresholds: Sequence[float]) -> list[Point]:
    """Return what thresholds do to a set that has questions without an answer."""
    return curve(
        found=result.asked.found,
        answered=result.of.questions,
        unrelated=result.of.unrelated,
        cross_person=result.of.cross_person,
        thresholds=thresholds,
    )


def silence(result: SetResult) -> list[str]:
    """Return the table of thresholds."""
    lines = [_row("threshold", "unrelated", "of another person", "R@3 lost"), _rule(4)]
    for point in points_of(result, _SHOWN):
        values = [f"{100 * x:.1f}%" for x in (point.unrelated, point.cross_person, point.lost)]
        threshold = f"{point.threshold:g}"
        if point.threshold == DEFAULT_THRESHOLD:
            threshold, values = f"**{threshold}**", [f"**{value}**" for value in values]
        lines += [_row(threshold, *values)]
    counts = f"{len(result.of.unrelated)} unrelated questions, {len(result.of.cross_person)} of"
    return [*lines, "", f"{counts} another person; the default threshold in bold."]


def silence_chart(result: SetResult) -> str:
    """Return the same as an SVG chart, in steps of a fiftieth."""
    points = points_of(result, _FINE)
    drawn = (
        ("of another person", "#db6d28", [point.cross_person for point in points]),
        ("unrelated", "#8957e5", [point.unrelated for point in points]),
        ("R@3 lost", "#2f81f7", [point.lost for point in points]),
    )
    lines = [
        Line(
            label=label,
            colour=colour,
            points=[(x, 100 * share) for x, share in zip(_FINE, shares, strict=True)],
        )
        for label, colour, shares in drawn
    ]
    mark = Line(
        label="",
        colour="#8c959f",
        points=[(DEFAULT_THRESHOLD, 0), (DEFAULT_THRESHOLD, 100)],
        dashed=True,
    )
    return line_chart(
        title="Questions that get a result, and recall lost (per cent)",
        x_label="threshold of relevance (the default is dashed)",
        unit="",
        lines=[*lines, mark],
        top=100,
    )


def speed(results: Sequence[SetResult]) -> list[str]:
    """Return the table of times."""
    lines = [_row("set", "turns a person", "search", "p95", "first of a person", "retrieval")]
    lines += [_rule(6)]
    for result in results:
        asked = result.asked
        later = sorted(asked.later_ms)
        p95 = later[int(len(later) * 0.95)] if later else None
        turns = len(result.of.turns) / len(result.of.people)
        times = (_middle(later), p95, _middle(asked.first_ms), _middle(asked.inner_ms))
        lines += [_row(result.of.name, f"{turns:.0f}", *(_ms(time) for time in times))]
    return lines


def ingestion(ingested: Ingested) -> list[str]:
    """Return how fast turns came in and could be found."""
    whole = ingested.recorded_s + ingested.waited_s
    jobs = ", ".join(f"{count} {kind}" for kind, count in sorted(ingested.rest.jobs.items()))
    told = (
        f"{ingested.turns:,} turns recorded one by one by {ingested.clients} clients in"
        f" {ingested.recorded_s:.1f} s ({ingested.turns / ingested.recorded_s:.0f}/s), the worker"
        f" indexing and embedding meanwhile; all of it could be found {ingested.waited_s:.1f} s"
        f" after the last ({ingested.turns / whole:.0f}/s from the first turn to the end)."
        f" Jobs: {jobs or 'none'}."
    )
    lines = [told]
    if ingested.rest.dead:
        dead = ", ".join(f"{count} {what}" for what, count in sorted(ingested.rest.dead.items()))
        lines += [f"Given up: {dead}."]
    return lines


def degradations(results: Iterable[SetResult]) -> list[str]:
    """Return which answers were less than they should be, if any."""
    told = [
        f"{result.of.name}: {count} answers `{name}`"
        for result in results
        for name, count in sorted(result.asked.degraded.items())
    ]
    return [f"Degraded: {'; '.join(told)}."] if told else []


def page(
    *,
    results: Sequence[SetResult],
    ingested: Ingested,
    head: str,
    chart: str | None,
) -> str:
    """Return all of it; `chart` is where the page finds the curve."""
    parts: list[list[str]] = [[head], *([told] if (told := degradations(results)) else [])]
    parts += [["## Found"], quality(results), ["## Isolation"], isolation(results)]
    for result in results:
        if result.of.unrelated or result.of.cross_person:
            parts += [["## Silence"], silence(result)]
            parts += [[f"![The same as curves]({chart})"]] if chart else []
    parts += [["## Speed"], speed(results), ["## Ingest"], ingestion(ingested)]
    return "\n\n".join("\n".join(lines) for lines in parts) + "\n"


def placed(document: str, figures: str) -> str:
    """Return the document with its figures between the marks replaced.

    Raises:
        ValueError: The document has not both marks, once each and in order.
    """
    before, begin, rest = document.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end or BEGIN in rest or END in after:
        raise ValueError("the page does not have the marks of its figures once each")
    return f"{before}{BEGIN}\n{figures.strip()}\n{END}{after}"


def _shares(of: Mapping[str, float], measures: Iterable[str]) -> list[str]:
    return [f"{100 * of[measure]:.1f}" if measure in of else "" for measure in measures]


def _row(*cells: object) -> str:
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def _rule(columns: int) -> str:
    return "|" + "---|" * columns


def _middle(millis: Sequence[float]) -> float | None:
    return median(millis) if millis else None


def _ms(time: float | None) -> str:
    return "" if time is None else f"{time:.1f} ms"
