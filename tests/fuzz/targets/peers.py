"""The protocol logic of application master and executor with invalid messages."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import cast

from tests.core.specs import workers
from tests.fuzz.target import Target
from tests.fuzz.values import plain_of
from tests.support.simulation import Simulation
from tony.am.executor_connections import Executors
from tony.am.executor_instructions import StartMessages, build_task_part
from tony.am.metrics_store import MetricsStore
from tony.core import actions as act
from tony.core import events as ev
from tony.core.report_builder import ReportContext, build_report
from tony.errors import ProtocolError
from tony.executor.control.session_protocol import SessionProtocol
from tony.executor.program.program_environment import (
    LaunchFailedError,
    build_command_line,
    build_environments,
    build_task_view,
    check_sizes,
)
from tony.frameworks import registry as frameworks
from tony.frameworks.framework_interface import keep_host
from tony.frameworks.registry import home_of, load
from tony.history.event_log import MAX_LINE_BYTES
from tony.model.codec import Json, from_plain, to_plain
from tony.model.ids import TaskId
from tony.model.job_spec import JobSpec, Timeouts
from tony.model.program_exit import ExitReason, ExitStatus
from tony.model.submission_record import JobRecord
from tony.protocol.executor_messages import Attach, ProgramExited, Reported, StartProgram, StopProgram
from tony.protocol.framing import decode
from tony.protocol.launch import ContainerPart, TaskPart
from tony.protocol.message_base import Message
from tony.rpc.connection import RpcConnection

#: Bytes that whatever one executor says may cost the master for good, in its log and in each report.
_KEPT = 100_000


class _Wire:
    """A connection whose other end says what the input says."""

    def __init__(self) -> None:
        self.open = True

    def send(self, message: Message) -> None:
        """Discard the message: there is no peer."""

    def refuse(self, code: str, reason: str) -> None:
        assert reason.isprintable(), ascii(reason)
        assert len(reason) < 2000
        self.open = False

    def close(self) -> None:
        self.open = False


class _Master:
    """An application master with one executor that means it, and a hostile one."""

    def __init__(self) -> None:
        self.simulation = Simulation(_SPEC)
        self.simulation.begin()
        self.simulation.run(until=lambda: len(self.simulation.executors) == 2)
        for pending in [p for p in self.simulation.pending if getattr(p.event, "task", None) == _HOSTILE]:
            self.simulation.pending.remove(pending)
        del self.simulation.executors["c-1"]
        self.fed: list[ev.Event] = []
        app = self.simulation.app
        metrics = MetricsStore(app.state, lambda: self.simulation.now, Path("/nowhere"), late=False)
        self.desk = Executors(app, 1, self.fed.append, lambda: self.simulation.now, metrics, lambda: True, 0.0)
        self.starts = StartMessages(_RECORD, frameworks.load(_RECORD.framework_module, None), 1)
        self.seen = 0

    def hear(self, wire: _Wire, message: Message) -> None:
        connection = cast(RpcConnection, wire)
        if isinstance(message, Attach):
            peer = self.desk.attach(connection, message)
            if peer:
                self.simulation.app.find_reattach_actions(peer.container, peer.incarnation)
        else:
            self.desk.on_message(connection, message)
        while self.fed:
            event = self.fed.pop(0)
            size = len(json.dumps(to_plain(event)))
            assert size < _KEPT < MAX_LINE_BYTES, f"an event of {size} bytes"
            self.simulation.deliver(event)
        self.desk.acknowledge(self.desk.take_unacknowledged())
        self.act()

    def act(self) -> None:
        for action in self.simulation.actions[self.seen :]:
            if isinstance(action, act.Publish):
                self.starts.publish(action.spec)
            elif isinstance(action, act.Start):
                self.starts.encode(action)
        self.seen = len(self.simulation.actions)

    def tell(self) -> None:
        around = ReportContext(folder="f", user="u", submitted=1.0, live=self.desk.collect_live())
        assert len(json.dumps(to_plain(build_report(self.simulation.app, self.simulation.now, around)))) < 3 * _KEPT


def desk(data: bytes) -> None:
    """Lines of `{"c": connection, "m": message}` from a container that has the job's token. The job still ends."""
    master = _Master()
    wires = [_Wire() for _ in range(4)]
    for number, message in _spoken(data):
        wire = wires[number % len(wires)]
        if wire.open:
            master.hear(wire, message)
            master.tell()
    for wire in wires:
        master.desk.on_closed(cast(RpcConnection, wire))
    master.simulation.settle()
    assert master.simulation.finished
    master.tell()


def _spoken(data: bytes) -> Iterator[tuple[int, Message]]:
    for line in data.split(b"\n")[:60]:
        try:
            plain = json.loads(line)
            number, body = plain.get("c", 0), json.dumps(plain["m"]).encode()
            yield (number if isinstance(number, int) else 0), decode(body)
        except (ValueError, RecursionError, AttributeError, KeyError, TypeError, ProtocolError):
            continue


def dialog(data: bytes) -> None:
    """Messages of an application master, in lines: each try that we are asked to start has one end."""
    attach = from_plain(Attach, plain_of(Attach))
    mind = SessionProtocol(replace(attach, highest_attempt=1), session=1)
    mind.on_connected()
    mind.report_ready(1, "h:1")
    running: tuple[int, int] | None = None
    reported: dict[int, Reported] = {}
    for number, message in _spoken(data):
        if number == 9:
            mind.on_disconnected()
            mind.on_connected()
            continue
        match mind.on_message(message):
            case StartProgram(session=session, try_=try_):
                assert running is None
                running = session, try_
                mind.report_started(*running, pid=7)
            case StopProgram(session=session, try_=try_):
                assert running == (session, try_)
                mind.report_exited(session, try_, ExitStatus(reason=ExitReason.STOPPED), 1.0)
                running = None
        assert 0.01 <= mind.heartbeat_interval <= 86400.0
        for sent in mind.take_unsent(2.0):
            assert reported.setdefault(sent.n, sent) == sent
    ends = [(each.session, each.try_) for each in reported.values() if isinstance(each, ProgramExited)]
    assert len(ends) == len(set(ends))


def start(data: bytes) -> None:
    """What an executor is asked to start with: the first byte is a framework, the rest is its shared value."""
    name = _FRAMEWORKS[(data[0] if data else 0) % len(_FRAMEWORKS)]
    try:
        message = decode(
            b'{"k":"start-program","attempt":1,"session":1,"try":1,"version":1,"shared":' + data[1:] + b"}"
        )
    except ProtocolError:
        return
    assert isinstance(message, StartProgram)
    framework = frameworks.load(home_of(name), None)
    seen = replace(
        build_task_view(_PART, message, "h:1", None), ip_of=keep_host
    )  # the fuzzer's names are not looked up
    argv = build_command_line(_PART, seen)
    try:
        envs = build_environments(_PART, _CONTAINER, framework, message.shared, seen, {"PATH": "/bin"})
    except Exception:  # whatever an adapter raises, its task fails and says so: see `executor/task_run.py`
        return
    for env in envs:
        try:
            check_sizes(argv, env)
        except LaunchFailedError:
            continue
        assert all("\0" not in name + value for name, value in env.items())


_FRAMEWORKS = ("tensorflow", "pytorch", "jax", "mxnet", "horovod", "none", "standalone")
_HOSTILE = TaskId("worker", 0)
_SPEC: JobSpec = workers(
    2,
    framework="tensorflow",
    max_restarts=1,
    timeouts=Timeouts(allocation=60.0, registration=60.0, startup=60.0, execution=600.0, job=3000.0),
)
_RECORD: JobRecord = replace(
    from_plain(JobRecord, {**plain_of(JobRecord), "framework_module": home_of("tensorflow")}), spec=_SPEC
)
_PART: TaskPart = build_task_part(
    _RECORD, load(home_of("tensorflow")), 1, act.Launch(container="c-1", task=_HOSTILE, session=1), "unix:/x", 600.0
)
_CONTAINER = ContainerPart(host="h", work_folder="/w", log_folder="/l", inherit_env=False, marker="m")


def _said(*messages: tuple[int, str, dict[str, Json]]) -> bytes:
    return b"\n".join(json.dumps({"c": c, "m": {"k": kind, **fields}}).encode() for c, kind, fields in messages)


def _attach(c: int = 0, **more: Json) -> tuple[int, str, dict[str, Json]]:
    said = {"task": "worker:0", "container": "c-1", "incarnation": "i", "highest_attempt": 1, "pid": 5, "host": "h"}
    return c, "attach", {**said, **more}


def _desk_seeds() -> list[bytes]:
    ready = (0, "ready", {"n": 1, "session": 1, "address": "h:1"})
    started = (0, "program-started", {"n": 2, "session": 1, "try": 1, "pid": 9})
    output = (0, "program-output", {"n": 3, "session": 1, "try": 1})
    status = to_plain(ExitStatus(reason=ExitReason.EXITED, code=1, message="m", tail=("a", "b"), peak_memory=1))
    ended = (0, "program-exited", {"n": 4, "session": 1, "try": 1, "status": status, "ago": 0.5})
    beat = (0, "heartbeat", {"last_output_age": 1.0, "last_line": "x", "memory": 5, "wall": 1.0, "mono": 2.0})
    again = (0, "ready", {"n": 5, "session": 2, "address": "h:1", "tb_port": 7})
    return [
        _said(_attach(), ready, beat, started, output, beat, ended, again),
        _said(
            _attach(),
            ready,
            _attach(1),
            (1, "ready", {"n": 1, "session": 1, "address": "h:2"}),
            _attach(2, incarnation="j"),
        ),
        _said(_attach(3, task="worker:1"), (3, "welcome", {"attempt": 1, "heartbeat_interval": 1.0, "acked": 0})),
    ]


def _dialog_seeds() -> list[bytes]:
    welcome = (0, "welcome", {"attempt": 1, "heartbeat_interval": 1.0, "acked": 0})
    start = (0, "start-program", {"attempt": 1, "session": 1, "try": 1, "version": 1, "shared": None})
    stop = (0, "stop-program", {"session": 1, "grace": 1.0, "reason": "r"})
    return [
        _said(
            welcome, start, stop, (0, "ack", {"n": 1}), (0, "prepare", {"session": 2}), (0, "log-level", {"level": "x"})
        ),
        _said(welcome, stop, start, (9, "done", {}), welcome, (0, "release", {"grace": 1.0})),
    ]


def _start_seeds() -> list[bytes]:
    shared: list[Json] = [
        None,
        {"cluster": {"worker": ["h:1", "h:2"]}, "outside": []},
        {"worker": {"coordinator": "h:1", "world": 2, "first_rank": 0, "first_task": 0}},
        {"scheduler": "h:1", "servers": 1, "workers": 2},
        {
            "cluster": {"worker": ["h:1", "h:2"]},
            "worlds": [{"ranks": {"worker": 1}, "meeting": "h:1", "driver": False}],
        },
    ]
    return [bytes([n]) + json.dumps(each).encode() for n in range(len(_FRAMEWORKS)) for each in shared]


TARGETS = (
    Target(name="desk", run=desk, errors=(), seeds=_desk_seeds, json=True, memory_per_byte=400),
    Target(name="dialog", run=dialog, errors=(), seeds=_dialog_seeds, json=True),
    Target(
        name="start",
        run=start,
        errors=(),
        seeds=_start_seeds,
        tokens=(b'"worker":', b"\\u0000", b'"h:1"'),
        longest=1024,
    ),
)
