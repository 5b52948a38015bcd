"""The interface to what an AM or an executor finds in a container that a scheduler started on another machine."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, cast

from tony.model.staged_files import StagedItem
from tony.model.state_directory import JobFolder
from tony.model.submission_record import JobRecord
from tony.protocol.launch import JobCredentials, TaskLaunch

if TYPE_CHECKING:
    from tony.schedulers.allocator_interface import ContainerAllocator
    from tony.schedulers.client_interface import PreparedJob

T = TypeVar("T", bound="AmContainer | ExecutorContainer")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLaunch:
    """Launch data of a job for its AM.

    Attributes:
        folder: where to create the job directory.
    """

    record: JobRecord
    credentials: JobCredentials = field(repr=False)
    folder: JobFolder


class AmContainer(ABC):
    """The container of an AM. Created without arguments."""

    @abstractmethod
    def take_job(self) -> JobLaunch:
        """Return the job, and remove its secrets from where user programs could read them.

        Raises:
            TonyError: this is no such container.
        """

    @abstractmethod
    def create_allocator(self, job: PreparedJob) -> ContainerAllocator:
        """Create the AM's half of the scheduler. After `take_job`."""


class ExecutorContainer(ABC):
    """The container of an executor. Created without arguments. Needs few modules, since each executor loads them.

    Attributes:
        host: the node's host name in the cluster.
        folder: the container's working folder.
        logs: folder for log files.
        shared: folder of this job on this node, shared by its containers.
        copies_output, end_message: as of `ContainerPart`.
    """

    host: str
    folder: Path
    logs: Path
    shared: Path
    copies_output: bool = False
    end_message: str = ""

    @abstractmethod
    def take_task(self) -> TaskLaunch:
        """Return the task, and remove its secrets from where the user program could read them.

        Raises:
            TonyError: this is no such container.
        """

    @abstractmethod
    def fetch(self, item: StagedItem) -> Path:
        """Return a local file with a staged object; the caller verifies its digest. After `take_task`.

        Raises:
            TonyError: it is not available.
        """

    @abstractmethod
    def variables(self) -> Mapping[str, str]:
        """Return the variables of the container that user programs need."""


def load_container(kind: type[T], arguments: Sequence[str]) -> T:
    """Create the environment that the arguments of a program name.

    Args:
        kind: the interface that it has.
        arguments: `module:Class`, and folders from which that is imported.
    """
    sys.path.extend(arguments[1:])
    module, _, class_name = arguments[0].partition(":")
    return cast("type[T]", getattr(import_module(module), class_name))()
