"""The evaluation's own parts, on a tiny set and a fake memory."""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.evaluation.asking import Asked, Ranked, ask_all, ingest, time_inside, write_run
from tests.evaluation.datasets import EvalSet, Question, only_people, read_set, split_turn
from tests.evaluation.report import (
    BEGIN,
    DEFAULT_THRESHOLD,
    END,
    SetResult,
    page,
    placed,
    silence_chart,
)
from tests.evaluation.run import main
from tests.evaluation.scoring import HEADLINE, Scored
from tests.evaluation.silence import curve
from tests.evaluation.subject import Answer, Found, Rest

TURNS = (
    ("ann", "s1", "User: I like tea.\nAssistant: Noted."),
    ("ann", "s1", "Ann: The bus was late."),
    ("ann", "s2", "用户：我搬到了杭州。\n助手：好的。"),
    ("bob", "s3", "Bob: My cat is called Tom."),
)
ASKED = (
    ("ann", "What does Ann like?", ["ann-0"], True),
    ("ann", "我搬到了哪里？", ["ann-2"], True),
    ("bob", "What is Ann's dog called?", ["bob-3"], False),
)


@pytest.fixture
def tiny(tmp_path: Path) -> EvalSet:
    """A set of two people, with one negative of each kind."""
    folder = tmp_path / "tiny-dev"
    folder.mkdir()
    corpus = [
        {"id": f"{group}-{n}", "group": group, "session": session, "speaker": "", "text": text}
        | {"ts": "", "created_at": "2024-01-01T00:00:00Z"}
        for n, (group, session, text) in enumerate(TURNS)
    ]
    queries = [
        {"id": f"q{n}", "group": group, "category": "fact", "text": text, "gold": gold}
        | {"gold_sessions": [], "headline": headline}
        for n, (group, text, gold, headline) in enumerate(ASKED)
    ]
    negative = {"group": "bob", "text": "Who likes tea?", "gold": []}
    files: dict[str, Any] = {
        "corpus": corpus,
        "queries": queries,
        "negatives_unrelated": [negative | {"id": "un-0"}],
        "negatives_cross_person": [negative | {"id": "neg-0"}],
    }
    for name, rows in files.items():
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        (folder / f"{name}.jsonl").write_text(text, encoding="utf-8")
    return read_set(folder)


class FakeSubject:
    """Finds everything that it was told of a person, the newest first."""

    clients = 3

    def __init__(self) -> None:
        self.told: dict[str, list[str]] = {}
        self.sessions = 0

    def record(self, *, of, session):
        self.sessions += 1
        told = self.told.setdefault(of.user_id(session[0].person), [])
        told.extend(of.external_id(turn.corpus_id) for turn in session)

    def come_to_rest(self):
        return Rest(jobs=Counter(index_recall=self.sessions))

    def search(self, *, user_id, question, limit):
        newest = list(reversed(self.told.get(user_id, [])))[:limit]
        found = (Found(external_id=one, relevance=1 / (n + 2)) for n, one in enumerate(newest))
        return Answer(found=tuple(found), ms=2.0, degraded=("embedding_unavailable",))

    def inner_millis(self, *, user_id, questions):
        return [float(len(questions))]


@pytest.mark.parametrize(
    ("text", "halves"),
    [
        ("User: Tea, please.\nAssistant: Here.", ("Tea, please.", "Here.")),
        ("用户：你好\n第二行\n助手：在", ("你好\n第二行", "在")),
        ("Caroline: User: hi", ("Caroline: User: hi", "")),
        ("User: \nAssistant: Hello", ("User: \nAssistant: Hello", "")),
    ],
)
def test_split_turn_of_two_speakers_gives_both_and_leaves_others_whole(text, halves):
    assert split_turn(text) == halves


def test_ids_of_sets_come_back_and_those_of_others_stay_foreign(tiny):
    assert tiny.corpus_id(tiny.external_id("ann/张-0")) == "ann/张-0"
    assert "locomo-dev/ann-0" in tiny.corpus_id("locomo-dev/ann-0")
    assert tiny.corpus_id("locomo-dev/ann-0") != "ann-0"
    assert tiny.corpus_id(None) not in {turn.corpus_id for turn in tiny.turns}


def test_ingest_records_each_session_of_each_person_once(tiny):
    subject = FakeSubject()
    ingested = ingest(subject=subject, sets=[tiny])
    assert subject.told["tiny-dev.ann"] == [f"tiny-dev/ann-{n}" for n in range(3)]
    assert (ingested.turns, ingested.rest.jobs["index_recall"]) == (4, 3)


def test_questions_are_asked_of_their_person_and_ranked_by_corpus_id(tiny, tmp_path):
    subject = FakeSubject()
    ingest(subject=subject, sets=[tiny])
    asked = ask_all(subject=subject, of=tiny)
    time_inside(subject=subject, of=tiny, asked=asked)
    assert [one.corpus_id for one in asked.found["q0"]] == ["ann-2", "ann-1", "ann-0"]
    assert [one.corpus_id for one in asked.found["neg-0"]] == ["bob-3"]
    assert (len(asked.first_ms), len(asked.later_ms), asked.inner_ms) == (2, 3, [2.0])
    assert asked.degraded == {"embedding_unavailable": 5}
    write_run(questions=tiny.questions, asked=asked, path=tmp_path / "run.jsonl")
    lines = (tmp_path / "run.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["id"] for line in lines] == ["q0", "q1", "q2"]
    assert json.loads(lines[1])["ranked"] == ["ann-2", "ann-1", "ann-0"]


def test_only_people_keeps_theirs_and_writes_it_for_the_scorer(tiny, tmp_path):
    small = only_people(tiny, count=1, into=tmp_path / "small")
    assert {turn.person for turn in small.turns} == {"ann"}
    assert [one.id for one in small.questions] == ["q0", "q1"]
    assert small.unrelated == ()
    again = read_set(small.folder)
    assert (again.turns, again.questions) == (small.turns, small.questions)


def question(name: str, *gold: str) -> Question:
    return Question(
        id=name, person="p", category="c", text="?", gold=frozenset(gold), is_headline=True
    )


def test_curve_counts_what_a_threshold_silences_and_what_it_costs():
    def hits(*pairs):
        return tuple(Ranked(corpus_id=name, relevance=relevance) for name, relevance in pairs)

    found = {
        "a": hits(("g1", 0.9), ("x", 0.8)),
        # The second gold stands fourth: it moves into the first three once others are silenced.
        "b": hits(("g2", 0.3), ("x", 0.1), ("y", 0.1), ("g3", 0.3)),
        "un-1": hits(("x", 0.2)),
        "un-2": (),
        "neg": hits(("x", 0.5)),
    }
    points = curve(
        found=found,
        answered=[question("a", "g1"), question("b", "g2", "g3")],
        unrelated=[question("un-1"), question("un-2")],
        cross_person=[question("neg")],
        thresholds=[0.0, 0.2, 0.6],
    )
    assert [point.unrelated for point in points] == [0.5, 0.0, 0.0]
    assert [point.cross_person for point in points] == [1.0, 1.0, 0.0]
    lost = [point.lost for point in points]
    assert lost[0] == 0.0
    assert math.isclose(lost[1], 1 - 1.0 / 0.75)
    assert math.isclose(lost[2], 1 - 0.5 / 0.75)


def result_of(tiny: EvalSet) -> tuple[SetResult, Asked]:
    subject = FakeSubject()
    ingest(subject=subject, sets=[tiny])
    asked = ask_all(subject=subject, of=tiny)
    row = {"n": 2, "recall@3": 1.0, "recall@10": 1.0, "hit@5": 1.0, "mrr": 0.5, "ndcg@10": 0.7}
    scored = Scored(figures={HEADLINE: row, "all": row, "fact": row}, foreign=0, unknown=1)
    return SetResult(of=tiny, asked=asked, scored=scored, others={"BM25": scored}), asked


def test_page_has_the_figures_and_nothing_of_the_texts(tiny):
    result, _ = result_of(tiny)
    ingested = ingest(subject=FakeSubject(), sets=[tiny])
    told = page(results=[result], ingested=ingested, head="Head.", chart="figures/silence.svg")
    assert "| tiny-dev | 2 | **Credence** | 100.0 | 100.0 | 100.0 | 50.0 | 70.0 |" in told
    assert "**0 were another person's**, 1 of unknown origin" in told
    assert f"| **{DEFAULT_THRESHOLD:g}** | **100.0%** | **100.0%** |" in told
    assert "embedding_unavailable" in told
    for turn in tiny.turns:
        assert turn.said not in told
    for one in tiny.questions:
        assert one.text not in told
    assert silence_chart(result).count("<polyline") == 4


def test_placed_replaces_only_what_stands_between_the_marks():
    document = f"Before.\n{BEGIN}\nold\n{END}\nAfter.\n"
    assert placed(document, "new\n") == f"Before.\n{BEGIN}\nnew\n{END}\nAfter.\n"
    assert placed(placed(document, "1"), "2") == placed(document, "2")
    for broken in ("none", f"{END}{BEGIN}", f"{BEGIN}{BEGIN}{END}", f"{BEGIN}{END}{END}"):
        with pytest.raises(ValueError, match="marks"):
            placed(broken, "new")


def test_eval_without_the_shared_folder_says_so_and_is_no_failure(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("CREDENCE_SHARED", str(tmp_path / "none"))
    assert main([]) == 0
    assert "CREDENCE_SHARED" in capsys.readouterr().out
