"""Checkpoints in a folder that every task sees, or in HDFS. Standard library only; copy this file into your project.

A checkpoint is a folder of its own, `step-00000040`, that appears all at once when all of it is there: it is written
under another name and renamed. So a reader finds complete checkpoints only, at any time.

A place is a path, or `webhdfs://NAMENODE:9870/user/ann/digits`: HDFS over HTTP, which needs no Java and no package. It
is for clusters without security; on others, and for other stores, put fsspec in its place.
"""

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
        self._user = os.environ.get("HADOOP_USER_NAME") or getpass.getuser()

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
        query = urlencode({"op": operation, "user.name": self._user, **more})
        url = self._url + quote(self._root + "/" + name) + "?" + query
        with urlopen(Request(url, method=method), timeout=TIMEOUT) as answer:
            return json.loads(answer.read())
