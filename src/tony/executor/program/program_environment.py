"""The command and the environment of a program.

Precedence, weakest first: defaults of the framework, the executor's own environment (or a minimal one), the container's
variables, the job's interpreter, Hadoop's class path, the user's `env`, exports of other programs, devices granted by
the scheduler, the variables that every program gets, those of the framework. So a user can override anything merely
inherited, and nothing that other tasks rely on. No secret of tony is among them.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
from collections.abc import Mapping, Sequence
from ipaddress import IPv4Address
from pathlib import Path
from types import MappingProxyType

import tony
from tony.errors import UserError
from tony.frameworks import registry as frameworks
from tony.frameworks.framework_interface import Framework, TaskView
from tony.model.codec import Json
from tony.model.ids import TaskId
from tony.model.job_spec import find_placed, place_among
from tony.model.masking import find_secrets
from tony.model.placeholders import expand_variables, fill, find_addressed_roles
from tony.protocol.executor_messages import StartProgram
from tony.protocol.launch import ContainerPart, TaskPart

log = logging.getLogger(__name__)

#: Set in every process of a program; cleanup searches for it.
MARKER = "TONY_TASK"
#: Markers of outer jobs, where tony itself runs inside a job: their cleanup finds these programs, too.
OUTER_MARKERS = "TONY_OUTER_TASKS"
#: For tony only; a program that inherited them would be taken for an executor.
_INTERNAL = ("TONY_EXECUTOR",)

#: The chief of a job that is a single program.
_SINGLE_PROGRAM_CHIEF = TaskId("main", 0)

_INHERITED = ("PATH", "HOME", "LANG", "USER")
_DEFAULTS = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}
#: Longest string that Linux passes to a program, including its closing zero (MAX_ARG_STRLEN).
_MAX_STRING_BYTES = 32 * os.sysconf("SC_PAGE_SIZE")
#: A documentation address (RFC 5737). Nothing is sent there: the kernel only looks up the route.
_UNUSED_ADDRESS = ("192.0.2.1", 9)


class LaunchFailedError(UserError):
    """The program could not be started; the message says why."""


def renumber_for_session(task: TaskPart, command: StartProgram) -> TaskId:
    """Return the task's id as programs of its session know it: counted among the tasks that take part."""
    return TaskId(task.role, place_among(task.index, command.absent.get(task.role, ())))


def has_board(task: TaskPart, command: StartProgram) -> bool:
    """Return True if the port for TensorBoard, if any, is this task's in its session."""
    return task.board is None or task.board == renumber_for_session(task, command)


def build_task_view(
    task: TaskPart, command: StartProgram, address: str, tb_port: int | None, work_folder: str = "."
) -> TaskView:
    """Return the task as the framework's adapter sees it: among those that take part in the session, without gaps."""
    seen = renumber_for_session(task, command)
    return TaskView(
        job_id=task.job_id,
        task=seen,
        session=command.session,
        attempt=command.attempt,
        try_=command.try_,
        instances=command.instances or task.instances,
        procs=task.procs,
        chief=task.chief,
        num_tasks=command.num_tasks or task.num_tasks,
        mode=task.job_settings.distributed_mode,
        address=address,
        tb_port=tb_port if has_board(task, command) else None,
        work_folder=work_folder,
        ip_of=resolve_ip,
    )


def find_task(task: TaskPart, command: StartProgram, view: TaskView, process: int) -> TaskId | None:
    """Return the task with that process, as its framework counts them; None if that is not known."""
    try:
        framework = frameworks.load(task.framework_module, task.framework_path)
        found = framework.find_task(command.shared, view, process)
    except Exception:  # a plug-in may raise anything
        log.exception("the framework's adapter failed")
        return None
    return found and TaskId(found.role, find_placed(found.index, command.absent.get(found.role, ())))


def build_environments(
    task: TaskPart,
    container: ContainerPart,
    framework: Framework,
    shared: Json,
    seen: TaskView,
    own: Mapping[str, str],
    exports: Mapping[str, str] | None = None,
    classpath: str | None = None,
    addresses: Mapping[str, str] = MappingProxyType({}),
) -> Sequence[dict[str, str]]:
    """Return the environment of each process of a task attempt.

    Args:
        own: the executor's.
        exports: variables exported by programs of other roles.
        classpath: CLASSPATH, if Hadoop's is needed.
        addresses: role -> address of its first task.

    Raises:
        LaunchFailedError: a variable contains a role's address that is not known.
    """
    values = _build_values(task, seen, addresses)
    base = {**framework.defaults(), **_collect_inherited(task, container, own)}
    if classpath is not None:
        base["CLASSPATH"] = classpath
    base.update({name: _fill(value, values) for name, value in task.env.items()})
    base.update(exports or {})
    if container.python_path:
        base["PATH"] = os.pathsep.join([*container.python_path, base.get("PATH", _DEFAULTS["PATH"])])
    base.update(_build_device_variables(task, container))
    base.update(build_common_environment(seen))
    base[MARKER] = container.marker
    return [{**base, **more} for more in framework.environment(shared, seen)]


def build_common_environment(task: TaskView) -> dict[str, str]:
    """Return the variables that every program gets, whatever its framework (names as in LinkedIn TonY)."""
    variables = {
        "JOB_NAME": task.task.role,
        "TASK_INDEX": str(task.task.index),
        "TASK_NUM": str(task.num_tasks),
        "JOB_ID": task.job_id,
        "appid": task.job_id,
        "SESSION_ID": str(task.session),
        "ATTEMPT_NUMBER": str(task.attempt - 1),
        "DISTRIBUTED_MODE": task.mode.value.upper(),
    }
    if task.task == task.chief:
        variables["IS_CHIEF"] = "true"
    if task.session > 1:
        variables["NUM_AM_RETRIES"] = str(task.session - 1)
    if task.tb_port is not None:
        variables["TB_PORT"] = str(task.tb_port)
    return variables


def build_command_line(
    task: TaskPart, seen: TaskView, addresses: Mapping[str, str] = MappingProxyType({})
) -> list[str]:
    """Return the command to execute: a string runs through bash, a list unchanged.

    Raises:
        LaunchFailedError: it contains a role's address that is not known.
    """
    values = _build_values(task, seen, addresses)
    if isinstance(task.command, str):
        return ["bash", "-c", _fill(task.command, values)]
    return [_fill(part, values) for part in task.command]


def find_summaries_folder(task: TaskPart, container: ContainerPart, seen: TaskView) -> Path | None:
    """Return the folder of the program's TensorBoard event files; None if they are not read."""
    folder = task.role_settings.progress_summaries
    if folder is None:
        return None
    return Path(container.work_folder, fill(folder, _build_values(task, seen, {})))


def check_sizes(argv: Sequence[str], env: Mapping[str, str]) -> None:
    """Refuse what Linux would refuse with a less specific error.

    Raises:
        LaunchFailedError: a string is too long or invalid; the message has its name and size.
    """
    for name, value in env.items():
        if "\0" in name or "\0" in value or "=" in name or not name:
            raise LaunchFailedError(
                f"environment variable {name[:80]!a} cannot be set: it contains a NUL byte, or its name is empty or "
                "contains `=`"
            )
        size = len(os.fsencode(name)) + len(os.fsencode(value)) + 2
        if size > _MAX_STRING_BYTES:
            raise LaunchFailedError(
                f"environment variable {name} has {size} bytes with its name; Linux allows at most {_MAX_STRING_BYTES} "
                "per string. Shorten it, or put its content in a file."
            )
    for part in argv:
        if "\0" in part:
            raise LaunchFailedError("the command contains a NUL byte, which Linux cannot pass")
        size = len(os.fsencode(part)) + 1
        if size > _MAX_STRING_BYTES:
            raise LaunchFailedError(
                f"the command contains a string of {size} bytes; Linux allows at most {_MAX_STRING_BYTES}. "
                "Put it in a script."
            )


def _fill(text: str, values: Mapping[str, str]) -> str:
    unknown = sorted(role for role in find_addressed_roles([text]) if f"address.{role}" not in values)
    if unknown:
        raise LaunchFailedError(
            f"{{address.{unknown[0]}}} is not known: {unknown[0]} has not started, or has already ended. "
            f'Have this role start while {unknown[0]} runs: after = {{ started = ["{unknown[0]}"] }}.'
        )
    return fill(text, values)


def _build_values(task: TaskPart, seen: TaskView, addresses: Mapping[str, str]) -> dict[str, str]:
    return {
        **{f"address.{role}": address for role, address in addresses.items()},
        "role": task.role,
        "index": str(seen.task.index),
        "num_tasks": str(seen.num_tasks),
        "job_id": task.job_id,
        "session": str(seen.session),
        "attempt": str(seen.attempt),
        **{f"params.{name}": value for name, value in task.job_settings.params.items()},
    }


def find_task_secrets(task: TaskPart, *environments: Mapping[str, str]) -> set[str]:
    """Return the secret values that a task's program gets: variables and parameters."""
    job = task.job_settings
    tables = (task.env, job.container_env, job.params, *environments)
    return set().union(*(find_secrets(table, job.secret) for table in tables))


def select_container_env(task: TaskPart, container: ContainerPart, own: Mapping[str, str]) -> dict[str, str]:
    """Return the job's variables of containers, as set in this one.

    Args:
        own: the executor's environment; a cluster has set them there.
    """
    variables = task.job_settings.container_env
    if container.inherit_env:
        return expand_variables(variables, own)
    return {name: own[name] for name in variables if name in own}


def _collect_inherited(task: TaskPart, container: ContainerPart, own: Mapping[str, str]) -> dict[str, str]:
    if container.inherit_env:
        base = {name: value for name, value in own.items() if name not in _INTERNAL}
    else:
        base = {name: own.get(name, _DEFAULTS.get(name, "")) for name in _INHERITED}
        base = {name: value for name, value in base.items() if value}
        if task.chief == _SINGLE_PROGRAM_CHIEF:
            base["HOME"] = container.work_folder  # as in LinkedIn TonY; the node's home is no user's
    base.update(select_container_env(task, container, own))
    outer = own.get(MARKER)
    if outer:
        base[OUTER_MARKERS] = f"{own.get(OUTER_MARKERS, '')} {MARKER}={outer}".strip()
    # Python block-buffers output to a pipe, which would delay a followed log for minutes.
    base.setdefault("PYTHONUNBUFFERED", "1")
    if container.python_path:
        base.pop("PYTHONHOME", None)  # of another interpreter
    base.update(container.python_env)
    return base


def _build_device_variables(task: TaskPart, container: ContainerPart) -> dict[str, str]:
    """Return the granted GPUs. Without a grant list, a task that requested none sees none."""
    if container.gpu_devices is None:
        return {} if task.gpus else {"CUDA_VISIBLE_DEVICES": ""}
    return {"CUDA_VISIBLE_DEVICES": ",".join(container.gpu_devices)}


def resolve_ip(host: str) -> str:
    """Return the IPv4 address by which others reach a host. Blocks on the system's resolver.

    Many systems resolve their own name to a loopback address (Debian: 127.0.1.1). Then the address of the outgoing
    route is returned; without such a route, the loopback address.

    Raises:
        UserError: the name has no IPv4 address.
    """
    try:
        found = {entry[4][0]: None for entry in socket.getaddrinfo(host, None, socket.AF_INET, socket.SOCK_STREAM)}
    except (OSError, UnicodeError) as error:
        raise UserError(
            f"the host {host} cannot be resolved to an IPv4 address: {error}. Check its DNS or /etc/hosts entry."
        ) from error
    addresses = [IPv4Address(address) for address in found]
    outside = [address for address in addresses if not address.is_loopback]
    if outside:
        return str(outside[0])
    return str(addresses[0]) if _is_local_name(host) else _find_outgoing_address() or str(addresses[0])


def _is_local_name(host: str) -> bool:
    try:
        return IPv4Address(host).is_loopback
    except ValueError:
        return host.rstrip(".").lower() in ("localhost", "localhost.localdomain")


def _find_outgoing_address() -> str | None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(_UNUSED_ADDRESS)
            return str(probe.getsockname()[0])
        except OSError:
            return None


#: Path of the socket to which `tony.progress` reports.
PROGRESS = "TONY_PROGRESS"
#: Number of the signal on which Python dumps its stack traces.
STACKS = "TONY_STACKS"
#: A real-time signal that no known framework uses. It is sent only to processes that have registered it.
STACKS_SIGNAL = signal.SIGRTMIN + 11
_PATH = "PYTHONPATH"
#: Set in processes of JAX: the hooks let `jax.distributed.initialize()` find the others.
_JAX = "JAX_PROCESS_ID"
#: On a node of YARN, tony's modules are in a zip for one version of Python; the zip of sources is next to it.
_SOURCES = "programs.zip"
#: In a pod all are in one zip: sources in this folder, next to those of versions of Python.
_ARCHIVED_SOURCES = "sources"


def build_variables(environment: Mapping[str, str], progress: str | None, *, hooks: bool) -> dict[str, str]:
    """Return the variables to add to a program's environment. Its own PYTHONPATH comes first.

    Args:
        environment: of the program.
        progress: path of the socket for `tony.progress`; None if progress is not recorded.
        hooks: whether its Python dumps its stack traces on the signal.
    """
    found = {} if progress is None else {PROGRESS: progress}
    if hooks:
        found[STACKS] = str(int(STACKS_SIGNAL))
    base = find_folder()
    if base is not None:
        hook_folders = [f"{base}/library", *([f"{base}/hooks"] if hooks or _JAX in environment else [])]
        found[_PATH] = os.pathsep.join([*filter(None, [environment.get(_PATH)]), *hook_folders])
    return found


def find_folder() -> str | None:
    """Return the directory, perhaps inside a zip, with the sources of `tony.python_hooks`; None without one."""
    root = Path(tony.__file__).parent.parent
    if root.is_dir():
        return str(root / "tony/python_hooks")
    archive = root.parent
    sources = archive / _ARCHIVED_SOURCES if archive.is_file() else archive / _SOURCES
    return str(sources / "tony/python_hooks") if archive.is_file() or sources.is_file() else None
