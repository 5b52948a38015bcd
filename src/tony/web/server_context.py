"""What the requests of one server share."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field

from starlette.requests import Request

from tony.linux.folder_watches import FolderWatches
from tony.web.job_provider import JobProvider
from tony.web.timeline_svg import SvgCache
from tony.web.user_authentication import Authenticator


@dataclass(frozen=True, slots=True)
class ServerContext:
    """The jobs, the authentication and the options of one server.

    Attributes:
        only: the id of the only job served, whose page is then `/`; empty if many are served.
        login: the server has a page `/login`, for users who cannot be authenticated otherwise.
        boards: the server has TensorBoard pages below `/tensorboard`.
        drawings: the timelines drawn last.
        watches: the folders whose changes open pages wait for.
        held: the requests that wait for a change now.
    """

    provider: JobProvider
    auth: Authenticator
    _: KW_ONLY
    only: str = ""
    login: bool = False
    boards: bool = False
    drawings: SvgCache = field(default_factory=SvgCache)
    watches: FolderWatches = field(default_factory=FolderWatches)
    held: set[Request] = field(default_factory=set)
