"""Checkpoints in a folder that every task sees, or in HDFS. Standard library only; copy this file into your project.

A checkpoint is a folder of its own, `step-00000040`, that appears all at once when all of it is there: it is written
under another name and renamed. So a reader finds complete checkpoints only, at any time.

A place is a path, or `webhdfs://NAMENODE:9870/user/ann/digits`: HDFS over HTTP, which needs no Java and no package. On
a cluster with security the job's delegation token is used. For other stores put fsspec in its place.
"""

import base64
import getpass
import json
import os
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import Request, urlopen

NAME = "step-{:08}"
TIMEOUT = 60  # seconds without a byte


class Checkpoints:
    """The checkpoints of one training. Only one process may write them."""

    def __init__(self, place: str) -> None:
        self._files = _WebHdfs(place) if place.startswith("webhdfs://") else _Folder(place)

    def steps(self) -> list:
        """The steps of all complete checkpoints, oldest first."""
        return sorted(int(name[5:]) for name in self._files.names("") if name.startswith("step-"))

    @contextmanager
    def writing(self, step: int):
        """An empty folder to write into. It becomes the checkpoint at the end of the block, if that ends well."""
        with tempfile.TemporaryDirectory() as scratch:
            yield Path(scratch)
            name = NAME.format(step)
            draft = "_" + name
            self._files.remove(draft)  # of a process that died while it wrote
            for path in sorted(Path(scratch).iterdir()):
                self._files.put(path, draft + "/" + path.name)
            self._files.rename(draft, name)

    @contextmanager
    def reading(self, step: int):
        """A folder with the checkpoint's files, for the time of the block."""
        with tempfile.TemporaryDirectory() as scratch:
            name = NAME.format(step)
            for file in self._files.names(name):
                self._files.get(name + "/" + file, Path(scratch) / file)
            yield Path(scratch)


class _Folder:
    def __init__(self, place: str) -> None:
        self._root = Path(place).expanduser()

    def names(self, name: str) -> list:
        return os.listdir(self._root / name) if self._root.is_dir() else []

    def put(self, source: Path, name: str) -> None:
        (self._root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, self._root / name)

    def get(self, name: str, target: Path) -> None:
        shutil.copyfile(self._root / name, target)

    def rename(self, old: str, new: str) -> None:
        (self._root / old).rename(self._root / new)

    def remove(self, name: str) -> None:
        shutil.rmtree(self._root / name, ignore_errors=True)


class _WebHdfs:
    def __init__(self, place: str) -> None:
        parts = urlsplit(place)
        self._url = "http://" + parts.netloc + "/webhdfs/v1"
        self._root = parts.path.rstrip("/")
        token = _find_token()
        user = os.environ.get("HADOOP_USER_NAME") or getpass.getuser()
        self._login = {"delegation": token} if token else {"user.name": user}

    def names(self, name: str) -> list:
        try:
            found = self._ask("GET", name, "LISTSTATUS")["FileStatuses"]["FileStatus"]
        except HTTPError as error:
            if error.code == 404:
                return []
            raise
        return [each["pathSuffix"] for each in found]

    def put(self, source: Path, name: str) -> None:
        data_node = self._ask("PUT", name, "CREATE", overwrite="true", noredirect="true")["Location"]
        with open(source, "rb") as file:
            headers = {"Content-Length": str(source.stat().st_size)}
            urlopen(Request(data_node, data=file, method="PUT", headers=headers), timeout=TIMEOUT).close()

    def get(self, name: str, target: Path) -> None:
        data_node = self._ask("GET", name, "OPEN", noredirect="true")["Location"]
        with urlopen(data_node, timeout=TIMEOUT) as answer, open(target, "wb") as file:
            shutil.copyfileobj(answer, file)

    def rename(self, old: str, new: str) -> None:
        if not self._ask("PUT", old, "RENAME", destination=self._root + "/" + new)["boolean"]:
            raise FileExistsError(self._root + "/" + new)

    def remove(self, name: str) -> None:
        self._ask("DELETE", name, "DELETE", recursive="true")

    def _ask(self, method: str, name: str, operation: str, **more: str) -> dict:
        """Asks the NameNode; it names a DataNode where bytes are to go or come from."""
        query = urlencode({"op": operation, **self._login, **more})
        url = self._url + quote(self._root + "/" + name) + "?" + query
        with urlopen(Request(url, method=method), timeout=TIMEOUT) as answer:
            return json.loads(answer.read())


def _find_token() -> str:
    """The job's first token of HDFS, as WebHDFS takes it; empty without security. Source: Hadoop's Credentials.java."""
    path = os.environ.get("HADOOP_TOKEN_FILE_LOCATION")
    if not path:
        return ""
    with open(path, "rb") as file:
        file.read(5)  # "HDTS", and the version
        for _ in range(_read_length(file)):
            file.read(_read_length(file))  # its name in the file
            start = file.tell()
            parts = [file.read(_read_length(file)) for _ in range(4)]  # identifier, password, kind, service
            if parts[2] == b"HDFS_DELEGATION_TOKEN":
                end = file.tell()
                file.seek(start)
                return base64.urlsafe_b64encode(file.read(end - start)).decode().rstrip("=")
    return ""


def _read_length(file) -> int:
    """A number of Hadoop's variable length: it is in the first byte, or that says how many bytes follow."""
    first = file.read(1)[0]
    return first if first < 128 else int.from_bytes(file.read(144 - first), "big")
