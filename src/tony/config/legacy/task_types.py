"""Rules by which types count in the result of the job: kinds, stop-on-failure, groups and their timeouts, stages."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from tony.config.legacy.draft_job import DraftJob
from tony.config.legacy.keys import RESERVED
from tony.config.legacy.settings_sources import LegacyValue
from tony.config.table.settings_table import Key
from tony.config.table.value_format import format_name
from tony.model.ids import ROLE_NAME
from tony.name_suggestions import suggest_names
from tony.units import format_exact_duration

_INSTANCES = re.compile(r"tony\.([^.]+)\.instances", re.ASCII)
#: The type that LinkedIn TonY adds for a TensorBoard sidecar.
TENSORBOARD = "tensorboard"
#: The type that it adds to Horovod jobs, with the rendezvous server.
DRIVER = "driver"
#: Role of a single program.
MAIN_ROLE = "main"
#: Role of the preprocessing run.
PREPROCESS_ROLE = "preprocess"
PREPROCESS = "tony.application.enable-preprocess"
LOG_FOLDER = "tony.application.tensorboard-log-dir"
_DEBUG = "tony.horovod.driver.mode.debug"


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
        return MAIN_ROLE if self.single else PREPROCESS_ROLE if self.preprocess else None

    @property
    def single(self) -> bool:
        """True if there are no tasks, so that LinkedIn TonY's application master would run the program itself."""
        return not self.instances


def find_task_types(draft: DraftJob) -> LegacyTaskTypes:
    """Find the types; report invalid names and numbers."""
    found: dict[str, int] = {}
    for value in draft.settings:
        match = _INSTANCES.fullmatch(value.key)
        if not match or match[1] in RESERVED:
            continue
        if not ROLE_NAME.fullmatch(match[1]):
            draft.add_error(value, "a type is up to 63 letters, digits, `-` and `_`, beginning with a letter.")
            continue
        found[match[1]] = draft.read_integer(value.key, 0)
    log_folder = draft.read_text(LOG_FOLDER)
    if log_folder and (any(number > 0 for name, number in found.items() if name != TENSORBOARD)):
        given = draft.settings.get(f"tony.{TENSORBOARD}.instances")
        if given and found.get(TENSORBOARD) != 1:
            draft.note(given, "a TensorBoard sidecar always has one task.")
        found[TENSORBOARD] = 1
    if _is_horovod(draft):
        _driver(draft, found)
    instances = {name: number for name, number in found.items() if number > 0}
    return LegacyTaskTypes(
        instances=instances,
        preprocess=bool(instances) and draft.read_truth(PREPROCESS),
        absent=tuple(name for name, number in found.items() if number <= 0),
        log_folder=log_folder,
    )


def _is_horovod(draft: DraftJob) -> bool:
    """Return True if the framework is Horovod."""
    return (draft.read_text("tony.application.framework") or "").lower() == "horovod"


def _driver(draft: DraftJob, found: dict[str, int]) -> None:
    """Keep the driver only if its command is the user's: executors do what LinkedIn TonY's own driver did."""
    given = [value for value in draft.settings if value.key.startswith(f"tony.{DRIVER}.")]
    if draft.read_truth(_DEBUG):
        found[DRIVER] = 1
        return
    for value in given:
        draft.add_error(
            value, f"the driver takes no settings, as in LinkedIn TonY. Set {_DEBUG} to true, or remove this."
        )
    found.pop(DRIVER, None)


_UNTRACKED = "tony.application.untracked.jobtypes"
_SIDECAR = "tony.application.sidecar.jobtypes"
_STOP_ON_FAILURE = "tony.application.stop-on-failure-jobtypes"
_PREPARE = "tony.application.prepare-stage"
_TRAINING = "tony.application.training-stage"
_GROUP = "tony.application.group."
_LIMIT = re.compile(r"tony\.application\.dependency\.([^.]+)\.timeout\.after\.([^.]+)", re.ASCII)


def translate_rules(draft: DraftJob, types: LegacyTaskTypes) -> None:
    """Add the rules to the roles of the draft."""
    kinds = _kinds(draft, types)
    for name in _find_known_types(draft, types, _STOP_ON_FAILURE, "ps"):
        draft.put(("roles", name, "stop_on_failure"), True, draft.origin(_STOP_ON_FAILURE))
    _groups(draft, types)
    _stages(draft, types, kinds)


def _find_known_types(draft: DraftJob, types: LegacyTaskTypes, key: str, default: str = "") -> list[str]:
    """Return the types of a list that have tasks; add a note for each name that is no type."""
    named = list(dict.fromkeys(draft.read_words(key, default)))
    value = draft.settings.get(key)
    for name in named:
        if value and name not in types.instances and name not in types.absent:
            draft.note(value, f"type {format_name(name)} has no tasks; {_suggestion(name, types.instances)}")
    return [name for name in named if name in types.instances]


def _suggestion(name: str, known: Iterable[str]) -> str:
    return suggest_names(name, known, "it is ignored.")


def _kinds(draft: DraftJob, types: LegacyTaskTypes) -> dict[str, str]:
    """Return the kind of each type that is not tracked."""
    kinds: dict[str, str] = {}
    untracked = _find_known_types(draft, types, _UNTRACKED, "ps")
    sidecars = _find_known_types(draft, types, _SIDECAR, TENSORBOARD)
    if types.log_folder and TENSORBOARD in types.instances and TENSORBOARD not in sidecars:
        sidecars.append(TENSORBOARD)  # else the job would wait for it forever
    if DRIVER in types.instances and DRIVER not in sidecars and _is_horovod(draft):
        untracked.append(DRIVER)  # it never exits by itself
    for name in types.instances:
        if name in sidecars and (
            name not in untracked or (draft.settings.get(_SIDECAR) and draft.settings.get(_UNTRACKED) is None)
        ):
            kinds[name] = "sidecar"
            draft.put(("roles", name, "kind"), "sidecar", draft.origin(_SIDECAR))
        elif name in untracked:
            kinds[name] = "untracked"
            own = name == DRIVER and _is_horovod(draft)
            draft.put(("roles", name, "kind"), "untracked", draft.origin(_DEBUG if own else _UNTRACKED))
        elif name == "ps" or (name == "worker" and {"ps", "chief"} <= types.instances.keys()):
            # The framework adapter would make these untracked.
            draft.put(("roles", name, "kind"), "tracked", draft.origin(_UNTRACKED))
    return kinds


def _groups(draft: DraftJob, types: LegacyTaskTypes) -> None:
    groups: set[str] = set()
    for value in draft.settings:
        if not value.key.startswith(_GROUP):
            continue
        name = value.key.removeprefix(_GROUP)
        members = _find_known_types(draft, types, value.key)
        if members:
            groups.add(name)
            draft.put(("groups", name), members, draft.origin(value.key))
        else:
            draft.note(value, "none of its types has tasks, so it has no effect.")
    _limits(draft, types, groups)


def _limits(draft: DraftJob, types: LegacyTaskTypes, groups: set[str]) -> None:
    """Translate each `dependency.<type>.timeout.after.<group>`."""
    limited: dict[str, LegacyValue] = {}
    for value in draft.settings:
        match = _LIMIT.fullmatch(value.key)
        if not match:
            continue
        name, group = match.groups()
        if name not in types.instances:
            draft.note(value, f"type {format_name(name)} has no tasks; {_suggestion(name, types.instances)}")
        elif group not in groups:
            draft.note(value, f"group {format_name(group)} has no tasks; {_suggestion(group, groups)}")
        elif first := limited.get(name):
            other = f"{format_name(first.key)} ({first.place}) names another one for {name}."
            draft.add_error(value, f"only one group per type: {other}")
        else:
            limited[name] = value
            _limit(draft, ("roles", name, "timeout_after"), group, value)


def _limit(draft: DraftJob, place: Key, group: str, value: LegacyValue) -> None:
    seconds, origin, ignored = draft.read_integer(value.key, 0), draft.origin(value.key), f"{value.key}.ignored"
    if seconds < 0:
        draft.add_error(value, "expected a number of seconds, 0 or more.")
        return
    draft.put((*place, "group"), group, origin)
    draft.put((*place, "limit"), format_exact_duration(seconds), origin)
    if draft.read_truth(ignored):
        draft.put((*place, "on_timeout"), "ignore", draft.origin(ignored))


def _stages(draft: DraftJob, types: LegacyTaskTypes, kinds: dict[str, str]) -> None:
    """Make the second stage wait for the tracked types of the first; a missing list has all other types."""
    prepare, training = _find_known_types(draft, types, _PREPARE), _find_known_types(draft, types, _TRAINING)
    if not prepare and not training:
        return
    key = _PREPARE if prepare else _TRAINING
    value = draft.settings.get(key)
    assert value is not None
    rest = [name for name in types.instances if name not in prepare and name not in training]
    rest = [name for name in rest if name != TENSORBOARD or not types.log_folder]
    if prepare and training:
        for name in rest:
            draft.add_error(value, f"type {name} is in neither stage. Add it to {_PREPARE} or {_TRAINING}.")
        for name in prepare:
            if name in training:
                draft.add_error(value, f"type {name} is in both stages. Remove it from one of them.")
    first = prepare or [name for name in rest if name not in training]
    second = training or [name for name in rest if name not in prepare]
    tracked = [name for name in first if name not in kinds]
    origin = draft.origin(_TRAINING if draft.settings.get(_TRAINING) else key)
    for name in second:
        if tracked and name not in first:
            draft.put(("roles", name, "after"), tracked, origin)
