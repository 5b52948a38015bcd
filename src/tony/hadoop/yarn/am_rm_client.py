"""An application's master and its ResourceManager: registration, heartbeat, the end.

    client = MasterClient(scheduler_proxy(settings, token))
    registration = await client.register(host, port, tracking_url)
    beating = asyncio.create_task(client.run(handler))       # handler(news) is called for everything that happens
    client.want(1, 4, Ask(resource=Resource(memory=512, vcores=1), hosts=hosts, racks=racks))
    ...
    client.release(container.id)
    await client.finish(FinalStatus.SUCCEEDED, "4 tasks succeeded", "")   # `run` ends, too
    await client.close()

`want`, `release`, `exclude`, `include`, `show` and `wake` may be called at any time, also before the registration and
from the handler; each makes the next heartbeat go out at once. What the words mean is told in `request_table`.
`NodeTokens` (attribute `node_tokens`) is what a `NodeClients` needs to talk with the nodes.

What is dealt with here, and never seen by the caller:

- a ResourceManager that was restarted or failed over: registered again, everything said again;
- a lost answer: the same request once more, so that nothing is granted or told twice;
- a new token for the master, when the ResourceManager's key rolls: used from the next call on, over a new connection;
- an ask that can never be granted: the others go on, it comes as `AllocationUpdate.refused`;
- an ask that finds no place now (`AllocationUpdate.rejected`): asked again after a pause that grows to ten seconds;
- containers that are granted too much when totals change: given back.

What ends `run`: `finish`; `AttemptOver` (the ResourceManager wants no more of this attempt: stop everything, and
leave); `Unavailable` (no ResourceManager for longer than the configuration's patience).

The heartbeat is a task of its own: the handler must not wait for anything, and is no coroutine.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Sequence
from typing import Final

from tony.dataclass import dataclass
from tony.dataclass import replace as with_fields
from tony.hadoop.configuration.service_addresses import schedulers
from tony.hadoop.configuration.settings import HadoopConfiguration
from tony.hadoop.failover import FailoverProxy, Policy, connection_options, resource_manager_policy
from tony.hadoop.ipc.connection_options import ConnectionOptions
from tony.hadoop.ipc.errors import (
    ApplicationAttemptNotFoundError,
    ApplicationMasterNotRegisteredError,
    HadoopError,
    InvalidApplicationMasterRequestError,
    InvalidResourceRequestError,
    InvalidTokenError,
    LoginError,
    RemoteError,
    SaslError,
)
from tony.hadoop.ipc.login_method import LoginIdentity
from tony.hadoop.sasl.quality_of_protection import Protection
from tony.hadoop.tokens.credentials import from_message
from tony.hadoop.tokens.token import HadoopToken
from tony.hadoop.wire.application_master import (
    ALLOCATE,
    FINISH,
    PROTOCOL,
    REGISTER,
    AllocateResponse,
    FinishRequest,
    MasterCommand,
    RegisterRequest,
    RegisterResponse,
)
from tony.hadoop.wire.placement import PlacementConstraintEntry
from tony.hadoop.wire.proto import replace
from tony.hadoop.wire.yarn_records import (
    ApplicationAcl,
    Container,
    ContainerId,
    FinalStatus,
    Resource,
    ResourceTypeInfo,
)
from tony.hadoop.yarn.heartbeat_interval import HeartbeatInterval
from tony.hadoop.yarn.nm_tokens import NodeTokens
from tony.hadoop.yarn.request_table import AllocationUpdate, AskTable, ContainerRequest

#: Seconds between two questions whether the end is stored; it takes the ResourceManager some 20 ms.
_FINISH_PAUSE: Final = 0.02
#: Odd answers in a row, or refused logins, that a heartbeat bears. A ResourceManager that starts may know our token
#: only a moment after it knows us.
_PATIENCE: Final = 5
_ODD_PAUSE: Final = 1.0

#: Calls that may go unanswered, one after the other, before a master is taken for dead.
_CHANCES: Final = 4

#: How else a ResourceManager says that it does not like an ask: a label that there is not, a request that the scheduler
#: itself threw out (the class is spelt so), one with constraints where their handler is disabled.
_REFUSALS: Final = (
    "InvalidLabelResourceRequestException",
    "SchedulerInvalidResoureRequestException",
    "SchedulingRequest",
)

Handler = Callable[[AllocationUpdate], None]


def _now() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class AttemptOver(HadoopError):  # noqa: N818 - a noun reads better where it is raised
    """The ResourceManager wants no more of this attempt: it was killed, or another one runs. Stop everything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """What the ResourceManager said at the registration.

    Attributes:
        maximum: the most that one container may have; None if it did not say.
        queue: where the application runs.
        containers: of earlier attempts, still running, with their tokens for the nodes kept already.
        resource_types: all that the cluster counts. An ask for what is not here is granted without it!
        acls: who may view and modify the application.
        client_key: checks the tokens of clients (secure clusters only); secret.
    """

    maximum: Resource | None = None
    queue: str | None = None
    containers: tuple[Container, ...] = ()
    resource_types: tuple[ResourceTypeInfo, ...] = ()
    acls: tuple[ApplicationAcl, ...] = ()
    client_key: bytes | None = None


def scheduler_proxy(
    settings: HadoopConfiguration,
    token: HadoopToken,
    *,
    policy: Policy | None = None,
    options: ConnectionOptions | None = None,
    protections: tuple[Protection, ...] = (),
) -> FailoverProxy:
    """The ResourceManagers' door for masters, all of a pair.

    A master of which the active one hears nothing for too long is given up: so from one that hangs we go over in time.

    Args:
        settings: of the cluster.
        token: the master's, from its token file (kind `YARN_AM_RM_TOKEN`). Wanted on insecure clusters, too.
        policy: how long to look for an active one; as the configuration has it if left out.
        options: of the connections; likewise.
        protections: of the traffic, in order of preference.
    """
    daemons = schedulers(settings)
    if options is None:
        options = connection_options(settings)
        if len(daemons) > 1:
            limit = settings.get_seconds("yarn.am.liveness-monitor.expiry-interval-ms") / _CHANCES
            options = with_fields(options, call_timeout=min(limit, options.call_timeout or math.inf))
    return FailoverProxy(
        name="ResourceManager (scheduler)",
        daemons=daemons,
        login=LoginIdentity.with_token(token, protections=protections),
        protocol=PROTOCOL,
        policy=policy or resource_manager_policy(settings),
        options=options,
    )


class MasterClient:
    """One application attempt. For one event loop.

    Args:
        proxy: leads to the ResourceManager, see `scheduler_proxy`. Closed by `close`.
        protections: for logins with new tokens, as in the proxy's own.
        pace: of the heartbeat.

    Attributes:
        node_tokens: what NodeManagers want to see.
        token: the newest of the master's tokens that came with an answer, if one did.
        answers: heartbeats that were answered.
        cluster_nodes: how many nodes there are, as the last answer had it; None before it was said.
        is_renewed: a ResourceManager had to be told of us again: it was restarted, or another one took over.
    """

    def __init__(
        self, proxy: FailoverProxy, *, protections: tuple[Protection, ...] = (), pace: HeartbeatInterval | None = None
    ) -> None:
        self.node_tokens = NodeTokens()
        self.token: HadoopToken | None = None
        self.answers = 0
        self.cluster_nodes: int | None = None
        self.is_renewed = False
        self._proxy, self._protections, self._pace = proxy, protections, pace or HeartbeatInterval()
        self._table = AskTable()
        self._registration: RegisterRequest | None = None
        self._recovered: tuple[Container, ...] = ()
        self._woken = asyncio.Event()
        #: One call at a time: a heartbeat, a registration, or the end.
        self._turn = asyncio.Lock()
        self._is_ending = False
        self._changed_at = -math.inf
        self._sent_at = -math.inf
        self._heard_at = -math.inf
        self._known_at = _now()
        self._odd = 0
        #: Key -> what asks for it again; and the pause before that, as long as none of it was granted.
        self._again: dict[int, asyncio.TimerHandle] = {}
        self._pauses: dict[int, float] = {}

    # -- what the caller wants

    def want(self, key: int, total: int, ask: ContainerRequest | None = None) -> None:
        """From now on `total` containers of `key` are still to come, beside those that the handler was told of.

        Args:
            key: any number from 0 on; it comes back as the container's `allocation_request_id`.
            total: 0 to want no more.
            ask: what they are to be like; may be left out when the key is known.
        """
        self._table.want(key, total, ask)
        self.wake()

    def outstanding(self, key: int | None = None) -> int:
        """How many containers are still to come: of a key, or of all."""
        return self._table.outstanding(key)

    def release(self, container: ContainerId) -> None:
        """Gives a container back; if it runs, its node ends it. Its end is told as any other, with status -100."""
        self._table.release(container)
        self.wake()

    def exclude(self, host: str) -> None:
        """No more containers on this host."""
        self._table.exclude(host)
        self.wake()

    def include(self, host: str) -> None:
        """Takes an exclusion back."""
        self._table.include(host)
        self.wake()

    def show(self, tracking_url: str) -> None:
        """Another page for people."""
        self._table.show(tracking_url)
        if self._registration is not None:
            self._registration = replace(self._registration, tracking_url=tracking_url)
        self.wake()

    @property
    def progress(self) -> float:
        """Between 0 and 1; goes with the next heartbeat."""
        return self._table.progress

    @progress.setter
    def progress(self, value: float) -> None:
        self._table.progress = value

    def wake(self) -> None:
        """The next heartbeat goes out now, and the following ones soon."""
        self._changed_at = asyncio.get_running_loop().time()
        self._woken.set()

    @property
    def silence(self) -> float:
        """Seconds for which a heartbeat has waited for its answer; 0 if none waits."""
        return asyncio.get_running_loop().time() - self._sent_at if self._heard_at < self._sent_at else 0.0

    @property
    def unknown_for(self) -> float:
        """Seconds for which the ResourceManager has said nothing of us, those included in which this machine slept."""
        return _now() - self._known_at

    # -- registration

    async def register(
        self,
        host: str,
        port: int,
        tracking_url: str,
        constraints: Sequence[PlacementConstraintEntry] = (),
        *,
        is_heir: bool = False,
    ) -> Registration:
        """Says that the master is there, and where.

        Args:
            host: where clients find the master.
            port: where it listens; -1 if it does not.
            tracking_url: its page for people, `http://host:port/` or `host:port`; empty for none.
            constraints: for all containers with some tags.
            is_heir: an earlier attempt may have left containers. Only one answer names them: if it is lost this attempt
                can know of none.

        Raises:
            AttemptOver: this attempt is over before it began, or what it should inherit was told to nobody.
            HadoopError: what else the ResourceManager said.
        """
        self._registration = RegisterRequest(
            host=host, rpc_port=port, tracking_url=tracking_url, placement_constraints=tuple(constraints)
        )
        async with self._turn:
            response = await self._register(must_tell=is_heir)
        return Registration(
            maximum=response.maximum_capability,
            queue=response.queue,
            containers=self._table.adopt(response.previous_containers),
            resource_types=response.resource_types,
            acls=response.acls,
            client_key=response.client_to_am_master_key,
        )

    async def _register(self, *, must_tell: bool = False) -> RegisterResponse:
        assert self._registration is not None
        try:
            response = await self._proxy.call(REGISTER, self._registration)
        except InvalidApplicationMasterRequestError as error:
            if "already registered" not in error.remote_message:
                raise
            if must_tell:
                raise AttemptOver(
                    "the answer to the registration was lost, and with it what earlier attempts have left"
                ) from error
            response = RegisterResponse()  # the first one got through, and its answer was lost
        except (ApplicationAttemptNotFoundError, InvalidTokenError) as error:
            raise AttemptOver(f"this attempt cannot register: {error}") from error
        self.node_tokens.put(response.previous_node_tokens)
        return response

    async def _register_again(self) -> None:
        self._table.forgotten()
        self.is_renewed = True
        response = await self._register()
        self._recovered += self._table.adopt(response.previous_containers)
        self.wake()

    # -- the heartbeat

    async def run(self, handler: Handler) -> None:
        """Keeps the attempt alive, and tells what happens, until `finish` is called.

        Args:
            handler: is called with what an answer brought, if it brought anything. What it raises ends `run`.

        Raises:
            AttemptOver: the ResourceManager wants no more of this attempt.
            Unavailable: there is no ResourceManager any more.
            HadoopError: it refuses us again and again.
        """
        self.wake()
        while not self._is_ending:
            async with self._turn:
                news = await self._beat() if not self._is_ending else AllocationUpdate()
            if self._recovered:
                news = with_fields(news, recovered=self._recovered + news.recovered)
                self._recovered = ()
            if news.is_any:
                self._changed_at = asyncio.get_running_loop().time()
                handler(news)
            await self._pause()

    async def _beat(self) -> AllocationUpdate:
        self._woken.clear()
        self._sent_at = asyncio.get_running_loop().time()
        try:
            response = await self._proxy.call(ALLOCATE, self._table.request())
        except ApplicationMasterNotRegisteredError:
            self._odd += 1
            if self._odd > _PATIENCE:  # it forgets us each time: not so fast
                await asyncio.sleep(_ODD_PAUSE)
            await self._register_again()
            return AllocationUpdate()
        except ApplicationAttemptNotFoundError as error:
            raise AttemptOver(f"the ResourceManager has ended this attempt: {error}") from error
        except (InvalidTokenError, LoginError, SaslError) as error:
            await self._bear(error)
            return AllocationUpdate()
        except RemoteError as error:
            if isinstance(error, InvalidApplicationMasterRequestError):
                raise
            if self._is_refusal(error):
                self._odd = 0
                self.wake()
                return self._table.refused(error.remote_message)
            await self._bear(error)
            return AllocationUpdate()
        self._odd = 0
        self._heard_at = asyncio.get_running_loop().time()
        self._known_at = _now()
        return await self._take(response)

    async def _take(self, response: AllocateResponse) -> AllocationUpdate:
        self.node_tokens.put(response.node_tokens)
        if response.am_rm_token is not None:
            self.token = from_message(response.am_rm_token)
            await self._proxy.login_as(LoginIdentity.with_token(self.token, protections=self._protections))
        news = self._table.answered(response)
        self.answers += 1
        self.cluster_nodes = self.cluster_nodes if news.cluster_nodes is None else news.cluster_nodes
        self._plan(news)
        if response.command is MasterCommand.SHUTDOWN:
            raise AttemptOver("the ResourceManager has ended this attempt")
        if response.command is MasterCommand.RESYNC:
            await self._register_again()
        return news

    def _plan(self, news: AllocationUpdate) -> None:
        """Has what found no place asked for again: when another is granted soon, else ever more seldom."""
        for container in news.granted:
            self._pauses.pop(container.allocation_request_id, None)
        for each in news.rejected:
            if each.key not in self._again:
                pause = self._pauses.get(each.key, self._pace.again)
                self._pauses[each.key] = min(2 * pause, self._pace.again_most)
                self._again[each.key] = asyncio.get_running_loop().call_later(pause, self._ask_again, each.key)

    def _ask_again(self, key: int) -> None:
        del self._again[key]
        self._table.again(key)
        if self._table.is_changed:
            self.wake()

    def _is_refusal(self, error: RemoteError) -> bool:
        """Whether an ask is what the ResourceManager does not like: it says so, or says the same again and again."""
        if not self._table.is_asking:
            return False
        if isinstance(error, InvalidResourceRequestError):
            return True
        said = error.class_name + error.remote_message
        return any(each in said for each in _REFUSALS) or self._odd >= _PATIENCE

    async def _bear(self, error: HadoopError) -> None:
        """An answer that may be a better one in a moment."""
        self._odd += 1
        if self._odd > _PATIENCE:
            if isinstance(error, InvalidTokenError):
                raise AttemptOver(f"the ResourceManager does not know this attempt's token: {error}") from error
            raise error
        await asyncio.sleep(_ODD_PAUSE)

    async def _pause(self) -> None:
        """Until the next heartbeat is due, or somebody wakes us."""
        loop = asyncio.get_running_loop()
        if self._table.is_changed:
            self.wake()
        wanting = self._table.outstanding() > 0
        due = self._sent_at + self._pace.interval(loop.time() - self._changed_at, wanting=wanting)
        if not self._woken.is_set() and due > loop.time():
            waker = loop.call_at(due, self._woken.set)
            await self._woken.wait()
            waker.cancel()
        await asyncio.sleep(max(0.0, self._sent_at + self._pace.least - loop.time()))

    # -- the end

    async def finish(self, status: FinalStatus, diagnostics: str = "", tracking_url: str = "") -> None:
        """Says how it ended, as often as it takes until it is stored. Then the process has some seconds to leave.

        The containers that still run should have been stopped before: the nodes take seconds to hear of the end.

        Args:
            status: for people and for those who wait for the application.
            diagnostics: what there is to say.
            tracking_url: where the history can be read; empty for nowhere.

        Raises:
            AttemptOver: the attempt was over before.
        """
        self._is_ending = True
        self._woken.set()
        request = FinishRequest(diagnostics=diagnostics, tracking_url=tracking_url, final_status=status)
        is_sent, again = False, 0
        async with self._turn:
            while True:
                try:
                    answer = await self._proxy.call(FINISH, request)
                except ApplicationMasterNotRegisteredError:
                    again += 1
                    if again > _PATIENCE:
                        raise
                    await self._register_again()
                    continue
                except (ApplicationAttemptNotFoundError, InvalidTokenError) as error:
                    if is_sent:
                        return  # it was stored, and the attempt forgotten
                    raise AttemptOver(f"this attempt was over before it said so: {error}") from error
                if answer.unregistered:
                    return
                is_sent = True
                await asyncio.sleep(_FINISH_PAUSE)

    async def close(self) -> None:
        """Ends the connection."""
        self._is_ending = True
        self._woken.set()
        for timer in self._again.values():
            timer.cancel()
        await self._proxy.close()
