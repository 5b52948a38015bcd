"""The AM's client of the ResourceManager: registration, heartbeat, unregistration.

    client = MasterClient(create_scheduler_proxy(settings, token))
    registration = await client.register(host, port, tracking_url)
    beating = asyncio.create_task(client.run(handler))       # handler(update) is called for all that happens
    client.want(1, 4, ContainerRequest(resource=Resource(memory=512, vcores=1), hosts=hosts, racks=racks))
    ...
    client.release(container.id)
    await client.finish(FinalStatus.SUCCEEDED, "4 tasks succeeded", "")   # `run` ends, too
    await client.close()

`want`, `release`, `exclude`, `include` and `wake` may be called at any time, also before the registration and
from the handler; each triggers a heartbeat at once. `request_table` explains the terms.
`node_tokens` is what `NodeClients` needs to authenticate to the nodes.

Handled here, invisible to the caller:

- a ResourceManager that restarted or failed over: register again, and send all requests again;
- a lost response: repeat the same request, so that nothing is granted or reported twice;
- a new AM token, when the ResourceManager's key rolls: used from the next call on, over a new connection;
- a request that can never be granted: reported as `AllocationUpdate.refused`, while the others continue;
- a request that cannot be placed now (`AllocationUpdate.rejected`): repeated after a pause that grows to ten seconds;
- surplus containers, granted while totals change: released.

`run` ends with `finish`; `AttemptEndedError` (the ResourceManager has ended this attempt: stop everything and exit);
`DaemonsUnavailableError` (no ResourceManager for longer than the configuration allows).

The heartbeat runs in its own task: the handler must not block, and is not a coroutine.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from dataclasses import replace as with_fields
from typing import Final

from tony.hadoop.configuration.service_addresses import list_schedulers
from tony.hadoop.configuration.settings import HadoopConfiguration
from tony.hadoop.errors import (
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
from tony.hadoop.failover import FailoverProxy, Policy, build_connection_options, build_resource_manager_policy
from tony.hadoop.ipc.login import LoginIdentity
from tony.hadoop.sasl.digest_layers import Protection
from tony.hadoop.wire.application_master import (
    ALLOCATE,
    FINISH,
    MASTER_PROTOCOL,
    REGISTER,
    AllocateResponse,
    FinishRequest,
    NodeToken,
    RegisterRequest,
    RegisterResponse,
)
from tony.hadoop.wire.proto import replace
from tony.hadoop.wire.rpc import Token
from tony.hadoop.wire.yarn_records import (
    Container,
    ContainerId,
    FinalStatus,
    NodeId,
)
from tony.hadoop.yarn.request_table import AllocationUpdate, AskTable, ContainerRequest
from tony.retry import Backoff

#: Seconds between two checks whether the unregistration is stored; it takes the ResourceManager about 20 ms.
_FINISH_PAUSE_SECONDS: Final = 0.02
#: Consecutive unexpected responses or refused logins that are tolerated. A starting ResourceManager may know the
#: attempt slightly before its token.
_MAX_ODD_RESPONSES: Final = 5
_ODD_RESPONSE_PAUSE_SECONDS: Final = 1.0

#: Consecutive calls that may go unanswered before the ResourceManager considers the AM dead.
_CHANCES: Final = 4

#: Other refusals of a request by the ResourceManager: an unknown label, a request that the scheduler itself rejected
#: (the misspelt class is Hadoop's), a constraint while its handler is disabled.
_REFUSAL_TEXTS: Final = (
    "InvalidLabelResourceRequestException",
    "SchedulerInvalidResoureRequestException",
    "SchedulingRequest",
)

#: Before a rejected request is repeated.
_RETRY_DELAYS: Final = Backoff(first=1.0, most=10.0)
#: Seconds after a change during which answers are likely.
_JUST_NOW_SECONDS: Final = 1.0

Handler = Callable[[AllocationUpdate], None]


def _now() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class AttemptEndedError(HadoopError):
    """The ResourceManager has ended this attempt: it was killed, or another one runs. Stop everything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatInterval:
    """Heartbeat intervals in seconds: fast while changes are expected, slow otherwise.

    Attributes:
        fast: interval while containers are outstanding, or shortly after a change.
        slow: interval when nothing is expected; also the longest while containers are outstanding.
        settle: time after a change during which the interval stays fast: containers tend to end in groups.
        share: the interval grows with the time waited; it is at least this fraction of it.
        first: fraction of `fast` used while a request of the last second is outstanding: a scheduler that does not
            wait for node heartbeats grants it in milliseconds.
        least: minimum between any two heartbeats.
        retry_delays: delays before a rejected request is repeated; they grow each time nothing of it is granted.
    """

    fast: float = 0.05
    slow: float = 1.0
    settle: float = 2.0
    share: float = 0.01
    first: float = 0.4
    least: float = 0.01
    retry_delays: Backoff = _RETRY_DELAYS

    def compute_interval(self, since_change: float, *, wanting: bool) -> float:
        """Return the seconds until the next heartbeat if nothing happens before.

        Args:
            since_change: seconds since the last change, local or in the ResourceManager.
            wanting: whether requested containers are outstanding.
        """
        if wanting and since_change < _JUST_NOW_SECONDS:
            return self.fast * self.first
        if wanting:
            return max(self.fast, min(self.slow, since_change * self.share))
        return self.fast if since_change < self.settle else max(self.fast, self.slow)


def create_scheduler_proxy(
    settings: HadoopConfiguration,
    token: Token,
    *,
    policy: Policy | None = None,
    protections: tuple[Protection, ...] = (),
) -> FailoverProxy:
    """Return a failover proxy to the scheduler service (for AMs) of all ResourceManagers.

    The ResourceManager gives up an AM that is silent for too long, so calls time out early enough to fail over from a
    ResourceManager that hangs.

    Args:
        token: AM token from the token file (kind `YARN_AM_RM_TOKEN`); required on insecure clusters, too.
        policy: how long to search for an active ResourceManager; default from the configuration.
        protections: SASL protection levels, in order of preference.
    """
    daemons = list_schedulers(settings)
    options = build_connection_options(settings)
    if len(daemons) > 1:
        limit = settings.get_seconds("yarn.am.liveness-monitor.expiry-interval-ms") / _CHANCES
        options = with_fields(options, call_timeout=min(limit, options.call_timeout or math.inf))
    return FailoverProxy(
        name="ResourceManager (scheduler)",
        daemons=daemons,
        login=LoginIdentity(token=token, protections=protections),
        protocol=MASTER_PROTOCOL,
        policy=policy or build_resource_manager_policy(settings),
        options=options,
    )


class MasterClient:
    """The client of one application attempt. Use it in one event loop.

    Args:
        proxy: proxy to the ResourceManager, see `create_scheduler_proxy`. Closed by `close`.
        protections: SASL protection levels for logins with new tokens, as for the proxy.
        pace: heartbeat intervals.

    Attributes:
        node_tokens: the newest token of each node.
        token: newest AM token received in a response, if any.
        answers: number of answered heartbeats.
        cluster_nodes: number of nodes in the last response; None before the first.
        is_renewed: the AM had to register again: the ResourceManager restarted or failed over.
    """

    def __init__(
        self, proxy: FailoverProxy, *, protections: tuple[Protection, ...] = (), pace: HeartbeatInterval | None = None
    ) -> None:
        self.node_tokens: dict[NodeId, Token] = {}
        self.token: Token | None = None
        self.answers = 0
        self.cluster_nodes: int | None = None
        self.is_renewed = False
        self._proxy, self._protections, self._pace = proxy, protections, pace or HeartbeatInterval()
        self._table = AskTable()
        self._registration: RegisterRequest | None = None
        self._recovered: tuple[Container, ...] = ()
        self._woken = asyncio.Event()
        #: Serializes calls: heartbeat, registration and unregistration.
        self._lock = asyncio.Lock()
        self._is_ending = False
        self._changed_at = -math.inf
        self._sent_at = -math.inf
        self._last_received_at = -math.inf
        self._known_at = _now()
        self._odd_responses = 0
        #: Key -> the timer that repeats its request; and the pause before that, while none of it is granted.
        self._again: dict[int, asyncio.TimerHandle] = {}
        self._pauses: dict[int, Iterator[float]] = {}

    # -- requests of the caller

    def want(self, key: int, total: int, ask: ContainerRequest | None = None) -> None:
        """Set the number of outstanding containers of a key, not counting those already granted to the handler.

        Args:
            key: any non-negative number; returned as the container's `allocation_request_id`.
            total: number of containers; 0 to cancel.
            ask: properties of the containers; optional when the key is known.
        """
        self._table.want(key, total, ask)
        self.wake()

    def count_outstanding(self, key: int | None = None) -> int:
        """Return the number of outstanding containers, of one key or of all."""
        return self._table.count_outstanding(key)

    def release(self, container: ContainerId) -> None:
        """Release a container; if it runs, its node stops it. Its end is reported as usual, with status -100."""
        self._table.release(container)
        self.wake()

    def exclude(self, host: str) -> None:
        """Exclude a host from new containers."""
        self._table.exclude(host)
        self.wake()

    def include(self, host: str) -> None:
        """Undo the exclusion of a host."""
        self._table.include(host)
        self.wake()

    def wake(self) -> None:
        """Send the next heartbeat now, and the following ones at the fast interval."""
        self._changed_at = asyncio.get_running_loop().time()
        self._woken.set()

    @property
    def silence(self) -> float:
        """Return the seconds for which a heartbeat has waited for its response; 0 if none is pending."""
        return asyncio.get_running_loop().time() - self._sent_at if self._last_received_at < self._sent_at else 0.0

    @property
    def unknown_for(self) -> float:
        """Return the seconds since the ResourceManager last responded, including time the machine was suspended."""
        return _now() - self._known_at

    # -- registration

    async def register(self, host: str, port: int, tracking_url: str, *, is_heir: bool = False) -> RegisterResponse:
        """Register the AM.

        Args:
            host: host name of the AM, for clients.
            port: RPC port of the AM; -1 if it has none.
            tracking_url: URL of the AM's web page, `http://host:port/` or `host:port`; empty for none.
            is_heir: an earlier attempt may have left containers. Only the first response lists them: if it is lost,
                this attempt cannot learn of them.

        Returns:
            the response, without containers that were known already; their NodeManager tokens are stored. Resource
            types other than its own the ResourceManager silently ignores in requests.

        Raises:
            AttemptEndedError: this attempt ended before it registered, or the list of inherited containers was lost.
            HadoopError: any other error of the ResourceManager.
        """
        self._registration = RegisterRequest(host=host, rpc_port=port, tracking_url=tracking_url)
        async with self._lock:
            response = await self._register(must_tell=is_heir)
        return replace(response, previous_containers=self._table.adopt(response.previous_containers))

    async def _register(self, *, must_tell: bool = False) -> RegisterResponse:
        assert self._registration is not None
        try:
            response = await self._proxy.call(REGISTER, self._registration)
        except InvalidApplicationMasterRequestError as error:
            if "already registered" not in error.remote_message:
                raise
            if must_tell:
                raise AttemptEndedError(
                    "the response to the registration was lost, and with it the list of containers of earlier attempts"
                ) from error
            response = RegisterResponse()  # the first call succeeded, but its response was lost
        except (ApplicationAttemptNotFoundError, InvalidTokenError) as error:
            raise AttemptEndedError(f"this attempt cannot register: {error}") from error
        self._store_tokens(response.previous_node_tokens)
        return response

    def _store_tokens(self, tokens: Iterable[NodeToken]) -> None:
        self.node_tokens.update((each.node, each.token) for each in tokens if each.node and each.token)

    async def _register_again(self) -> None:
        self._table.on_forgotten()
        self.is_renewed = True
        response = await self._register()
        self._recovered += self._table.adopt(response.previous_containers)
        self.wake()

    # -- the heartbeat

    async def run(self, handler: Handler) -> None:
        """Send heartbeats and report updates, until `finish` is called.

        Args:
            handler: called with each non-empty update. An exception that it raises ends `run`.

        Raises:
            AttemptEndedError: the ResourceManager has ended this attempt.
            DaemonsUnavailableError: no ResourceManager can be reached.
            HadoopError: the ResourceManager refuses the heartbeat repeatedly.
        """
        self.wake()
        while not self._is_ending:
            async with self._lock:
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
            response = await self._proxy.call(ALLOCATE, self._table.build_request())
        except ApplicationMasterNotRegisteredError:
            self._odd_responses += 1
            if self._odd_responses > _MAX_ODD_RESPONSES:  # it forgets the registration each time: slow down
                await asyncio.sleep(_ODD_RESPONSE_PAUSE_SECONDS)
            await self._register_again()
            return AllocationUpdate()
        except ApplicationAttemptNotFoundError as error:
            raise AttemptEndedError(f"the ResourceManager has ended this attempt: {error}") from error
        except (InvalidTokenError, LoginError, SaslError) as error:
            await self._bear(error)
            return AllocationUpdate()
        except RemoteError as error:
            if isinstance(error, InvalidApplicationMasterRequestError):
                raise
            if self._is_refusal(error):
                self._odd_responses = 0
                self.wake()
                return self._table.on_refused(error.remote_message)
            await self._bear(error)
            return AllocationUpdate()
        self._odd_responses = 0
        self._last_received_at = asyncio.get_running_loop().time()
        self._known_at = _now()
        return await self._take(response)

    async def _take(self, response: AllocateResponse) -> AllocationUpdate:
        self._store_tokens(response.node_tokens)
        if response.am_rm_token is not None:
            self.token = response.am_rm_token
            await self._proxy.login_as(LoginIdentity(token=self.token, protections=self._protections))
        news = self._table.on_response(response)
        self.answers += 1
        self.cluster_nodes = self.cluster_nodes if news.cluster_nodes is None else news.cluster_nodes
        self._plan(news)
        return news

    def _plan(self, news: AllocationUpdate) -> None:
        """Schedule the repetition of rejected requests: soon after a grant, else with growing pauses."""
        for container in news.granted:
            self._pauses.pop(container.allocation_request_id, None)
        for rejected in news.rejected:
            if rejected.key not in self._again:
                pause = next(self._pauses.setdefault(rejected.key, iter(self._pace.retry_delays)))
                self._again[rejected.key] = asyncio.get_running_loop().call_later(pause, self._ask_again, rejected.key)

    def _ask_again(self, key: int) -> None:
        del self._again[key]
        self._table.repeat_rejected(key)
        if self._table.is_changed:
            self.wake()

    def _is_refusal(self, error: RemoteError) -> bool:
        """Return True if the error concerns a container request: by its class, or because it keeps recurring."""
        if not self._table.is_asking:
            return False
        if isinstance(error, InvalidResourceRequestError):
            return True
        text = error.class_name + error.remote_message
        return any(each in text for each in _REFUSAL_TEXTS) or self._odd_responses >= _MAX_ODD_RESPONSES

    async def _bear(self, error: HadoopError) -> None:
        """Wait after an error that may be temporary; raise it if it recurs too often."""
        self._odd_responses += 1
        if self._odd_responses > _MAX_ODD_RESPONSES:
            if isinstance(error, InvalidTokenError):
                raise AttemptEndedError(f"the ResourceManager does not know this attempt's token: {error}") from error
            raise error
        await asyncio.sleep(_ODD_RESPONSE_PAUSE_SECONDS)

    async def _pause(self) -> None:
        """Wait until the next heartbeat is due or `wake` is called."""
        loop = asyncio.get_running_loop()
        if self._table.is_changed:
            self.wake()
        wanting = self._table.count_outstanding() > 0
        due = self._sent_at + self._pace.compute_interval(loop.time() - self._changed_at, wanting=wanting)
        if not self._woken.is_set() and due > loop.time():
            waker = loop.call_at(due, self._woken.set)
            await self._woken.wait()
            waker.cancel()
        await asyncio.sleep(max(0.0, self._sent_at + self._pace.least - loop.time()))

    # -- the end

    async def finish(self, status: FinalStatus, diagnostics: str = "", tracking_url: str = "") -> None:
        """Unregister the AM, repeating the call until it is stored. Then the process has a few seconds to exit.

        Stop running containers first: the nodes learn of the end only after seconds.

        Args:
            status: final status of the application.
            diagnostics: text for the user.
            tracking_url: URL of the job history; empty for none.

        Raises:
            AttemptEndedError: the attempt had already ended.
        """
        self._is_ending = True
        self._woken.set()
        request = FinishRequest(diagnostics=diagnostics, tracking_url=tracking_url, final_status=status)
        is_sent, odd_response_count = False, 0
        async with self._lock:
            while True:
                try:
                    answer = await self._proxy.call(FINISH, request)
                except ApplicationMasterNotRegisteredError:
                    odd_response_count += 1
                    if odd_response_count > _MAX_ODD_RESPONSES:
                        raise
                    await self._register_again()
                    continue
                except (ApplicationAttemptNotFoundError, InvalidTokenError) as error:
                    if is_sent:
                        return  # the unregistration was stored and the attempt removed
                    raise AttemptEndedError(f"this attempt had ended before it could unregister: {error}") from error
                if answer.unregistered:
                    return
                is_sent = True
                await asyncio.sleep(_FINISH_PAUSE_SECONDS)

    async def close(self) -> None:
        """Close the connection."""
        self._is_ending = True
        self._woken.set()
        for timer in self._again.values():
            timer.cancel()
        await self._proxy.close()
