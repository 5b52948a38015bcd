"""Tasks that LinkedIn TonY adds itself: a single program, a preprocessing run, a TensorBoard sidecar."""

from __future__ import annotations

from tony.config.legacy import file_settings
from tony.config.legacy.draft_job import DEFAULTS, DraftJob, LegacyOrigin
from tony.config.legacy.flags import Flags
from tony.config.legacy.roles import command_from_setting, interpreter, resources
from tony.config.legacy.task_types import FIRST, MAIN, PREPROCESS, TENSORBOARD, LegacyTaskTypes
from tony.model.placeholders import escape

#: Text that the preprocessing run prints before the value for all tasks.
_EXPORT_PREFIX = "Model parameters: "
#: On a cluster `main:0` has this HOME anyway.
_HOME = 'export HOME="$PWD"; '


def translate(draft: DraftJob, flags: Flags, types: LegacyTaskTypes) -> None:
    """Add the roles to the draft."""
    if types.single:
        _add_single_task(draft, MAIN)
        draft.values.pop("command", None)  # the role has it
    elif types.preprocess:
        value = draft.settings.get(PREPROCESS)
        assert value is not None
        draft.put(("roles", FIRST, "kind"), "setup", value)
        _add_single_task(draft, FIRST)
        draft.put(("roles", FIRST, "exports", "MODEL_PARAMS"), _EXPORT_PREFIX, value)
    else:
        for key in ("tony.am.command", "tony.am.resources", "tony.am.gpus"):
            if value := draft.settings.get(key):
                draft.note(value, "it has an effect only if the application master would run the program itself.")
    if types.log_folder and TENSORBOARD in types.instances:
        _tensorboard(draft, flags, types.log_folder)
    elif types.log_folder:
        value = draft.settings.get("tony.application.tensorboard-log-dir")
        assert value is not None
        draft.note(value, "a TensorBoard runs only if other types have tasks.")


def _add_single_task(draft: DraftJob, role: str) -> None:
    """Add the program that LinkedIn TonY's application master would run, with the resources of its container."""
    place = ("roles", role)
    resources(draft, place, "tony.am")
    command = command_from_setting(draft, "tony.am.command")
    origin = command[1] if command else draft.origins.get(("command",))
    text = command[0] if command else draft.values.get("command")
    if text and origin:
        draft.put((*place, "command"), f"{_HOME}{text}" if role == FIRST else text, origin)
    draft.put((*place, "env", "PREPROCESSING_JOB"), "true", LegacyOrigin(DEFAULTS))
    draft.put_list((*place, "files"), file_settings.am_files(draft))


def _tensorboard(draft: DraftJob, flags: Flags, folder: str) -> None:
    place = ("roles", TENSORBOARD)
    value = draft.settings.get("tony.application.tensorboard-log-dir")
    assert value is not None
    draft.put((*place, "env", "TB_LOG_DIR"), escape(folder), value)
    if draft.settings.get("tony.tensorboard.command") is None:
        program = interpreter(flags) or "python"
        options = '--logdir "$TB_LOG_DIR" --port "$TB_PORT" --bind_all'
        draft.put((*place, "command"), escape(f"{program} -m tensorboard.main {options}"), value)
