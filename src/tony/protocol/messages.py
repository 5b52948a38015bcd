"""All messages of the wire protocol, as frozen dataclasses. Framing is in `framing.py`, the hello in `hello.py`.

A frame is one JSON object: `{"k": <kind>, ...fields}`. Unknown fields are ignored, unknown kinds refused.

Delivery. An executor numbers its *reports* (`Reported.n`: dense from 1 per incarnation) and keeps each until the AM
acknowledges it; after a reconnect it sends the rest again: a report may arrive twice, none is lost. Commands to an
executor state the desired result, name their session, and may be repeated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from tony.model.codec import Json
from tony.model.exit_status import ExitStatus
from tony.model.job_report import JobReport
from tony.model.progress import Progress


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """The base class of all messages. `kind` is the word on the wire."""

    kind: ClassVar[str] = ""


# --- executor -> application master -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Attach(Message):
    """First message of every executor connection.

    Attributes:
        task: `worker:0`.
        highest_attempt: the highest AM attempt that this executor has obeyed.
        session: the newest session it knows; try_: the last task attempt in it that it was told to start.
        acked: number of its last acknowledged report: a later AM attempt continues from it.
        listens: where an AM on another node can call it, `tls:<host>:<port>`; empty if it need not be called.
    """

    kind: ClassVar[str] = "attach"
    task: str
    container: str
    incarnation: str
    highest_attempt: int
    pid: int
    host: str
    session: int = 0
    try_: int = 0
    acked: int = 0
    listens: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported(Message):
    """A message that must not be lost: kept by the sender until `Ack(n)`."""

    n: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready(Reported):
    """Ports are reserved for this session.

    Attributes:
        address: "host:port".
    """

    kind: ClassVar[str] = "ready"
    session: int
    address: str
    tb_port: int | None = None
    ports: Mapping[str, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramStarted(Reported):
    """The user program started."""

    kind: ClassVar[str] = "program-started"
    session: int
    try_: int
    pid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramOutput(Reported):
    """The program printed its first line in this task attempt."""

    kind: ClassVar[str] = "program-output"
    session: int
    try_: int


#: Maximum bytes of one exported value; Linux allows twice as much in one string.
LONGEST_EXPORT = 64 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramExited(Reported):
    """The program exited, with all processes it had started.

    Attributes:
        ago: seconds since it exited, measured when this message is (re)sent: independent of differing clocks.
        exports: exported values by variable, each of at most `LONGEST_EXPORT` bytes; None for one that it did not
            print; empty if it never ran.
    """

    kind: ClassVar[str] = "program-exited"
    session: int
    try_: int
    status: ExitStatus
    ago: float
    exports: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat(Message):
    """The executor is alive.

    Attributes:
        last_output_age: seconds since the program's last line, None before the first.
        memory: bytes the program and its children use now; None if none runs.
        wall, mono: both of the host's clocks, so that reports from other hosts can be ordered.
        asks: requests an answer with `Ack.heard`: the lease is to be renewed.
    """

    kind: ClassVar[str] = "heartbeat"
    last_output_age: float | None = None
    last_line: str = ""
    memory: int | None = None
    wall: float = 0.0
    mono: float = 0.0
    asks: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """A checkpoint that the program reported, `with tony.checkpoint(step):`.

    Attributes:
        ago: seconds since it was written, measured when this is sent; took: seconds that it took.
    """

    step: int
    ago: float
    took: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample(Message):
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

    kind: ClassVar[str] = "sample"
    session: int
    try_: int
    ago: float
    values: Mapping[str, float]
    saved: tuple[Saved, ...] = ()
    first_step: float | None = None
    first_ago: float = 0.0
    step_ago: float = 0.0
    step_reports: int = 0


#: Maximum bytes of a task's stack traces.
LONGEST_STACKS = 256 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Stacks(Message):
    """Stack traces of a program: from the executor, and to the client that requested them.

    Attributes:
        request: of `DumpStacks`; empty for clients.
        text: as `faulthandler` or a sampler writes it; empty if there is none.
        how: the tools that produced it: `py-spy`, `faulthandler`, `kernel`, separated by commas.
        problem: why there is none, for users; else empty.
        name: of the file among the logs in which it is stored.
    """

    kind: ClassVar[str] = "stacks"
    task: str
    request: str = ""
    text: str = ""
    how: str = ""
    problem: str = ""
    name: str = ""


# --- application master -> executor -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Welcome(Message):
    """Answer to `Attach`.

    Attributes:
        heartbeat_interval: seconds between heartbeats; stretched with the number of tasks.
        acked: the highest report number of this incarnation that the AM has.
        renews: whether this renews the executor's lease. Not in a container that was given up: it may be replaced when
            the lease expires.
        sample_interval: seconds between two `Sample`s; stretched with the number of tasks. 0: none are wanted.
        step_interval: seconds between two `Sample`s of steps alone, sent in between when there is a new one. 0: none.
    """

    kind: ClassVar[str] = "welcome"
    attempt: int
    heartbeat_interval: float
    acked: int
    renews: bool = True
    sample_interval: float = 0.0
    step_interval: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ack(Message):
    """All reports up to `n` are durable.

    Attributes:
        heard: `mono` of the newest heartbeat that requested this answer: the executor's lease is renewed from then on.
    """

    kind: ClassVar[str] = "ack"
    n: int
    heard: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepare(Message):
    """Session `session` opens: stop the program, reserve ports, answer `Ready`."""

    kind: ClassVar[str] = "prepare"
    session: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StartProgram(Message):
    """Start the user program.

    Attributes:
        shared: what the framework's adapter derived from the cluster spec for all tasks; see `frameworks/base.py`.
        variables: exports of programs of other roles.
        absent: role -> indexes of its tasks that this session leaves out. Programs see the other tasks only, and their
            own index is the position among them.
        instances: role -> tasks that take part; empty if all do, as in the launch context.
        num_tasks: tracked tasks that take part; 0 if all do.
        addresses: role -> address of its first task that takes part, for the roles that placeholders use.
    """

    kind: ClassVar[str] = "start-program"
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


@dataclass(frozen=True, slots=True, kw_only=True)
class StopProgram(Message):
    """Stop the program of `session` (or never start it): SIGTERM to its group, `grace` seconds, SIGKILL.

    Attributes:
        try_: not to be applied to a later task attempt; 0 for the running one, or the first.
    """

    kind: ClassVar[str] = "stop-program"
    session: int
    grace: float
    reason: str = ""
    try_: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseExecutor(Message):
    """Stop the program, report its exit, and exit."""

    kind: ClassVar[str] = "release"
    grace: float = 0.0


#: Log levels, most verbose first.
LOG_LEVELS = ("debug", "info", "warning", "error")


@dataclass(frozen=True, slots=True, kw_only=True)
class SetLogLevel(Message):
    """Set the level of the executor's own log: `debug`, `info`, `warning`, `error`.

    A client sends it to the AM, which applies it itself, forwards it, and answers `Done`.

    Attributes:
        actor: the user who requested it, for the log; empty if not named.
    """

    kind: ClassVar[str] = "log-level"
    level: str
    actor: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpStacks(Message):
    """Answer with `Stacks` of the running program.

    Attributes:
        request: the AM's id of the request.
    """

    kind: ClassVar[str] = "dump-stacks"
    request: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused(Message):
    """The message or the connection was refused. The connection closes after this.

    Attributes:
        code: stable word, of `protocol/error_codes.py`: `token`, `bad-message`, `stale`, `superseded`, `busy`, ...
    """

    kind: ClassVar[str] = "refused"
    code: str
    reason: str


# --- client -> application master, and back -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class GetReport(Message):
    """Request one `Report`."""

    kind: ClassVar[str] = "get-report"


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch(Message):
    """Request a `Report` now and after every change (collected for `gather` seconds), until the job has ended.

    With `ages` also when only time has passed: the age of each task's last output. While the job waits for tasks, all
    subscribers get that.
    """

    kind: ClassVar[str] = "watch"
    gather: float = 0.05
    ages: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class KillJob(Message):
    """Kill the job; `now` skips the grace. Answered by `Done`."""

    kind: ClassVar[str] = "kill-job"
    actor: str
    now: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartJob(Message):
    """End this session and begin the next; it does not count against `max_restarts`. Answered by `Done`, or refused."""

    kind: ClassVar[str] = "restart-job"
    actor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GetStacks(Message):
    """Request `Stacks` of one task."""

    kind: ClassVar[str] = "get-stacks"
    actor: str
    task: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GetMetrics(Message):
    """Request `Measured`: recent metrics.

    Attributes:
        tasks: which ones; empty for all.
        series: which ones; empty for all.
        points: maximum for each series, the newest; at most `MOST_POINTS`.
    """

    kind: ClassVar[str] = "get-metrics"
    tasks: tuple[str, ...] = ()
    series: tuple[str, ...] = ()
    points: int = 1


MOST_POINTS = 240


@dataclass(frozen=True, slots=True, kw_only=True)
class Points:
    """One series of one task.

    Attributes:
        at: seconds since the job was accepted: ends of the spans of `every` seconds that the points stand for.
    """

    task: str
    series: str
    every: float
    at: tuple[float, ...]
    least: tuple[float, ...]
    mean: tuple[float, ...]
    most: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured(Message):
    """Answer to `GetMetrics`.

    Attributes:
        now: seconds since the job was accepted.
        more: there is more than one message holds; request fewer tasks.
        progress: steps reported by these tasks in their newest attempts; with `series` only if it contains `step`.
    """

    kind: ClassVar[str] = "measured"
    now: float
    points: tuple[Points, ...] = ()
    progress: tuple[Progress, ...] = ()
    more: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Report(Message):
    """The state of the job. `final` marks the last one of a `Watch`."""

    kind: ClassVar[str] = "report"
    report: JobReport
    final: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Done(Message):
    """The request was accepted."""

    kind: ClassVar[str] = "done"


# --- program output: client -> application master -> executor, and back -----------------------------------------------

#: Maximum bytes of output in one `LogPiece`.
LOG_PIECE = 64 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadLog(Message):
    """Request one `LogPiece` of a task's stream. The AM forwards it.

    A stream is all that a task prints to stdout or stderr, over all sessions and task attempts: a file each, in order.
    A reader requests one piece after the other, each from the end of the last one: so nothing is sent faster than it is
    read, and a broken connection loses nothing.

    Attributes:
        reader: the client's own number for this stream; a new request with that number replaces the old one.
        stream: `out` or `err`.
        name, offset: the position: a file, and bytes from its program's first one on. What was printed later counts as
            after it. No name: from the beginning.
        wait: answer only when there is data; otherwise at once, perhaps without data.
        most: maximum bytes of data in the answer; never more than `LOG_PIECE`.
    """

    kind: ClassVar[str] = "read-log"
    reader: int
    task: str
    stream: str
    name: str = ""
    offset: int = 0
    wait: bool = False
    most: int = LOG_PIECE


@dataclass(frozen=True, slots=True, kw_only=True)
class DropLog(Message):
    """Stop reading; no answer is expected."""

    kind: ClassVar[str] = "drop-log"
    reader: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPiece(Message):
    """A piece of a program's output.

    Attributes:
        name: the file; empty if there is nothing.
        start: offset of the first byte of that file on disk: a full file is renamed and a new one begun.
        offset: of the data; greater than requested if the older output was removed.
        data: base64.
        last: from an executor that exits: it has sent everything.
        missed: from the AM: some output cannot be read, because its executor is gone.
        over: from an AM that exits: nothing more will come of this stream.
    """

    kind: ClassVar[str] = "log-piece"
    reader: int
    name: str = ""
    start: int = 0
    offset: int = 0
    data: str = ""
    last: bool = False
    missed: bool = False
    over: bool = False


# --- tunnels to a port of a task: client -> application master -> executor, and back ----------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTunnel(Message):
    """From a client: turn this connection into a tunnel to a port of a task.

    Answered by `TunnelOpened` or `TunnelFailed`. After `TunnelOpened` the connection carries bytes (`framing.Raw`) both
    ways, `EndTunnel` and `TunnelTaken`, and nothing else; after `TunnelFailed` it may be requested again. If the
    connection ends before both sides have sent `TunnelTaken`, the tunnel broke.

    Attributes:
        task: `worker:0`.
        port: 0 for the one that was reserved for it: its TB_PORT, or else the one in the cluster spec.
    """

    kind: ClassVar[str] = "open-tunnel"
    task: str
    port: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DialTunnel(Message):
    """To an executor: connect to that port on its host, and join it on a new connection with `JoinTunnel`.

    Attributes:
        tunnel: a secret id.
        port: as of `OpenTunnel`.
    """

    kind: ClassVar[str] = "dial-tunnel"
    tunnel: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinTunnel(Message):
    """First message of an executor's additional connection, which becomes its end of a tunnel.

    Attributes:
        address: the address it is connected to, `127.0.0.1:8888`.
    """

    kind: ClassVar[str] = "join-tunnel"
    tunnel: str
    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TunnelOpened(Message):
    """To a client: the tunnel is open.

    Attributes:
        address: of `JoinTunnel`.
    """

    kind: ClassVar[str] = "tunnel-opened"
    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TunnelFailed(Message):
    """The tunnel could not be opened: from an executor on its ordinary connection, or to a client.

    Attributes:
        tunnel: the executor's; empty for clients.
        reason: for users.
    """

    kind: ClassVar[str] = "tunnel-failed"
    reason: str
    tunnel: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTunnel(Message):
    """No more bytes follow in this direction; the other direction continues."""

    kind: ClassVar[str] = "end-tunnel"


@dataclass(frozen=True, slots=True, kw_only=True)
class TunnelTaken(Message):
    """Answer to `EndTunnel`: all bytes before it were delivered, and their end."""

    kind: ClassVar[str] = "tunnel-taken"


@dataclass(frozen=True, slots=True, kw_only=True)
class Summon(Message):
    """From an AM on a new node, on a connection that it opens: reconnect to this address.

    Answered by `Done`, or refused as `superseded` by an executor that has obeyed a later AM attempt.

    Attributes:
        address: `tls:<host>:<port>`.
    """

    kind: ClassVar[str] = "summon"
    attempt: int
    address: str


MESSAGES: Mapping[str, type[Message]] = {
    cls.kind: cls
    for cls in (
        Attach,
        Ready,
        ProgramStarted,
        ProgramOutput,
        ProgramExited,
        Heartbeat,
        Sample,
        Stacks,
        Welcome,
        Ack,
        Prepare,
        StartProgram,
        StopProgram,
        ReleaseExecutor,
        SetLogLevel,
        DumpStacks,
        Refused,
        GetReport,
        Watch,
        KillJob,
        RestartJob,
        GetStacks,
        GetMetrics,
        Measured,
        Report,
        Done,
        ReadLog,
        DropLog,
        LogPiece,
        OpenTunnel,
        DialTunnel,
        JoinTunnel,
        TunnelOpened,
        TunnelFailed,
        EndTunnel,
        TunnelTaken,
        Summon,
    )
}
