"""The names of applications, attempts and containers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tony.hadoop.ids import (
    InvalidIdError,
    find_application,
    format_application,
    format_container,
    is_of,
    parse_application_id,
    parse_container_id,
)
from tony.hadoop.wire.yarn_records import ApplicationAttemptId, ApplicationId, ContainerId

STAMP = 1410901177871
APPLICATION = ApplicationId(number=1, cluster_timestamp=STAMP)


def container(attempt: int, epoch: int, sequence: int) -> ContainerId:
    return ContainerId(
        attempt=ApplicationAttemptId(application=APPLICATION, number=attempt),
        number=epoch << 40 | sequence,
    )


def test_names() -> None:
    """Filled up to 4, 6, 2 and 6 digits; the epoch only when there is one."""
    assert format_application(APPLICATION) == "application_1410901177871_0001"
    assert format_container(container(3, 0, 5)) == "container_1410901177871_0001_03_000005"
    assert format_container(container(3, 17, 5)) == "container_e17_1410901177871_0001_03_000005"
    assert format_container(container(3, 2, 5)) == "container_e02_1410901177871_0001_03_000005"
    assert format_container(container(103, 0, 1234567)) == "container_1410901177871_0001_103_1234567"


@given(st.integers(0, (1 << 31) - 1), st.integers(0, (1 << 31) - 1), st.integers(0, (1 << 63) - 1))
def test_names_there_and_back(number: int, attempt: int, sequence: int) -> None:
    application = ApplicationId(number=number, cluster_timestamp=sequence)
    try_ = ApplicationAttemptId(application=application, number=attempt)
    each = ContainerId(attempt=try_, number=sequence)
    assert parse_application_id(format_application(application)) == application
    assert parse_container_id(format_container(each)) == each


def test_the_application_of_a_container_id() -> None:
    """By its name, whatever the epoch; an invalid name belongs to no application."""
    application = "application_1410901177871_0001"
    for name in ("container_1410901177871_0001_01_000005", "container_e17_1410901177871_0001_01_000005"):
        assert is_of(name, application)
    for name in ("container_1410901177871_0002_01_000005", "container_1410901177872_0001_01_000005", "c1", ""):
        assert not is_of(name, application)


def test_the_application_may_stand_in_either_field() -> None:
    """Java fills the attempt only."""
    assert find_application(ContainerId(application=APPLICATION)) == APPLICATION
    assert find_application(ContainerId(attempt=ApplicationAttemptId(application=APPLICATION))) == APPLICATION
    assert format_container(ContainerId(application=APPLICATION, number=5)) == "container_1410901177871_0001_00_000005"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "application_1",
        "application_1_",
        "application_1_0001_1",
        "job_1_0001",
        "application_1_99999999999",
        "application_-1_0001",
        "application_99999999999999999999_1",
        "application_٣_0001",
    ],
)
def test_texts_that_are_no_names(text: str) -> None:
    """The error shows the text, and what such a name looks like."""
    with pytest.raises(InvalidIdError, match="application_"):
        parse_application_id(text or "  ")


def test_containers_and_attempts_are_distinguished() -> None:
    with pytest.raises(InvalidIdError, match="not the name of a container"):
        parse_container_id("appattempt_1_0001_000001")
    with pytest.raises(InvalidIdError, match="too large"):
        parse_container_id("container_e99999999_1_0001_01_000001")
