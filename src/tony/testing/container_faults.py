"""Container faults, to be injected into a fake scheduler or provoked at a real one."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A fault of one container.

    Attributes:
        container: its number, from 1, in the order of the grants.
    """

    container: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowContainer(Fault):
    """The container is granted late, since there is no room at first."""

    delay: float = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedContainer(Fault):
    """The container is granted, and the launch in it is refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LostContainer(Fault):
    """The container is lost some time after its launch, through no fault of the job."""

    delay: float = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerExitsBeforeRegistering(Fault):
    """Its executor exits right after its launch, before it registers."""

    exit_code: int = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class SilentExecutor(Fault):
    """Its executor, which is started without a task, enlists only after `Bench.make_room`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LostAnswer(Fault):
    """The grant is lost; it is sent again only when the demand is repeated."""
