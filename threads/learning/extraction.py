"""The job extract_core: what succeeded runs of a thread say of their person becomes candidates.

A job looks at all runs of its thread that were not looked through yet, so whatever commits late or
after a crash is taken by the next one, and a unique key keeps each run to one look. The job names
no thread in its row: one that waits for a model must not keep the thread's other jobs waiting.
Nothing here confirms anything.
"""

from __future__ import annotations

from time import monotonic
from typing import Final

from django.utils import timezone

from governance.policy_rules import Policy
from memory import jobs
from memory.errors import CredenceError
from memory.language import Language, dominant_language
from memory.models import JobKind
from memory.scope import Scope
from threads.asking import ask_in_turn
from threads.chat import memory_providers, provider_config
from threads.learning.extraction_rows import (
    MOST_RUNS,
    Batch,
    Found,
    Looked,
    find_in,
    read_batch,
    store_batch,
)
from threads.learning.fact_answers import MALFORMED, ModelFacts, read_facts
from threads.learning.fact_patterns import find_facts
from threads.learning.fact_prompts import fact_prompt
from threads.memory_calls import book_calls
from threads.models import ProviderKind, Run, RunOrigin

# A job may work for two minutes: a batch starts in the first, and its calls end before the second.
_WORK_SECONDS: Final = 60.0
_ALL_SECONDS: Final = 100.0
_MOST_SOURCE_TOKENS: Final = 6_000
_LEAST_SOURCE_TOKENS: Final = 300
_PROMPT_TOKENS: Final = 1_800  # instructions and answer
_KEY: Final = f"{JobKind.EXTRACT_CORE}:"
_IMPORTED: Final = f"{_KEY}imported:"  # somebody asked for the imported turns of a thread as well


class ExtractionFailedError(CredenceError):
    """No model answered, so nothing was looked through; the job is tried again."""

    code = "extraction_failed"


def extract_job(*, policy: Policy, last: Run) -> jobs.NewJob | None:
    """Return the job that looks through a thread after its newest turn, None where policy is off.

    One unfinished one a thread.
    """
    if RunOrigin(last.origin) not in origins_of(policy):
        return None
    return jobs.NewJob(
        kind=JobKind.EXTRACT_CORE,
        thread_id=None,
        run_id=last.pk,
        end_user_id=last.end_user_id,
        dedupe_key=f"{_KEY}{last.thread_id}",
    )


def extract_imported_job(*, thread_id: str, end_user_id: str) -> jobs.NewJob:
    """Return the job that looks through a thread's imported turns too, whatever policy says of those.

    For `import_conversations --learn`; without write-back it finds nothing to do.
    """
    return jobs.NewJob(
        kind=JobKind.EXTRACT_CORE,
        thread_id=None,
        run_id=None,
        end_user_id=end_user_id,
        dedupe_key=f"{_IMPORTED}{thread_id}",
    )


def origins_with_imported(policy: Policy) -> frozenset[RunOrigin]:
    """Return the origins of turns that policy lets teach, and imported ones if it lets any."""
    origins = origins_of(policy)
    return origins | {RunOrigin.IMPORT} if origins else origins


def origins_of(policy: Policy) -> frozenset[RunOrigin]:
    """Return the origins of turns that policy lets teach."""
    if not (policy.is_on("writeback") and policy.is_on("extract_core")):
        return frozenset()
    origins = {RunOrigin.RUN}
    if policy.is_on("learn_from_turns"):
        origins.add(RunOrigin.API)
    if policy.is_on("extract_on_import"):
        origins.add(RunOrigin.IMPORT)
    return frozenset(origins)


def extract_core(*, scope: Scope, claim: jobs.Claim) -> None:
    """Handle an `extract_core` job: look through what its thread has that was not looked through.

    Each batch is read in one transaction, the model asked outside any, and what it found stored in
    another. Of a batch that nobody answers each turn is asked for by itself: one that every model
    refuses keeps none of its neighbours from being learned from. What is left after a minute is asked
    for again. Cost: one model call for each ten turns.

    Raises:
        ExtractionFailedError: No model answered for some turns; they are looked through by the next
            attempt.
        LeaseLostError: The job was claimed again; that claim goes on instead.
    """
    started = monotonic()
    is_asked_for = claim.dedupe_key.startswith(_IMPORTED)
    thread_id = claim.dedupe_key.removeprefix(_IMPORTED if is_asked_for else _KEY)
    teaching = origins_with_imported if is_asked_for else origins_of
    refused: set[str] = set()
    most = MOST_RUNS
    while monotonic() - started < _WORK_SECONDS:
        batch = read_batch(
            scope=scope, thread_id=thread_id, origins_of=teaching, most=most, without=refused
        )
        if batch is None:
            if refused:
                raise ExtractionFailedError
            return
        left = _ALL_SECONDS - (monotonic() - started)
        looked = _look(scope.narrowed(thread_id=thread_id), claim, batch, left)
        if looked is not None:
            store_batch(scope=scope, claim=claim, batch=batch, looked=looked, now=timezone.now())
        elif len(batch.runs) == 1:
            refused.update(batch.runs)
        most = 1 if looked is None or refused else MOST_RUNS
    if refused:
        raise ExtractionFailedError
    jobs.ask_again(scope=scope, claim=claim, now=timezone.now())


def _look(scope: Scope, claim: jobs.Claim, batch: Batch, within_seconds: float) -> Looked | None:
    """Return what a batch says of its person, None if who was asked did not answer.

    Raises:
        ExtractionFailedError: Nobody was asked: all providers rest.
    """
    said = [sentences for sentences in batch.said.values() if sentences]
    if not said:
        return Looked()
    if batch.agent.provider.kind == ProviderKind.OFFLINE:
        facts = ModelFacts(
            facts=tuple(fact for sentences in said for fact in find_facts(sentences))
        )
        return _found(batch, facts)
    providers = memory_providers(batch.agent)
    language = _language(said)
    heard = ask_in_turn(
        configs=[provider_config(provider) for provider in providers],
        model=batch.agent.model,
        prompt=lambda is_shorter: fact_prompt(
            said=["\n".join(sentences) for sentences in said],
            language=language,
            most_tokens=_most_tokens(batch),
            is_shorter=is_shorter,
        ),
        read=read_facts,
        within_seconds=within_seconds,
    )
    book_calls(
        scope=scope, kind=claim.kind, job_id=claim.job_id, agent=batch.agent, calls=heard.calls
    )
    if heard.made is not None:
        return _found(batch, heard.made)
    if heard.calls and heard.calls[-1].outcome == MALFORMED:
        return Looked(fault=MALFORMED)
    if not heard.calls:
        raise ExtractionFailedError
    return None


def _found(batch: Batch, facts: ModelFacts) -> Looked:
    found: tuple[Found, ...]
    found, dropped = find_in(batch=batch, facts=facts.facts)
    return Looked(found=found, dropped=dropped + facts.unread)


def _language(said: list[list[str]]) -> Language:
    text = "\n".join(sentence for sentences in said for sentence in sentences)
    return "zh" if dominant_language(text) == "zh" else "en"


def _most_tokens(batch: Batch) -> int:
    """Return what the messages may cost, so that instructions and answer fit beside them."""
    room = batch.agent.context_window - _PROMPT_TOKENS
    return max(min(room, _MOST_SOURCE_TOKENS), _LEAST_SOURCE_TOKENS)
