"""One suite for all schedulers: a test that uses `lab` runs once for each line of SCHEDULERS.

A test that can exist on one of them only says so: `@only_on("local", why="...")`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tests.change_detection import CLUSTER, KUBERNETES, RUNTIME
from tests.e2e.lab import Lab, one_user
from tests.kubernetes.lab import KubernetesLab
from tests.yarn.lab import YarnLab


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduler:
    """How the suite runs on a scheduler.

    Attributes:
        make: makes a user with an empty home in a folder. Fixtures of the scheduler are requested here.
        packages: a change in one of these has the tests in depth run (`on_change`); empty: they always run.
        always: the tests that are not in depth: they run whatever has changed.
    """

    make: Callable[[Path, pytest.FixtureRequest], Lab]
    packages: tuple[str, ...] = ()
    always: frozenset[str] = frozenset()

    def marks(self, test: str) -> list[pytest.MarkDecorator]:
        """The marks of a test on this scheduler."""
        if not self.packages:
            return []
        return [pytest.mark.slow, *([] if test in self.always else [pytest.mark.on_change(*self.packages)])]


SCHEDULERS = {
    "local": Scheduler(make=lambda root, _: Lab(root)),
    "yarn": Scheduler(
        make=lambda root, request: YarnLab(root, request.getfixturevalue("clusters").shared()),
        packages=(*CLUSTER, *RUNTIME),
        always=frozenset(
            {
                "test_run",
                "test_a_failed_session_is_followed_by_another_in_place",
                "test_an_executor_is_killed",
                "test_e10_a_master_that_dies_fails_the_job",
                "test_e17_standalone_with_two_tasks_is_refused",
                "test_pytorch_continues",
            }
        ),
    ),
    "kubernetes": Scheduler(
        make=lambda root, request: KubernetesLab(root, request.getfixturevalue("shared_kubernetes").mend()),
        packages=(*KUBERNETES, *RUNTIME),
        always=frozenset({"test_a_failed_session_is_followed_by_another_in_place"}),
    ),
}

AnyTest = TypeVar("AnyTest", bound=Callable[..., Any])
_only_on: dict[Callable[..., Any], tuple[str, ...]] = {}


def only_on(*schedulers: str, why: str) -> Callable[[AnyTest], AnyTest]:
    """Has a test run on some schedulers only.

    Args:
        why: and which test proves the same on the others.
    """
    assert schedulers
    assert set(schedulers) < set(SCHEDULERS)
    assert why

    def mark(test: AnyTest) -> AnyTest:
        _only_on[test] = schedulers
        return test

    return mark


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "scheduler" not in metafunc.fixturenames:
        return
    test = metafunc.function
    names = _only_on.get(test, tuple(SCHEDULERS))
    parameters = [pytest.param(name, marks=SCHEDULERS[name].marks(test.__name__)) for name in names]
    metafunc.parametrize("scheduler", parameters)


@pytest.fixture
def lab(request: pytest.FixtureRequest, scheduler: str) -> Iterator[Lab]:
    """One user with an empty home. After the test nothing of a job that has ended may be left."""
    with one_user(lambda folder: SCHEDULERS[scheduler].make(folder, request)) as made:
        yield made
