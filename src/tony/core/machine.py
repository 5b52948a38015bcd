"""The machine that decides. One door: `Application.handle(event, now) -> actions`.

Rules that hold everywhere below:

- An event from outside may be late, doubled, or about something that is gone. It then changes nothing and is counted.
- Stop(n) and its proof come before Start(n + 1): a session opens only when no program of the one before can live.
- Deciding is the policies' work (`core/policies/`); here their decisions become moves and actions.
- Handling is O(1), or O(what changed). Only opening, publishing and ending a session walk over all tasks.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from typing import Any

from tony.core import actions as act
from tony.core import events as ev
from tony.core import failures
from tony.core.policies import failure as failure_policy
from tony.core.policies import restart as restart_policy
from tony.core.policies import start_order, success
from tony.core.state import MACHINE, Container, Final, RoleState, State, Task
from tony.core.tables import JobMove, TaskMove
from tony.errors import ExitCode, InvalidTransition
from tony.model.cluster import ClusterSpec
from tony.model.exit import ExitReason
from tony.model.ids import TaskId
from tony.model.job import JobSpec
from tony.model.report import Failure, FailureClass
from tony.model.states import ENDED_TASK_STATES, DistributedMode, JobState, OnTimeout, RoleKind, StopOn, TaskState

#: A container that goes away before its program was started is replaced, uncharged; so often per task and session.
LAUNCHES = 3
#: Seconds that a task's last report may come after its container's end: the two travel on different ways.
REPORT_WAIT = 2.0
#: Seconds after the grace in which a stop must be proved; then the container is ended by force.
STOP_SLACK = 10.0
#: Seconds after which a job ends although a container's end was never confirmed.
FORCE_SLACK = 10.0

Actions = list[act.Action]


class Application:
    """One job's life.

    Args:
        job_id: seeds the jitter, nothing else.
        spec: the resolved job.
    """

    def __init__(self, job_id: str, spec: JobSpec) -> None:
        self.state = State(job_id, spec)
        self._out: Actions = []
        self._woken: tuple[float, str] | None = None
        self._handlers: dict[type[ev.Event], Callable[[Any, float], None]] = {
            ev.AttemptStarted: self._attempt_started,
            ev.ContainersFound: self._containers_found,
            ev.ReconcileClosed: self._reconcile_closed,
            ev.Queued: self._queued,
            ev.Unsatisfiable: self._unsatisfiable,
            ev.Granted: self._granted,
            ev.Registered: self._registered,
            ev.Started: self._started,
            ev.FirstOutput: self._first_output,
            ev.Exited: self._exited,
            ev.ContainerEnded: self._container_ended,
            ev.Silent: self._silent,
            ev.SessionOpened: self._session_opened,
            ev.UserCommand: self._user_command,
            ev.Deadline: self._deadline,
            ev.ActionFailed: self._action_failed,
            ev.Snapshot: self._snapshot,
        }

    def handle(self, event: ev.Event, now: float) -> Actions:
        """Takes one event at time `now` (seconds since the job was accepted) and answers what to do, in order.

        Raises:
            InvalidTransition: the shell fed something that cannot be (an attempt that does not rise, a session that
                nobody asked for). The state is unchanged.
        """
        self._handlers[type(event)](event, now)
        out, self._out = self._out, []
        wake = self.state.timers.next()
        if wake and wake != self._woken:
            out.append(act.WakeAt(at=wake[0], name=wake[1]))
        self._woken = wake
        return out

    def digest(self) -> str:
        """`<version>-<SHA-256 of the state>`: equal states, equal digests, in every process."""
        text = json.dumps(self.state.fingerprint(), sort_keys=True, separators=(",", ":"))
        return f"{MACHINE}-{hashlib.sha256(text.encode()).hexdigest()}"

    # --- the life of an attempt -----------------------------------------------------------------------------------

    def _attempt_started(self, event: ev.AttemptStarted, now: float) -> None:
        state = self.state
        if event.attempt <= state.attempt:
            raise InvalidTransition(f"attempt {event.attempt} after attempt {state.attempt}")
        if state.attempt == 0:
            state.accepted_wall = event.wall - now
            state.move_job(JobMove.BEGIN)
        state.attempt, state.settings = event.attempt, event.settings
        state.am_pid, state.am_host = event.pid, event.host
        self._out.append(act.Reconcile())

    def _containers_found(self, event: ev.ContainersFound, now: float) -> None:
        for container in event.containers:
            if container not in self.state.containers:
                self._out.append(act.Kill(container=container, reason="nobody knows what it was for"))

    def _reconcile_closed(self, event: ev.ReconcileClosed, now: float) -> None:
        if self.state.session == 0 and self.state.active:
            self._open(1, "the job begins")

    def _open(self, session: int, reason: str) -> None:
        if self.state.opening < session:
            self.state.opening = session
            self._out.append(act.OpenSession(session=session, reason=reason))

    def _session_opened(self, event: ev.SessionOpened, now: float) -> None:
        state = self.state
        if event.session != state.session + 1:
            raise InvalidTransition(f"session {event.session} after session {state.session}")
        if state.job is JobState.RESTARTING:
            state.move_job(JobMove.OPEN)
        elif not state.active:
            return
        state.session, state.version, state.restart_due = event.session, 0, False
        state.failures.clear()
        again = self._roles_to_run()
        for role in state.roles.values():
            role.finished = role not in again
            if role.finished:
                self._give_back_all(role)
            else:
                self._reset(role, now)
        self._limit_groups(now)
        self._advance(now)
        if state.active and not self._may_restart():
            for role in again:  # the job holds no more than its stages need one after the other: this one comes later
                if not role.ready:
                    self._give_back_all(role)

    def _roles_to_run(self) -> list[RoleState]:
        """A role that succeeded stays finished, unless a peer under the same cluster spec has to run again."""
        roles = [role for role in self.state.roles.values() if not role.finished]
        undone = [role for role in roles if role.succeeded < role.total]
        versions = {role.version for role in undone if role.version and role.kind is not RoleKind.SIDECAR}
        return [role for role in roles if role in undone or role.version in versions]

    def _reset(self, role: RoleState, now: float) -> None:
        role.ready = role.blocked = False
        role.version = role.started = role.unstarted = 0
        role.kind = role.spec.kind
        role.unplaced.clear()
        for task in role.tasks:
            if task.state is not TaskState.PENDING:
                self.state.move_task(task, TaskMove.RESET, now)
            task.started = task.fault = False
            task.launches = 0
            task.address = task.tb_port = task.pid = task.status = task.ended_at = None
            task.note = ""

    # --- start order, containers ----------------------------------------------------------------------------------

    def _advance(self, now: float) -> None:
        """After something that roles may wait for: readies roles, forms the gang, ends the job."""
        if not self.state.active:
            return
        for role in start_order.newly_ready(self.state.roles):
            self._ready(role, now)
        self._form_gang(now)
        won = success.judge(self.state) if self.state.active else None
        if won:
            self._finish(JobState.SUCCEEDED, None, won.reason, now)

    def _ready(self, role: RoleState, now: float) -> None:
        role.ready = True
        for task in role.tasks:
            held = self.state.containers.get(task.container or "")
            if held and not held.given_back:
                self.state.move_task(task, TaskMove.RENEW, now)
                self._expect_registration(task, now)
                self._out.append(act.Renew(task=task.id, session=self.state.session))
            else:
                if held:  # on its way out, and no program lives in it: the task need not wait for its end
                    held.task = task.container = task.incarnation = task.executor_pid = None
                self._request(role, task, TaskMove.REQUEST, now)
        self._settle_demand(role)

    def _request(self, role: RoleState, task: Task, move: TaskMove, now: float) -> None:
        task.host = None
        self.state.move_task(task, move, now)
        self.state.unplaced(role, task.id.index)
        limit = self.state.spec.timeouts.allocation
        if limit and _lacks_containers(role) and "allocation" not in self.state.timers:
            self.state.timers.set("allocation", now + limit)

    def _settle_demand(self, role: RoleState) -> None:
        """Asks for what is held and waited for: the scheduler must not replace what nobody wants any more."""
        waits = role.counts[TaskState.REQUESTED]
        wanted = role.held + waits
        if wanted < role.demand or (waits and wanted > role.demand):
            self._demand(role, wanted)

    def _demand(self, role: RoleState, total: int) -> None:
        if role.demand != total:
            role.demand = total
            self._out.append(act.SetDemand(role=role.name, total=total))

    def _queued(self, event: ev.Queued, now: float) -> None:
        state = self.state
        state.queue_reason = event.reason if not state.job.ended else ""
        if event.reason and state.job is JobState.STARTING:
            state.move_job(JobMove.QUEUE)
        elif not event.reason and state.job is JobState.QUEUED:
            state.move_job(JobMove.ADMIT)

    def _unsatisfiable(self, event: ev.Unsatisfiable, now: float) -> None:
        if self.state.active:
            self._job_failure(
                failures.of_job(self.state, "refused", FailureClass.INFRASTRUCTURE, event.reason, now), now
            )

    def _granted(self, event: ev.Granted, now: float) -> None:
        state = self.state
        if event.container in state.containers or event.container in state.gone:
            return
        if state.job.ended:
            self._out.append(act.Release(container=event.container))
            return
        container = Container(event.container, event.role, event.host)
        state.containers[event.container] = container
        role = state.roles.get(event.role)
        task = state.place(role) if role and state.active else None
        if task is None:
            self._give_back(container)
            return
        if state.job is JobState.QUEUED:
            state.move_job(JobMove.ADMIT)
        if state.spec.timeouts.job and state.session == 1 and "job" not in state.timers:
            state.timers.set("job", now + state.spec.timeouts.job)
        container.task, task.container, task.host = task.id, container.id, container.host
        state.roles[container.role].held += 1
        task.incarnation = task.executor_pid = None
        state.move_task(task, TaskMove.PLACE, now)
        self._expect_registration(task, now)
        self._out.append(act.Launch(container=container.id, task=task.id, session=state.session))
        if not any(_lacks_containers(r) for r in state.roles.values()):
            state.queue_reason = ""
            state.timers.cancel("allocation")

    def _give_back(self, container: Container) -> None:
        if not container.given_back:
            self._no_longer_held(container)
            self._out.append(act.Release(container=container.id))

    def _give_back_all(self, role: RoleState) -> None:
        """Gives back what tasks hold that run no program."""
        for task in role.tasks:
            held = self.state.containers.get(task.container or "")
            if held:
                self._give_back(held)

    def _doom(self, container: Container, reason: str) -> None:
        if not container.doomed:
            if not container.given_back:
                self._no_longer_held(container)
            container.doomed = True
            self._out.append(act.Kill(container=container.id, reason=reason))

    def _no_longer_held(self, container: Container) -> None:
        container.given_back = True
        role = self.state.roles.get(container.role)
        if role:
            role.held -= container.task is not None
            self._settle_demand(role)

    def _expect_registration(self, task: Task, now: float) -> None:
        if self.state.spec.timeouts.registration:
            self.state.timers.set(f"registration:{task.id}", now + self.state.spec.timeouts.registration)

    # --- registration, the gang -----------------------------------------------------------------------------------

    def accepts(self, task: TaskId, container: str, incarnation: str) -> bool:
        """Whether an executor that says it is `task` in `container` may speak for it. Reads only."""
        held = self.state.containers.get(container)
        known = self.state.tasks.get(task)
        return bool(held and known and held.task == task and known.incarnation in (None, incarnation))

    def _registered(self, event: ev.Registered, now: float) -> None:
        state = self.state
        task = state.tasks.get(event.task)
        if task is None or not self.accepts(event.task, event.container, event.incarnation):
            state.refused += 1
            return
        task.incarnation, task.executor_pid = event.incarnation, event.pid
        if event.session > state.session or not state.active or task.state is not TaskState.STARTING:
            return
        if event.session < state.session:
            self._out.append(act.Renew(task=task.id, session=state.session))
            return
        task.address, task.tb_port = event.address, event.tb_port
        state.timers.cancel(f"registration:{task.id}")
        state.move_task(task, TaskMove.REGISTER, now)
        if state.spec.distributed_mode is DistributedMode.FCFS:
            self._run([task], 0, now)
            self._advance(now)
        else:
            self._form_gang(now)

    def _form_gang(self, now: float) -> None:
        """Publishes and starts when every task of every ready role that is waited for has registered."""
        state = self.state
        if state.spec.distributed_mode is DistributedMode.FCFS:
            return
        ready = [role for role in state.roles.values() if role.ready and not role.finished]
        gang = [role for role in ready if role.kind is not RoleKind.SIDECAR or role.registered == role.total]
        if any(role.registered < role.total for role in gang):
            return
        waiting = [role.tasks[index] for role in ready if role.arrived for index in sorted(role.arrived)]
        new = [role for role in gang if not role.version and role.counts[TaskState.REGISTERED]]
        if new:
            state.version += 1
            for role in new:
                role.version = state.version
            self._out.append(act.Publish(spec=self._cluster_spec(gang)))
        if waiting and state.version:
            self._run(waiting, state.version, now)
            self._advance(now)

    def _cluster_spec(self, gang: Iterable[RoleState]) -> ClusterSpec:
        here = (TaskState.REGISTERED, TaskState.RUNNING)
        return ClusterSpec(
            session=self.state.session,
            version=self.state.version,
            roles={
                role.name: tuple(task.address or "" for task in role.tasks)
                for role in gang
                if role.total and sum(role.counts[s] for s in here) == role.total
            },
        )

    def _run(self, tasks: Iterable[Task], version: int, now: float) -> None:
        state = self.state
        if state.job is not JobState.RUNNING:
            state.move_job(JobMove.RUN)
        limit = state.spec.timeouts.execution
        for task in tasks:
            state.move_task(task, TaskMove.START, now)
            task.session, task.try_, task.version, task.living = state.session, 1, version, True
            task.note = ""
            state.living += 1
            if limit:
                state.timers.set(f"execution:{task.id}", now + limit)
            self._out.append(act.Start(task=task.id, session=task.session, try_=task.try_, version=version))

    # --- programs -------------------------------------------------------------------------------------------------

    def _current(self, task: TaskId, session: int, try_: int) -> Task | None:
        """The task, if the event is about its living try; counts the event as refused otherwise."""
        known = self.state.tasks.get(task)
        if known and known.living and (known.session, known.try_) == (session, try_):
            return known
        self.state.refused += 1
        return None

    def _started(self, event: ev.Started, now: float) -> None:
        task = self._current(event.task, event.session, event.try_)
        if task is None or task.started:
            return
        task.pid, task.started = event.pid, True
        role = self.state.roles[task.id.role]
        role.started += 1
        limit = self.state.spec.timeouts.startup
        if limit and task.state is TaskState.RUNNING:
            self.state.timers.set(f"startup:{task.id}", now + limit)
        if role.started == role.total:
            self._advance(now)

    def _first_output(self, event: ev.FirstOutput, now: float) -> None:
        if self._current(event.task, event.session, event.try_):
            self.state.timers.cancel(f"startup:{event.task}")

    def _exited(self, event: ev.Exited, now: float) -> None:
        task = self._current(event.task, event.session, event.try_)
        if task is None:
            return
        task.status, task.note = event.status, event.status.describe()
        self._over(task, min(event.at, now))
        stopped = task.state is TaskState.STOPPING or not self.state.active
        if task.fault:  # judged already: its own end is no second failure, and no success
            self._end_task(task, TaskMove.FAIL, now)
        elif event.status.ok:
            self._end_task(task, TaskMove.SUCCEED, now)
        elif stopped and event.status.reason in (ExitReason.STOPPED, ExitReason.NOT_STARTED):
            self._end_task(task, TaskMove.END, now)
        else:
            self._end_task(task, TaskMove.FAIL, now)
            self._task_failure(task, failures.of_exit(self.state, task, event.status), now)
        self._after_end(task, now)

    def _over(self, task: Task, at: float) -> None:
        """The program cannot live any more: proved."""
        task.living, task.gone_at, task.pid, task.ended_at = False, None, None, at
        self.state.living -= 1
        for name in ("execution", "startup", "report"):
            self.state.timers.cancel(f"{name}:{task.id}")

    def _end_task(self, task: Task, move: TaskMove, now: float) -> None:
        if task.state not in ENDED_TASK_STATES:
            self.state.move_task(task, move, now)
            self.state.roles[task.id.role].unstarted += not task.started

    def _after_end(self, task: Task, now: float) -> None:
        """What follows from one program's end, whatever it was."""
        state = self.state
        held = state.containers.get(task.container or "")
        if held and (state.job is JobState.STOPPING or (state.active and not self._may_restart())):
            self._give_back(held)
        if state.job is JobState.RESTARTING:
            self._maybe_open(now)
        elif state.job is JobState.STOPPING:
            self._maybe_end(now)
        elif state.active:
            role = state.roles[task.id.role]
            if role.ended == role.total:
                self._role_over(role, now)
            elif not task.started:
                self._look_for_blocked(now)
            elif state.spec.stop_on is not StopOn.CHIEF:
                return  # one of many: nobody waits for it alone
            self._advance(now)

    def _may_restart(self) -> bool:
        """Whether finished tasks keep their containers. A restart for a taken port asks for them again instead."""
        return self.state.restarts_charged < self.state.spec.max_restarts

    def _role_over(self, role: RoleState, now: float) -> None:
        self._look_for_blocked(now)
        if self.state.active:
            self._limit_groups(now, role.name)

    def _look_for_blocked(self, now: float) -> None:
        """Says which roles can never start any more. One of them is enough to end the job, unless it is a sidecar."""
        for role, reason in list(start_order.newly_blocked(self.state.roles)):
            role.blocked = True
            failure = failures.of_job(self.state, "unsatisfiable", FailureClass.USER, reason, now)
            if role.kind is not RoleKind.SIDECAR:
                self._job_failure(failure, now)
                return
            self._out.append(act.Verdict(failure=failure, decision="tolerate", reason=f"{role.name} is a sidecar"))

    def _limit_groups(self, now: float, over: str | None = None) -> None:
        """Begins the time that roles may go on after a group: it is done now, or was before this session.

        Args:
            over: the role that is over since now; None at a session's beginning.
        """
        for role in self.state.roles.values():
            rule = role.spec.timeout_after
            if rule and not role.finished and role.ended < role.total:
                members = self.state.spec.groups.get(rule.group, ())
                if (over is None or over in members) and start_order.group_done(self.state.roles, members):
                    self.state.timers.set(f"group:{role.name}", now + rule.limit)

    # --- containers and executors that go away --------------------------------------------------------------------

    def _container_ended(self, event: ev.ContainerEnded, now: float) -> None:
        state = self.state
        container = state.containers.pop(event.container, None)
        if container is None:
            return
        state.gone.add(container.id)
        task = state.tasks.get(container.task) if container.task else None
        role = state.roles.get(container.role)
        if role and task and not container.given_back:
            role.held -= 1
        if task and task.container == container.id:
            task.container = task.incarnation = task.executor_pid = None
            self._lost_container(task, container, event, now)
        if role:
            self._settle_demand(role)
        self._maybe_end(now)

    def _lost_container(self, task: Task, container: Container, event: ev.ContainerEnded, now: float) -> None:
        state = self.state
        if task.living:
            task.gone_at, task.gone_why = now, event.cause
            if container.doomed or event.silent or not state.active:
                self._give_up_report(task, now)
            else:
                state.timers.set(f"report:{task.id}", now + REPORT_WAIT)
        elif task.state in (TaskState.STARTING, TaskState.REGISTERED) and state.active:
            self._replace(task, event, now)

    def _replace(self, task: Task, event: ev.ContainerEnded, now: float) -> None:
        state = self.state
        state.timers.cancel(f"registration:{task.id}")
        task.launches += 1
        task.note = event.cause
        if task.launches >= LAUNCHES:
            reason = (
                f"{task.launches} containers of {task.id} ended before its program was started; the last: {event.cause}"
            )
            self._fault(task, failures.of_task(state, task, "launch", FailureClass.INFRASTRUCTURE, reason, now), now)
            return
        role = state.roles[task.id.role]
        self._request(role, task, TaskMove.REPLACE, now)

    def _give_up_report(self, task: Task, now: float) -> None:
        """The container of a living program is gone and its report will not come."""
        state = self.state
        at = now if task.gone_at is None else task.gone_at
        stopped = not state.active and task.state is TaskState.STOPPING
        self._over(task, at)
        task.note = task.note if task.fault else task.gone_why
        if task.fault or (stopped and at >= task.since):
            self._end_task(task, TaskMove.LOSE if task.fault else TaskMove.END, now)
        else:
            self._end_task(task, TaskMove.LOSE, now)
            reason = f"{task.id} was lost: {task.gone_why}"
            self._task_failure(
                task, failures.of_task(state, task, "lost", FailureClass.INFRASTRUCTURE, reason, at), now
            )
        self._after_end(task, now)

    def _silent(self, event: ev.Silent, now: float) -> None:
        task = self.state.tasks.get(event.task)
        container = self.state.containers.get(task.container or "") if task else None
        if task is None or container is None or task.incarnation != event.incarnation or container.doomed:
            return
        reason = f"nothing was heard from {task.id} for {event.silence:.0f} s (heartbeat_timeout)"
        self._doom(container, reason)
        if task.living and not task.fault:
            self._fault(
                task, failures.of_task(self.state, task, "silent", FailureClass.INFRASTRUCTURE, reason, now), now
            )

    def _action_failed(self, event: ev.ActionFailed, now: float) -> None:
        if event.container:
            self._container_ended(ev.ContainerEnded(container=event.container, cause=event.cause, blameless=True), now)

    # --- failures -------------------------------------------------------------------------------------------------

    def _fault(self, task: Task, failure: Failure, now: float) -> None:
        """A failure of a task that did not come from its program's end: time-outs, silence, no container."""
        task.fault, task.note = True, failure.reason
        if not task.living:
            self._end_task(task, TaskMove.FAIL, now)
            held = self.state.containers.get(task.container or "")
            if held and self.state.active:
                self._doom(held, failure.reason)
        elif task.state is TaskState.RUNNING:
            self._stop(task, self.state.spec.stop_grace_of(task.id.role), failure.reason, now)
        self._task_failure(task, failure, now)
        if not task.living:
            self._after_end(task, now)

    def _task_failure(self, task: Task, failure: Failure, now: float) -> None:
        state = self.state
        if not state.active:
            if (
                state.job in (JobState.RESTARTING, JobState.STOPPING)
                and state.roles[task.id.role].kind is not RoleKind.SIDECAR
            ):
                state.failures.append(failure)
            return
        judgement = failure_policy.judge(state, task.id)
        if judgement.effect is failure_policy.Effect.TOLERATE:
            self._out.append(act.Verdict(failure=failure, decision="tolerate", reason=judgement.reason))
            return
        state.failures.append(failure)
        if judgement.effect is failure_policy.Effect.FAIL_JOB:
            self._fail_job(failure, judgement.reason, now)
        else:
            self._session_failed(failure, judgement.reason, now)

    def _session_failed(self, failure: Failure, why: str, now: float) -> None:
        state = self.state
        decision = restart_policy.decide(state, failure.cause)
        if not decision.restart:
            self._fail_job(failure, f"{why}; {decision.reason}", now)
            return
        if decision.charged:
            state.restarts_charged += 1
        else:
            state.restarts_for_ports += 1
        self._out.append(act.Verdict(failure=failure, decision="restart", reason=f"{why}; {decision.reason}"))
        state.move_job(JobMove.RESTART)
        state.restart_reason = f"{failure.reason} ({decision.reason})"
        self._stop_all(state.restart_reason, now)
        for task in state.tasks.values():
            if not task.living and task.state not in ENDED_TASK_STATES and task.state is not TaskState.PENDING:
                state.move_task(task, TaskMove.RESET, now)
        for name in [
            n for n in state.timers.all if n.partition(":")[0] in ("registration", "group", "startup", "execution")
        ]:
            state.timers.cancel(name)
        state.timers.cancel("allocation")
        state.timers.set("restart", now + decision.delay)
        if decision.delay <= 0:
            self._deadline(ev.Deadline(name="restart"), now)

    def _job_failure(self, failure: Failure, now: float) -> None:
        """A failure that no restart can mend: limits of the job itself, refusals."""
        self.state.failures.append(failure)
        self._fail_job(failure, "a restart would not help", now)

    def _fail_job(self, failure: Failure, why: str, now: float) -> None:
        self._out.append(act.Verdict(failure=failure, decision="fail", reason=why))
        self._finish(JobState.FAILED, failure, failure.reason, now)

    def _maybe_open(self, now: float) -> None:
        state = self.state
        if state.job is JobState.RESTARTING and state.restart_due and state.living == 0:
            for name in ("stop-limit", "force-limit"):
                state.timers.cancel(name)
            self._open(state.session + 1, state.restart_reason)

    # --- stopping -------------------------------------------------------------------------------------------------

    def _stop(self, task: Task, grace: float, reason: str, now: float) -> None:
        if task.state is TaskState.RUNNING:
            self.state.move_task(task, TaskMove.STOP, now)
        self._out.append(act.Stop(task=task.id, session=task.session, grace=grace, reason=reason))

    def _stop_all(self, reason: str, now: float, grace: float | None = None) -> None:
        """Tells every living program to stop, and makes sure that this ends."""
        longest = 0.0
        for task in list(self.state.tasks.values()):
            if not task.living:
                continue
            if task.gone_at is not None:
                self._give_up_report(task, now)
                continue
            patience = self.state.spec.stop_grace_of(task.id.role) if grace is None else grace
            longest = max(longest, patience)
            self._stop(task, patience, reason, now)
        if self.state.living:
            self.state.timers.set("stop-limit", now + longest + STOP_SLACK)

    def _finish(
        self, result: JobState, failure: Failure | None, reason: str, now: float, *, at_once: bool = False
    ) -> None:
        """Decides the job's result, once, and stops what is left."""
        state = self.state
        if state.final:
            return
        state.final = Final(result, failure)
        state.move_job(JobMove.STOP)
        state.queue_reason = ""
        state.timers.clear()
        for role in state.roles.values():
            for task in role.tasks:
                if not task.living:
                    self._end_task(task, TaskMove.END, now)
            self._demand(role, 0)
        self._stop_all(reason, now, grace=0.0 if at_once else None)
        for container in state.containers.values():
            held = state.tasks[container.task] if container.task else None
            if not (held and held.living):
                self._give_back(container)
        if state.containers and "stop-limit" not in state.timers:
            state.timers.set("stop-limit", now + STOP_SLACK)
        self._maybe_end(now)

    def _maybe_end(self, now: float) -> None:
        state = self.state
        if state.job is not JobState.STOPPING or state.living or state.containers or not state.final:
            return
        self._end(now)

    def _end(self, now: float) -> None:
        state = self.state
        assert state.final is not None
        state.timers.clear()
        if state.final.failure and state.final.state is JobState.FAILED:
            state.final.failure = failures.root(state, state.final.failure)
        state.move_job(
            {JobState.SUCCEEDED: JobMove.SUCCEED, JobState.FAILED: JobMove.FAIL, JobState.KILLED: JobMove.KILL}[
                state.final.state
            ]
        )
        state.ended_at = now
        self._out.append(act.Finish(state=state.job, exit_code=int(self.exit_code or 0), failure=state.final.failure))

    @property
    def exit_code(self) -> ExitCode | None:
        """What a follower's command line answers; None until the job has ended."""
        final = self.state.final
        if not final or not self.state.job.ended:
            return None
        return ExitCode.SUCCEEDED if final.failure is None else failures.EXIT_CODES[final.failure.failure_class]

    def _user_command(self, event: ev.UserCommand, now: float) -> None:
        state = self.state
        if state.job.ended:
            return
        at_once = event.what == "kill-now"
        if state.final:
            if at_once:
                self._stop_all(f"killed by {event.actor}", now, grace=0.0)
            return
        reason = f"killed by {event.actor}"
        failure = failures.of_job(state, "killed", FailureClass.KILLED, reason, now)
        self._finish(JobState.KILLED, failure, reason, now, at_once=at_once)

    # --- time -----------------------------------------------------------------------------------------------------

    def _deadline(self, event: ev.Deadline, now: float) -> None:
        if not self.state.timers.pop_due(event.name, now):
            return
        kind, _, who = event.name.partition(":")
        if kind in ("registration", "startup", "execution"):
            self._task_deadline(kind, self.state.tasks[TaskId.parse(who)], now)
        elif kind == "report":
            self._give_up_report(self.state.tasks[TaskId.parse(who)], now)
        elif kind == "group":
            self._group_deadline(self.state.roles[who], now)
        elif kind == "restart":
            self.state.restart_due = True
            self._maybe_open(now)
        elif kind in ("stop-limit", "force-limit"):
            self._force(now, last=kind == "force-limit")
        else:
            self._job_failure(failures.of_job_timeout(self.state, kind, now), now)

    def _task_deadline(self, kind: str, task: Task, now: float) -> None:
        if task.living and task.gone_at is not None:
            self._give_up_report(task, now)
        elif not task.fault:
            self._fault(task, failures.of_timeout(self.state, task, kind, now), now)

    def _group_deadline(self, role: RoleState, now: float) -> None:
        rule = role.spec.timeout_after
        if rule is None or not self.state.active or role.ended == role.total:
            return
        if rule.on_timeout is OnTimeout.IGNORE:
            role.kind = RoleKind.UNTRACKED if role.kind is RoleKind.TRACKED else role.kind
            self._advance(now)
            return
        failure = failures.of_group(self.state, role, rule, now)
        for task in role.tasks:
            if task.living:
                task.fault, task.note = True, failure.reason
        self.state.failures.append(failure)
        if role.spec.stop_on_failure:
            self._fail_job(failure, f"{role.name} has stop_on_failure", now)
        else:
            self._session_failed(failure, f"{role.name} has timeout_after", now)

    def _force(self, now: float, *, last: bool) -> None:
        """Programs or containers that should be gone by now."""
        state = self.state
        stopping = state.job is JobState.STOPPING
        for container in list(state.containers.values()):
            task = state.tasks.get(container.task) if container.task else None
            if stopping or (task and task.living):
                self._doom(container, "it did not stop in time")
        if not last:
            state.timers.set("force-limit", now + FORCE_SLACK)
        elif stopping:
            self._abandon(now)
        else:
            state.timers.set("force-limit", now + FORCE_SLACK)

    def _abandon(self, now: float) -> None:
        """The scheduler never confirmed that these containers ended. The job's record must not wait for ever."""
        for task in self.state.tasks.values():
            if task.living:
                task.gone_at, task.gone_why = now, "its container's end was never confirmed"
                self._over(task, now)
                self._end_task(task, TaskMove.LOSE, now)
            task.container = task.incarnation = task.executor_pid = None
        for role in self.state.roles.values():
            role.held = 0
        self.state.containers.clear()
        self._maybe_end(now)

    def _snapshot(self, event: ev.Snapshot, now: float) -> None:
        """Nothing: whoever replays compares the digest."""


def _lacks_containers(role: RoleState) -> bool:
    """Whether a role waits for containers without which the job cannot go on."""
    return role.kind is not RoleKind.SIDECAR and role.counts[TaskState.REQUESTED] > 0
