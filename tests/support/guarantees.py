"""The guarantees of the state machine, tracked independently of it; a violation raises an error that names it.

The invariants (`invariants.py`) check the machine's state; these check its actions, whatever the state.
"""

from __future__ import annotations

from tests.support.invariants import find_violations
from tony.core import actions as act
from tony.core import events as ev
from tony.core.application import Application
from tony.core.deadline import Deadline, DeadlineKind
from tony.model.ids import TaskId
from tony.model.program_exit import ExitStatus
from tony.model.setting_choices import RestartScope
from tony.model.states import ENDED_TASK_STATES, LIVING_TASK_STATES, JobState, TaskState


class BrokenGuaranteeError(AssertionError):
    """The state machine violated a guarantee."""


class Guarantees:
    """Checks one state machine, event by event.

    Attributes:
        launched: container -> the task whose executor was launched there.
        returned: containers that it has released or killed; no further action may name them.
    """

    def __init__(self, app: Application) -> None:
        self._app = app
        self._before = _Moment(app)
        self._known: set[str] = set()
        self._left: set[str] = set()  # released under an earlier AM attempt
        self._seen: set[str] = set()  # in this attempt
        self._ended: set[str] = set()
        self.launched: dict[str, TaskId] = {}
        self._container: dict[TaskId, str] = {}
        self.returned: set[str] = set()
        self._killed: set[str] = set()
        self._incarnations: dict[str, str] = {}
        self._session = 0
        self._asked = 0
        self._specs: set[tuple[int, int]] = set()
        self._started: set[tuple[TaskId, int, int]] = set()
        self._absent: dict[tuple[int, str], frozenset[int]] = {}
        self._succeeded: set[TaskId] = set()
        self._handed_on: set[tuple[str, str, str]] = set()
        self._failed = False
        self._finished = False

    def succeeded_by(self, app: Application) -> None:
        """Continue with the machine of the next AM attempt, which may repeat each request once."""
        self._app = app
        self._before = _Moment(app)
        self._left |= self.returned
        self.returned.clear()
        self._killed.clear()
        self._specs.clear()
        self._asked = self._session
        self._finished = False

    def handled(self, event: ev.Event, now: float, actions: list[act.Action]) -> str:
        """Check one event handled at time `now` and its actions; return the machine's digest.

        Raises:
            BrokenGuaranteeError: a guarantee or an invariant is violated.
        """
        idle = self._means_nothing(event, now)
        self._note(event)
        for action in actions:
            if not self._is_said_again(event, action):
                self._check(action)
        if isinstance(event, ev.ReconcileClosed):
            waited_for = {held.id for held in self._app.state.containers.values() if held.is_end_unconfirmed}
            self._ended |= self._known - self._seen - waited_for
        wrong = find_violations(self._app)
        after = _Moment(self._app)
        wrong += _wrong_moves(self._before, after, event)
        if idle and after.digest != self._before.digest:
            wrong.append(f"{event} changed something")
        self._before = after
        if wrong:
            raise BrokenGuaranteeError("; ".join(wrong))
        return after.digest

    def _is_said_again(self, event: ev.Event, action: act.Action) -> bool:
        """Return True for a kill or release that a new AM attempt may repeat."""
        match event, action:
            case ev.ContainersFound(), act.Kill():
                return True
            case ev.ReconcileClosed(), act.Kill(container=container) if container in self._killed:
                return True
            case ev.ReconcileClosed(), act.Release(container=container) if container in self.returned:
                return True
        return False

    def _note(self, event: ev.Event) -> None:
        match event:
            case ev.AttemptStarted():
                self._seen.clear()
            case ev.Granted(container=container):
                if container not in self._known:  # a late grant of a known container proves nothing
                    self._seen.add(container)
                self._known.add(container)
            case ev.ContainersFound(containers=containers):
                self._known.update(containers)
                self._seen.update(containers)
            case ev.ContainerEnded(confirmation=ev.EndConfirmation.UNCONFIRMED, container=container) if (
                container in self._app.state.containers
            ):
                pass  # its end is unconfirmed
            case ev.DeadlinePassed(deadline=Deadline(DeadlineKind.LEASE, TaskId() as task)):
                self._ended.update({self._container[task]} - self._app.state.containers.keys())
            case ev.ContainerEnded(container=container) | ev.ActionFailed(container=str(container)):
                if container in self._known:
                    self._ended.add(container)
            case ev.Exited(task=task, status=ExitStatus(ok=True), exports=exports):
                self._succeeded.add(task)
                self._handed_on.update((task.role, name, text) for name, text in exports.items() if text is not None)
            case ev.SessionOpened():
                self._session = self._app.state.session  # unchanged if the job began to stop before it

    def _means_nothing(self, event: ev.Event, now: float) -> bool:
        """Return True for a deadline that is not due, or an event of an executor that is not the current one."""
        match event:
            case ev.DeadlinePassed(deadline=deadline):
                due = self._before.deadlines.get(deadline)
                return due is None or due > now
            case ev.Registered(task=task, container=container, incarnation=incarnation):
                if self.launched.get(container) != task:
                    return True
                return incarnation != self._incarnations.setdefault(container, incarnation)
            case ev.Silent(container=container):
                return container in self._killed | self._ended
        return False

    def _check(self, action: act.Action) -> None:
        if self._finished and not isinstance(action, act.Release):
            raise BrokenGuaranteeError(f"action after the job finished: {action}")
        match action:
            case act.Launch():
                self._launch(action)
            case act.Renew(task=task, session=session):
                self._usable(self._container[task], action)
                _must(session == self._session, f"renewed for a session other than the current one: {action}")
            case act.Publish(spec=spec):
                _must(spec.session == self._session, f"published for another session: {action}")
                _must((spec.session, spec.version) not in self._specs, f"published twice: {action}")
                _must(all(all(addresses) for addresses in spec.roles.values()), f"no address: {action}")
                self._sizes(action)
                _must(
                    not spec.roles.keys() & set(self._app.state.spec.setup_roles),
                    f"with setup roles: {action}",
                )
                self._specs.add((spec.session, spec.version))
            case act.Start():
                self._start(action)
            case act.Stop(task=task, session=session):
                _must(any(t == task and s == session for t, s, _ in self._started), f"never started: {action}")
                self._usable(self._container[task], action, killed_too=True)
            case act.Release(container=container):
                self._usable(container, action)
                self.returned.add(container)
            case act.Kill(container=container):
                _must(container in self._known, f"unknown container: {action}")
                _must(container not in self._ended, f"it has ended: {action}")
                _must(container not in self._killed, f"killed twice: {action}")
                self._killed.add(container)
                self.returned.add(container)
            case act.OpenSession(session=session):
                _must(session == self._session + 1 and session > self._asked, f"wrong session number: {action}")
                self._asked = session
            case act.ReportFailure(decision=decision):
                _must(not self._failed, f"after the job had failed: {action}")
                self._failed = decision == "fail"
            case act.SetDemand(total=total):
                _must(total >= 0, f"negative demand: {action}")
            case act.Finish(state=state, failure=failure):
                _must((state is JobState.SUCCEEDED) == (failure is None), f"result and failure differ: {action}")
                self._finished = True

    def _sizes(self, action: act.Publish) -> None:
        """Check that the published tasks are all of the role, or at least its min_instances."""
        spec = action.spec
        for name, addresses in spec.roles.items():
            role = self._app.state.spec.effective_roles[name]
            least = role.instances if role.min_instances is None else role.min_instances
            absent = spec.absent.get(name, ())
            _must(least <= len(addresses) <= role.instances, f"too few or too many of {name}: {action}")
            _must(len(addresses) + len(set(absent)) == role.instances, f"not all of {name} accounted for: {action}")
            _must(all(0 <= index < role.instances for index in absent), f"no such task of {name}: {action}")
            self._absent[spec.session, name] = frozenset(absent)

    def _usable(self, container: str, action: act.Action, *, killed_too: bool = False) -> None:
        _must(container in self._known, f"unknown container: {action}")
        _must(container not in self._ended, f"its container has ended: {action}")
        _must(killed_too or container not in self.returned, f"its container was released: {action}")

    def _launch(self, action: act.Launch) -> None:
        self._usable(action.container, action)
        again = self._app.state.enlists and self.launched.get(action.container) == action.task
        _must(again or action.container not in self.launched, f"a second executor in one container: {action}")
        before = self._container.get(action.task)
        _must(
            again or before is None or before in self._ended | self.returned | self._left,
            f"{before} is still there: {action}",
        )
        self.launched[action.container] = action.task
        self._container[action.task] = action.container

    def _start(self, action: act.Start) -> None:
        self._usable(self._container[action.task], action)
        _must(action.session == self._session, f"started for a session other than the current one: {action}")
        _must(not action.version or (action.session, action.version) in self._specs, f"nothing published: {action}")
        absent = self._absent.get((action.session, action.task.role), frozenset())
        _must(action.task.index not in absent, f"it is left out of this session: {action}")
        self._after_setup(action)
        tried = (action.task, action.session, action.try_)
        _must(tried not in self._started, f"started twice: {action}")
        self._started.add(tried)

    def _after_setup(self, action: act.Start) -> None:
        """Check that all setup roles have succeeded, and that the variables are exactly the exports of other roles."""
        spec = self._app.state.spec
        own = action.task.role
        given = {(name, text) for role, name, text in self._handed_on if role != own}
        _must(given >= set(action.variables.items()), f"a variable that no role exported: {action}")
        if own in spec.setup_roles:
            _must(not action.version, f"a setup role gets no cluster spec: {action}")
            return
        for name in spec.setup_roles:
            role = spec.roles[name]
            done = all(TaskId(name, index) in self._succeeded for index in range(role.instances))
            _must(done, f"{name} has not succeeded: {action}")
            _must(action.variables.keys() >= role.exports.keys(), f"exports of {name} are missing: {action}")


def _must(kept: bool, sentence: str) -> None:
    if not kept:
        raise BrokenGuaranteeError(sentence)


class _Moment:
    """The monotonic part of the machine's state at one moment."""

    def __init__(self, app: Application) -> None:
        state = app.state
        self.job = state.job
        self.session = state.session
        self.version = state.version
        self.result = state.final.state if state.final else None
        self.refused = state.refused
        self.tasks = {task.id: task.state for task in state.tasks.values()}
        self.alone = {name for name, role in state.roles.items() if role.spec.restart is RestartScope.TASK}
        self.left_out = {role.tasks[index].id for role in state.roles.values() for index in role.left_out}
        self.deadlines = dict(state.timers.all)
        self.digest = app.compute_digest()


def _wrong_moves(before: _Moment, after: _Moment, event: ev.Event) -> list[str]:
    wrong = []
    opened = isinstance(event, ev.SessionOpened)
    if after.session != before.session + opened and not (opened and before.result):
        wrong.append(f"session {after.session} comes after session {before.session}")
    if after.version < before.version and not opened:
        wrong.append("the version of the cluster spec went back")
    if before.result and after.result is not before.result:
        wrong.append(f"the result was {before.result.value} and is {after.result}")
    if before.job.ended and after.digest != before.digest and not isinstance(event, ev.AttemptStarted):
        wrong.append(f"{event.kind} changed a job that had ended")
    if after.refused > before.refused and after.digest != before.digest:
        wrong.append(f"{event.kind} was refused and changed something")
    if not opened:
        wrong += [
            f"{task} was {was.value} in session {before.session} and is {after.tasks[task].value}"
            for task, was in before.tasks.items()
            if not (
                _may_become(was, after.tasks[task], after.job)
                or (task in after.left_out and was in _UNSTARTED)
                or (task.role in after.alone and (was, after.tasks[task]) in _RETRY)
            )
        ]
    return wrong


#: Within a session a task moves only forward through these states.
_FORWARD = (
    TaskState.PENDING,
    TaskState.REQUESTED,
    TaskState.STARTING,
    TaskState.REGISTERED,
    TaskState.RUNNING,
    TaskState.STOPPING,
)
#: States of tasks that may be left out of a session.
_UNSTARTED = (TaskState.REQUESTED, TaskState.STARTING, TaskState.REGISTERED)
#: Exception: its container may be lost before its program is started.
_BACK = frozenset({(TaskState.STARTING, TaskState.REQUESTED), (TaskState.REGISTERED, TaskState.REQUESTED)})
#: Exception: a task that restarts alone, as its next task attempt.
_RETRY = frozenset(
    (was, now)
    for was in (TaskState.RUNNING, TaskState.STOPPING)
    for now in (TaskState.REQUESTED, TaskState.REGISTERED, TaskState.RUNNING)
)


def _may_become(was: TaskState, now: TaskState, job: JobState) -> bool:
    if was is now or (was, now) in _BACK:
        return True
    if was in ENDED_TASK_STATES:
        return False
    if now is TaskState.PENDING:
        return job is JobState.RESTARTING and was not in LIVING_TASK_STATES
    return now in ENDED_TASK_STATES or _FORWARD.index(was) < _FORWARD.index(now)
