"""Capabilities of schedulers. Each package's module `capabilities` has CAPABILITIES, read without loading the rest."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class RoleSetting(Enum):
    """A setting of roles that some schedulers cannot follow; its value is the key."""

    RESOURCES = "resources"
    NODE_LABEL = "node_label"
    IMAGE = "image"
    SPREAD = "spread"


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """Capabilities of a scheduler. Core and command line test a capability, never a scheduler's name.

    Attributes:
        gang: allocates all of a job's containers together or none of them.
        same_host: client, application master and executors share a machine, so a Unix socket reaches all of them.
        same_folder: they share the job directory, so the client reads the tasks' log files there.
        chooses: can keep containers off a host (`ContainerAllocator.exclude`).
        enlists: executors start before they know their task, and ask the AM for it (`EnlistingAllocator`).
        keeps_output: the end of all tasks' output is stored with the history (`ContainerAllocator.store_output`).
        history_expires: an ended job's history is removed after a while, so followers copy it.
        honours: settings of roles that have an effect.
        cluster_ids: regular expression of the job ids by which any machine finds a job in its cluster; empty if only
            the machine that has submitted a job knows it.
    """

    gang: bool
    same_host: bool
    same_folder: bool
    chooses: bool = False
    enlists: bool = False
    keeps_output: bool = False
    history_expires: bool = False
    honours: frozenset[RoleSetting] = frozenset()
    cluster_ids: str = ""
