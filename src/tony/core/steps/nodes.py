"""Hosts on which tasks failed again and again get no further container for a while."""

from __future__ import annotations

from tony.core import actions as act
from tony.core.policies import nodes as policy
from tony.core.turn import Turn
from tony.model.report import Failure


def blame(turn: Turn, failure: Failure) -> None:
    """Counts a failure against its host. To be called once for each."""
    state = turn.state
    host = failure.host
    if host is None or not state.chooses or not policy.counts(failure):
        return
    times = [*policy.recent(state.hosts.get(host, ()), turn.now), turn.now]
    state.hosts[host] = times
    if host not in state.excluded and policy.is_bad(times, turn.now):
        state.excluded.add(host)
        state.timers.set(f"include:{host}", turn.now + policy.LENGTH)
        turn.ask(act.Exclude(host=host))


def forgive(turn: Turn, host: str) -> None:
    """Its time is over."""
    turn.state.excluded.discard(host)
    turn.state.hosts.pop(host, None)
    turn.ask(act.Include(host=host))
