"""Secrets of a task are stars in everything that its executor writes or reports."""

import asyncio
import json
import os
from pathlib import Path

import pytest

from tests.executor.conftest import Start
from tests.executor.fake_am import Guest, Master
from tony.executor.output.output_capture import Output
from tony.executor.output.writer_thread import WriterThread
from tony.model.codec import to_plain
from tony.model.masking import SecretMask
from tony.protocol.executor_messages import DumpStacks, Heartbeat, ProgramExited, Ready
from tony.protocol.message_base import Message
from tony.protocol.shared_messages import SetLogLevel, Stacks

TOKEN, LICENSE, INHERITED = "canary-4711-token", "4711815", "canary-4712-inherited"
VARIABLES = {"HF_TOKEN": TOKEN, "LICENSE": LICENSE}


async def test_output_that_arrives_in_pieces(tmp_path: Path) -> None:
    """Text that cannot be a secret's beginning is in the log before anything else is written; a beginning waits."""
    arrived = asyncio.Event()
    output = Output(tmp_path, "worker-0.s1.t1", 1 << 20, WriterThread(), lambda: None, mask=SecretMask([TOKEN]))
    writer = os.dup(output.get_write_ends()[0])
    output.begin()
    output.out._on_output = arrived.set
    for piece, shown in ((b"Name: ", b"Name: "), (b"\r 10 %", b"\r 10 %"), (b"a cana", b"a ")):
        arrived.clear()
        os.write(writer, piece)
        async with asyncio.timeout(20):
            await arrived.wait()
        assert bytes(output.out._recent).endswith(shown)
    os.write(writer, b"ry-4711-token b canary")
    os.close(writer)
    await output.wait_ended(20.0)
    assert (tmp_path / "worker-0.s1.t1.out").read_bytes() == b"Name: \r 10 %a ***************** b ******"


def test_secrets_are_masked_in_everything_that_an_executor_sends(
    master: Master, guest: Start, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Last line, stacks, tail, message, exports, files and the executor's own log, at level debug."""
    monkeypatch.setenv("API_KEY_OUTSIDE", INHERITED)
    command = (
        f"echo out {TOKEN}; echo $LICENSE; echo $API_KEY_OUTSIDE; echo 'URL: http://x/?t={TOKEN}'; mkfifo go;"
        f"printf %s {TOKEN[:9]} >&2; sleep 0.01; printf %s {TOKEN[9:]} >&2; read line <>go; exit 3"
    )
    running = guest(command, env=VARIABLES, secret=("LICENSE",), exports={"URL": "URL: "})
    master.wait(Ready)
    master.send(SetLogLevel(level="debug"))
    master.start()
    master.wait(Heartbeat, lambda beat: beat.last_line == "*" * len(TOKEN))
    master.send(DumpStacks(request="1"))
    master.wait(Stacks)
    (tmp_path / "work" / "go").write_text("\n")
    exited = master.wait(ProgramExited)
    assert exited.status.tail == ("*" * len(TOKEN),)
    assert exited.exports == {"URL": f"http://x/?t={'*' * len(TOKEN)}"}
    assert running.read("worker-0.s1.t1.out").split("\n")[:3] == [
        f"out {'*' * len(TOKEN)}",
        "*" * len(LICENSE),
        "*" * len(INHERITED),
    ]
    assert_masked(master, running)


def test_a_program_that_cannot_be_started(master: Master, guest: Start) -> None:
    """The reason names the program, and the program may be named after a secret."""
    running = guest((f"/no/{TOKEN}",), env=VARIABLES)
    master.wait(Ready)
    master.start()
    exited = master.wait(ProgramExited)
    assert f"/no/{'*' * len(TOKEN)}" in exited.status.message
    assert_masked(master, running)


def assert_masked(master: Master, running: Guest) -> None:
    """No secret is in any message or file."""
    files = {path.name: path.read_text(errors="replace") for path in running.logs.iterdir()}
    assert files
    text = json.dumps([to_plain(message) for message in master.all(Message)]) + repr(files)
    assert [secret for secret in (TOKEN, LICENSE, INHERITED) if secret in text] == []
