"""Every message on the wire, as frozen dataclasses. Framing is in `framing.py`, the hello in `hello.py`.

A frame is one JSON object: `{"k": <kind>, ...fields}`. Unknown fields are ignored, unknown kinds refused.

Delivery. An executor numbers its *reports* (`Reported.n`: dense from 1 per incarnation) and keeps each until the
application master acknowledges it; after a reconnect it sends the rest again: each may arrive twice, none is lost.
Commands to an executor state what is wanted, name their session, and may be repeated.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from tony.dataclass import dataclass, field
from tony.model.codec import Json
from tony.model.exit_status import ExitStatus
from tony.model.job_report import JobReport
from tony.model.progress import Progress


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """The root of all messages. `kind` is the word on the wire."""

    kind: ClassVar[str] = ""


# --- executor -> application master -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Attach(Message):
    """First message of every executor connection, new or again: who I am.

    Attributes:
        task: `worker:0`.
        highest_attempt: the highest attempt this executor has obeyed.
        session: the newest session it has heard of; try_: the last try in it that it was told to start.
        acked: number of its last report that was acknowledged: a successor of the application master goes on from it.
        listens: where it can be called should the application master come up elsewhere, `tls:<host>:<port>`; empty if
            it need not be called.
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
    """The user's program runs."""

    kind: ClassVar[str] = "program-started"
    session: int
    try_: int
    pid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramOutput(Reported):
    """The program printed for the first time in this try."""

    kind: ClassVar[str] = "program-output"
    session: int
    try_: int


#: Bytes of what a program hands on in one variable; Linux takes twice as much in one string.
LONGEST_EXPORT = 64 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramExited(Reported):
    """The program is over, and everything it had started.

    Attributes:
        ago: seconds since it ended, measured when this message is (re)sent: immune to clocks that differ.
        exports: what it hands on, by variable, each of `LONGEST_EXPORT` bytes at most; None where it printed nothing
            of it; empty if it never ran.
    """

    kind: ClassVar[str] = "program-exited"
    session: int
    try_: int
    status: ExitStatus
    ago: float
    exports: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat(Message):
    """I live.

    Attributes:
        last_output_age: seconds since the program's last line, None before the first.
        memory: bytes the program and its children use now; None if none runs.
        wall, mono: both of the host's clocks, so that reports from other hosts can be ordered.
        asks: answer with `Ack.heard`: it has not been heard for a while that this arrives.
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
    """A checkpoint that the program has told of, `with tony.checkpoint(step):`.

    Attributes:
        ago: seconds since it was written, measured when this is sent; took: seconds that it took.
    """

    step: int
    ago: float
    took: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample(Message):
    """What was measured of the program just now. May be lost; it is not repeated.

    Attributes:
        ago: seconds since it was measured.
        values: by the names of `model/metrics.py`.
        saved: checkpoints since the last sample.
        first_step, first_ago: the first step that this try of the program has told of, and seconds since that; again in
            each sample, for one may be lost. None: it has told none yet.
        step_ago: seconds since it told the newest one, which is `step` among the values.
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


#: Bytes of a task's stacks that travel.
LONGEST_STACKS = 256 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Stacks(Message):
    """Where every thread of a program stands: from the executor that was asked, and to the client that asked for it.

    Attributes:
        request: of `DumpStacks`; empty for clients.
        text: as `faulthandler` or a sampler writes it; empty if there is none.
        how: what has made it: `py-spy`, `faulthandler`, `kernel`, with commas between several.
        problem: why there is none, for people; else empty.
        name: of the file among the logs in which it is kept.
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
        heartbeat_interval: seconds between heartbeats; stretches with the number of tasks.
        acked: the highest report number of this incarnation that the AM has.
        renews: whether this renews the executor's lease. Not in a container that was given up: another may come in its
            place when the lease is over.
        sample_interval: seconds between two `Sample`s; stretches with the number of tasks. 0: none are wanted.
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
    """All reports up to `n` are in the log.

    Attributes:
        heard: `mono` of the newest heartbeat that asked for this answer: the executor's lease is renewed from then on.
    """

    kind: ClassVar[str] = "ack"
    n: int
    heard: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepare(Message):
    """Session `session` opens: stop what runs, reserve ports, answer `Ready`."""

    kind: ClassVar[str] = "prepare"
    session: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StartProgram(Message):
    """Start the user's program.

    Attributes:
        shared: what the framework's adapter made of the cluster spec, the same for all tasks; see `frameworks/base.py`.
        variables: what programs of other roles have handed on.
        absent: role -> indexes of its tasks that this session has left out. A program sees the others only: as its own
            index its place among them.
        instances: role -> tasks that take part; empty if all do, as the launch context has it.
        num_tasks: tracked tasks that take part; 0 if all do.
        addresses: role -> address of its first task that takes part, of the roles that placeholders ask for.
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
        try_: no later one is meant; 0 for the one that runs, or the first.
    """

    kind: ClassVar[str] = "stop-program"
    session: int
    grace: float
    reason: str = ""
    try_: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseExecutor(Message):
    """You are not needed any more: stop what runs, report it, end."""

    kind: ClassVar[str] = "release"
    grace: float = 0.0


#: What a log level may be, most talkative first.
LOG_LEVELS = ("debug", "info", "warning", "error")


@dataclass(frozen=True, slots=True, kw_only=True)
class SetLogLevel(Message):
    """Talk more or less in your own log: `debug`, `info`, `warning`, `error`.

    From a client to the application master too, which obeys it itself, hands it on, and answers `Done`.

    Attributes:
        actor: who wants it, for the record; empty if nobody is named.
    """

    kind: ClassVar[str] = "log-level"
    level: str
    actor: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpStacks(Message):
    """Answer with `Stacks` of the program that runs.

    Attributes:
        request: the application master's own word for it.
    """

    kind: ClassVar[str] = "dump-stacks"
    request: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused(Message):
    """The other side will not hear of it. The connection closes after this.

    Attributes:
        code: stable word, of `protocol/error_codes.py`: `token`, `bad-message`, `stale`, `superseded`, `busy`, ...
    """

    kind: ClassVar[str] = "refused"
    code: str
    reason: str


# --- client -> application master, and back -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class GetReport(Message):
    """Answer one `Report`."""

    kind: ClassVar[str] = "get-report"


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch(Message):
    """Answer a `Report` now and again on every change (gathered for `gather` seconds), until the job ended.

    With `ages` also when nothing but time has passed: how long ago each task printed something, its last line. While
    somebody is waited for, that is told to everybody.
    """

    kind: ClassVar[str] = "watch"
    gather: float = 0.05
    ages: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class KillJob(Message):
    """End the job as killed; `now` leaves out the grace. Answered by `Done`."""

    kind: ClassVar[str] = "kill-job"
    actor: str
    now: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartJob(Message):
    """End this session and begin the next; nothing is charged for it. Answered by `Done`, or refused."""

    kind: ClassVar[str] = "restart-job"
    actor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GetStacks(Message):
    """Answer with `Stacks` of one task."""

    kind: ClassVar[str] = "get-stacks"
    actor: str
    task: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GetMetrics(Message):
    """Answer `Measured`: what was measured lately.

    Attributes:
        tasks: which ones; empty for all.
        series: which ones; empty for all.
        points: for each series at most, the newest; at most `MOST_POINTS`.
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
        at: seconds since the job was accepted, ends of the spans of `every` seconds that each point stands for.
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
        more: there was more than one message holds; ask for fewer tasks.
        progress: what programs of these tasks have reported of their steps in their newest tries; of a question for
            series only if `step` is among them.
    """

    kind: ClassVar[str] = "measured"
    now: float
    points: tuple[Points, ...] = ()
    progress: tuple[Progress, ...] = ()
    more: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Report(Message):
    """The job as it stands. `final` marks the last one of a `Watch`."""

    kind: ClassVar[str] = "report"
    report: JobReport
    final: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Done(Message):
    """What was asked for is on its way."""

    kind: ClassVar[str] = "done"


# --- what programs print: client -> application master -> executor, and back ------------------------------------------

#: Bytes of output in one `LogPiece`, at most.
LOG_PIECE = 64 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadLog(Message):
    """Answer one `LogPiece`: what a task's stream holds from a place on. The application master hands it on.

    A stream is all that a task prints to one of its two, over all sessions and tries: a file each, in order. A reader
    asks for one piece after the other, and begins each time where the last one ended: so nothing is sent faster than
    it is taken, and a connection that breaks costs nothing.

    Attributes:
        reader: the asker's own number for this stream; a new request of that number takes the old one's place.
        stream: `out` or `err`.
        name, offset: the place: a file, and bytes from its program's first one on. What was printed later counts as
            after it. No name: from the beginning.
        wait: answer only when there is something; otherwise at once, perhaps without data.
        most: bytes of data in the answer; never more than `LOG_PIECE`.
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
    """This reader asks no more, and wants no answer."""

    kind: ClassVar[str] = "drop-log"
    reader: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPiece(Message):
    """A piece of what a program printed.

    Attributes:
        name: the file; empty in an answer that says only that there is nothing.
        start: offset of the first byte of that file on its disk: a file that is full is renamed and a new one begun.
        offset: of the data; greater than asked for if what was there is gone.
        data: base64.
        last: from an executor that ends: it has nothing more, and will have nothing more.
        missed: from the application master: something was printed that it cannot get at, by an executor that is gone.
        over: from the application master that ends: nothing more will come of this stream.
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
    """From a client: make this connection one to a port of a task. Answered by `TunnelOpened` or `TunnelFailed`.

    After `TunnelOpened` the connection carries bytes (`framing.Raw`) both ways, `EndTunnel` and `TunnelTaken`, and
    nothing else; after `TunnelFailed` it may ask again. Whatever ends the connection before both sides have said
    `TunnelTaken` broke the tunnel.

    Attributes:
        task: `worker:0`.
        port: 0 for the one that was reserved for it: its TB_PORT, or else the one that the cluster spec names.
    """

    kind: ClassVar[str] = "open-tunnel"
    task: str
    port: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DialTunnel(Message):
    """To an executor: connect to that port where you are, and come back on a connection of its own with `JoinTunnel`.

    Attributes:
        tunnel: nobody else knows this word.
        port: as of `OpenTunnel`.
    """

    kind: ClassVar[str] = "dial-tunnel"
    tunnel: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinTunnel(Message):
    """First message of an executor's further connection, which carries what that of the tunnel's client does.

    Attributes:
        address: what it is connected to, `127.0.0.1:8888`.
    """

    kind: ClassVar[str] = "join-tunnel"
    tunnel: str
    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TunnelOpened(Message):
    """To a client: bytes may flow.

    Attributes:
        address: of `JoinTunnel`.
    """

    kind: ClassVar[str] = "tunnel-opened"
    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TunnelFailed(Message):
    """There is no tunnel: from an executor on its ordinary connection, or to a client.

    Attributes:
        tunnel: the executor's; empty for clients.
        reason: for people.
    """

    kind: ClassVar[str] = "tunnel-failed"
    reason: str
    tunnel: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTunnel(Message):
    """No more bytes come this way; the other way goes on."""

    kind: ClassVar[str] = "end-tunnel"


@dataclass(frozen=True, slots=True, kw_only=True)
class TunnelTaken(Message):
    """Answer to `EndTunnel`: all bytes before it were handed on, and their end."""

    kind: ClassVar[str] = "tunnel-taken"


@dataclass(frozen=True, slots=True, kw_only=True)
class Summon(Message):
    """From an application master that has come up elsewhere, on a connection that it makes: this is where I am.

    Answered by `Done`, or refused as `superseded` by an executor that has obeyed a later attempt.

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
