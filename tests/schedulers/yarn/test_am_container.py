"""The application master's first steps in a container of YARN."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.schedulers.yarn.samples import payload
from tony.hadoop.tokens import TokenCredentials, write_file
from tony.schedulers.yarn.am_container import set_cluster_time
from tony.schedulers.yarn.container_env import ContainerEnv


@pytest.mark.parametrize(
    ("told", "expected"), [("1795283199529", 1795283199.529), ("", None), ("soon", None), ("-5", None), ("١", None)]
)
def test_the_job_began_when_yarn_took_it(tmp_path: Path, told: str, expected: float | None) -> None:
    """By YARN's clock; by the submitter's where YARN does not tell."""
    write_file(tmp_path / "tokens", TokenCredentials())
    environ = {
        "CONTAINER_ID": "container_1700000000000_0007_01_000001",
        "NM_HOST": "node-1",
        "LOG_DIRS": "/logs",
        "LOCAL_DIRS": "/local",
        "HADOOP_TOKEN_FILE_LOCATION": str(tmp_path / "tokens"),
        "APP_SUBMIT_TIME_ENV": told,
    }
    inside = ContainerEnv.from_environ(environ)
    assert inside.submitted == expected
    given = payload()
    assert set_cluster_time(given, inside).record.submitted == (expected or given.record.submitted)
