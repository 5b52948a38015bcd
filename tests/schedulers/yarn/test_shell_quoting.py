"""A variable of a container says the same wherever the container is."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tony.model.placeholders import expand_variables
from tony.schedulers.yarn.shell_quoting import escape_for_shell

ENVIRONMENT = {"HOME_OF": "/opt/hadoop", "EMPTY": "", "PATH": "/usr/bin:/bin"}
pieces = st.sampled_from([*"$${}\\\"'`() \n\t!*~#<>&;=aé", "$HOME_OF", "${HOME_OF}", "$NOT_SET"])
texts = st.lists(pieces, max_size=12).map("".join)


@given(texts)
@settings(max_examples=60, deadline=None)
@example("$HOME_OF/lib:${HOME_OF}/x:$NOT_SET.")
@example('{"a": "b\\c"} $(id) `id` $ $1 ${} \\$HOME_OF')
def test_a_nodes_script_and_an_executor_make_the_same_of_it(text: str) -> None:
    """YARN writes `export NAME="VALUE"` into a script of bash; on one machine we do it ourselves."""
    script = f'export X="{escape_for_shell({"X": text})["X"]}"\nprintf %s "$X"'
    said = subprocess.run(["bash", "-c", script], env=ENVIRONMENT, capture_output=True, text=True, check=True)
    assert (said.stdout, said.stderr) == (expand_variables({"X": text}, ENVIRONMENT)["X"], "")


@pytest.mark.parametrize("value", ['/a:/b:ro,/c "d"', "$X"])
def test_variables_that_yarn_reads_are_not_escaped(value: str) -> None:
    assert escape_for_shell({"YARN_CONTAINER_RUNTIME_DOCKER_MOUNTS": value}) == {
        "YARN_CONTAINER_RUNTIME_DOCKER_MOUNTS": value
    }
