"""The index of the site's search: one row a section, texts without marks of the page."""

from __future__ import annotations

import json
from pathlib import Path

from docs.site.search_index import NAME, write

PAGE = """<html><body><nav>not this</nav><article role="main">
<section id="memory"><h1>Memory<a class="headerlink" href="#memory">#</a></h1><p>Kept <b>by</b> people.</p>
<section id="finding"><span id="op-find"></span><h2>Finding<a class="headerlink" href="#finding">#</a></h2>
<p>简答题是<em>哪两道</em></p><pre>curl <span>$URL</span>/v1</pre>
<section id="more"><h3>More</h3><p>Third.</p></section></section></section>
</article></body></html>"""


def test_index_has_a_row_a_section_with_its_own_text(tmp_path: Path) -> None:
    (tmp_path / "_static").mkdir()
    (tmp_path / "_static" / "skipped.html").write_text(PAGE, "utf-8")
    (tmp_path / "zh").mkdir()
    (tmp_path / "zh" / "memory.html").write_text(PAGE, "utf-8")
    assert write(tmp_path) == 3
    text = (tmp_path / "_static" / NAME).read_text("utf-8")
    rows = json.loads(text.removeprefix("window.credenceSections = ").rstrip().removesuffix(";"))
    assert rows == [
        ["zh/memory.html", "Memory", "", "Kept by people."],
        ["zh/memory.html#finding", "Memory", "Finding", "简答题是哪两道 curl $URL/v1"],
        ["zh/memory.html#more", "Memory", "More", "Third."],
    ]
