"""What libraries record of a program's collective operations, read from running programs.

PyTorch's modules are stand-ins here; `tests/e2e/test_framework_hangs.py` has the real ones. NCCL's RAS service is
queried only of a process of the program that has NCCL, and only if it owns the port.
"""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.python_hooks.test_hooks import FOLDER
from tony import clock
from tony.diagnosis.collective_trace import CollectiveCall, parse_traces
from tony.executor.program import collective_dump
from tony.executor.program.collective_dump import query_ras, read_collectives
from tony.executor.program.program_environment import STACKS_SIGNAL

#: As PyTorch 2.15 writes them, of gloo; the last is of a second group.
ENTRY = {
    "collective_seq_id": 1, "input_dtypes": ["Float"], "input_sizes": [[3]], "is_p2p": False, "op_id": 1,
    "output_dtypes": ["Float"], "output_sizes": [[3]], "p2p_seq_id": 0, "pg_id": 0,
    "process_group": ["0", "default_pg"],
    "profiling_name": "gloo:all_reduce", "record_id": 0, "retired": True, "state": "scheduled",
    "thread_id": "140017330592640", "thread_name": "python", "time_created_ns": 1795725452830188066,
    "time_discovered_completed_ns": 0, "time_discovered_started_ns": 0, "timeout_ms": 1800000,
}  # fmt: skip
SECOND_GROUP = {**ENTRY, "record_id": 3, "process_group": ["1", "undefined"], "profiling_name": "gloo:broadcast",
                "input_sizes": [[1024]], "retired": False}  # fmt: skip
RECORD = [*({**ENTRY, "collective_seq_id": 1 + i, "record_id": i} for i in range(3)), SECOND_GROUP]
CORE = """
import os
{name} = lambda: os.environ["RECORD"].encode()
"""
DISTRIBUTED = """
import torch._C._distributed_c10d
class World: default_pg, pg_names, pg_group_ranks = None, {}, {}
_world = World()
def _update_default_pg(pg): _world.default_pg = pg
def get_rank(): return 2
def init_process_group():
    _update_default_pg("first")
    _world.pg_names.update(first="0", second="1")
    _world.pg_group_ranks.update(first={0: 0, 1: 1, 2: 2}, second={1: 0, 2: 1})
"""
PROGRAM = """
import ctypes, sys
import torch.distributed.distributed_c10d as distributed
distributed.init_process_group()
print("ready", flush=True)
ctypes.CDLL(None).sleep(600)  # in C, as a collective operation
"""


@contextmanager
def program(folder: Path, record: list[dict[str, object]], name: str = "_dump_fr_trace_json") -> Iterator[int]:
    """A program that waits in C after it has created its process groups; its pid."""
    for path in ("torch/__init__.py", "torch/_C/__init__.py", "torch/distributed/__init__.py"):
        (folder / path).parent.mkdir(parents=True)
        (folder / path).touch()
    (folder / "torch/_C/_distributed_c10d.py").write_text(CORE.format(name=name))
    (folder / "torch/distributed/distributed_c10d.py").write_text(DISTRIBUTED)
    environment = {
        "PYTHONPATH": f"{folder}{os.pathsep}{FOLDER}",
        "TONY_STACKS": str(int(STACKS_SIGNAL)),
        "TORCH_FR_BUFFER_SIZE": "2000",
        "RECORD": json.dumps({"entries": record}),
    }
    with subprocess.Popen([sys.executable, "-c", PROGRAM], env=environment, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout
            assert process.stdout.readline() == b"ready\n"
            yield process.pid
        finally:
            process.kill()


@pytest.mark.parametrize("name", ["_dump_fr_trace_json", "_dump_nccl_trace_json"])
def test_what_a_program_that_waits_in_c_has_joined(tmp_path: Path, name: str) -> None:
    with program(tmp_path, RECORD, name) as pid:
        text = read_collectives(pid)
        assert read_collectives(pid) == text, "as often as it is requested"
    (trace,) = parse_traces(text)
    first, second = sorted(trace.groups, key=lambda group: group.label)[::-1]
    assert (trace.rank, first.label, first.last, first.waiting) == (2, "the default group", 3, None)
    assert (second.label, second.last) == ("group 1", 1)
    assert second.waiting == CollectiveCall(1, "broadcast", "Float [1024]", is_done=False)


def test_where_the_record_has_overflowed_a_group_without_operations_is_not_known(tmp_path: Path) -> None:
    with program(tmp_path, RECORD[1:3]) as pid:
        (trace,) = parse_traces(read_collectives(pid))
    assert {group.last for group in trace.groups} == {3, None}


def test_an_unknown_record_is_no_trace(tmp_path: Path) -> None:
    with program(tmp_path, [{"new": 1}]) as pid:
        text = read_collectives(pid)
    assert "KeyError" in text
    assert parse_traces(text) == []


#: Answers as NCCL does (src/ras/client_support.cc): `OK` for the timeout, then the status, then the end.
SERVER = """
import mmap, os, socket, sys
library = open(sys.argv[1], "r+b")
mapped = mmap.mmap(library.fileno(), 0)
server = socket.create_server(("localhost", int(os.environ["NCCL_RAS_ADDR"].rpartition(":")[2])))
print("ready", flush=True)
while True:
    client, _ = server.accept()
    lines = client.makefile("rb")
    assert lines.readline() == b"TIMEOUT 2\\n"
    client.sendall(b"OK\\n")
    if lines.readline() != b"VERBOSE STATUS\\n":
        continue
    client.sendall(b"Job summary\\n" + b"x" * int(sys.argv[2]))
    client.close()
"""


@contextmanager
def server(library: Path, port: int, size: int = 1) -> Iterator[int]:
    """A process with this library that serves queries; its pid."""
    library.write_bytes(b"\0" * 4096)
    command = [sys.executable, "-c", SERVER, str(library), str(size)]
    with subprocess.Popen(command, env={"NCCL_RAS_ADDR": f"localhost:{port}"}, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout
            assert process.stdout.readline() == b"ready\n"
            yield process.pid
        finally:
            process.kill()


def ask(pids: list[int]) -> str:
    return query_ras(pids, clock.monotonic() + 60.0)


def test_the_owner_of_the_port_is_queried(tmp_path: Path, free_port: int) -> None:
    with server(tmp_path / "libnccl.so.2", free_port) as pid:
        assert ask([1, pid]) == f"=== NCCL RAS, from process {pid}\nJob summary\nx"


def test_a_port_of_another_program_is_not_queried(tmp_path: Path, free_port: int) -> None:
    """Of another job, or of a program without NCCL."""
    with server(tmp_path / "libother.so", free_port) as pid:
        assert ask([pid]) == ""
        sleeper = "import mmap, sys; f = open(sys.argv[1], 'r+b'); m = mmap.mmap(f.fileno(), 0); print(1); input()"
        (tmp_path / "libnccl.so").write_bytes(b"\0" * 4096)
        command = [sys.executable, "-u", "-c", sleeper, str(tmp_path / "libnccl.so")]
        environment = {"NCCL_RAS_ADDR": f"localhost:{free_port}"}
        with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdout
            assert process.stdout.readline() == b"1\n"
            assert ask([process.pid]) == ""
            process.kill()


def test_another_user_at_an_address_of_the_port_is_not_asked(
    tmp_path: Path, free_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collective_dump, "peer_uid", lambda link: os.getuid() + 1)
    with server(tmp_path / "libnccl.so.2", free_port) as pid:
        assert ask([pid]) == ""


def test_after_the_deadline_nothing_is_asked(tmp_path: Path, free_port: int) -> None:
    with server(tmp_path / "libnccl.so.2", free_port) as pid:
        assert query_ras([pid], clock.monotonic()) == ""


def test_a_long_answer_is_cut(tmp_path: Path, free_port: int) -> None:
    with server(tmp_path / "libnccl.so.2", free_port, size=1 << 20) as pid:
        assert 30_000 < len(ask([pid])) < 33_000


@pytest.fixture
def free_port() -> int:
    with socket.create_server(("localhost", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port
