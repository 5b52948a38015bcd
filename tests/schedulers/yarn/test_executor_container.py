"""What an executor in a container of YARN gives its program of the container's own variables."""

from __future__ import annotations

import pytest

from tony.schedulers.yarn.executor_container import hadoop_variables


@pytest.mark.parametrize(
    ("own", "given"),
    [
        ({"PATH": "/bin", "NM_HOST": "n1", "USER": ""}, {}),
        ({"USER": "ann", "JAVA_HOME": ""}, {"HADOOP_USER_NAME": "ann"}),
        ({"USER": "ann", "HADOOP_USER_NAME": "etl"}, {"HADOOP_USER_NAME": "etl"}),
        (
            {"HADOOP_CONF_DIR": "/etc/hadoop", "HADOOP_TOKEN_FILE_LOCATION": "/c/tokens", "LOCAL_DIRS": "/l"},
            {"HADOOP_CONF_DIR": "/etc/hadoop", "HADOOP_TOKEN_FILE_LOCATION": "/c/tokens"},
        ),
    ],
)
def test_of_hadoop(own: dict[str, str], given: dict[str, str]) -> None:
    """Settings, tokens and a Hadoop of its own, as far as they are set; and whose the container is."""
    assert hadoop_variables(own) == given
