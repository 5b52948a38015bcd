"""A task's ports, and who is to blame when they are taken."""

import os
import socket

import pytest

from tests.facts import mentions
from tony.executor.network.port_reservation import TaskPorts
from tony.model.setting_choices import ReservedPort


def test_each_session_has_fresh_ports() -> None:
    """One for the cluster spec, one for TensorBoard if wanted; the old ones are given up."""
    ports = TaskPorts(None, wants_tb_port=True)
    ports.renew()
    before = (ports.port, ports.tb_port)
    assert ports.port != ports.tb_port
    ports.renew()
    assert not set(before) & {ports.port, ports.tb_port}
    ports.close()
    ports.close()


def test_range_of_one_port_serves_session_after_session() -> None:
    """Where there is no other port, the old one is taken again."""
    ports = TaskPorts((29872, 29872), wants_tb_port=False)
    ports.renew()
    ports.renew()
    assert ports.port == 29872
    ports.close()


def test_a_port_that_we_answer_ourselves_is_not_the_programs() -> None:
    """It is neither taken by another process, nor the reason why the program cannot bind it."""
    ports = TaskPorts(None, wants_tb_port=False)
    ports.renew()
    with ports.listen():
        assert ports.find_taken() == ""
        assert ports.explain_bind_failure([f"bind: address already in use: {ports.port}"]) == ""
        assert ports.explain_bind_failure(["OSError: [Errno 98] Address already in use"]) == ""
    ports.close()


def test_the_process_that_listens_is_named() -> None:
    """Who took the port, with the process's number."""
    ports = TaskPorts(None, wants_tb_port=False)
    assert ports.find_taken() == ""
    ports.renew()
    assert ports.find_taken() == ""
    with socket.socket() as thief:
        thief.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        thief.bind(("127.0.0.1", ports.port))
        thief.listen()
        assert mentions(ports.find_taken(), f"port {ports.port}", f"process {os.getpid()}")
    ports.close()


@pytest.mark.parametrize(
    ("words", "ours"),
    [
        ("OSError: [Errno 98] Address already in use", True),
        ("bind 0.0.0.0:{port}: Address already in use", True),
        ("listen EADDRINUSE: address already in use :::{port}", True),
        ("bind 0.0.0.0:8080: Address already in use", False),
        ("listening on {port}", False),
        ("Errno 98, port {port}", False),
    ],
)
def test_last_words_about_an_address_in_use(words: str, ours: bool) -> None:
    """It is about our port if they name it, or no port at all; another's port is the program's own business."""
    ports = TaskPorts(None, wants_tb_port=False)
    ports.renew()
    blamed = ports.explain_bind_failure(["all is well", words.format(port=ports.port)])
    assert (f"port {ports.port}, reserved for this task, was in use" in blamed) is ours
    ports.close()


def test_a_port_blocked_by_its_own_reservation_is_released_at_the_next_start() -> None:
    """A server that sets no socket option fails once; then its port is released when it starts."""
    ports = TaskPorts(None, wants_tb_port=False)
    ports.renew()
    ports.release_before_start()
    with pytest.raises(OSError, match="in use") as refused:
        bind_plainly(ports.port)
    assert ports.explain_bind_failure([str(refused.value)]) != ""
    ports.renew()
    with pytest.raises(OSError, match="in use"):
        bind_plainly(ports.port)
    ports.release_before_start()
    bind_plainly(ports.port)
    ports.close()


def test_the_executor_names_itself_and_the_setting_that_frees_the_port() -> None:
    """A later failure, when the port is free, was caused by another process."""
    ports = TaskPorts(None, False, "tracker")
    ports.renew()
    blamed = ports.explain_bind_failure(["OSError: [Errno 98] Address already in use"])
    assert f"tony's executor (process {os.getpid()}) holds it" in blamed
    assert 'roles.tracker.port = "free"' in blamed
    assert "by a process that no longer listens" in ports.explain_bind_failure(["Address already in use"])
    ports.close()


def test_a_free_port_can_be_bound_by_any_server_at_the_first_try() -> None:
    """It is reserved until the program starts, so that the cluster spec can name it."""
    ports = TaskPorts(None, False, "tracker", ReservedPort.FREE)
    ports.renew()
    with pytest.raises(OSError, match="in use"):
        bind_plainly(ports.port)
    ports.release_before_start()
    bind_plainly(ports.port)
    ports.close()


def bind_plainly(port: int) -> None:
    with socket.socket() as server:
        server.bind(("", port))
