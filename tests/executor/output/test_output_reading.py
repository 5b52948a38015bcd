"""A real executor whose output is read through its connection while the program runs, and at its end."""

import base64

from tests.executor.conftest import Start
from tests.executor.fake_am import Master
from tony.model.ids import TaskId
from tony.protocol.executor_messages import ProgramExited, Ready, ReleaseExecutor, StopProgram
from tony.protocol.output_messages import DropLog, LogPiece, ReadLog


def read(master: Master, number: int, **more: object) -> LogPiece:
    """Asks with a number that was not used before; the answer."""
    ask = {"reader": number, "task": TaskId("worker", 0), "stream": "out", "wait": True, **more}
    master.send(ReadLog(**ask))  # type: ignore[arg-type]
    return master.wait(LogPiece, lambda piece: piece.reader == number)


def test_output_is_read_while_the_program_runs(master: Master, guest: Start) -> None:
    """The first line comes though the program continues; the rest, without a line's end, before the executor ends."""
    start = guest("echo first; read -t 3600 < /dev/zero || sleep 3600")
    master.wait(Ready)
    master.start()
    piece = read(master, 1)
    assert base64.b64decode(piece.data) == b"first\n"
    master.send(ReadLog(reader=2, task=TaskId("worker", 0), stream="out", name=piece.name, offset=6, wait=True))
    master.send(StopProgram(session=1, grace=0.0))
    master.wait(ProgramExited)
    assert not [each for each in master.all(LogPiece) if each.reader == 2]
    master.send(ReleaseExecutor())
    assert master.wait(LogPiece, lambda piece: piece.reader == 2).last
    assert start.wait() == 0


def test_the_last_lines_come_before_the_executor_ends(master: Master, guest: Start) -> None:
    """Released at once after its program: a reader that is behind still gets everything."""
    start = guest("seq 1 50000; printf end")
    master.wait(Ready)
    master.start()
    got = b""
    piece = read(master, 1)
    master.wait(ProgramExited)
    master.send(ReleaseExecutor())
    number = 1
    while not piece.last:
        got += base64.b64decode(piece.data)
        number += 1
        piece = read(master, number, name=piece.name, offset=len(got))
        master.send(DropLog(reader=number - 1))
    assert got == b"".join(b"%d\n" % n for n in range(1, 50_001)) + b"end"
    assert start.wait() == 0
