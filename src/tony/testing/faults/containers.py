"""What can go wrong with a container, by name, to be ordered from a fake or provoked at a real scheduler."""

from __future__ import annotations

from tony.dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Something that goes wrong with one container.

    Attributes:
        container: which one, counted from 1 in the order in which they are granted.
    """

    container: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowContainer(Fault):
    """There is no room for it at first: it is granted late."""

    delay: float = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedContainer(Fault):
    """It is granted, and then nothing can be launched in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LostContainer(Fault):
    """It goes away some time after its launch, through no fault of the job."""

    delay: float = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerExitsBeforeRegistering(Fault):
    """Its executor ends as soon as it was launched, before anybody heard of it."""

    exit_code: int = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class LostAnswer(Fault):
    """The scheduler's word that it is granted gets lost: it comes again only when it is asked for again."""
