"""Logs that NodeManagers aggregated in the file system when containers or applications ended.

Where they are depends on the version and on settings of the cluster, so all places are tried:

    {remote-app-log-dir}/{user}/bucket-{suffix}-{format}/{last four digits}/{application}/{host}_{port}   from 3.3 on
    {remote-app-log-dir}/{user}/{suffix}-{format}/{application}/{host}_{port}                             3.1, 3.2
    {remote-app-log-dir}/{user}/{suffix}/{application}/{host}_{port}                                      before

One file for each node, and with rolling aggregation one for each round or for several. A round uploads whole files: one
that grew since the previous round is there twice, the second time with its new bytes after the first's. But a
NodeManager also removes what it uploaded, so the same name may be a new file. Comparing the bytes shows which it is.

The owner's folder is closed to others (770): only the owner, and members of the cluster's group, can read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from tony.hadoop.errors import FileMissingError, HadoopError
from tony.hadoop.hdfs.file_system import FileSystem
from tony.hadoop.logs import ifile, tfile
from tony.hadoop.logs.log_files import LogFileEntry, MalformedLogFileError, Opener

#: Reads a setting: key and default -> value.
Settings = Callable[[str, str], str | None]

#: Where nodes bring logs to: a path, or one in a file system that it names.
FOLDER = "yarn.nodemanager.remote-app-log-dir"
_SUFFIX = "yarn.nodemanager.remote-app-log-dir-suffix"
#: A NodeManager writes into this and renames it.
_TEMPORARY = ".tmp"
#: Of one application: files of nodes and rounds, and log files in them.
_MAX_FILES = 100_000
_MAX_LOGS = 250_000
#: Bytes compared at the start and at the end of a file that came in two rounds.
_SAMPLE = 4096


class LogsNotFoundError(HadoopError):
    """No such logs: not aggregated yet, or not at all, or removed; the message says where they were looked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregatedLogLocation:
    """Location of the aggregated logs of one format.

    Attributes:
        folder: above the users' folders, without the file system's name.
        suffix: of the folder below the user's.
    """

    folder: str
    suffix: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregatedLog:
    """One log file of a container.

    Attributes:
        name: of the log file, such as `stdout`.
        length: bytes.
        pieces: where the bytes are, in order; several only with rolling aggregation, of files that were replaced.
    """

    container: str
    name: str
    length: int
    pieces: tuple[LogFileEntry, ...]


def find_places(settings: Settings) -> tuple[AggregatedLogLocation, ...]:
    """Return the log locations of the configuration, for every format that it names and for the older ones.

    Args:
        settings: reads a setting of `yarn-site.xml`: `(key, default) -> value`.
    """
    common = settings(FOLDER, "/tmp/logs") or "/tmp/logs"
    suffix = settings(_SUFFIX, "logs") or "logs"
    formats = [name.strip() for name in (settings("yarn.log-aggregation.file-formats", "TFile") or "").split(",")]
    found: list[AggregatedLogLocation] = []
    for name in [*filter(None, formats), "TFile", "IFile"]:
        folder = settings(f"yarn.log-aggregation.{name}.remote-app-log-dir", "") or common
        own = settings(f"yarn.log-aggregation.{name}.remote-app-log-dir-suffix", "")
        found.append(AggregatedLogLocation(folder=_strip_file_system(folder), suffix=own or f"{suffix}-{name.lower()}"))
    found.append(AggregatedLogLocation(folder=_strip_file_system(common), suffix=suffix))
    return tuple(dict.fromkeys(found))


class AggregatedLogs:
    """The aggregated logs of a cluster.

    Args:
        filesystem: that of the logs, for a user with read permission.
        places: where to look, see `places`.
    """

    def __init__(self, filesystem: FileSystem, places: Sequence[AggregatedLogLocation]) -> None:
        self._filesystem = filesystem
        self._places = tuple(places)

    def find_folders(self, application: str, owner: str) -> tuple[str, ...]:
        """Return every folder where the logs of an application may be, the likeliest first."""
        bucket = f"{int(application.rpartition('_')[2]) % 10000:04d}"
        found = []
        for place in self._places:
            base = f"{place.folder}/{owner}"
            found.append(f"{base}/bucket-{place.suffix}/{bucket}/{application}")
            found.append(f"{base}/{place.suffix}/{application}")
        return tuple(found)

    def find(self, application: str, owner: str) -> tuple[AggregatedLog, ...]:
        """Return every log file of an application, by container and name.

        Aggregated files that are damaged are left out if others are not; a round that is under way counts when it is
        done.

        Args:
            owner: the user whose application it was.

        Raises:
            LogsNotFoundError: no file for this application; they come some seconds after its end, if at all.
            MalformedLogFileError: files, but none that can be read.
            HadoopError: more log files than make sense.
        """
        pieces: dict[tuple[str, str], list[LogFileEntry]] = {}
        left = _MAX_LOGS
        failed: MalformedLogFileError | None = None
        for path, size, others in self._list_files(application, owner):
            try:
                for piece in self._iterate_pieces(path, size, others):
                    left -= 1
                    if left < 0:
                        text = f"{application} has more than {_MAX_LOGS:,} log files. See them with: yarn logs"
                        raise HadoopError(text)
                    pieces.setdefault((piece.container, piece.name), []).append(piece)
            except MalformedLogFileError as error:
                failed = MalformedLogFileError(f"{path} {error}")
        if not pieces and failed is not None:
            raise failed
        return tuple(_build_log(*key, found) for key, found in sorted(pieces.items()))

    def read(self, log: AggregatedLog, offset: int = 0) -> Iterator[bytes]:
        """Yield the bytes of a log file from an offset on, in pieces; nothing if the offset is past the end.

        Raises:
            MalformedLogFileError: damaged.
            FileMissingError: removed meanwhile.
        """
        for piece in log.pieces:
            if offset >= piece.length:
                offset -= piece.length
                continue
            yield from piece.read(offset, piece.length - offset)
            offset = 0

    def _list_files(self, application: str, owner: str) -> list[tuple[str, int, dict[str, int]]]:
        """Return path and size of each aggregated file, and the names and sizes of all files next to it."""
        found: list[tuple[str, int, dict[str, int]]] = []
        folders = self.find_folders(application, owner)
        for folder in folders:
            try:
                sizes = {status.name: status.length for status in self._filesystem.list(folder) if status.is_file}
            except FileMissingError:
                continue
            # A file without bytes is one whose NodeManager has only begun.
            whole = [name for name, size in sorted(sizes.items()) if size]
            names = [name for name in whole if not name.endswith((_TEMPORARY, ifile.CHECKSUM_SUFFIX))]
            found.extend((f"{folder}/{name}", sizes[name], sizes) for name in names)
            if len(found) > _MAX_FILES:
                raise MalformedLogFileError(f"{folder} holds more than {_MAX_FILES} files")
        if not found:
            raise LogsNotFoundError(
                f"no aggregated logs of {application}, owner {owner}. They come some seconds after its end, if"
                f" yarn.log-aggregation-enable is true. Looked in: {', '.join(folders)}"
            )
        return found

    def _iterate_pieces(self, path: str, size: int, sizes: dict[str, int]) -> Iterable[LogFileEntry]:
        open_at = partial(self._filesystem.open, path)
        with open_at(0, len(tfile.MAGIC)) as stream:
            is_tfile = tfile.is_tfile(_read_all(stream.read, len(tfile.MAGIC)))
        return tfile.iterate_entries(open_at, size) if is_tfile else self._list_indexed(open_at, path, size, sizes)

    def _list_indexed(self, open_at: Opener, path: str, size: int, sizes: dict[str, int]) -> list[LogFileEntry]:
        """Return what the index at the end has, or the one before the round that is under way (or broke off)."""
        try:
            return ifile.list_entries(open_at, size)
        except MalformedLogFileError:
            checksum = path.rpartition("/")[2] + ifile.CHECKSUM_SUFFIX
            if not 0 < sizes.get(checksum, 0) < 2**16:
                raise
            with self._filesystem.open(path + ifile.CHECKSUM_SUFFIX) as stream:
                before = ifile.read_checksum_length(_read_all(stream.read, 2**16))
            if not 0 < before < size:
                raise
            return ifile.list_entries(open_at, before)


def _build_log(container: str, name: str, rounds: Sequence[LogFileEntry]) -> AggregatedLog:
    kept: list[LogFileEntry] = []
    for piece in rounds:
        if kept and _has_grown_into(kept[-1], piece):
            kept.pop()
        kept.append(piece)
    length = sum(piece.length for piece in kept)
    return AggregatedLog(container=container, name=name, length=length, pieces=tuple(kept))


def _has_grown_into(before: LogFileEntry, after: LogFileEntry) -> bool:
    """Return True if a later round contains the same file, perhaps longer: some bytes are compared."""
    length = before.length
    if after.length < length:
        return False
    samples = ((0, min(length, _SAMPLE)), (max(0, length - _SAMPLE), min(length, _SAMPLE)))
    return all(b"".join(before.read(at, size)) == b"".join(after.read(at, size)) for at, size in samples)


def _strip_file_system(folder: str) -> str:
    """Return a folder without the file system's name: `hdfs://ns/app-logs` -> `/app-logs`."""
    if "://" in folder:
        folder = "/" + folder.partition("://")[2].partition("/")[2]
    elif folder.startswith(("hdfs:/", "file:/")):
        folder = folder.partition(":")[2]
    return folder.rstrip("/")


def _read_all(read: Callable[[int], bytes], most: int) -> bytes:
    parts = []
    while most > 0 and (part := read(most)):
        parts.append(part)
        most -= len(part)
    return b"".join(parts)
