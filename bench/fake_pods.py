"""The nodes and executors of very many pods in one process, in place of kubelets, containers and programs.

A pod that has a node gets the status of one that runs. Then its executor enlists, attaches and starts a program, with
the protocol of a real executor (`SessionProtocol`) and a TLS connection of its own; it reconnects when the application
master dies. A pod that is being deleted is removed, one whose executor was released has succeeded.

As a program it gets a kubeconfig file, the job's id and the number of its tasks. A line `exit` on standard input ends
all programs. On standard output it reports one milestone as JSON a line; see `Milestone`.
"""

from __future__ import annotations

import contextlib
import heapq
import json
import os
import queue
import select
import socket
import ssl
import sys
import threading
import time
from base64 import b64decode
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tony.executor.control.session_protocol import SessionProtocol
from tony.kube.api_client import ApiClient, Object
from tony.kube.errors import KubeError
from tony.kube.kubeconfig import load_cluster_access
from tony.kube.object_watch import Change, ObjectChange, ObjectWatch
from tony.kube.resources import PODS, SECRETS, ApiResource
from tony.linux.resource_limits import allow_open_files
from tony.model.codec import from_plain
from tony.model.program_exit import ExitReason, ExitStatus
from tony.protocol.executor_messages import (
    Assigned,
    Attach,
    Enlist,
    Heartbeat,
    Prepare,
    ReleaseExecutor,
    StartProgram,
    StopProgram,
    Welcome,
)
from tony.protocol.framing import MAX_FROM_AM, Decoder, encode
from tony.protocol.hello import AM_NAME, ANSWER_SIZE, PeerKind, check_answer, encode_hello
from tony.protocol.launch import AmCredentials, TaskPart
from tony.protocol.message_base import Message
from tony.protocol.shared_messages import Refused
from tony.rpc.am_address import TlsAddress, parse
from tony.rpc.tls_pipe import create_client_context
from tony.schedulers.kubernetes.launch_payload import CREDENTIALS_KEY
from tony.schedulers.kubernetes.manifests import find_am_address

LABEL, TASK = "tony.dev/job", {"tony.dev/part": "task"}
#: Threads that set the status of pods, and connection attempts at one time.
_KUBELETS, _CONNECTING = 4, 64
#: Seconds until a refused connection is tried again: the longest pause of a real executor.
_RETRY_SECONDS = 1.0
_READ = 1 << 16
_HEARTBEAT = encode(Heartbeat(wall=1_763_712_000.123456, mono=86_400.123456))
_SUCCESS = ExitStatus(reason=ExitReason.EXITED, code=0)
_STOPPED = ExitStatus(reason=ExitReason.STOPPED, signal="SIGTERM")


class _PodStatus(ApiResource):
    """The statuses of pods."""

    def build_path(self, namespace: str, name: str = "", subresource: str = "status") -> str:
        return super().build_path(namespace, name, subresource)


@dataclass(frozen=True, slots=True, kw_only=True)
class Milestone:
    """Something that all pods have reached; `what` is one of:

    created, granted: all have been seen in a watch; have a node
    half: half of the executors have attached
    started: the program of each has started, which is in the application master's log
    back: all executors that had enlisted before it died are attached to the next application master
    left: all executors were released

    Attributes:
        first, at: seconds since 1970 at which the first one did, and the last one.
        cpu: CPU seconds of this process so far.
        pods: different pods seen so far.
    """

    what: str
    first: float
    at: float
    cpu: float
    pods: int


class _Executor:
    """The executor in one pod."""

    def __init__(self, pod: str, ip: str) -> None:
        self.pod, self.ip = pod, ip
        self.process = os.urandom(8).hex()
        self.protocol: SessionProtocol | None = None
        self.sock: ssl.SSLSocket | None = None
        self.decoder = Decoder(MAX_FROM_AM)
        self.attempt = 0
        self.running: tuple[int, int] | None = None
        self.is_started = self.is_gone = self.is_connecting = False


class FakePods:
    """All pods of one job."""

    def __init__(self, client: ApiClient, job: str, count: int) -> None:
        self._client, self._job, self._count = client, job, count
        secret = client.get(SECRETS, f"{job}-x")["data"][CREDENTIALS_KEY]
        credentials = from_plain(AmCredentials, json.loads(b64decode(secret)), ignore_unknown=True)
        self._context = create_client_context(credentials)
        self._hello = encode_hello(PeerKind.EXECUTOR, credentials.token)
        self._poll = select.epoll()
        self._handlers: dict[int, Callable[[], None]] = {}
        self._executors: dict[str, _Executor] = {}
        self._uids: set[str] = set()
        self._granted: set[str] = set()
        self._attached: set[str] = set()
        self._changes: queue.SimpleQueue[ObjectChange | _Executor] = queue.SimpleQueue()
        self._statuses: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()
        self._absent: deque[_Executor] = deque()
        self._connecting = 0
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._moments: dict[str, list[float]] = {}
        self._returning: set[str] = set()
        self._target = ("", 0)
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_read, False)
        self._poll.register(self._wake_read, select.EPOLLIN)
        self._poll.register(0, select.EPOLLIN)
        self._handlers |= {0: self._take_command, self._wake_read: self._take_changes}
        self._is_over = False

    def run(self) -> None:
        """Run until standard input is closed."""
        labels = {LABEL: self._job, **TASK}
        watch = ObjectWatch(self._client, PODS, labels, self._pass_on, lambda error: None)
        for target in (watch.run, *[self._set_statuses] * _KUBELETS):
            threading.Thread(target=target, daemon=True).start()
        while not self._is_over:
            now = time.monotonic()
            while self._timers and self._timers[0][0] <= now:
                heapq.heappop(self._timers)[2]()
            wait = max(0.0, self._timers[0][0] - now) if self._timers else None
            for descriptor, _ in self._poll.poll(wait, 256):
                if descriptor in self._handlers:
                    self._handlers[descriptor]()

    def _take_command(self) -> None:
        data = os.read(0, _READ)
        self._is_over = not data
        if b"exit" in data:
            for executor in self._executors.values():
                self._end_program(executor, _SUCCESS)

    def _call_later(self, seconds: float, call: Callable[[], None]) -> None:
        heapq.heappush(self._timers, (time.monotonic() + seconds, id(call), call))

    def _note(self, what: str, total: int) -> None:
        """Count one pod; report the milestone once there are `total`."""
        moments = self._moments.setdefault(what, [])
        moments.append(time.time())
        if len(moments) == total:
            del self._moments[what]
            found = Milestone(
                what=what, first=moments[0], at=moments[-1], cpu=time.process_time(), pods=len(self._uids)
            )
            print(json.dumps(asdict(found)), flush=True)

    # --- pods ---------------------------------------------------------------------------------------------------------

    def _pass_on(self, change: ObjectChange | _Executor) -> None:
        self._changes.put(change)
        os.write(self._wake_write, b"x")

    def _take_changes(self) -> None:
        with open(self._wake_read, "rb", buffering=0, closefd=False) as pipe:
            pipe.read(_READ)
        while not self._changes.empty():
            found = self._changes.get()
            if isinstance(found, _Executor):
                self._absent.append(found)
            elif found.change is Change.PRESENT:
                self._take_pod(found.content)
        self._connect_some()

    def _take_pod(self, pod: Object) -> None:
        name, uid = str(pod["metadata"]["name"]), str(pod["metadata"]["uid"])
        if uid not in self._uids:
            self._uids.add(uid)
            self._note("created", self._count)
        if pod["spec"].get("nodeName") and name not in self._granted:
            self._granted.add(name)
            self._note("granted", self._count)
            number = len(self._granted)
            ip = f"10.250.{number >> 8}.{number & 255}"
            target = parse(find_am_address(pod))
            assert isinstance(target, TlsAddress)
            self._target = target.host, target.port
            executor = self._executors[name] = _Executor(name, ip)
            self._statuses.put(lambda: self._start_pod(executor))
        if pod["metadata"].get("deletionTimestamp") and (found := self._executors.get(name)):
            self._disconnect(found)
            found.is_gone = True
            self._statuses.put(lambda: self._client.delete(PODS, name, grace_seconds=0))

    def _set_statuses(self) -> None:
        while True:
            work = self._statuses.get()
            try:
                work()
            except KubeError as error:
                print(error, file=sys.stderr, flush=True)

    def _start_pod(self, executor: _Executor) -> None:
        self._put_status(executor, "Running", {"running": {"startedAt": _format_now()}})
        self._pass_on(executor)

    def _end_pod(self, executor: _Executor, code: int) -> None:
        ended = {"terminated": {"exitCode": code, "reason": "Completed", "finishedAt": _format_now()}}
        self._put_status(executor, "Failed" if code else "Succeeded", ended)

    def _put_status(self, executor: _Executor, phase: str, state: Object) -> None:
        container = {"name": "tony", "image": "", "imageID": "", "ready": True, "restartCount": 0, "state": state}
        ips = {"podIP": executor.ip, "podIPs": [{"ip": executor.ip}]}
        body = {"status": {"phase": phase, **ips, "containerStatuses": [container]}}
        self._client.patch(_PodStatus(plural="pods", kind="Pod"), executor.pod, body)

    # --- connections --------------------------------------------------------------------------------------------------

    def _connect_some(self) -> None:
        while self._absent and self._connecting < _CONNECTING:
            executor = self._absent.popleft()
            if not executor.is_gone:
                self._connecting += 1
                executor.is_connecting = True
                self._connect(executor)

    def _note_connected(self, executor: _Executor) -> None:
        """Let others connect."""
        self._connecting -= executor.is_connecting
        executor.is_connecting = False

    def _connect(self, executor: _Executor) -> None:
        plain = socket.socket()
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        plain.settimeout(10.0)
        try:
            plain.connect(self._target)
            plain.setblocking(False)
            # It looks at the connection, which a server that is killed may have ended meanwhile.
            sock = self._context.wrap_socket(plain, server_hostname=AM_NAME, do_handshake_on_connect=False)
        except OSError:
            plain.close()
            self._note_connected(executor)
            self._call_later(_RETRY_SECONDS, lambda: self._pass_on(executor))
            return
        executor.sock = sock
        executor.decoder = Decoder(MAX_FROM_AM)
        self._poll.register(executor.sock.fileno(), select.EPOLLIN)
        self._wait_for(executor, self._shake_hands)

    def _wait_for(self, executor: _Executor, step: Callable[[_Executor, ssl.SSLSocket], None]) -> None:
        """Take a step now and whenever there is data, until it sets another one."""
        assert executor.sock is not None
        sock = executor.sock

        def run() -> None:
            try:
                step(executor, sock)
            except ssl.SSLWantReadError:
                pass
            except OSError:
                self._lose(executor)

        self._handlers[sock.fileno()] = run
        run()

    def _shake_hands(self, executor: _Executor, sock: ssl.SSLSocket) -> None:
        sock.do_handshake()
        sock.send(self._hello)
        self._wait_for(executor, self._greet)

    def _greet(self, executor: _Executor, sock: ssl.SSLSocket) -> None:
        answer = sock.recv(ANSWER_SIZE)
        if not answer:
            raise ConnectionResetError
        check_answer(answer)
        if executor.protocol:
            sock.send(encode(executor.protocol.on_connected()))
        else:
            sock.send(encode(Enlist(container=executor.pod, process=executor.process)))
            self._note_connected(executor)  # the answer may take long
            self._connect_some()
        self._wait_for(executor, self._read)

    def _read(self, executor: _Executor, sock: ssl.SSLSocket) -> None:
        while executor.sock is sock:
            data = sock.recv(_READ)
            if not data:
                raise ConnectionResetError
            executor.decoder.feed(data)
            while executor.sock is sock and (message := executor.decoder.decode_next()) is not None:
                self._take_message(executor, message)

    def _lose(self, executor: _Executor) -> None:
        """Connect again after a connection has broken."""
        if executor.attempt:
            self._returning.add(executor.pod)
        self._disconnect(executor)
        self._call_later(_RETRY_SECONDS, lambda: self._pass_on(executor))

    def _disconnect(self, executor: _Executor) -> None:
        self._note_connected(executor)
        if executor.sock is not None:
            self._handlers.pop(executor.sock.fileno(), None)
            self._poll.unregister(executor.sock.fileno())
            executor.sock.close()
            executor.sock, executor.attempt = None, 0
        if executor.protocol:
            executor.protocol.on_disconnected()

    # --- messages -----------------------------------------------------------------------------------------------------

    def _take_message(self, executor: _Executor, message: Message) -> None:
        match message:
            case Assigned(launch=launch):
                self._disconnect(executor)
                executor.protocol = SessionProtocol(_build_attach(executor, launch.task), launch.task.session)
                executor.protocol.report_ready(launch.task.session, f"{executor.ip}:29500")
                self._absent.append(executor)
                self._connect_some()
                return
            case Refused(code=code, reason=reason):
                print(f"{executor.pod} was refused: {code}: {reason}", file=sys.stderr, flush=True)
                self._disconnect(executor)
                executor.is_gone = True
                self._statuses.put(lambda: self._end_pod(executor, 1))
                return
        assert executor.protocol is not None
        command = executor.protocol.on_message(message)
        match message:
            case Welcome(attempt=attempt, heartbeat_interval=interval):
                self._note_welcome(executor, attempt, interval)
        match command:
            case StartProgram(session=session, try_=try_):
                executor.running = session, try_
                executor.protocol.report_started(session, try_, 4711)
            case Prepare(session=session):
                executor.protocol.report_ready(session, f"{executor.ip}:29500")
            case StopProgram():
                self._end_program(executor, _STOPPED)
            case ReleaseExecutor():
                self._disconnect(executor)
                executor.is_gone = True
                self._statuses.put(lambda: self._end_pod(executor, 0))
                self._note("left", self._count)
                return
        if executor.running and not executor.is_started and executor.protocol.is_settled:
            executor.is_started = True
            self._note("started", self._count)
        self._flush(executor)

    def _note_welcome(self, executor: _Executor, attempt: int, interval: float) -> None:
        executor.attempt = attempt
        if executor.pod not in self._attached:
            self._attached.add(executor.pod)
            if len(self._attached) <= self._count // 2:
                self._note("half", self._count // 2)
        self._note_connected(executor)
        self._connect_some()
        if executor.pod in self._returning:
            total = len(self._returning) + len(self._moments.get("back", ()))
            self._returning.discard(executor.pod)
            self._note("back", total)
        self._call_later(interval, lambda: self._beat(executor, attempt, interval))

    def _beat(self, executor: _Executor, attempt: int, interval: float) -> None:
        if executor.attempt == attempt:
            self._send(executor, _HEARTBEAT)
            self._call_later(interval, lambda: self._beat(executor, attempt, interval))

    def _end_program(self, executor: _Executor, status: ExitStatus) -> None:
        if executor.running and executor.protocol:
            executor.protocol.report_exited(*executor.running, status, time.monotonic())
            executor.running = None
            self._flush(executor)

    def _flush(self, executor: _Executor) -> None:
        if executor.protocol:
            for report in executor.protocol.take_unsent(time.monotonic()):
                self._send(executor, encode(report))

    def _send(self, executor: _Executor, frame: bytes) -> None:
        if executor.sock:
            with contextlib.suppress(OSError):  # its reader notices
                executor.sock.send(frame)


def _build_attach(executor: _Executor, task: TaskPart) -> Attach:
    return Attach(
        task=task.id,
        container=executor.pod,
        incarnation=executor.process,
        highest_attempt=task.attempt,
        pid=4711,
        host="fake",
    )


def _format_now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def main(arguments: list[Any]) -> int:
    """Simulate the pods of a job until standard input is closed."""
    kubeconfig, job, count = arguments
    allow_open_files(int(count) + 256)
    client = ApiClient(load_cluster_access([Path(kubeconfig)]))
    FakePods(client, job, int(count)).run()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
