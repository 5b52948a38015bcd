"""Who may have what of a machine, and what other users may write without doing harm."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.facts import mentions
from tony.schedulers.local.claims.claim_policy import Claim, decide, decode, encode, grow_claim
from tony.schedulers.local.claims.machine_capacity import Machine

MACHINE = Machine(memory=100, gpus=("a", "b", "c", "d"))


def claim(ticket: str, memory: int, gpus: int = 0, devices: tuple[str, ...] | None = None) -> Claim:
    return Claim(
        ticket=ticket, job=f"job-{ticket}", job_name="name", user="ann", memory=memory, gpus=gpus, devices=devices
    )


def test_free_machine_grants() -> None:
    """On an empty machine a claim gets what it wants, devices by their order."""
    assert decide(claim("1", 100, 2), [], MACHINE) == claim("1", 100, 2, ("a", "b"))


def test_held_devices_are_not_given_twice() -> None:
    """A claim gets devices that no granted claim names."""
    others = [claim("1", 10, 2, ("a", "c"))]
    assert decide(claim("2", 10, 2), others, MACHINE) == claim("2", 10, 2, ("b", "d"))


def test_the_pending_reason_names_amounts_and_holders() -> None:
    reason = decide(claim("2", 50), [claim("1", 60, 1, ("a",))], MACHINE)
    assert mentions(reason, "50 bytes", "40 bytes of 100 bytes", 'job-1 "name" of ann', "60 bytes", "1 GPU")


def test_a_claim_for_gpus_names_only_holders_of_gpus() -> None:
    others = [claim("1", 10, 3, ("a", "b", "c")), claim("0", 10, 0, ())]
    reason = decide(claim("2", 10, 2), others, MACHINE)
    assert mentions(reason, "2 requested", "1 of 4", 'job-1 "name" of ann', "10 bytes", "3 GPUs")


def test_does_not_pass_an_older_claim() -> None:
    """What would fit now waits if an older claim waits that it would delay."""
    others = [claim("1", 60, devices=()), claim("2", 50)]
    reason = decide(claim("3", 40), others, MACHINE)
    assert isinstance(reason, str)
    assert mentions(reason, 'job-2 "name" of ann', "50 bytes")


def test_passes_an_older_claim_that_it_does_not_delay() -> None:
    """A claim without GPUs need not wait behind one that waits for GPUs only."""
    others = [claim("1", 10, 4, ("a", "b", "c", "d")), claim("2", 10, 4)]
    assert decide(claim("3", 80), others, MACHINE) == claim("3", 80, devices=())


def test_younger_claims_do_not_count() -> None:
    """Only older claims have precedence."""
    assert decide(claim("1", 100), [claim("2", 100)], MACHINE) == claim("1", 100, devices=())


def test_impossible_claims_do_not_block() -> None:
    """A claim that this machine can never grant blocks no other."""
    assert decide(claim("2", 10), [claim("1", 101)], MACHINE) == claim("2", 10, devices=())


@pytest.mark.parametrize("hog", [claim("1", 101, devices=()), claim("1", 1, 5, ("a", "b", "c", "d", "e"))])
def test_another_user_cannot_hold_more_than_the_machine(hog: Claim) -> None:
    """Of our own we believe it: we may have said that the machine is larger."""
    hostile = replace(hog, is_trusted=False)
    assert decide(claim("2", 10, 1), [hostile], MACHINE) == claim("2", 10, 1, ("a",))
    held = claim("2", 10, 1, ("a",))
    assert grow_claim(held, 20, 2, [hostile], MACHINE) == claim("2", 20, 2, ("a", "b"))
    assert isinstance(decide(claim("2", 10, 1), [hog], MACHINE), str)
    assert grow_claim(held, 20, 2, [hog], MACHINE) is None


def test_many_holders_are_counted() -> None:
    """A long list of holders is cut."""
    others = [claim(str(i), 20, devices=()) for i in range(5)]
    reason = decide(claim("9", 1), others, MACHINE)
    assert isinstance(reason, str)
    assert reason.endswith(" and 2 more")


def test_round_trip() -> None:
    """A claim's file contains everything but its owner, who is the file's owner."""
    granted = claim("7", 5, 1, ("a",))
    assert decode(encode(granted), "7", "ann") == granted
    assert decode(encode(claim("7", 5, 1)), "7", "ann") == claim("7", 5, 1)


@pytest.mark.parametrize(
    "change",
    [
        {"memory": -1},
        {"memory": 2**61},
        {"memory": 1.5},
        {"memory": True},
        {"memory": "1"},
        {"gpus": -1},
        {"gpus": 10**6},
        {"gpus": None},
        {"ticket": "8"},
        {"devices": ["a", "b"]},
        {"devices": [1]},
        {"devices": "a"},
        {"devices": ["x" * 300]},
    ],
    ids=str,
)
def test_improper_claims_count_for_nothing(change: dict[str, object]) -> None:
    """A claim with any field that cannot be is no claim."""
    data = json.loads(encode(claim("7", 5, 1, ("a",))))
    assert decode(json.dumps(data | change).encode(), "7", "ann") is None


def test_text_of_other_users_is_sanitized() -> None:
    """Control characters in names are replaced, and long names cut."""
    data = json.loads(encode(claim("7", 5)))
    read = decode(json.dumps(data | {"job": "\x1b[2J", "name": "n" * 999}).encode(), "7", "ann")
    assert read
    assert read.job == "?[2J"
    assert len(read.job_name) == 200


requests = st.lists(st.tuples(st.integers(1, 100), st.integers(0, 4), st.integers(0, 3)), min_size=1, max_size=12)


@given(requests)
def test_claims_are_neither_overtaken_nor_starved(wanted: list[tuple[int, int, int]]) -> None:
    """Over random arrivals and ends: never too much is granted, no claim is delayed by a younger one, all are
    granted."""
    living: dict[str, Claim] = {}
    for number, (memory, gpus, ends) in enumerate(wanted):
        ticket = f"{number:03d}"
        living[ticket] = claim(ticket, memory, gpus)
        grant_all(living)
        for done in [c.ticket for c in living.values() if c.granted][:ends]:
            del living[done]
            grant_all(living)
    while living:
        grant_all(living)
        granted = [c.ticket for c in living.values() if c.granted]
        assert granted, "all wait for each other"
        del living[granted[0]]


def grant_all(living: dict[str, Claim]) -> None:
    """All claims are decided, the youngest first: the kernel wakes waiting processes in any order."""
    for ticket in sorted(living, reverse=True):
        mine = living[ticket]
        others = [c for c in living.values() if c is not mine]
        outcome = mine if mine.granted else decide(mine, others, MACHINE)
        if isinstance(outcome, Claim):
            living[ticket] = outcome
            check_sound(living, outcome)


def check_sound(living: dict[str, Claim], newest: Claim) -> None:
    granted = [c for c in living.values() if c.granted]
    devices = [device for c in granted for device in c.devices or ()]
    assert sum(c.memory for c in granted) <= MACHINE.memory
    assert len(devices) == len(set(devices))
    assert set(devices) <= set(MACHINE.gpus)
    assert all(len(c.devices or ()) == c.gpus for c in granted)
    for older in [c for c in living.values() if not c.granted and c.ticket < newest.ticket]:
        # With the new one gone again it could not be granted either.
        rest = [c for c in living.values() if c.ticket not in (older.ticket, newest.ticket)]
        still = decide(replace(older), rest, MACHINE)
        blocked_by_it = isinstance(still, Claim) and isinstance(decide(older, [*rest, newest], MACHINE), str)
        assert not blocked_by_it


def test_a_claim_grows_into_free_resources() -> None:
    """Those that no other claim holds or waits for, older or younger; it keeps its devices and gets further ones."""
    mine = claim("2", 20, 1, ("b",))
    assert grow_claim(mine, 60, 3, [claim("1", 40, 1, ("a",))], MACHINE) == claim("2", 60, 3, ("b", "c", "d"))
    assert grow_claim(mine, 61, 3, [claim("1", 40, 1, ("a",))], MACHINE) is None
    assert grow_claim(mine, 60, 4, [claim("1", 40, 1, ("a",))], MACHINE) is None
    assert grow_claim(mine, 60, 2, [claim("3", 50)], MACHINE) is None
    assert grow_claim(mine, 50, 2, [claim("3", 50, 2)], MACHINE) == claim("2", 50, 2, ("b", "a"))
    assert grow_claim(mine, 50, 3, [claim("3", 50, 2)], MACHINE) is None
    assert grow_claim(mine, 90, 1, [claim("3", 101)], MACHINE) == claim("2", 90, 1, ("b",))
