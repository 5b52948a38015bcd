"""Points of LinkedIn TonY's own unit tests about its runtimes, from XML to what a program finds."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.config.legacy.jobs import list_errors, spec

HOROVOD = {"tony.application.framework": "horovod", "tony.worker.instances": "3"}


@pytest.mark.parametrize("key", ["instances", "memory", "command"])
def test_the_driver_is_not_the_users(tmp_path: Path, key: str) -> None:
    """Whatever is said of it stops the job, unless it is debugged."""
    given = {"instances": "1", "memory": "1g", "command": "x"}[key]
    (told,) = list_errors(tmp_path, {**HOROVOD, f"tony.driver.{key}": given})
    assert "tony.horovod.driver.mode.debug" in told


@pytest.mark.parametrize(
    ("settings", "task"),
    [
        ({"tony.chief.instances": "1"}, "chief:0"),
        ({}, "worker:0"),
        ({"tony.chief.instances": "1", "tony.application.tensorboard-log-dir": "/logs"}, "tensorboard:0"),
    ],
)
def test_which_task_has_a_port_for_tensorboard(tmp_path: Path, settings: dict[str, str], task: str) -> None:
    """The chief alone; with a TensorBoard beside the job that one alone."""
    assert str(spec(tmp_path, {"tony.worker.instances": "2", **settings}).tensorboard_task) == task


def test_a_name_that_cannot_be_a_types(tmp_path: Path) -> None:
    """LinkedIn TonY ignores it; tony refuses it, and the message does not suggest a name that is refused in turn."""
    first, why, second = list_errors(tmp_path, {"tony.1worker.instances": "1", "tony.1worker.memory": "1g"})[:3]
    assert first.endswith("unknown setting; 1worker cannot be a type.")
    assert why.endswith("beginning with a letter.")
    assert second.endswith("unknown setting; 1worker cannot be a type.")
