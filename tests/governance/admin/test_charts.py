"""Charts drawn by the server: right places, words for those who do not see them, nothing unescaped."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.template.loader import render_to_string

from governance.admin.charts import (
    HEIGHT,
    STEP,
    Chart,
    Series,
    Words,
    lines,
    nice_top,
    stacked_bars,
)


def words(**values: Any) -> Words:
    named = {
        "name": "c", "title": "Runs", "description": "A bar for each day.", "unit": "runs",
        "corner": "day",
    }  # fmt: skip
    return Words(**(named | values))


def bars(*rows: tuple[str, list[float | None]], labels: int = 3, **values: Any) -> Chart:
    return stacked_bars(
        words=words(**values),
        labels=[f"d{number}" for number in range(labels)],
        series=[Series(name=name, title=name, values=row) for name, row in rows],
    )


def page(chart: Chart) -> str:
    return render_to_string("admin/credence/chart.html", {"chart": chart})


@pytest.mark.parametrize(
    ("most", "top"), [(0, 1), (0.004, 0.004), (1, 1), (3.2, 4), (10, 10), (11, 15), (99, 100), (4_001, 5_000)]
)  # fmt: skip
def test_axis_ends_at_a_round_number_not_below_the_highest(most: float, top: float) -> None:
    assert nice_top(most) == pytest.approx(top)
    assert nice_top(most) >= most


def test_bars_stand_on_each_other_and_fill_their_share() -> None:
    chart = bars(("a", [1, 0, 2]), ("b", [3, 0, 2]))
    first = chart.places[0].boxes
    assert [box.name for box in first] == ["a", "b"]
    assert [(float(box.y), float(box.height)) for box in first] == [(75.0, 25.0), (0.0, 75.0)]
    assert chart.places[1].boxes == ()
    assert (float(chart.width), float(chart.height)) == (3 * STEP, HEIGHT)


def test_line_is_broken_where_there_is_nothing_and_a_lone_value_is_a_dot() -> None:
    series = [Series(name="m", title="m", values=[1.0, 2.0, None, 4.0, *[None] * 40])]
    labels = [str(number) for number in range(44)]
    chart = lines(words=words(), labels=labels, series=series)
    assert chart.curves[0].line == "M5 75 L15 50 M35 0"
    assert chart.curves[0].dots == "M35 0h0"
    assert chart.rows[2] == ("2", "–")


def test_table_holds_every_number_and_places_tell_theirs() -> None:
    chart = bars(("a", [1000, 0, 2]), ("b", [3, 0, 2]))
    assert chart.head == ("day", "a", "b")
    assert chart.rows == (("d0", "1,000", "3"), ("d1", "0", "0"), ("d2", "2", "2"))
    assert [place.told for place in chart.places] == ["d0: a 1,000, b 3", "d1: –", "d2: a 2, b 2"]


def test_few_labels_stand_under_their_places_many_over_equal_stretches() -> None:
    few, many = bars(("a", [1, 1, 1])), bars(("a", [1.0] * 90), labels=90)
    assert (few.is_centred, few.labels) == (True, ("d0", "d1", "d2"))
    assert (many.is_centred, many.labels) == (False, ("d0", "d15", "d30", "d45", "d60", "d75"))


def test_axis_says_nothing_twice() -> None:
    assert bars(("a", [1, 0, 0])).ticks == ("1", "", "0")
    assert bars(("a", [0, 0, 0])).ticks == ("1", "", "0")
    assert bars(("a", [8, 0, 0])).ticks == ("8", "4", "0")


def test_page_of_a_chart_tells_its_title_and_description_and_needs_no_style() -> None:
    html = page(bars(("a", [1, 2, 3]), ("b", [1, 2, 3])))
    assert re.search(r'<svg[^>]* role="img" aria-labelledby="t-c d-c"', html)
    assert '<title id="t-c">Runs</title>' in html
    assert '<desc id="d-c">A bar for each day.</desc>' in html
    assert html.count("<tr>") == 4
    assert "style=" not in html
    assert "<script" not in html


def test_markup_in_a_name_stays_text() -> None:
    evil = "<script>x</script>"
    chart = stacked_bars(
        words=words(title=evil),
        labels=[evil],
        series=[Series(name="a", title=evil, values=[1]), Series(name="b", title=evil, values=[2])],
    )
    html = page(chart)
    assert "<script" not in html
    assert html.count("&lt;script&gt;") >= 5
