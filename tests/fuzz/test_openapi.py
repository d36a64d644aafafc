"""Whatever the OpenAPI document allows, and much that it does not, is answered as it says.

Each operation is asked with generated requests by keys of every scope, of one scope and of one
person: no server error, status, content type and body as described, and nothing of the other
tenant. The same few examples each time in CI (`derandomize`); `make fuzz` asks more, at random.
"""

from __future__ import annotations

import os
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.factories import make_key
from tests.fuzz.asking import ask
from tests.fuzz.operations import OPERATIONS, known_ids
from tests.threads.api.client import Api, Place

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "6"))
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]


def schema_of() -> Any:
    """The document as it is served."""
    return schemathesis.openapi.from_dict(Api(None).get("/v1/openapi.json").json())


@pytest.mark.req("B17")
@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_generated_requests_are_answered_as_described(
    a: Place, b: Place, method: str, path: str
) -> None:
    operation = schema_of()[path][method]
    keys = [
        make_key(b.tenant),
        make_key(b.tenant, ("read",)),
        make_key(b.tenant, end_user_id=b.person.pk),
    ]
    ours, theirs = known_ids(b), known_ids(a)

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        derandomize="FUZZ_EXAMPLES" not in os.environ,
        suppress_health_check=list(HealthCheck),
    )
    @given(
        case=operation.as_strategy(),
        key=st.sampled_from(keys),
        ids=st.sampled_from([ours, ours, theirs, {}]),
    )
    def asked(case: Any, key: Any, ids: dict[str, str]) -> None:
        for name in case.path_parameters:
            case.path_parameters[name] = ids.get(name, case.path_parameters[name])
        answer = ask(case, key.headers)
        case.validate_response(answer, checks=CHECKS)
        assert a.canary not in answer.text
        assert a.canary not in str(answer.headers)

    asked()
