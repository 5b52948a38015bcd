"""The orders to start: made once, sent to all."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.core.specs import workers
from tony.am.executor_instructions import StartMessages
from tony.core.actions import Start
from tony.errors import PlatformError, UserError
from tony.frameworks.base import Framework, TaskView
from tony.model.ids import TaskId
from tony.model.job_spec import ClusterSpec, JobSpec, Role
from tony.protocol.executor_messages import StartProgram
from tony.protocol.framing import MAX_FROM_AM, Decoder
from tony.protocol.messages import Message
from tony.testing.sample_jobs import build_prepared_job


class Listing(Framework):
    """Gives every task the list of addresses, and counts how often it is asked."""

    def __init__(self) -> None:
        self.asked = 0
        self.error: Exception | None = None

    def build_shared(self, spec: JobSpec, cluster: ClusterSpec) -> Any:
        self.asked += 1
        if self.error:
            raise self.error
        return {role: list(addresses) for role, addresses in cluster.roles.items()}

    def environment(self, shared: Any, task: TaskView) -> Sequence[dict[str, str]]:
        return [{}]


@pytest.fixture
def framework() -> Listing:
    return Listing()


@pytest.fixture
def starts(tmp_path: Path, framework: Listing) -> StartMessages:
    """Of attempt 3 at a job of three workers."""
    return StartMessages(build_prepared_job(tmp_path, workers(3)).record, framework, 3)


def cluster(session: int = 1, version: int = 1) -> ClusterSpec:
    return ClusterSpec(session=session, version=version, roles={"worker": ("a:1", "b:2", "c:3")})


def start(index: int = 0, session: int = 1, try_: int = 1, version: int = 1, **variables: str) -> Start:
    return Start(task=TaskId("worker", index), session=session, try_=try_, version=version, variables=variables)


def message(frame: bytes) -> Message | None:
    decoder = Decoder(MAX_FROM_AM)
    decoder.feed(frame)
    return decoder.decode_next()


def test_all_tasks_get_the_same_bytes(starts: StartMessages, framework: Listing) -> None:
    """Asked once, encoded once: the ten thousandth start costs nothing more."""
    starts.publish(cluster())
    frames = [starts.encode(start(index)) for index in range(3)]
    assert frames[0] is frames[1] is frames[2]
    assert framework.asked == 1
    assert message(frames[0]) == StartProgram(
        attempt=3, session=1, try_=1, version=1, shared={"worker": ["a:1", "b:2", "c:3"]}
    )


def test_a_later_version_or_try_is_an_order_of_its_own(starts: StartMessages) -> None:
    """Tasks that were started before keep theirs."""
    starts.publish(cluster(version=1))
    first = starts.encode(start())
    starts.publish(cluster(version=2))
    orders = [message(starts.encode(start(version=2))), message(starts.encode(start(try_=2, version=2)))]
    assert [(o.version, o.try_) for o in orders if isinstance(o, StartProgram)] == [(2, 1), (2, 2)]
    assert starts.encode(start()) is first


def test_exported_variables_are_in_the_start_message(starts: StartMessages) -> None:
    """Tasks with the same variables share the encoded bytes; tasks with others do not."""
    starts.publish(cluster())
    frames = [starts.encode(start(index, PARAMS="--lr 0.1")) for index in range(2)]
    assert frames[0] is frames[1]
    order = message(frames[0])
    assert isinstance(order, StartProgram)
    assert order.variables == {"PARAMS": "--lr 0.1"}
    assert message(starts.encode(start(PARAMS="--lr 0.2"))) != order
    assert message(starts.encode(start())) != order


def test_without_a_cluster_spec_nothing_is_shared(starts: StartMessages, framework: Listing) -> None:
    """First come, first served: version 0."""
    assert message(starts.encode(start(version=0))) == StartProgram(
        attempt=3, session=1, try_=1, version=0, shared=None
    )
    assert framework.asked == 0


def test_older_sessions_are_forgotten(starts: StartMessages) -> None:
    """A job that restarts for weeks does not grow, with cluster specs or without."""
    for session in range(1, 50):
        starts.publish(cluster(session=session))
        starts.encode(start(session=session))
        starts.encode(start(session=session, version=0))
    assert (len(starts._shared), len(starts._frames)) == (1, 2)
    assert isinstance(message(starts.encode(start(session=49))), StartProgram)


def test_an_adapter_that_fails_is_named(starts: StartMessages, framework: Listing) -> None:
    """A bug in a plug-in is said to be its, not ours; what it says on purpose is left as it is."""
    framework.error = KeyError("nope")
    with pytest.raises(PlatformError, match=r"adapter .* failed: KeyError: 'nope'"):
        starts.publish(cluster())
    framework.error = UserError("too many")
    with pytest.raises(UserError, match=r"^too many$"):
        starts.publish(cluster())


def test_addresses_that_placeholders_ask_for_are_in_the_order(tmp_path: Path, framework: Listing) -> None:
    """Of the role's first task; of no other role, and of none that has not registered."""
    roles = {"ps": Role(), "worker": Role(instances=3)}
    spec = JobSpec(command="run {address.worker}", env={"PS": "{address.ps}"}, roles=roles)
    starts = StartMessages(build_prepared_job(tmp_path, spec).record, framework, 1)
    starts.publish(cluster())
    sent = message(starts.encode(start()))
    assert isinstance(sent, StartProgram)
    assert sent.addresses == {"worker": "a:1"}


def test_without_such_placeholders_no_address_is_sent(starts: StartMessages) -> None:
    starts.publish(cluster())
    sent = message(starts.encode(start()))
    assert isinstance(sent, StartProgram)
    assert sent.addresses == {}
