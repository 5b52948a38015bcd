"""Finds the types of tasks of a LinkedIn TonY job."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tony.config.legacy import value_parsing
from tony.config.legacy.draft_job import DraftJob
from tony.config.legacy.keys import RESERVED
from tony.model.ids import ROLE_NAME

_INSTANCES = re.compile(r"tony\.([^.]+)\.instances", re.ASCII)
#: The type that LinkedIn TonY adds for a TensorBoard sidecar.
TENSORBOARD = "tensorboard"
#: The type that it adds to Horovod jobs, with the rendezvous server.
DRIVER = "driver"
#: Role of a single program.
MAIN = "main"
#: Role of the preprocessing run.
FIRST = "preprocess"
PREPROCESS = "tony.application.enable-preprocess"
DEBUG = "tony.horovod.driver.mode.debug"


@dataclass(frozen=True, slots=True, kw_only=True)
class LegacyTaskTypes:
    """The types of one job.

    Attributes:
        instances: type -> number of its tasks, for types with tasks, in the order in which they were set.
        absent: types with 0 tasks.
        log_folder: folder of the TensorBoard sidecar; None without one.
        preprocess: LinkedIn TonY's application master runs the program once before the tasks start.
    """

    instances: dict[str, int]
    absent: tuple[str, ...] = ()
    log_folder: str | None = None
    preprocess: bool = False

    @property
    def am_role(self) -> str | None:
        """The role of the program that LinkedIn TonY's application master would run itself; None if there is none."""
        return MAIN if self.single else FIRST if self.preprocess else None

    @property
    def single(self) -> bool:
        """True if there are no tasks, so that LinkedIn TonY's application master would run the program itself."""
        return not self.instances


def shape(draft: DraftJob) -> LegacyTaskTypes:
    """Find the types; report invalid names and numbers."""
    found: dict[str, int] = {}
    for value in draft.settings:
        match = _INSTANCES.fullmatch(value.key)
        if not match or match[1] in RESERVED:
            continue
        if not ROLE_NAME.fullmatch(match[1]):
            draft.add_error(value, "a type is up to 63 letters, digits, `-` and `_`, beginning with a letter.")
            continue
        found[match[1]] = value_parsing.parse_integer(draft, value.key, 0)
    log_folder = value_parsing.parse_text(draft, "tony.application.tensorboard-log-dir")
    if log_folder and (any(number > 0 for name, number in found.items() if name != TENSORBOARD)):
        given = draft.settings.get(f"tony.{TENSORBOARD}.instances")
        if given and found.get(TENSORBOARD) != 1:
            draft.note(given, "a TensorBoard sidecar always has one task.")
        found[TENSORBOARD] = 1
    if is_horovod(draft):
        _driver(draft, found)
    instances = {name: number for name, number in found.items() if number > 0}
    return LegacyTaskTypes(
        instances=instances,
        preprocess=bool(instances) and value_parsing.parse_truth(draft, PREPROCESS),
        absent=tuple(name for name, number in found.items() if number <= 0),
        log_folder=log_folder,
    )


def is_horovod(draft: DraftJob) -> bool:
    """Return True if the framework is Horovod."""
    return (value_parsing.parse_text(draft, "tony.application.framework") or "").lower() == "horovod"


def _driver(draft: DraftJob, found: dict[str, int]) -> None:
    """Keep the driver only if its command is the user's: executors do what LinkedIn TonY's own driver did."""
    given = [value for value in draft.settings if value.key.startswith(f"tony.{DRIVER}.")]
    if value_parsing.parse_truth(draft, DEBUG):
        found[DRIVER] = 1
        return
    for value in given:
        draft.add_error(
            value, f"the driver takes no settings, as in LinkedIn TonY. Set {DEBUG} to true, or remove this."
        )
    found.pop(DRIVER, None)
