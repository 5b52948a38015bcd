"""What a program is started with, and who has the last word on a variable."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from tony.errors import UserError
from tony.executor.program import program_environment
from tony.executor.program.program_environment import (
    LaunchFailedError,
    build_command_line,
    build_common_environment,
    build_environments,
    build_task_view,
    check_sizes,
    resolve_ip,
)
from tony.frameworks import registry as frameworks
from tony.frameworks.framework_interface import Framework, TaskView
from tony.frameworks.no_framework import NoFramework
from tony.model.executor_settings import JobProgramSettings, RoleProgramSettings
from tony.model.ids import TaskId
from tony.model.job_spec import ClusterSpec, JobSpec
from tony.model.setting_choices import DistributedMode
from tony.protocol.executor_messages import StartProgram
from tony.protocol.launch import ContainerPart, TaskPart

TASK = TaskPart(
    job_id="job-1",
    attempt=1,
    session=1,
    container="c-1",
    role="worker",
    index=2,
    am_address="unix:/nowhere",
    framework_module="tony.frameworks.no_framework:NoFramework",
    framework_path=None,
    command="run --lr {params.lr} {role}:{index}/{num_tasks} $HOME ${role} {{role}}",
    env={},
    instances={"worker": 3},
    procs={"worker": 1},
    chief=TaskId("worker", 0),
    num_tasks=3,
    memory=0,
    gpus=0,
    wants_tb_port=False,
    port_range=None,
    stop_grace=1.0,
    lease=0.0,
    connect_timeout=1.0,
    job_settings=JobProgramSettings(params={"lr": "0.1"}),
    role_settings=RoleProgramSettings(),
)
CONTAINER = ContainerPart(
    host="h1", work_folder="/work", log_folder="/logs", inherit_env=True, marker="job-1/c-1/abc", gpu_devices=()
)
START = StartProgram(attempt=1, session=2, try_=3, version=1, shared=None)


class TwoProcesses(Framework):
    """Sets a variable per process, and one that the user might like to set."""

    def build_shared(self, spec: JobSpec, cluster: ClusterSpec) -> Any:
        return None

    def environment(self, shared: Any, task: TaskView) -> Sequence[Mapping[str, str]]:
        return [{"RANK": str(rank), "SHARED": str(shared)} for rank in range(2)]


def task_with(**more: Any) -> TaskPart:
    """The task above with other fields, those of the job's settings as well."""
    job = {name: more.pop(name) for name in JobProgramSettings.__dataclass_fields__ if name in more}
    return replace(TASK, job_settings=replace(TASK.job_settings, **job), **more)


def built(
    own: Mapping[str, str], framework: Framework | None = None, shared: Any = None, **more: Any
) -> Sequence[dict[str, str]]:
    """The environments of the task above, with other fields."""
    fields = {*TaskPart.__dataclass_fields__, *JobProgramSettings.__dataclass_fields__}
    task = task_with(**{name: value for name, value in more.items() if name in fields})
    container = replace(CONTAINER, **{name: value for name, value in more.items() if name not in fields})
    seen = build_task_view(task, START, "h1:5000", 6006)
    return build_environments(task, container, framework or NoFramework(), shared, seen, own)


class Suggests(NoFramework):
    """Has a word on a variable that it does not insist on."""

    def defaults(self) -> Mapping[str, str]:
        return {"LIMIT": "2000"}


def test_defaults_of_a_framework_have_the_lowest_precedence() -> None:
    """Below the job's, and the shell's that a job on this machine inherits."""
    assert built({}, Suggests())[0]["LIMIT"] == "2000"
    assert built({"LIMIT": "60"}, Suggests())[0]["LIMIT"] == "60"
    assert built({"LIMIT": "60"}, Suggests(), env={"LIMIT": "30"})[0]["LIMIT"] == "30"
    assert built({"LIMIT": "60"}, Suggests(), inherit_env=False)[0]["LIMIT"] == "2000"


def test_the_view_has_all_that_a_framework_needs() -> None:
    """Identity, shape and ports of the task."""
    seen = build_task_view(TASK, START, "h1:5000", 6006)
    assert (seen.task, seen.chief) == (TaskId("worker", 2), TaskId("worker", 0))
    assert (seen.attempt, seen.session, seen.try_) == (1, 2, 3)
    assert (seen.address, seen.tb_port) == ("h1:5000", 6006)


def test_text_runs_through_bash_and_lists_do_not() -> None:
    """Placeholders are filled in both; the shell's own braces stay."""
    seen = build_task_view(TASK, START, "h1:5000", None)
    assert ["bash", "-c", "run --lr 0.1 worker:2/3 $HOME ${role} {role}"] == build_command_line(TASK, seen)
    as_list = replace(TASK, command=("run", "{index}", "$HOME"))
    assert ["run", "2", "$HOME"] == build_command_line(as_list, seen)


def test_the_address_of_a_role_is_filled_in() -> None:
    """In the command and in variables; one that is not known is no start, since the text would be taken as it is."""
    seen = build_task_view(TASK, START, "h1:5000", None)
    task = replace(TASK, command="run {address.head}", env={"HEAD": "{address.head}"})
    known = {"head": "h2:6000"}
    assert build_command_line(task, seen, known)[-1] == "run h2:6000"
    (env,) = build_environments(task, CONTAINER, NoFramework(), None, seen, {}, addresses=known)
    assert env["HEAD"] == "h2:6000"
    for attempt in (
        lambda: build_command_line(task, seen),
        lambda: build_environments(task, CONTAINER, NoFramework(), None, seen, {}),
    ):
        with pytest.raises(
            LaunchFailedError, match=r"\{address.head\} is not known: head has not started, or has already ended"
        ):
            attempt()


def test_every_program_gets_the_common_variables_and_the_marker() -> None:
    """Names as in LinkedIn TonY; our own internal variables are not passed on."""
    (env,) = built({"HOME": "/home/me", "TONY_EXECUTOR": "x", "TONY_MINE": "kept"})
    assert env["JOB_NAME"] == "worker"
    assert env["TASK_INDEX"] == "2"
    assert env["TASK_NUM"] == "3"
    assert env["JOB_ID"] == "job-1"
    assert env["SESSION_ID"] == "2"
    assert env["DISTRIBUTED_MODE"] == "GANG"
    assert env["TB_PORT"] == "6006"
    assert env["TONY_TASK"] == "job-1/c-1/abc"
    assert env["HOME"] == "/home/me"
    assert env["TONY_MINE"] == "kept"
    assert "TONY_EXECUTOR" not in env


def test_precedence_of_variables() -> None:
    """The user's over inherited ones; common variables, the framework's and the marker over the user's."""
    user = {"A": "user {index}", "RANK": "user", "JOB_ID": "user", "TONY_TASK": "user", "PYTHONUNBUFFERED": ""}
    envs = built({"A": "own", "B": "own"}, TwoProcesses(), "s", env=user)
    assert [env["RANK"] for env in envs] == ["0", "1"]
    for env in envs:
        assert (env["A"], env["B"], env["SHARED"]) == ("user 2", "own", "s")
        assert (env["JOB_ID"], env["TONY_TASK"], env["PYTHONUNBUFFERED"]) == ("job-1", "job-1/c-1/abc", "")


def test_bare_environment_on_clusters() -> None:
    """Without inheritance a program has what it needs to find its tools and its home, and what `env` gives."""
    (env,) = built({"HOME": "/home/me", "SECRET": "s", "PATH": "/bin"}, inherit_env=False, env={"A": "1"})
    assert "SECRET" not in env
    assert (env["HOME"], env["PATH"], env["A"], env["LANG"]) == ("/home/me", "/bin", "1", "C.UTF-8")
    assert "USER" not in env
    (env,) = built({}, inherit_env=False)
    assert "/usr/bin" in env["PATH"]


def test_the_program_of_a_job_without_roles_is_at_home_in_its_working_directory() -> None:
    """On clusters, as in LinkedIn TonY; on the user's own machine home is where it always is."""
    (env,) = built({"HOME": "/home/"}, inherit_env=False, chief=TaskId("main", 0))
    assert env["HOME"] == "/work"
    (env,) = built({"HOME": "/home/"}, inherit_env=False, chief=TaskId("main", 0), env={"HOME": "/mine"})
    assert env["HOME"] == "/mine"
    (env,) = built({"HOME": "/home/me"}, chief=TaskId("main", 0))
    assert env["HOME"] == "/home/me"


def test_exports_of_other_tasks_override_the_jobs_own_variables() -> None:
    """A job's own variables are the defaults; what tony sets stays."""
    seen = build_task_view(TASK, START, "h1:5000", 6006)
    task = replace(TASK, env={"PARAMS": "default", "OTHER": "own"})
    handed_on = {"PARAMS": "{role} --lr 0.1", "JOB_ID": "nonsense"}
    (env,) = build_environments(task, CONTAINER, NoFramework(), None, seen, {}, handed_on)
    assert (env["PARAMS"], env["OTHER"], env["JOB_ID"]) == ("{role} --lr 0.1", "own", "job-1")


def test_the_interpreter_is_first_on_path() -> None:
    """Also when the user sets PATH; the variables of a venv are there, another interpreter's home is not."""
    more: dict[str, Any] = {"python_path": ("/env/bin", "/env/sbin"), "python_env": {"VIRTUAL_ENV": "/env"}}
    (env,) = built({"PATH": "/bin", "PYTHONHOME": "/other"}, **more)
    assert (env["PATH"], env["VIRTUAL_ENV"]) == ("/env/bin:/env/sbin:/bin", "/env")
    assert "PYTHONHOME" not in env
    (env,) = built({"PATH": "/bin"}, env={"PATH": "/mine"}, **more)
    assert env["PATH"] == "/env/bin:/env/sbin:/mine"


@pytest.mark.parametrize(
    ("devices", "gpus", "visible"),
    [((), 0, ""), (("0", "GPU-7"), 2, "0,GPU-7"), (None, 0, ""), (None, 1, "inherited")],
)
def test_gpus_are_those_granted(devices: tuple[str, ...] | None, gpus: int, visible: str) -> None:
    """None granted means none visible; the user cannot take others; unknown ones are left to the container."""
    (env,) = built({"CUDA_VISIBLE_DEVICES": "inherited"}, gpu_devices=devices, gpus=gpus)
    assert env["CUDA_VISIBLE_DEVICES"] == visible
    if devices is not None:
        (env,) = built({}, gpu_devices=devices, gpus=gpus, env={"CUDA_VISIBLE_DEVICES": "all"})
        assert env["CUDA_VISIBLE_DEVICES"] == visible


def test_job_inside_a_job_keeps_the_outer_marker() -> None:
    """The outer job's sweep finds the inner job's programs by text."""
    (env,) = built({"TONY_TASK": "outer/c/x"})
    assert (env["TONY_TASK"], env["TONY_OUTER_TASKS"]) == ("job-1/c-1/abc", "TONY_TASK=outer/c/x")
    (env,) = built({"TONY_TASK": "middle/c/x", "TONY_OUTER_TASKS": "TONY_TASK=outer/c/x"})
    assert env["TONY_OUTER_TASKS"] == "TONY_TASK=outer/c/x TONY_TASK=middle/c/x"


def test_long_strings_are_refused_with_their_size() -> None:
    """Linux passes 128 KiB in one string and not a byte more."""
    check_sizes(["run"], {"A": "x" * (131072 - 3)})
    with pytest.raises(LaunchFailedError, match="TF_CONFIG has 200011 bytes"):
        check_sizes(["run"], {"TF_CONFIG": "x" * 200000})
    with pytest.raises(LaunchFailedError, match="string of 200001 bytes"):
        check_sizes(["bash", "-c", "x" * 200000], {})


def test_frameworks_are_loaded_from_where_they_live(tmp_path: Any) -> None:
    """Built-in ones and plug-ins alike; anything else is refused."""
    (tmp_path / "some_plug_in.py").write_text(
        "from tony.frameworks.no_framework import NoFramework\nclass Mine(NoFramework):\n    name = 'mine'\n"
    )
    assert frameworks.load("tony.frameworks.no_framework:NoFramework", None).name == "none"
    assert frameworks.load("some_plug_in:Mine", str(tmp_path)).name == "mine"
    with pytest.raises(TypeError, match=r"builtins:dict is not a tony\.frameworks\.framework_interface\.Framework"):
        frameworks.load("builtins:dict", None)


def test_variables_of_the_container() -> None:
    """Here they are filled in; where a cluster has set them, they are as they are there. `env` is stronger."""
    given = {"LIB": "$ROOT/lib:${ROOT}/native:$GONE", "MODE": "container", "ROOT": "/not/this"}
    (env,) = built({"ROOT": "/opt"}, container_env=given, env={"MODE": "{role}"})
    assert (env["LIB"], env["MODE"], env["ROOT"]) == ("/opt/lib:/opt/native:", "worker", "/not/this")
    own = {"LIB": "/opt/lib", "MODE": "container", "SECRET": "of the node"}
    (env,) = built(own, container_env=given, inherit_env=False)
    assert (env["LIB"], env["MODE"], "ROOT" in env, "SECRET" in env) == ("/opt/lib", "container", False, False)


def test_a_task_of_a_smaller_gang_sees_only_its_members() -> None:
    """Its index is its place among them; TensorBoard belongs to the first one, which is also the chief."""
    task = replace(
        TASK,
        role="worker",
        index=2,
        instances={"worker": 4},
        chief=TaskId("worker", 0),
        board=TaskId("worker", 0),
        num_tasks=4,
    )
    order = replace(START, absent={"worker": (0, 1)}, instances={"worker": 2}, num_tasks=2)
    seen = build_task_view(task, order, "h1:5000", 6006)
    assert (str(seen.task), dict(seen.instances), seen.num_tasks, seen.tb_port) == ("worker:0", {"worker": 2}, 2, 6006)
    assert build_common_environment(seen)["IS_CHIEF"] == "true"
    assert build_task_view(replace(task, index=3), order, "h1:5000", 6007).tb_port is None
    assert build_task_view(task, START, "h1:5000", 6006).tb_port is None
    placed = replace(task, command="run {index} of {num_tasks}")
    assert build_command_line(placed, seen) == ["bash", "-c", "run 0 of 2"]


def test_variables_of_a_chief_and_of_a_restart() -> None:
    """As in LinkedIn TonY: there only where they say something."""
    first = replace(build_task_view(TASK, START, "h1:5000", None), session=1)
    assert build_common_environment(first).keys().isdisjoint({"IS_CHIEF", "NUM_AM_RETRIES"})
    assert build_common_environment(replace(first, chief=first.task))["IS_CHIEF"] == "true"
    later = build_common_environment(replace(first, session=3, attempt=2))
    assert (later["NUM_AM_RETRIES"], later["ATTEMPT_NUMBER"], later["SESSION_ID"]) == ("2", "1", "3")


@pytest.mark.parametrize("mode", list(DistributedMode))
def test_mode_is_written_as_in_linkedin_tony(mode: DistributedMode) -> None:
    seen = replace(build_task_view(TASK, START, "h1:5000", None), mode=mode)
    assert build_common_environment(seen)["DISTRIBUTED_MODE"] == mode.name


def resolving(monkeypatch: pytest.MonkeyPatch, *found: str) -> None:
    """The system's resolver knows these addresses, whatever the name."""

    def answer(*question: Any) -> list[tuple[Any, ...]]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", (address, 0)) for address in found]

    monkeypatch.setattr(socket, "getaddrinfo", answer)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "10.1.2.3"])
def test_an_ip_address_is_kept(host: str) -> None:
    """Also `localhost`, for jobs that never leave this machine."""
    assert resolve_ip(host) == ("127.0.0.1" if host == "localhost" else host)


def test_an_address_that_others_reach_is_preferred(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name may have several."""
    resolving(monkeypatch, "127.0.1.1", "10.0.0.7", "10.0.0.8")
    assert resolve_ip("node7") == "10.0.0.7"


def test_a_name_that_means_only_this_machine_to_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Debian maps a machine's own name to 127.0.1.1, which other machines cannot reach."""
    resolving(monkeypatch, "127.0.1.1")
    monkeypatch.setattr(program_environment, "_find_outgoing_address", lambda: "10.0.0.7")
    assert resolve_ip("node7") == "10.0.0.7"
    monkeypatch.setattr(program_environment, "_find_outgoing_address", lambda: None)
    assert resolve_ip("node7") == "127.0.1.1"


def test_the_way_out_is_an_address_of_ours() -> None:
    """Or none, where there is no network."""
    own = program_environment._find_outgoing_address()
    if own is not None:
        with socket.socket() as probe:
            probe.bind((own, 0))


def test_a_name_without_an_address() -> None:
    with pytest.raises(UserError, match=r"^the host no\.such\.host\.invalid cannot be resolved to an IPv4 address"):
        resolve_ip("no.such.host.invalid")
