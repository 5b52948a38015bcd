"""Claims on a machine's memory and GPUs, and the policy that grants them. Pure.

The rule: a claim is granted when it fits together with all granted claims *and* all older ones that still wait. So a
grant never delays an older claim, and none starves; yet a job without GPUs need not wait behind one that waits for GPUs
only.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from tony.model.strict_json import InvalidJsonError, loads
from tony.schedulers.local.claims.machine_capacity import Machine
from tony.units import format_first, format_size

#: Maximum size of a claim's file; real ones take a few hundred bytes, and some 45 more for each GPU.
MAX_BYTES = 64 * 1024
_MAX_MEMORY = 1 << 60
_MAX_GPUS = 1024
_MAX_TEXT = 200
_SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Resources of the machine that one job requests or holds.

    Attributes:
        ticket: older tickets sort before younger ones; also the claim's name.
        job, job_name: shown to the jobs that wait behind it.
        user: owner of the claim's file; not written in it.
        is_trusted: the owner is the current user, or root.
        memory: bytes.
        gpus: number of devices.
        devices: ids of the devices it holds; None as long as it waits.
    """

    ticket: str
    job: str
    job_name: str
    user: str = ""
    is_trusted: bool = True
    memory: int
    gpus: int
    devices: tuple[str, ...] | None = None

    @property
    def granted(self) -> bool:
        """True once the claim has been granted."""
        return self.devices is not None


def encode(claim: Claim) -> bytes:
    """Return the content of a claim's file."""
    return json.dumps(
        {
            "ticket": claim.ticket,
            "job": claim.job,
            "name": claim.job_name,
            "memory": claim.memory,
            "gpus": claim.gpus,
            "devices": claim.devices,
        }
    ).encode()


def parse_ticket(content: bytes) -> str:
    """Return the ticket that a claim's file names; empty if it is not a claim."""
    try:
        data = loads(content)
    except InvalidJsonError:
        return ""
    return _parse_text(data.get("ticket")) if isinstance(data, dict) else ""


def decode(content: bytes, ticket: str, user: str, *, is_trusted: bool = True) -> Claim | None:
    """Parse a file that any user of the machine may have written; None for anything but a valid claim.

    Args:
        ticket: the ticket in the file's name; a claim under another name is a copy.
        user: owner of the file.
        is_trusted: the owner is the current user, or root.
    """
    try:
        data = loads(content)
    except InvalidJsonError:
        return None
    if len(content) > MAX_BYTES or not isinstance(data, dict) or data.get("ticket") != ticket:
        return None
    memory, gpus = _parse_number(data.get("memory"), _MAX_MEMORY), _parse_number(data.get("gpus"), _MAX_GPUS)
    devices = data.get("devices")
    if memory is None or gpus is None or not (devices is None or _is_devices(devices, gpus)):
        return None
    return Claim(
        ticket=ticket,
        job=_parse_text(data.get("job")),
        job_name=_parse_text(data.get("name")),
        user=user,
        is_trusted=is_trusted,
        memory=memory,
        gpus=gpus,
        devices=None if devices is None else tuple(devices),
    )


def decide(claim: Claim, others: Iterable[Claim], machine: Machine) -> Claim | str:
    """Return the claim with its devices if it may be granted now, else the pending reason."""
    granted, older = _split_before(claim, others, machine)
    memory, devices = _compute_free(granted, machine)
    short_of_memory = claim.memory > memory - sum(other.memory for other in older)
    short_of_gpus = claim.gpus > 0 and claim.gpus > len(devices) - sum(other.gpus for other in older)
    if not short_of_memory and not short_of_gpus:
        return replace(claim, devices=tuple(devices[: claim.gpus]))
    shortage = _describe_shortage(
        claim, machine, memory if short_of_memory else None, len(devices) if short_of_gpus else None
    )
    return f"waiting: {shortage}{_count_jobs_ahead(granted, older, gpus_only=not short_of_memory)}"


def count_claims_ahead(claim: Claim, others: Iterable[Claim], machine: Machine) -> int:
    """Return how many older claims wait for the same; one for GPUs is not ahead of one without."""
    _, older = _split_before(claim, others, machine)
    return sum(claim.gpus > 0 or not other.gpus for other in older)


def grow_claim(claim: Claim, memory: int, gpus: int, others: Iterable[Claim], machine: Machine) -> Claim | None:
    """Return a granted claim enlarged, if that fits together with all that others hold and wait for; else None.

    Args:
        memory, gpus: its new size.
        others: all claims but itself.
    """
    others = list(others)
    granted = [other for other in others if other.granted and _is_credible(other, claim, machine)]
    free, devices = _compute_free([claim, *granted], machine)
    waiting = [other for other in others if not other.granted and _is_possible(other, claim, machine)]
    free -= sum(other.memory for other in waiting)
    spare = len(devices) - sum(other.gpus for other in waiting)
    if memory - claim.memory > free or gpus - claim.gpus > spare:
        return None
    more = devices[: max(0, gpus - claim.gpus)]
    return replace(claim, memory=memory, gpus=gpus, devices=(*(claim.devices or ()), *more))


def _split_before(claim: Claim, others: Iterable[Claim], machine: Machine) -> tuple[list[Claim], list[Claim]]:
    """Return the granted claims, and the older waiting ones that can ever be granted."""
    granted: list[Claim] = []
    older: list[Claim] = []
    for other in others:
        if other.granted:
            if _is_credible(other, claim, machine):
                granted.append(other)
        elif other.ticket < claim.ticket and _is_possible(other, claim, machine):
            older.append(other)
    return granted, older


def _compute_free(granted: Iterable[Claim], machine: Machine) -> tuple[int, list[str]]:
    """Return the free bytes (negative if overcommitted) and the free devices."""
    memory = machine.memory
    held: set[str] = set()
    for other in granted:
        memory -= other.memory
        held.update(other.devices or ())
    return memory, [device for device in machine.gpus if device not in held]


def _is_credible(other: Claim, claim: Claim, machine: Machine) -> bool:
    """Return False if another user's claim holds more than the whole machine."""
    return other.is_trusted or _is_possible(other, claim, machine)


def _is_possible(other: Claim, claim: Claim, machine: Machine) -> bool:
    """Return True if the claim can ever be granted on the machine as we see it: its owner may see a larger one.

    The machine's GPUs are known only if our claim wants some.
    """
    return other.memory <= machine.memory and (not claim.gpus or other.gpus <= len(machine.gpus))


def _describe_shortage(claim: Claim, machine: Machine, memory: int | None, gpus: int | None) -> str:
    parts = []
    if memory is not None:
        free = format_size(max(memory, 0))
        parts.append(
            f"not enough memory ({format_size(claim.memory)} requested, {free} of {format_size(machine.memory)} free)"
        )
    if gpus is not None:
        parts.append(f"not enough GPUs ({claim.gpus} requested, {gpus} of {len(machine.gpus)} free)")
    return " and ".join(parts)


def _count_jobs_ahead(granted: Sequence[Claim], older: Sequence[Claim], *, gpus_only: bool) -> str:
    holders = [claim for claim in granted if claim.gpus or not gpus_only]
    waiters = [claim for claim in older if claim.gpus or not gpus_only]
    text = f"; in use by {_format_claims(holders)}" if holders else ""
    return text + (f"; ahead in the queue: {_format_claims(waiters)}" if waiters else "")


def _format_claims(claims: Sequence[Claim]) -> str:
    return format_first([_describe(claim) for claim in sorted(claims, key=lambda claim: claim.ticket)], _SHOWN)


def _describe(claim: Claim) -> str:
    gpus = f", {claim.gpus} GPU{'s' if claim.gpus > 1 else ''}" if claim.gpus else ""
    return f'{claim.job} "{claim.job_name}" of {claim.user} ({format_size(claim.memory)}{gpus})'


def _parse_number(value: object, most: int) -> int | None:
    return value if type(value) is int and 0 <= value <= most else None


def _is_devices(value: object, gpus: int) -> bool:
    return (
        isinstance(value, list)
        and len(value) == gpus
        and all(isinstance(device, str) and len(device) <= _MAX_TEXT for device in value)
    )


def _parse_text(value: object) -> str:
    """Return untrusted text, safe to print on a terminal."""
    text = value if isinstance(value, str) else "?"
    return "".join(char if char.isprintable() else "?" for char in text[:_MAX_TEXT])
