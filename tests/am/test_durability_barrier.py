"""What waits for the log's safety, and what does not."""

from __future__ import annotations

from collections.abc import Sequence

from tests.am.in_process_job import FakeJournal
from tony.am.durability_barrier import DurabilityBarrier
from tony.core.actions import Action, OpenSession, Stop, WakeAt
from tony.core.deadline import Deadline, DeadlineKind
from tony.model.ids import TaskId

STOP = Stop(task=TaskId(role="worker", index=0), session=1, try_=1, grace=1.0)
OPEN = OpenSession(session=2)
WAKE = WakeAt(at=3.0, deadline=Deadline(DeadlineKind.RESTART))


class Seen:
    """A barrier with a journal, and all that came out of it."""

    def __init__(self) -> None:
        self.journal = FakeJournal()
        self.done: list[Action | str] = []
        self.barrier = DurabilityBarrier(self._perform, self.journal)

    def submit(self, size: int, *actions: Action, told: str = "") -> None:
        """`told` is what is acknowledged, if anything is."""
        self.barrier.submit(size, actions, (lambda: self.done.append(told)) if told else None)

    def _perform(self, actions: Sequence[Action]) -> None:
        self.done += actions


def test_a_visible_action_waits_and_is_urgent() -> None:
    """An effect becomes visible when its cause is durable, and the acknowledgement with it."""
    seen = Seen()
    seen.submit(10, STOP, told="exit")
    assert ([], 10) == (seen.done, seen.journal.urgent)
    seen.barrier.on_durable(10)
    assert ["exit", STOP] == seen.done


def test_an_invisible_action_does_not_wait_for_acknowledgements() -> None:
    """The next session opens at once although the exits before it wait to be acknowledged, which is not urgent."""
    seen = Seen()
    seen.submit(10, told="first")
    seen.submit(20, OPEN, told="second")
    assert ([OPEN], 0) == (seen.done, seen.journal.urgent)
    seen.barrier.on_durable(15)
    assert [OPEN, "first"] == seen.done
    seen.barrier.on_durable(20)
    assert [OPEN, "first", "second"] == seen.done


def test_actions_keep_their_order() -> None:
    """What does not show waits behind what does; behind that, nothing waits any longer."""
    seen = Seen()
    seen.submit(10, STOP)
    seen.submit(20, WAKE, told="exit")
    assert [] == seen.done
    seen.barrier.on_durable(10)
    assert [STOP, WAKE] == seen.done
    seen.barrier.on_durable(20)
    assert [STOP, WAKE, "exit"] == seen.done
    seen.submit(30, OPEN)
    assert [STOP, WAKE, "exit", OPEN] == seen.done


def test_every_action_that_shows_waits_for_its_own_cause() -> None:
    seen = Seen()
    seen.submit(10, STOP)
    seen.submit(20, WAKE)
    seen.submit(30, STOP)
    seen.submit(40, OPEN)
    seen.barrier.on_durable(10)
    assert [STOP, WAKE] == seen.done
    seen.barrier.on_durable(29)
    assert [STOP, WAKE] == seen.done
    seen.barrier.on_durable(30)
    assert [STOP, WAKE, STOP, OPEN] == seen.done


def test_a_report_is_forgotten_only_when_it_is_kept_for_certain() -> None:
    """While the journal waives waiting, actions go out and nothing is acknowledged; later it is."""
    seen = Seen()
    seen.submit(10, STOP, told="first")
    seen.submit(20, told="second")
    seen.journal.is_waived = True
    seen.barrier.on_durable(20)
    assert seen.done == [STOP]
    seen.journal.is_waived = False
    seen.barrier.on_durable(15)
    assert seen.done == [STOP, "first"]
    seen.barrier.on_durable(20)
    assert seen.done == [STOP, "first", "second"]
