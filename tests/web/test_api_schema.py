"""The API against its own document: whatever is sent, answers are those that it promises."""

from __future__ import annotations

import os
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import Case, GenerationMode

from tests.web.home_source import HomeSource
from tests.web.sample_jobs import as_peer, keep
from tony.model.state_directory import Home
from tony.web.api.operation import Operation
from tony.web.api.request_handler import OPERATIONS
from tony.web.app import create
from tony.web.server_context import ServerContext
from tony.web.user_authentication import AuthConfig, Authenticator

JOB = "local-20260101-000000-0a1b2c"
#: Values that are there; chance would never find them.
KNOWN = {"job": JOB, "with": JOB, "task": "worker:0", "name": "worker-0.s1.t1.out", "series": "cpu", "path": "job.json"}
#: Only what an answer before has said, or a time, is taken for these: no schema says that.
MADE = {"after", "before", "since", "until"}


@pytest.fixture(scope="module")
def schema(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What the API of a portal with one job says of itself; its owner asks."""
    home = Home(tmp_path_factory.mktemp("home"))
    keep(home)
    terms = AuthConfig(key=b"k" * 32, owner="ann", names=frozenset({"testserver"}))
    app = as_peer(create(ServerContext(HomeSource(home, "ann"), Authenticator(terms))), os.geteuid())
    return schemathesis.openapi.from_asgi("/api/v1/openapi.json", app)


#: Operations that nothing wrong can be said to are only asked rightly.
CASES = [(each, mode) for each in OPERATIONS for mode in GenerationMode if each.parameters or mode.is_positive]


@pytest.mark.parametrize(("operation", "mode"), CASES, ids=[f"{each.name}-{mode.value}" for each, mode in CASES])
def test_any_request_is_answered_by_the_schema(schema: Any, operation: Operation, mode: GenerationMode) -> None:
    """No operation fails, valid requests are accepted, invalid ones refused, and all responses are as documented."""
    strategy = schema[operation.path][operation.method].as_strategy(generation_mode=mode)

    @settings(max_examples=12, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    @given(case=strategy, known=st.booleans())
    def check(case: Case[Any], known: bool) -> None:
        for values in (case.path_parameters, case.query) if mode.is_positive else ():
            for name in MADE & set(values):
                del values[name]
            for name in set(values) & set(KNOWN) if known else ():
                values[name] = KNOWN[name]
        case.call_and_validate()

    check()
