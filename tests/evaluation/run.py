"""`make eval`: how much of what was said is found again, by the public API, beside baselines.

EVALARGS="--sets locomo-dev --quick" chooses; `--help` lists all. Environment: CREDENCE_SHARED names
the folder of the sets and tools (../shared); EVAL_URL, EVAL_KEY and EVAL_AGENT a running service to
ask instead of a throwaway one (its key needs read, write and admin).
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.evaluation.asking import Asked, Ingested, ask_all, ingest, time_inside, write_run
from tests.evaluation.database import own_database
from tests.evaluation.datasets import QUICK_PEOPLE, SETS, EvalSet, only_people, read_set
from tests.evaluation.over_http import HttpSubject
from tests.evaluation.report import SetResult, page, placed, silence_chart
from tests.evaluation.scoring import baselines, score
from tests.evaluation.subject import EvaluationError, Subject
from tests.evaluation.throwaway import throwaway_subject

REPO: Final = Path(__file__).resolve().parents[2]
PAGE: Final = REPO / "docs" / "evaluation.md"
CHART: Final = REPO / "docs" / "figures" / "silence.svg"


def say(text: str) -> None:
    """Tell the person at the terminal."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main(arguments: Sequence[str]) -> int:
    """Evaluate; 1 where something of another person was found or the evaluation broke off."""
    options = _options(arguments)
    shared = Path(os.environ.get("CREDENCE_SHARED") or REPO.parent / "shared")
    data, tools = shared / "data" / "retrieval", shared / "tools" / "retrieval"
    if not data.is_dir() or not tools.is_dir():
        say(
            "make eval needs the sets and the scorer in ../shared beside this folder"
            " (data/retrieval, tools/retrieval), or where CREDENCE_SHARED says; they are not there."
        )
        return 0
    with tempfile.TemporaryDirectory(prefix="credence-eval-") as folder:
        work = options.out or Path(folder)
        try:
            sets = _sets(options, data, work)
            with _subject(options) as subject:
                answers, ingested = _evaluate(subject, sets)
            results = [
                _scored(of, asked, tools=tools, work=work, options=options) for of, asked in answers
            ]
        except EvaluationError as error:
            say(f"The evaluation broke off: {error}")
            return 1
    return _told(options, results, ingested)


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make eval", description=__doc__)
    parser.add_argument("--sets", default=",".join(SETS), help="names, with commas between")
    parser.add_argument(
        "--quick", action="store_true", help=f"only {QUICK_PEOPLE} people a set; writes no page"
    )
    parser.add_argument("--direct", action="store_true", help="without HTTP; writes no page")
    parser.add_argument("--no-baselines", action="store_true", help="only Credence")
    parser.add_argument("--no-page", action="store_true", help="leave docs/evaluation.md alone")
    parser.add_argument("--clients", type=int, default=8, help="how many record at once (8)")
    parser.add_argument("--out", type=Path, help="keep the rankings in this folder")
    options = parser.parse_args(arguments)
    # A folder of this machine has no place on the page.
    said = [word for word in arguments if word not in ("--out", str(options.out))]
    options.said = " ".join(word for word in said if not word.startswith("--out="))
    return options


def _sets(options: argparse.Namespace, data: Path, work: Path) -> list[EvalSet]:
    sets = []
    for name in options.sets.split(","):
        if not (data / name / "queries.jsonl").exists():
            raise EvaluationError(f"there is no set {name!r}")
        whole = read_set(data / name)
        quick = options.quick
        sets.append(only_people(whole, count=QUICK_PEOPLE, into=work) if quick else whole)
    return sets


@contextmanager
def _subject(options: argparse.Namespace) -> Iterator[Subject]:
    """What is evaluated: a running service, this process, or an instance of its own."""
    if url := os.environ.get("EVAL_URL"):
        yield HttpSubject(
            url=url,
            key=os.environ["EVAL_KEY"],
            agent_id=os.environ["EVAL_AGENT"],
            may_run=False,
            clients=options.clients,
        )
        return
    if options.direct:
        with own_database():
            # Its models can be imported only now that Django knows its database.
            from tests.evaluation.direct import DirectSubject  # noqa: PLC0415

            yield DirectSubject()
        return
    say("Starting an instance …")
    with throwaway_subject(clients=options.clients) as subject:
        yield subject


def _evaluate(
    subject: Subject, sets: Sequence[EvalSet]
) -> tuple[list[tuple[EvalSet, Asked]], Ingested]:
    """Record and ask; runs come last, since they add to memories."""
    say(f"Recording {sum(len(one.turns) for one in sets):,} turns …")
    ingested = ingest(subject=subject, sets=sets)
    say(f"Recorded in {ingested.recorded_s:.0f} s, to be found {ingested.waited_s:.0f} s later.")
    answers = []
    for one in sets:
        say(f"Asking {one.name} …")
        answers.append((one, ask_all(subject=subject, of=one)))
    for one, asked in answers:
        time_inside(subject=subject, of=one, asked=asked)
    return answers, ingested


def _scored(
    of: EvalSet, asked: Asked, *, tools: Path, work: Path, options: argparse.Namespace
) -> SetResult:
    """Score one set, and the baselines over the same."""
    say(f"Scoring {of.name} …")
    folder = work / f"{of.name}.runs"
    folder.mkdir(parents=True, exist_ok=True)
    run = folder / "credence.jsonl"
    write_run(questions=of.questions, asked=asked, path=run)
    scored = score(tools=tools, data=of.folder, run=run)
    others = {}
    if not options.no_baselines:
        others = baselines(tools=tools, data=of.folder, work=folder)
    return SetResult(of=of, asked=asked, scored=scored, others=others)


def _told(options: argparse.Namespace, results: Sequence[SetResult], ingested: Ingested) -> int:
    """Print the figures, put them into the page, and say whether walls held."""
    command = "make eval" + (f' EVALARGS="{options.said}"' if options.said else "")
    date = time.strftime("%Y-%m-%d", time.gmtime())
    way = "in one process, without HTTP" if options.direct else "over HTTP on loopback"
    head = f"`{command}` on {date}, {way}, on two shared cores."
    curves = [silence_chart(one) for one in results if one.of.unrelated]
    chart = "figures/silence.svg" if curves else None
    figures = page(results=results, ingested=ingested, head=head, chart=chart)
    say("\n" + figures)
    is_whole = not (options.quick or options.direct) and options.sets == ",".join(SETS)
    if is_whole and not options.no_page:
        PAGE.write_text(placed(PAGE.read_text(encoding="utf-8"), figures), encoding="utf-8")
        for drawn in curves:
            CHART.write_text(drawn, encoding="utf-8")
        say(f"Written into {PAGE.relative_to(REPO)}.")
    leaks = sum(result.scored.foreign + result.scored.unknown for result in results)
    return 1 if leaks or ingested.rest.dead else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
