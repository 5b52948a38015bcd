"""Which log files of containers are kept. All the rest: `test_dry_run`."""

from __future__ import annotations

import pytest

from tests.schedulers.yarn.samples import record
from tony.hadoop.wire.yarn_records import ApplicationId, ContainerLaunchContext, LogAggregationContext
from tony.schedulers.yarn.client.submission_context import build_submission
from tony.schedulers.yarn.settings import YarnSettings


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, None),
        ({"log_include": "a"}, LogAggregationContext(include="a", exclude="")),
        ({"log_exclude": "b"}, LogAggregationContext(include=".*", exclude="b")),
        (
            {"rolled_log_include": "c"},
            LogAggregationContext(include=".*", exclude="", rolled_include="c", rolled_exclude=""),
        ),
        (
            {"log_include": "a", "rolled_log_exclude": "d"},
            LogAggregationContext(include="a", exclude="", rolled_include=".*", rolled_exclude="d"),
        ),
    ],
)
def test_log_files(settings: dict[str, str], expected: LogAggregationContext | None) -> None:
    """Patterns of what is kept in the end, and of what is brought while the job runs: nothing, by Hadoop's default."""
    made = YarnSettings(**settings)  # type: ignore[arg-type]
    context = build_submission(record(), made, ApplicationId(), ContainerLaunchContext())
    assert context.log_aggregation == expected
