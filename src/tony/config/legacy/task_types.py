"""Which types of tasks a job of the original has."""

from __future__ import annotations

import re

from tony.config.legacy import value_parsing
from tony.config.legacy.draft_job import DraftJob
from tony.config.legacy.keys import RESERVED
from tony.dataclass import dataclass
from tony.model.ids import ROLE_NAME

_INSTANCES = re.compile(r"tony\.([^.]+)\.instances", re.ASCII)
#: The type that the original adds for a TensorBoard beside the job.
TENSORBOARD = "tensorboard"
#: The type that it adds to a job of Horovod's, with its rendezvous server.
DRIVER = "driver"
#: The role of a program that runs alone, and that of the first run.
MAIN, FIRST = "main", "preprocess"
PREPROCESS = "tony.application.enable-preprocess"
DEBUG = "tony.horovod.driver.mode.debug"


@dataclass(frozen=True, slots=True, kw_only=True)
class LegacyTaskTypes:
    """The types of one job.

    Attributes:
        instances: type -> number of its tasks, for those that have any, in the order in which they were set.
        absent: types whose number of tasks is 0.
        log_folder: what a TensorBoard beside the job shows; None without one.
        preprocess: the application master of the original runs the program itself before the tasks start.
    """

    instances: dict[str, int]
    absent: tuple[str, ...] = ()
    log_folder: str | None = None
    preprocess: bool = False

    @property
    def of_master(self) -> str | None:
        """The role that runs what the original's application master would run itself; None if it would not."""
        return MAIN if self.single else FIRST if self.preprocess else None

    @property
    def single(self) -> bool:
        """Whether the application master of the original would run the program itself."""
        return not self.instances


def shape(draft: DraftJob) -> LegacyTaskTypes:
    """Finds the types; blames impossible names and numbers."""
    found: dict[str, int] = {}
    for value in draft.settings:
        match = _INSTANCES.fullmatch(value.key)
        if not match or match[1] in RESERVED:
            continue
        if not ROLE_NAME.fullmatch(match[1]):
            draft.blame(value, "a type's name is up to 63 letters, digits, `-` and `_`, the first one a letter.")
            continue
        found[match[1]] = value_parsing.integer(draft, value.key, 0)
    log_folder = value_parsing.text(draft, "tony.application.tensorboard-log-dir")
    if log_folder and (any(number > 0 for name, number in found.items() if name != TENSORBOARD)):
        given = draft.settings.get(f"tony.{TENSORBOARD}.instances")
        if given and found.get(TENSORBOARD) != 1:
            draft.note(given, "a TensorBoard beside the job is always one task.")
        found[TENSORBOARD] = 1
    if is_horovod(draft):
        _driver(draft, found)
    instances = {name: number for name, number in found.items() if number > 0}
    return LegacyTaskTypes(
        instances=instances,
        preprocess=bool(instances) and value_parsing.truth(draft, PREPROCESS),
        absent=tuple(name for name, number in found.items() if number <= 0),
        log_folder=log_folder,
    )


def is_horovod(draft: DraftJob) -> bool:
    """Whether the framework is Horovod."""
    return (value_parsing.text(draft, "tony.application.framework") or "").lower() == "horovod"


def _driver(draft: DraftJob, found: dict[str, int]) -> None:
    """The driver is a task only where its command is the user's: what the original's own did, executors do."""
    given = [value for value in draft.settings if value.key.startswith(f"tony.{DRIVER}.")]
    if value_parsing.truth(draft, DEBUG):
        found[DRIVER] = 1
        return
    for value in given:
        draft.blame(value, f"the driver is not the user's, as in the original. Set {DEBUG} to true, or remove this.")
    found.pop(DRIVER, None)
