"""The setting `history`: where the history of a job is kept. It is an annotation of the Job, too, for other machines.

In HDFS and S3 it is `<folder>/jobs/<id>`, as the job directories of YARN are in the staging folder. What leads clients
to the application master is in ConfigMaps and a Secret in any case. For S3 the application master, submissions and
readers each have credentials and the address of the server in their own environment.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tony.errors import InfraError, Problem, SchedulerError, StorageError
from tony.hadoop.configuration import Configuration, ConfigurationError
from tony.hadoop.configuration.service_addresses import NameService, find_name_service
from tony.kube.api_client import ApiClient, Object
from tony.kube.errors import KubeApiError
from tony.kube.resources import JOBS
from tony.model.hdfs_uri import split_address
from tony.model.state_directory import Home
from tony.schedulers.job_store.config_map_job_store import ConfigMapJobStore
from tony.schedulers.job_store.job_store import JobStore
from tony.schedulers.job_store.split_job_store import SplitJobStore
from tony.schedulers.kubernetes.history_setting import HISTORY_ANNOTATION, is_in_s3, parse_history
from tony.schedulers.kubernetes.s3_history import build_s3_history, open_history_bucket
from tony.schedulers.kubernetes.settings import read_settings
from tony.schedulers.settings_schema import load_recorded_values

if TYPE_CHECKING:
    from tony.schedulers.kubernetes.hadoop_access import HadoopAccess
    from tony.storage.hdfs.hdfs_clients import HdfsClients


def find_history(job: Object) -> str:
    """Return where the history of a job is, according to its Job object; empty for the namespace.

    Raises:
        SchedulerError: the annotation is not valid.
    """
    text = str((job["metadata"].get("annotations") or {}).get(HISTORY_ANNOTATION, ""))
    try:
        return parse_history(text)
    except ValueError as error:
        raise SchedulerError(f"{HISTORY_ANNOTATION} of Job {job['metadata'].get('name')}: {error}") from None


def open_own_history(client: ApiClient, job: str, owner: str, address: str) -> JobStore:
    """Return the files of this pod's job, for its application master.

    Args:
        owner: uid of the Job.
        address: see `parse_history`.

    Raises:
        PlatformError: this pod has no access to HDFS.
        ConfigurationError: the file system is unknown.
    """
    contacts = ConfigMapJobStore(client, job, owner)
    if not address:
        return contacts
    if is_in_s3(address):  # its first request says whether there are credentials
        return SplitJobStore(contacts, build_s3_history(lambda: open_history_bucket(address), address, job))
    from tony.schedulers.kubernetes.hadoop_access import load_access  # late: few jobs use HDFS

    hdfs = load_access().create_clients()
    return SplitJobStore(contacts, _build_history(hdfs.select_file_system(_find_service(hdfs, address)), address, job))


def create_history(access: HadoopAccess | None, address: str, job: str, undo: contextlib.ExitStack) -> None:
    """Create the folder of a job in HDFS with its tokens, or try one in S3: so a submission finds that it can.

    Args:
        access: to the HDFS file systems of the job; None if it uses none.
        undo: removes the folder if the submission fails.

    Raises:
        SchedulerError: it cannot be written.
    """
    try:
        if is_in_s3(address):
            build_s3_history(lambda: open_history_bucket(address), address, job).check()
        elif address:
            assert access is not None, "its file system is among those of the job"
            _make_folder(access, address, job, undo)
    except InfraError as error:
        text = f"the job's history cannot be kept in {address} (scheduler.kubernetes.history)"
        raise SchedulerError(f"{text}: {error}") from error


def _make_folder(access: HadoopAccess, address: str, job: str, undo: contextlib.ExitStack) -> None:
    system, folder = split_address(address)
    path = f"{folder}/jobs/{job}"

    def remove() -> None:
        with contextlib.suppress(InfraError), contextlib.closing(access.open_files(system)) as files:
            files.delete(path)

    with contextlib.closing(access.open_files(system)) as files:
        files.make_directories(path, 0o700)
    undo.callback(remove)


class HistoryReader:
    """Opens histories of jobs for a client; in HDFS with one login for each file system.

    Args:
        home: names the jobs of this machine, and its running `tony mini` is the cluster if no other is configured.
    """

    def __init__(self, home: Home) -> None:
        self._home = home
        self._lock = threading.Lock()
        self._clients: dict[str, HdfsClients] = {}

    def open_history(self, client: ApiClient, job: str) -> JobStore:
        """Return the files of a job. Its job directory here says where they are, else its Job does.

        Raises:
            KubeError: the Job cannot be read.
            SchedulerError: the file system is not known here; says what to do.
        """
        values = load_recorded_values(self._home.job(job))
        try:
            address = read_settings(values)[0].history_address
        except ValueError as error:  # the file may be anyone's, or of a newer tony
            raise SchedulerError(f"scheduler.kubernetes.history of {job}: {error}") from None
        if not values:
            try:
                address = find_history(client.get(JOBS, job))
            except KubeApiError as error:
                if not error.is_missing:
                    raise
        contacts = ConfigMapJobStore(client, job)
        return SplitJobStore(contacts, self.open(address, job)) if address else contacts

    def open(self, address: str, job: str) -> JobStore:
        """Return the history of a job.

        The address may be anyone's who may write Jobs, and does not choose where the user authenticates: a file system
        must be one that the user's own Hadoop configuration names, and a bucket is in the server of the user's
        environment.

        Args:
            address: see `parse_history`.

        Raises:
            SchedulerError: the file system is not known here, or there are no credentials; says what to do.
        """
        if is_in_s3(address):
            try:
                bucket = open_history_bucket(address)
            except StorageError as error:
                raise SchedulerError(f"the history of {job} is in {address}: {error}") from error
            return build_s3_history(lambda: bucket, address, job)
        system, _ = split_address(address)
        with self._lock:
            if system not in self._clients:
                try:
                    self._clients[system] = _find_clients(self._home, address)
                except (ValueError, ConfigurationError) as error:
                    raise SchedulerError(f"the history of {job} is in {address}: {error}") from error
            return _build_history(self._clients[system], address, job)

    def find_problems(self, address: str) -> Sequence[Problem]:
        """Return why commands of this machine could not read histories there; nothing if they could.

        Args:
            address: see `parse_history`.
        """
        if not address:
            return ()
        try:
            if is_in_s3(address):
                open_history_bucket(address)
            else:
                _find_clients(self._home, address)
        except (ValueError, ConfigurationError, StorageError) as error:
            given = "variables of this environment" if is_in_s3(address) else "configuration in HADOOP_CONF_DIR"
            text = f"commands could not read the history there, with the {given}: {error}"
            return [Problem(key="scheduler.kubernetes.history", value=address, message=text)]
        return ()


def _find_clients(home: Home, address: str) -> HdfsClients:
    """Return clients of the file system of a history.

    Raises:
        ValueError, ConfigurationError: it is not known here.
    """
    from tony.storage.hdfs.hdfs_clients import find_hdfs  # late: few jobs use HDFS

    hdfs = find_hdfs(home, {})
    service = _find_service(hdfs, address)
    if not is_known(hdfs.configuration, service):
        raise ValueError(
            "your Hadoop configuration does not name this file system. Add it to dfs.nameservices, with "
            "dfs.namenode.rpc-address and dfs.namenode.http-address."
        )
    return hdfs.select_file_system(service)


def _find_service(hdfs: HdfsClients, address: str) -> NameService:
    return find_name_service(hdfs.configuration, split_address(address)[0] or None)


def _build_history(hdfs: HdfsClients, address: str, job: str) -> JobStore:
    from tony.schedulers.job_store.hdfs_job_store import HdfsJobStore  # late: few jobs use HDFS

    return HdfsJobStore(hdfs, f"{split_address(address)[1]}/jobs/{job}")


def is_known(configuration: Configuration, service: NameService) -> bool:
    """Return True if a configuration itself names all NameNodes of a file system."""
    addresses = {node.address for each in _list_named(configuration) for node in each.name_nodes}
    return addresses.issuperset(node.address for node in service.name_nodes)


def _list_named(configuration: Configuration) -> Sequence[NameService]:
    names = configuration.get_list("dfs.nameservices")
    return [find_name_service(configuration), *(find_name_service(configuration, f"hdfs://{each}") for each in names)]
