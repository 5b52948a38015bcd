"""Thousands of fake executors in one process and one event loop, without programs, to load-test an AM.

They send the messages of real executors over TLS: attach, register, program starts and exits, heartbeats. To save CPU
time, a long command to start is parsed once, and every frame of the same length is assumed to be the same command. So
ten thousand fake executors fit beside the AM on two cores.

As a program (`module_command("executor_load")`) it reads a `LoadProfile` as one line of JSON on
standard input, and then commands, one word a line. On standard output it reports one `LoadEvent` as JSON a line:

    join      all executors connect and register; the understudy only attaches. Reports `joined` once that is in the log
    register  the understudy registers as well. Reports `told` when all received the command to start, and `started`
              when the start of each is acknowledged
    lose:7    the executor of task 7 disconnects without notice. May be repeated; then
    lost      reports `lost`. From then on the remaining executors take part in a further session
    come:7=c-101=2    a new executor of task 7 connects, in container c-101, with session 2 as its first. Reports `told`
              and `started` for the further session, as above
    repeat    the executors of the first session report again that their program in it failed. Reports `repeated` when
              each report is acknowledged
    exit      every program exits with code 0. Reports `left` when all executors were released

Executors send heartbeats from their welcome on, spread evenly over the interval that the AM asked for.
"""

from __future__ import annotations

import heapq
import json
import os
import select
import socket
import ssl
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass

from tony.linux.resource_limits import allow_open_files
from tony.model.codec import from_plain, to_plain
from tony.model.ids import TaskId
from tony.model.program_exit import ExitReason, ExitStatus
from tony.protocol.executor_messages import (
    Ack,
    Attach,
    Heartbeat,
    Prepare,
    ProgramExited,
    ProgramStarted,
    Ready,
    ReleaseExecutor,
    Reported,
    StartProgram,
    StopProgram,
    Welcome,
)
from tony.protocol.framing import COMPRESSED, MAX_FROM_AM, Decoder, encode
from tony.protocol.hello import AM_NAME, ANSWER_SIZE, PeerKind, check_answer, encode_hello
from tony.protocol.launch import AmCredentials
from tony.protocol.message_base import Message
from tony.protocol.shared_messages import Refused
from tony.rpc.am_address import TlsAddress, parse
from tony.rpc.tls_pipe import create_client_context

#: Number of concurrent connection attempts.
_CONNECTING = 64
#: Maximum number of sockets handled between two checks for due heartbeats.
_EVENTS = 256
#: Bytes of a read, and the frame size above which a command to start is recognized by its length.
_READ, _LONG = 1 << 16, 1 << 10
#: The heartbeat of a training program.
_BEAT = encode(
    Heartbeat(
        last_output_age=0.731,
        last_line="epoch 12/90 step 4100/5004 loss 2.1834 lr 0.1 841 images/s",
        memory=6_442_450_944,
        wall=1_763_712_000.123456,
        mono=86_400.123456,
    )
)
_OK = ExitStatus(reason=ExitReason.EXITED, code=0)
_STOPPED = ExitStatus(reason=ExitReason.STOPPED, signal="SIGTERM")
_FAILED = ExitStatus(reason=ExitReason.EXITED, code=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadProfile:
    """The executors that one process simulates, and the AM to connect to.

    Attributes:
        address: of the AM, `tls:...`.
        first, count: index of the first task of the role, and number of tasks.
        understudy: whether the last executor registers only on the command `register`.
    """

    address: str
    credentials: AmCredentials
    role: str
    first: int
    count: int
    understudy: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadEvent:
    """A milestone that all executors of the process have reached.

    Attributes:
        at: seconds of CLOCK_MONOTONIC, which all processes of a machine share.
        cpu: CPU seconds of this process so far.
        received: bytes received so far, after TLS decryption.
        beats: heartbeats sent so far.
    """

    what: str
    at: float
    cpu: float
    received: int
    beats: int


def container_of(index: int) -> str:
    """Return the container of a task; a single role's containers are granted in the order of its tasks."""
    return f"c-{index + 1}"


def address_of(index: int) -> str:
    """Return the address of a fake task, as on a cluster with eight tasks on a node."""
    return f"node{index // 8:05}.cluster:{32768 + index * 7919 % 28000}"


class _Player:
    """One fake executor."""

    __slots__ = (
        "_buffer",
        "_crowd",
        "_reports",
        "_running",
        "_skip",
        "acked",
        "container",
        "expects",
        "here",
        "index",
        "session",
        "sock",
    )

    def __init__(self, crowd: ExecutorLoad, index: int, sock: ssl.SSLSocket, container: str, session: int) -> None:
        self._crowd = crowd
        self.index = index
        self.sock = sock
        self.container = container
        self.session = session
        self.here = True
        self.acked = self._reports = self._skip = self._running = 0
        self.expects: dict[int, str] = {}
        self._buffer = bytearray()

    def attach(self, task: TaskId) -> None:
        """Send the Attach message."""
        self.say(
            encode(
                Attach(
                    task=task,
                    container=self.container,
                    incarnation=os.urandom(8).hex(),
                    highest_attempt=1,
                    pid=os.getpid(),
                    host="fake",
                )
            )
        )

    def register(self, expects: str = "") -> None:
        """Report Ready; count `expects` when that is acknowledged."""
        self._report(Ready(n=self._reports + 1, session=self.session, address=address_of(self.index)), expects)

    def exit(self) -> None:
        """Report that the program exited with code 0."""
        self._ended(self.session, _OK)

    def repeat(self) -> None:
        """Report a program exit of session 1, which is obsolete."""
        self._ended(1, _FAILED, "repeated")

    def _ended(self, session: int, status: ExitStatus, expects: str = "") -> None:
        self._running = 0
        self._report(ProgramExited(n=self._reports + 1, session=session, try_=1, status=status, ago=0.0), expects)

    def _report(self, message: Reported, expects: str = "") -> None:
        self._reports = message.n
        if expects:
            self.expects[message.n] = expects
        self.say(encode(message))

    def say(self, frame: bytes) -> None:
        """Send a frame; the traffic is too low to fill the socket buffer."""
        self.sock.send(frame)

    def hear(self, data: memoryview) -> None:
        """Handle received data, frame by frame."""
        while data:
            passed = min(self._skip, len(data))
            self._skip -= passed
            if passed and not self._skip:
                self._start()
            self._buffer += data[passed:]
            data = self._whole_frames()

    def _whole_frames(self) -> memoryview:
        """Handle the complete frames; return the rest if the next frame is to be skipped."""
        buffer, known = self._buffer, self._crowd.known_order
        while len(buffer) >= 4:
            end = 4 + (int.from_bytes(buffer[:4], "big") & ~COMPRESSED)
            if end == known:
                rest = memoryview(bytes(buffer))
                buffer.clear()
                self._skip = end
                return rest
            if len(buffer) < end:
                break
            decoder = Decoder(MAX_FROM_AM)
            decoder.feed(buffer[:end])
            del buffer[:end]
            message = decoder.decode_next()
            assert message is not None
            if end > _LONG and isinstance(message, StartProgram):
                self._crowd.known_order = end
            self._take(message)
        return memoryview(b"")

    def _take(self, message: Message) -> None:
        match message:
            case Ack(n=n):
                self.acked = n
                self._crowd.acknowledged(self)
            case Welcome(heartbeat_interval=interval):
                self._crowd.welcomed(self, interval)
            case StartProgram():
                self._start()
            case StopProgram() if self._running:
                self._ended(self._running, _STOPPED)
            case Prepare(session=session) if session > self.session:
                self.session = session
                self.register()
            case ReleaseExecutor():
                self._crowd.released(self)
            case Refused(code=code, reason=reason):
                raise RuntimeError(f"refused: {code}: {reason}")

    def _start(self) -> None:
        self._crowd.told(self)
        self._running = self.session
        self._report(ProgramStarted(n=self._reports + 1, session=self.session, try_=1, pid=4711), "started")


class ExecutorLoad:
    """The fake executors of one process.

    Attributes:
        received: bytes received, after TLS decryption.
        known_order: length of the long command to start; 0 before the first.
    """

    def __init__(self, casting: LoadProfile, tell: Callable[[LoadEvent], None]) -> None:
        self._casting = casting
        self._tell = tell
        where = parse(casting.address)
        assert isinstance(where, TlsAddress)
        self._target = where.host, where.port
        self._context = create_client_context(casting.credentials)
        self._hello = encode_hello(PeerKind.EXECUTOR, casting.credentials.token)
        self._poll = select.epoll()
        self._handlers: dict[int, Callable[[], None]] = {}
        self._data = memoryview(bytearray(_READ))
        self._players: dict[int, _Player] = {}
        self._absent = deque(range(casting.first, casting.first + casting.count))
        self._counts: Counter[str] = Counter()
        self._words = b""
        self._newcomers = 0
        self._interval = 1.0
        self._beats = 0
        self._beating: list[tuple[float, int, _Player]] = []
        self.received = self.known_order = 0
        self._poll.register(0, select.EPOLLIN)
        self._handlers[0] = self._order
        self._over = False

    def run(self) -> None:
        """Run until all executors are released, or standard input is closed."""
        while not self._over:
            self._beat()
            wait = max(0.0, self._beating[0][0] - time.monotonic()) if self._beating else None
            for descriptor, _ in self._poll.poll(wait, _EVENTS):
                if descriptor in self._handlers:  # it may have been closed in this loop
                    self._handlers[descriptor]()

    # --- commands -------------------------------------------------------------------------------------------------

    def _order(self) -> None:
        data = os.read(0, _READ)
        self._over = not data
        lines, _, self._words = (self._words + data).rpartition(b"\n")
        for text in lines.decode().split():
            word, _, rest = text.partition(":")
            match word:
                case "join":
                    for _ in range(_CONNECTING):
                        self._connect_one()
                case "register" if self._casting.understudy:
                    self._players[self._casting.first + self._casting.count - 1].register()
                case "lose":
                    self._leave(self._players.pop(int(rest)))
                case "lost":
                    self._counts.clear()
                    self._tell_moment("lost")
                case "come":
                    index, container, session = rest.split("=")
                    self._newcomers += 1
                    self._connect(int(index), container, int(session))
                case "repeat":
                    for player in self._players.values():
                        if player.container == container_of(player.index):
                            player.repeat()
                case "exit":
                    for player in self._players.values():
                        player.exit()

    def _count(self, what: str) -> None:
        self._counts[what] += 1
        others = self._newcomers if what == "repeated" else 0
        if self._counts[what] == self._casting.count - others:
            self._tell_moment(what)

    def _tell_moment(self, what: str) -> None:
        at, cpu = time.monotonic(), time.process_time()
        self._tell(LoadEvent(what=what, at=at, cpu=cpu, received=self.received, beats=self._beats))

    def _is_understudy(self, player: _Player) -> bool:
        return self._casting.understudy and player.index == self._casting.first + self._casting.count - 1

    # --- connecting -----------------------------------------------------------------------------------------------

    def _connect_one(self) -> None:
        if self._absent:
            index = self._absent.popleft()
            self._connect(index, container_of(index), 1)

    def _connect(self, index: int, container: str, session: int) -> None:
        plain = socket.create_connection(self._target)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        plain.setblocking(False)
        sock = self._context.wrap_socket(plain, server_hostname=AM_NAME, do_handshake_on_connect=False)
        player = self._players[index] = _Player(self, index, sock, container, session)
        self._poll.register(sock.fileno(), select.EPOLLIN)
        self._shake_hands(player)

    def _shake_hands(self, player: _Player) -> None:
        self._handlers[player.sock.fileno()] = lambda: self._shake_hands(player)
        try:
            player.sock.do_handshake()
        except ssl.SSLWantReadError:
            return
        player.say(self._hello)
        self._handlers[player.sock.fileno()] = lambda: self._greet(player)

    def _greet(self, player: _Player) -> None:
        try:
            check_answer(player.sock.recv(ANSWER_SIZE))
        except ssl.SSLWantReadError:
            return
        self._handlers[player.sock.fileno()] = lambda: self._read(player)
        player.attach(TaskId(self._casting.role, player.index))
        if player.session > 1:
            player.register()
        elif not self._is_understudy(player):
            player.register("joined")
        self._connect_one()
        self._read(player)

    def _read(self, player: _Player) -> None:
        try:
            while player.here:
                count = player.sock.recv_into(self._data)
                if not count:
                    raise RuntimeError(f"the application master closed the connection of task {player.index}")
                self.received += count
                player.hear(self._data[:count])
        except ssl.SSLWantReadError:
            return

    # --- callbacks of the executors -------------------------------------------------------------------------------

    def welcomed(self, player: _Player, interval: float) -> None:
        """Start the heartbeats of an executor that the AM has welcomed."""
        self._interval = interval
        # All connect at once; spread their heartbeats, as real executors do with a random offset each.
        spread = interval * (len(self._beating) + 1) / self._casting.count
        heapq.heappush(self._beating, (time.monotonic() + spread, player.index, player))
        if self._is_understudy(player):
            self._count("joined")

    def acknowledged(self, player: _Player) -> None:
        """Count the milestones whose reports the AM has logged."""
        for number in [number for number in player.expects if number <= player.acked]:
            self._count(player.expects.pop(number))

    def told(self, player: _Player) -> None:
        """Count a command to start."""
        self._count("told")

    def released(self, player: _Player) -> None:
        """Disconnect a released executor."""
        self._leave(player)
        self._count("left")
        self._over = self._counts["left"] == self._casting.count

    def _leave(self, player: _Player) -> None:
        player.here = False
        self._poll.unregister(player.sock.fileno())
        del self._handlers[player.sock.fileno()]
        player.sock.close()

    def _beat(self) -> None:
        now = time.monotonic()
        while self._beating and self._beating[0][0] <= now:
            due, _, player = heapq.heappop(self._beating)
            if player.here:
                player.say(_BEAT)
                self._beats += 1
                heapq.heappush(self._beating, (due + self._interval, player.index, player))


def main() -> int:
    """Run the commands of standard input."""
    with open(0, "rb", buffering=0, closefd=False) as orders:
        casting = from_plain(LoadProfile, json.loads(orders.readline()))
    allow_open_files(casting.count + 64)

    def tell(moment: LoadEvent) -> None:
        print(json.dumps(to_plain(moment)), flush=True)

    ExecutorLoad(casting, tell).run()
    return 0
