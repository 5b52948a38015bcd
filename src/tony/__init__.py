"""tony: run distributed machine-learning jobs on this machine, or on the scheduler you already have.

The public names below are loaded on first use, so that `import tony` stays cheap.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # type checkers know the name; importing `typing` takes half as long as starting Python
if TYPE_CHECKING:
    from typing import Any

# pip refuses an older Python; a PYTHONPATH shared by several versions does not.
if sys.version_info < (3, 11):  # noqa: UP036
    raise ImportError(f"tony needs Python 3.11 or newer; {sys.executable} is {sys.version.split()[0]}")

__version__ = "0.1.0"

if TYPE_CHECKING:
    from tony.client.portal_python_api import Portal, PortalJob
    from tony.client.python_api import Job, attach, submit, submit_async
    from tony.errors import (
        ConfigError,
        InfraError,
        KilledError,
        PlatformError,
        ProgramError,
        TonyError,
        UnknownJobError,
        UserError,
    )
    from tony.model.job_report import JobReport, TaskReport
    from tony.model.job_spec import JobSpec, Notify, Resources, Role, TimeoutAfter, Timeouts
    from tony.model.job_summary import JobHead
    from tony.model.setting_choices import (
        AfterCondition,
        DistributedMode,
        FailurePolicy,
        OnInterrupt,
        OnTimeout,
        RoleKind,
        StopOn,
        TlsMode,
    )
    from tony.model.states import JobState, TaskState
    from tony.python_hooks.library.tony.reporting import checkpoint, progress

#: Module -> its public names.
_MODULES = {
    "tony.python_hooks.library.tony.reporting": "checkpoint progress",
    "tony.client.portal_python_api": "Portal PortalJob",
    "tony.client.python_api": "Job attach submit submit_async",
    "tony.errors": "ConfigError InfraError KilledError PlatformError ProgramError TonyError UnknownJobError UserError",
    "tony.model.job_summary": "JobHead",
    "tony.model.job_spec": "JobSpec Notify Resources Role TimeoutAfter Timeouts",
    "tony.model.job_report": "JobReport TaskReport",
    "tony.model.states": "JobState TaskState",
    "tony.model.setting_choices": (
        "AfterCondition DistributedMode FailurePolicy OnInterrupt OnTimeout RoleKind StopOn TlsMode"
    ),
}

__all__ = [
    "AfterCondition",
    "ConfigError",
    "DistributedMode",
    "FailurePolicy",
    "InfraError",
    "Job",
    "JobHead",
    "JobReport",
    "JobSpec",
    "JobState",
    "KilledError",
    "Notify",
    "OnInterrupt",
    "OnTimeout",
    "PlatformError",
    "Portal",
    "PortalJob",
    "ProgramError",
    "Resources",
    "Role",
    "RoleKind",
    "StopOn",
    "TaskReport",
    "TaskState",
    "TimeoutAfter",
    "Timeouts",
    "TlsMode",
    "TonyError",
    "UnknownJobError",
    "UserError",
    "__version__",
    "attach",
    "checkpoint",
    "progress",
    "submit",
    "submit_async",
]


def __getattr__(name: str) -> Any:
    """Load a public name from its module on first use."""
    module = next((module for module, names in _MODULES.items() if name in names.split()), None)
    if module is None:
        raise AttributeError(f"module 'tony' has no attribute {name!r}")
    from importlib import import_module  # late: not a public name of the package

    value = getattr(import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
