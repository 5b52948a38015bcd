"""What is suspicious about a job although nothing of it has failed."""

from __future__ import annotations

from tony.core.state import State, Task
from tony.model.log_name import LogName
from tony.model.setting_choices import RoleKind
from tony.model.states import TaskState

#: Tasks that are named.
_MAX_WARNINGS = 3
#: Characters of a line of output.
_MAX_LINE = 200
_HINT = (
    "a pipe or `;` hides the exit code of what is before it: begin `command` in the job file with `set -eo pipefail;`"
)


def describe_hidden_tracebacks(state: State) -> tuple[str, ...]:
    """Return a sentence for each tracked task that succeeded although its output ends with a traceback."""
    found = [
        task
        for role in state.roles.values()
        if role.kind is RoleKind.TRACKED
        for task in role.tasks
        if task.state is TaskState.SUCCEEDED and task.status and task.status.evidence
    ]
    sentences = [_describe(task) for task in found[:_MAX_WARNINGS]]
    if len(found) > _MAX_WARNINGS:
        sentences.append(f"so do {len(found) - _MAX_WARNINGS} more tasks")
    return tuple(sentences)


def _describe(task: Task) -> str:
    assert task.status
    line = task.status.evidence[0]
    file = LogName(*task.id, task.session, task.try_, line.stream).file
    text = f"{line.text[:_MAX_LINE]} ({file}:{line.number})"
    return f"{task.id} exited with code 0, but its output ends with a traceback: {text}; {_HINT}"
