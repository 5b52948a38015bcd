"""What a container is told of its image, of its variables and ACLs. All the rest: `client/test_dry_run`."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.schedulers.yarn.samples import record, yarn_role
from tony.hadoop.tokens import TokenCredentials
from tony.hadoop.wire.yarn_records import AccessType, ContainerLaunchContext
from tony.model.job_spec import JobSpec, Role
from tony.model.placeholders import expand_variables
from tony.model.staged_files import StagedJob
from tony.schedulers.yarn.launch_contexts import (
    build_master_container,
    build_task_container,
    escape_for_shell,
)
from tony.schedulers.yarn.settings import YarnSettings

DOCKER = "YARN_CONTAINER_RUNTIME_"


def docker(context: ContainerLaunchContext) -> dict[str, str]:
    """The variables by which YARN knows that a container runs in an image."""
    given = {pair.key or "": pair.value or "" for pair in context.environment}
    return {key.removeprefix(DOCKER): value for key, value in given.items() if key.startswith(DOCKER)}


def of_master(**settings: str) -> dict[str, str]:
    made = YarnSettings(**settings)  # type: ignore[arg-type]
    return docker(build_master_container(record(staged=StagedJob()), made, {}, {}, TokenCredentials()))


def of_task(role: Role, container_env: Mapping[str, str] | None = None, /, **settings: str) -> dict[str, str]:
    spec = JobSpec(roles={"worker": role}, container_env=container_env or {})
    made = YarnSettings(**settings)  # type: ignore[arg-type]
    job = record(spec=spec, staged=StagedJob())
    return docker(build_task_container(job, "worker", made, {}, {}, TokenCredentials()))


def image(name: str, mounts: str = "") -> dict[str, str]:
    variables = {"TYPE": "docker", "DOCKER_IMAGE": name}
    return {**variables, "DOCKER_MOUNTS": mounts} if mounts else variables


@pytest.mark.parametrize(
    ("people", "settings", "expected"),
    [
        ({}, {}, {}),
        ({"viewers": ("ann", "@vision", "bob", "@ops")}, {}, {AccessType.VIEW: "ann,bob vision,ops"}),
        ({"viewers": ("*",)}, {}, {AccessType.VIEW: "*"}),
        (
            {"viewers": ("@vision",), "editors": ("ann",)},
            {},
            {AccessType.VIEW: "ann vision", AccessType.MODIFY: "ann"},
        ),
        ({"viewers": ("ann",)}, {"view_acl": "eve"}, {AccessType.VIEW: "eve"}),
        ({"editors": ("@ops",)}, {}, {AccessType.VIEW: " ops", AccessType.MODIFY: " ops"}),
    ],
)
def test_acls_of_a_container(people: dict[str, Any], settings: dict[str, Any], expected: dict[AccessType, str]) -> None:
    """The job's viewers, unless the YARN settings say otherwise: users, a blank, groups."""
    job = record(spec=JobSpec(**people), staged=StagedJob())
    made = build_master_container(job, YarnSettings(**settings), {}, {}, TokenCredentials())
    assert {acl.access: acl.acl for acl in made.acls} == expected


def test_no_image() -> None:
    assert of_master(docker_mounts="/a:/a:ro") == {}
    assert of_task(yarn_role(mounts="/b:/b:rw"), docker_mounts="/a:/a:ro") == {}


def test_one_image_for_all() -> None:
    assert of_master(docker_image="base") == of_task(Role(), docker_image="base") == image("base")
    both = {"docker_image": "base", "docker_mounts": "/a:/a:ro"}
    assert of_master(**both) == of_task(Role(), **both) == image("base", "/a:/a:ro")


def test_an_image_of_its_own() -> None:
    """The application master's, and a role's, each wins over the one for all; so do a role's mounts."""
    settings = {"docker_image": "base", "am_docker_image": "small", "docker_mounts": "/a:/a:ro"}
    assert of_master(**settings) == image("small", "/a:/a:ro")
    assert of_task(Role(), **settings) == image("base", "/a:/a:ro")
    assert of_task(yarn_role(image="train", mounts="/b:/b:rw"), **settings) == image("train", "/b:/b:rw")
    assert of_task(Role(image="train"), **settings) == image("train", "/a:/a:ro")


def test_only_the_master_or_only_a_role() -> None:
    """The others run on the node as it is."""
    assert (of_master(am_docker_image="small"), of_task(Role(), am_docker_image="small")) == (image("small"), {})
    assert (of_master(), of_task(yarn_role(image="train", mounts="/b:/b:rw"))) == ({}, image("train", "/b:/b:rw"))


def test_container_env_without_a_setting() -> None:
    """YARN's other variables come with `container_env`; where there is a setting, it takes precedence."""
    given = {f"{DOCKER}DOCKER_CONTAINER_NETWORK": "bridge", f"{DOCKER}DOCKER_IMAGE": "other"}
    assert of_task(Role(image="train"), given) == {"DOCKER_CONTAINER_NETWORK": "bridge", **image("train")}
    assert of_task(Role(), given) == {"DOCKER_CONTAINER_NETWORK": "bridge", "DOCKER_IMAGE": "other"}


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
