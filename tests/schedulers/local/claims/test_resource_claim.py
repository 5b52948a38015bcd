"""A claim survives what may happen to its file in a folder for temporary files."""

import asyncio
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.facts import mentions
from tests.support.waiting import wait_until
from tony.schedulers.local.claims import resource_claim
from tony.schedulers.local.claims.ledger import HeldClaim, ResourceLedger, create_claim
from tony.schedulers.local.claims.machine_capacity import Machine
from tony.schedulers.local.claims.peak_demand import Need
from tony.schedulers.local.claims.resource_claim import ResourceClaim
from tony.testing.allocator_bench import TIMEOUT_SECONDS


@pytest.fixture
def place(tmp_path: Path) -> Path:
    made = tmp_path / "ledger"
    made.mkdir()
    return made


def hold(place: Path, *needs: Need) -> ResourceClaim:
    def reopen() -> ResourceLedger:
        place.mkdir(exist_ok=True)
        return ResourceLedger(place)

    machine = Machine(memory=10, gpus=("a",))
    return ResourceClaim(reopen, reopen(), needs or [Need(memory=10, gpus=1)], machine, job="job", job_name="name")


def seen(place: Path) -> list[str]:
    return os.listdir(place) if place.exists() else []


def test_held_and_given_back(place: Path) -> None:
    """One claim, with its devices and one open file; nothing is left of it."""
    held = hold(place)
    assert len(held.descriptors) == 0
    assert asyncio.run(held.acquire(print)).devices == ("a",)
    assert len(held.descriptors) == 1
    assert len(os.listdir(place)) == 1
    held.close()
    assert os.listdir(place) == []


async def test_removed_claim_is_put_back(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cleaner may have taken the file, or the whole folder: others must see the claim again."""
    monkeypatch.setattr(resource_claim, "_REFRESH_SECONDS", 0.01)
    held = hold(place)
    await held.acquire(print)
    keeping = asyncio.ensure_future(held.keep_alive())
    before = seen(place)
    shutil.rmtree(place)
    await wait_until(lambda: seen(place) == before)
    keeping.cancel()
    other = ResourceLedger(place)
    with other.lock():
        assert [claim.devices for claim in other.list_claims()] == [("a",)]
    other.close()
    held.close()


async def test_a_ledger_removed_while_waiting(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message says so, and the claim is made in the new one."""
    monkeypatch.setattr(resource_claim, "_REOPEN_SECONDS", 0.01)
    said: list[str] = []
    ledger = ResourceLedger(place)
    with ledger.lock():
        other = ledger.post(replace(create_claim(job="other", job_name="n", memory=10, gpus=0), devices=()))
    held = hold(place)
    waiting = asyncio.ensure_future(held.acquire(said.append))
    async with asyncio.timeout(TIMEOUT_SECONDS):
        await wait_until(lambda: said)
        shutil.rmtree(place)
        assert (await waiting).devices == ("a",)
    held.close()
    other.withdraw()
    ledger.close()
    assert said[0].startswith("waiting: not enough memory (10 bytes requested")
    assert mentions(said[-1], "removed")


async def test_as_much_as_there_is_and_more_later(place: Path) -> None:
    """Who is content with less takes what there is, never less than the least, and grows when that is possible."""
    other, another = hold(place, Need(memory=5, gpus=0)), hold(place, Need(memory=1, gpus=0))
    await other.acquire(print)
    elastic = hold(place, *(Need(memory=memory, gpus=0) for memory in (9, 7, 4)))
    assert (elastic.size, elastic.can_grow, elastic.grow()) == (0, False, None)
    claim = await elastic.acquire(print)
    assert (claim.memory, elastic.size, elastic.can_grow, elastic.grow()) == (4, 4, True, None)
    await another.acquire(print)
    other.close()
    grown = elastic.grow()
    assert grown is not None
    assert (grown.memory, grown.ticket, elastic.size, elastic.can_grow) == (9, claim.ticket, 9, False)
    ledger = ResourceLedger(place)
    with ledger.lock():
        assert sorted(each.memory for each in ledger.list_claims()) == [1, 9]
    for each in (elastic, another, ledger):
        each.close()


def take_over(place: Path, descriptor: int, handed_on: list[int], memory: int = 10) -> ResourceClaim:
    """As the next application master of the same job does."""
    return ResourceClaim(
        lambda: ResourceLedger(place),
        ResourceLedger(place),
        [Need(memory=memory, gpus=1)],
        Machine(memory=10, gpus=("a",)),
        job="job",
        job_name="name",
        inherited=descriptor,
        pass_on=handed_on.append,
    )


def nothing() -> int:
    """An open file that is no claim."""
    return os.open(os.devnull, os.O_RDONLY)


async def test_a_claim_that_an_earlier_master_was_granted(place: Path) -> None:
    """The same file, the same devices, without a look at the line; it can be given back, and nothing is left."""
    first = take_over(place, nothing(), [])
    await first.acquire(print)
    before = seen(place)
    second = take_over(place, os.dup(first.descriptors[0]), [])
    assert second.is_granted
    assert (await second.acquire(print)).devices == ("a",)
    assert seen(place) == before
    second.close()
    assert seen(place) == []
    first.close()


async def test_the_place_of_an_earlier_master_in_the_line(place: Path) -> None:
    """Claims that came after it still wait behind its successor, which can pass it on again."""
    ledger = ResourceLedger(place)
    with ledger.lock():
        other = ledger.post(replace(create_claim(job="other", job_name="n", memory=10, gpus=1), devices=("a",)))
    handed_on: list[int] = []
    first = take_over(place, nothing(), handed_on)
    assert not first.is_granted
    waiting = asyncio.ensure_future(first.acquire(lambda text: None))
    await wait_until(lambda: handed_on)
    before = seen(place)
    second = take_over(place, os.dup(handed_on[0]), handed_on)
    with ledger.lock():
        later = ledger.post(create_claim(job="later", job_name="n", memory=10, gpus=1))
    going_on = asyncio.ensure_future(second.acquire(lambda text: None))
    await asyncio.sleep(0)
    assert set(before) < set(seen(place))
    assert len(seen(place)) == 3
    other.withdraw()
    assert (await asyncio.wait_for(going_on, TIMEOUT_SECONDS)).devices == ("a",)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    second.close()
    later.withdraw()
    first.close()
    ledger.close()


def post_waiting(ledger: ResourceLedger, count: int, memory: int, gpus: int) -> list[HeldClaim]:
    return [
        ledger.post(create_claim(job=f"job-{number}", job_name="n", memory=memory, gpus=gpus))
        for number in range(count)
    ]


async def test_a_claim_that_may_pass_does_not_wait_for_those_that_it_passes(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that wait for GPUs do not delay one that waits for memory only."""
    monkeypatch.setattr(resource_claim, "_STAGGER_SECONDS", 3600.0)
    ledger = ResourceLedger(place)
    with ledger.lock():
        holders = [
            ledger.post(replace(create_claim(job="other", job_name="n", memory=memory, gpus=gpus), devices=devices))
            for memory, gpus, devices in ((0, 1, ("a",)), (10, 0, ()))
        ]
        waiting = post_waiting(ledger, 3, memory=0, gpus=1)
    reasons: list[str] = []
    passing = hold(place, Need(memory=10, gpus=0))
    going_on = asyncio.ensure_future(passing.acquire(reasons.append))
    await wait_until(lambda: len(reasons) > 1)  # it watches
    holders.pop().withdraw()
    await asyncio.wait_for(going_on, 60)
    passing.close()
    for each in (*holders, *waiting):
        each.withdraw()
    ledger.close()


async def test_a_claim_far_behind_decides_once_for_a_release(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And does not poll as often as the first: each decision reads the files of all claims."""
    monkeypatch.setattr(resource_claim, "_POLL_SECONDS", 0.2)
    ledger = ResourceLedger(place)
    with ledger.lock():
        holders = [
            ledger.post(replace(create_claim(job="other", job_name="n", memory=memory, gpus=0), devices=()))
            for memory in (10, 0, 0)
        ]
        waiting = post_waiting(ledger, 10, memory=10, gpus=0)
    reasons: list[str] = []
    last = hold(place, Need(memory=10, gpus=0))
    going_on = asyncio.ensure_future(last.acquire(reasons.append))
    await wait_until(lambda: len(reasons) == 4)  # before and after it watches, and two rechecks
    await asyncio.sleep(0.5)
    assert len(reasons) == 4
    holders.pop().withdraw()
    holders.pop().withdraw()
    await wait_until(lambda: len(reasons) > 4)
    await asyncio.sleep(0.5)
    assert len(reasons) == 5
    going_on.cancel()
    await asyncio.gather(going_on, return_exceptions=True)
    last.close()
    for each in (*holders, *waiting):
        each.withdraw()
    ledger.close()
