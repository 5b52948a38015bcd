"""The command of a pod: it runs a module of tony's archive, whose pieces are in a volume. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from tony.schedulers.kubernetes.launch_payload import OBJECTS, WORK
from tony.schedulers.shipping import SOURCES

#: Exit codes of an AM after which no other one is to be started in its pod: its job has failed; AM attempts have died
#: too often; it cannot run here.
FAILED_EXIT_CODE, LOST_EXIT_CODE, REFUSED_EXIT_CODE = 42, 43, 44
#: Joins the pieces of tony's archive, checks their digest, and runs `main()` of a module in it; the archive of a user's
#: framework is unpacked. Must parse under any Python 3, so that an old one can be replaced, or report itself.
_BOOT = f"""\
import gc, hashlib, os, sys
def fail(reason):
    sys.stderr.write("tony: " + reason + "\\n")
    sys.exit({REFUSED_EXIT_CODE})
if sys.version_info < (3, 11):
    for name in "python3.14", "python3.13", "python3.12", "python3.11":
        try:
            os.execvp(name, [name] + open("/proc/self/cmdline").read().split("\\0")[1:-1])
        except OSError:
            pass
    fail("the image needs Python 3.11 or later; its python3 is " + sys.version.split()[0])
gc.disable()
objects, work, digest, count, framework, framework_count, module = sys.argv[1:8]
del sys.argv[1:8]
def read(digest, count):
    data = b"".join(open(objects + "/" + digest + "." + str(n), "rb").read() for n in range(int(count)))
    if hashlib.sha256(data).hexdigest() != digest:
        fail("its archive in the cluster is damaged: delete the ConfigMaps tony-" + digest[:40] + "-*")
    return data
path = work + "/tony.zip"
with open(path, "wb") as file:
    file.write(read(digest, count))
os.chdir(work)
sys.path[:0] = [path + "/" + sys.implementation.cache_tag, path + "/{SOURCES}"]
if framework:
    import io, zipfile
    zipfile.ZipFile(io.BytesIO(read(framework, framework_count))).extractall(work + "/framework")
    sys.path.append(work + "/framework")
sys.exit(__import__(module, fromlist=["main"]).main())
"""


def build_pod_command(
    runtime: tuple[str, int], module: Sequence[str], plug_in: tuple[str, int] | None = None
) -> list[str]:
    """Return the command of a pod.

    Args:
        runtime: digest and number of pieces of tony's archive.
        module: and its arguments.
        plug_in: digest and number of pieces of the archive of a user's framework.
    """
    archives = [str(part) for archive in (runtime, plug_in or ("", 0)) for part in archive]
    return ["python3", "-I", "-S", "-c", _BOOT, str(OBJECTS), str(WORK), *archives, *module]
