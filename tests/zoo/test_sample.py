"""A sample of the failure zoo, and its tables."""

from __future__ import annotations

import pytest

from tests.zoo.case_run import run_case
from tests.zoo.labelled_case import CASES, is_possible, load_cases

#: Fast cases of different kinds. The others run with `make zoo`.
SAMPLE = (
    "python-subprocess",
    "python-click",
    "data-broken-json",
    "shell-command-not-found",
    "shell-wrapper-reports",
    "memory-limit-of-the-role",
    "limit-open-files",
    "disk-full-device",
    "network-refused",
    "job-executor-killed",
    "job-one-of-three",
    "nccl-remote-closed",
)
ALL = load_cases()
CHOSEN = [case for case in ALL if case.name in SAMPLE]


@pytest.mark.e2e
@pytest.mark.parametrize("name", SAMPLE)
def test_the_diagnosis_of_a_case_is_right(name: str) -> None:
    (case,) = [case for case in CHOSEN if case.name == name]
    assert is_possible(case.needs)
    assert run_case(case).list_wrong() == []


def test_the_zoo_is_large_and_varied() -> None:
    cases = [*ALL, *load_cases(CASES / "later")]
    assert len(cases) >= 120
    assert len({case.classes[0] for case in cases}) >= 12
