"""Thousands of played executors in one process, to measure an application master with: one loop, no programs.

What they say is what real ones say, over TLS: attach, register, report starts and ends, beat. What they leave out is
work on their own side: a long order to start is taken apart once, and whatever is as long as that is taken for the
same. So ten thousand of them fit beside the application master on two cores.

As a program (`bootstrap.command("tony.testing.executor_load")`) it reads a `LoadProfile` as one line of JSON on
standard input, and then orders, one word a line. On standard output it says what came true, one `LoadEvent` as JSON a
line:

    join      all connect and register, but the understudy: it only attaches. When that is in the log: `joined`
    register  the understudy registers as well. When all were told to start: `told`; when each has heard that its
              word that it did is in the log: `started`
    lose:7    the executor of task 7 is gone from one moment to the next. So many of these words as you like; then
    lost      says that it is done: `lost`. From then on those that are left hear of a further session
    come:7=c-101=2    another executor of task 7, in that container, whose first session is the second. When all were
              told to start in the further session: `told`, and `started`, as at first
    repeat    all who were there before say once more that the program of the first session has failed. When each has
              heard that this was taken: `repeated`
    exit      every program ends well. When all were released and have left: `left`

Executors beat from their welcome to their end, evenly spread over the interval that they were told.
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

from tony.dataclass import dataclass
from tony.linux.open_file_limit import allow_open_files
from tony.model.codec import from_plain, to_plain
from tony.model.exit_status import ExitReason, ExitStatus
from tony.protocol import messages as msg
from tony.protocol.framing import COMPRESSED, MAX_FROM_AM, Decoder, encode
from tony.protocol.hello import AM_NAME, ANSWER_SIZE, PeerKind, check_answer, encode_hello
from tony.protocol.launch import AmCredentials
from tony.rpc.am_address import TlsAddress, parse
from tony.rpc.tls import client_context

#: Connections of one process that are being made at one time.
_CONNECTING = 64
#: Sockets that are looked at before it is time to look for beats again.
_EVENTS = 256
#: Bytes read at a time, and of a frame from which on it is long.
_READ, _LONG = 1 << 16, 1 << 10
#: What a heartbeat says while a program trains.
_BEAT = encode(
    msg.Heartbeat(
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
    """Who is played, and where they go.

    Attributes:
        address: the application master's, `tls:...`.
        first, count: which tasks of the role.
        understudy: whether the last of them waits with its registration.
    """

    address: str
    credentials: AmCredentials
    role: str
    first: int
    count: int
    understudy: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadEvent:
    """Something came true.

    Attributes:
        at: seconds of CLOCK_MONOTONIC, the same in all processes of a machine.
        cpu: seconds of processor time of this process so far.
        received: bytes that came so far, TLS taken off.
        beats: heartbeats sent so far.
    """

    what: str
    at: float
    cpu: float
    received: int
    beats: int


def container_of(index: int) -> str:
    """The container of a task, where a single role's containers are granted in the order of its tasks."""
    return f"c-{index + 1}"


def address_of(index: int) -> str:
    """Where a played task listens, as it would look on a cluster with eight tasks on a node."""
    return f"node{index // 8:05}.cluster:{32768 + index * 7919 % 28000}"


class _Player:
    """One executor."""

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

    def attach(self, task: str) -> None:
        """Says who it is."""
        self.say(
            encode(
                msg.Attach(
                    task=task,
                    container=self.container,
                    incarnation=os.urandom(8).hex(),
                    highest_attempt=1,
                    pid=os.getpid(),
                    host="played",
                )
            )
        )

    def register(self, expects: str = "") -> None:
        """Its ports are reserved. `expects` is what is true as soon as the log has that."""
        self._report(msg.Ready(n=self._reports + 1, session=self.session, address=address_of(self.index)), expects)

    def exit(self) -> None:
        """Its program ends well."""
        self._ended(self.session, _OK)

    def repeat(self) -> None:
        """What it says is about a session that is long over."""
        self._ended(1, _FAILED, "repeated")

    def _ended(self, session: int, status: ExitStatus, expects: str = "") -> None:
        self._running = 0
        self._report(msg.ProgramExited(n=self._reports + 1, session=session, try_=1, status=status, ago=0.0), expects)

    def _report(self, message: msg.Reported, expects: str = "") -> None:
        self._reports = message.n
        if expects:
            self.expects[message.n] = expects
        self.say(encode(message))

    def say(self, frame: bytes) -> None:
        """Sends; whoever says so little never finds the socket full."""
        self.sock.send(frame)

    def hear(self, data: memoryview) -> None:
        """Takes what came, frame by frame."""
        while data:
            passed = min(self._skip, len(data))
            self._skip -= passed
            if passed and not self._skip:
                self._start()
            self._buffer += data[passed:]
            data = self._whole_frames()

    def _whole_frames(self) -> memoryview:
        """Takes the frames that are there; answers what else is there if the next one is to be passed over."""
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
            message = decoder.next_message()
            assert message is not None
            if end > _LONG and isinstance(message, msg.StartProgram):
                self._crowd.known_order = end
            self._take(message)
        return memoryview(b"")

    def _take(self, message: msg.Message) -> None:
        match message:
            case msg.Ack(n=n):
                self.acked = n
                self._crowd.acknowledged(self)
            case msg.Welcome(heartbeat_interval=interval):
                self._crowd.welcomed(self, interval)
            case msg.StartProgram():
                self._start()
            case msg.StopProgram() if self._running:
                self._ended(self._running, _STOPPED)
            case msg.Prepare(session=session) if session > self.session:
                self.session = session
                self.register()
            case msg.ReleaseExecutor():
                self._crowd.released(self)
            case msg.Refused(code=code, reason=reason):
                raise RuntimeError(f"refused: {code}: {reason}")

    def _start(self) -> None:
        self._crowd.told(self)
        self._running = self.session
        self._report(msg.ProgramStarted(n=self._reports + 1, session=self.session, try_=1, pid=4711), "started")


class ExecutorLoad:
    """All that one process plays.

    Attributes:
        received: bytes that came, TLS taken off.
        known_order: length of the long frame that tells to start; 0 before the first.
    """

    def __init__(self, casting: LoadProfile, tell: Callable[[LoadEvent], None]) -> None:
        self._casting = casting
        self._tell = tell
        where = parse(casting.address)
        assert isinstance(where, TlsAddress)
        self._target = where.host, where.port
        self._context = client_context(casting.credentials)
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
        """Plays until everybody has left, or nobody gives orders any more."""
        while not self._over:
            self._beat()
            wait = max(0.0, self._beating[0][0] - time.monotonic()) if self._beating else None
            for descriptor, _ in self._poll.poll(wait, _EVENTS):
                if descriptor in self._handlers:  # it may have left a moment ago
                    self._handlers[descriptor]()

    # --- orders ---------------------------------------------------------------------------------------------------

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

    # --- coming ---------------------------------------------------------------------------------------------------

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
        player.attach(f"{self._casting.role}:{player.index}")
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

    # --- what players tell ----------------------------------------------------------------------------------------

    def welcomed(self, player: _Player, interval: float) -> None:
        """The application master knows it: it beats from now on."""
        self._interval = interval
        # Players come at once; their beats are spread as those of executors are, each of which throws its own dice.
        spread = interval * (len(self._beating) + 1) / self._casting.count
        heapq.heappush(self._beating, (time.monotonic() + spread, player.index, player))
        if self._is_understudy(player):
            self._count("joined")

    def acknowledged(self, player: _Player) -> None:
        """Some of its reports are in the log."""
        for number in [number for number in player.expects if number <= player.acked]:
            self._count(player.expects.pop(number))

    def told(self, player: _Player) -> None:
        """It was told to start."""
        self._count("told")

    def released(self, player: _Player) -> None:
        """It may go."""
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
    """Plays as standard input says."""
    with open(0, "rb", buffering=0, closefd=False) as orders:
        casting = from_plain(LoadProfile, json.loads(orders.readline()))
    allow_open_files(casting.count + 64)

    def tell(moment: LoadEvent) -> None:
        print(json.dumps(to_plain(moment)), flush=True)

    ExecutorLoad(casting, tell).run()
    return 0
