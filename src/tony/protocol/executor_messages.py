"""Messages between an executor and the application master.

An executor numbers its *reports* (`Reported.n`: dense from 1 per incarnation) and keeps each until the AM acknowledges
it; after a reconnect it sends the rest again: a report may arrive twice, none is lost. Commands to an executor state
the desired result, name their session, and may be repeated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from tony.model.codec import Json
from tony.model.ids import TaskId
from tony.model.program_exit import ExitStatus
from tony.model.value_class import value_class
from tony.protocol.launch import TaskLaunch
from tony.protocol.message_base import Message


@value_class
class Attach(Message, kind="attach"):
    """First message of every executor connection.

    Attributes:
        highest_attempt: the highest AM attempt that this executor has obeyed.
        session: the newest session it knows; try_: the last task attempt in it that it was asked to start.
        acked: number of its last acknowledged report: a later AM attempt continues from it.
        listens: where an AM on another node can call it, `tls:<host>:<port>`; empty if it need not be called.
    """

    task: TaskId
    container: str
    incarnation: str
    highest_attempt: int
    pid: int
    host: str
    session: int = 0
    try_: int = 0
    acked: int = 0
    listens: str = ""


@value_class
class Enlist(Message, kind="enlist"):
    """First message of an executor that was started before its task was known. `Assigned` answers it.

    Attributes:
        process: identifies the executor's process: it may enlist again, another one may not take its place.
    """

    container: str
    process: str


@value_class
class Assigned(Message, kind="assigned"):
    """The task of an executor that enlisted; it closes the connection, and attaches for its task."""

    launch: TaskLaunch


@value_class
class Reported(Message):
    """A message that must not be lost: kept by the sender until `Ack(n)`."""

    n: int


@value_class
class Ready(Reported, kind="ready"):
    """Ports are reserved for this session.

    Attributes:
        address: "host:port".
    """

    session: int
    address: str
    tb_port: int | None = None


@value_class
class ProgramStarted(Reported, kind="program-started"):
    """The user program started."""

    session: int
    try_: int
    pid: int


@value_class
class ProgramOutput(Reported, kind="program-output"):
    """The program printed its first line in this task attempt."""

    session: int
    try_: int


#: Maximum bytes of one exported value; Linux allows twice as much in one string.
MAX_EXPORT_BYTES = 64 << 10


@value_class
class ProgramExited(Reported, kind="program-exited"):
    """The program exited, with all processes it had started.

    Attributes:
        ago: seconds since it exited, measured when this message is (re)sent: independent of differing clocks.
        exports: exported values by variable, each of at most `MAX_EXPORT_BYTES` bytes; None for one that it did not
            print; empty if it never ran.
    """

    session: int
    try_: int
    status: ExitStatus
    ago: float
    exports: Mapping[str, str | None] = field(default_factory=dict)


@value_class
class Heartbeat(Message, kind="heartbeat"):
    """The executor is alive.

    Attributes:
        last_output_age: seconds since the program's last line, None before the first.
        memory: bytes the program and its children use now; None if none runs.
        wall, mono: both of the host's clocks, so that reports from other hosts can be ordered.
        asks: requests an answer with `Ack.heard`: the lease is to be renewed.
    """

    last_output_age: float | None = None
    last_line: str = ""
    memory: int | None = None
    wall: float = 0.0
    mono: float = 0.0
    asks: bool = False


@value_class
class Saved:
    """A checkpoint that the program reported, `with tony.checkpoint(step):`.

    Attributes:
        ago: seconds since it was written, measured when this is sent; took: seconds that it took.
    """

    step: int
    ago: float
    took: float


@value_class
class Sample(Message, kind="sample"):
    """Current metrics of the program. May be lost; it is not repeated.

    Attributes:
        ago: seconds since it was measured.
        values: by the names of `model/metric_definitions.py`.
        saved: checkpoints since the last sample.
        first_step, first_ago: the first step reported in this task attempt, and seconds since then; repeated in each
            sample, since one may be lost. None: no step has been reported yet.
        step_ago: seconds since the newest step was reported, which is `step` among the values.
        step_reports: reports of steps in this task attempt.
    """

    session: int
    try_: int
    ago: float
    values: Mapping[str, float]
    saved: tuple[Saved, ...] = ()
    first_step: float | None = None
    first_ago: float = 0.0
    step_ago: float = 0.0
    step_reports: int = 0


@value_class
class Welcome(Message, kind="welcome"):
    """Answer to `Attach`.

    Attributes:
        heartbeat_interval: seconds between heartbeats; stretched with the number of tasks.
        acked: the highest report number of this incarnation that the AM has.
        renews: whether this renews the executor's lease. Not in a container that was given up: it may be replaced when
            the lease expires.
        sample_interval: seconds between two `Sample`s; stretched with the number of tasks. 0: none are wanted.
        step_interval: seconds between two `Sample`s of steps alone, sent in between when there is a new one. 0: none.
    """

    attempt: int
    heartbeat_interval: float
    acked: int
    renews: bool = True
    sample_interval: float = 0.0
    step_interval: float = 0.0


@value_class
class Ack(Message, kind="ack"):
    """All reports up to `n` are durable.

    Attributes:
        heard: `mono` of the newest heartbeat that requested this answer: the executor's lease is renewed from then on.
    """

    n: int
    heard: float | None = None


@value_class
class Prepare(Message, kind="prepare"):
    """Session `session` opens: stop the program, reserve ports, answer `Ready`."""

    session: int


@value_class
class StartProgram(Message, kind="start-program"):
    """Start the user program.

    Attributes:
        shared: what the framework's adapter derived from the cluster spec for all tasks; see `Framework.build_shared`.
        variables: exports of programs of other roles.
        absent: role -> indexes of its tasks that this session leaves out. Programs see the other tasks only, and their
            own index is the position among them.
        instances: role -> tasks that take part; empty if all do, as in the launch context.
        num_tasks: tracked tasks that take part; 0 if all do.
        addresses: role -> address of its first task that takes part, for the roles that placeholders use.
    """

    attempt: int
    session: int
    try_: int
    version: int
    shared: Json
    variables: Mapping[str, str] = field(default_factory=dict)
    absent: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    instances: Mapping[str, int] = field(default_factory=dict)
    num_tasks: int = 0
    addresses: Mapping[str, str] = field(default_factory=dict)


@value_class
class StopProgram(Message, kind="stop-program"):
    """Stop the program of `session` (or never start it): SIGTERM to its group, `grace` seconds, SIGKILL.

    Attributes:
        try_: not to be applied to a later task attempt; 0 for the running one, or the first.
    """

    session: int
    grace: float
    reason: str = ""
    try_: int = 0


@value_class
class ReleaseExecutor(Message, kind="release"):
    """Stop the program, report its exit, and exit."""

    grace: float = 0.0


@value_class
class DumpStacks(Message, kind="dump-stacks"):
    """Answer with `Stacks` of the running program.

    Attributes:
        request: the AM's id of the request.
    """

    request: str


@value_class
class Summon(Message, kind="summon"):
    """From an AM on a new node, on a connection that it opens: reconnect to this address.

    Answered by `Done`, or refused as `superseded` by an executor that has obeyed a later AM attempt.

    Attributes:
        address: `tls:<host>:<port>`.
    """

    attempt: int
    address: str
