"""Where a symbolic link inside a folder leads, told without touching a disk.

A link is judged as the kernel would follow it, folder by folder and through other links, since reading its text alone
is fooled both ways: `a/../../x` stays inside if `a` is a link to a deeper folder, and `to_top/../x` leaves the folder
if `to_top` is a link to its top.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

#: As many links as the kernel follows in one path before it gives up with ELOOP; nobody can be led further.
MAX_FOLLOWED = 40


def resolve(link: str, target: str, links: Mapping[str, str]) -> str | None:
    """The path that a link leads to, relative to the folder's top; empty for the top itself.

    Args:
        link: the link's own path, relative to the top; the folders above it are real ones.
        target: the link's text.
        links: path -> text of every link in the folder.

    Returns:
        None when the way leads out of the folder, be it only to come back by the folder's own name, or begins at `/`.
    """
    reached = link.split("/")[:-1]
    ahead = deque([target])
    followed = 0
    while ahead:
        text = ahead.popleft()
        if text.startswith("/"):
            return None
        part, _, rest = text.partition("/")
        if rest:
            ahead.appendleft(rest.lstrip("/"))
        if part in ("", "."):
            continue
        if part == "..":
            if not reached:
                return None
            reached.pop()
            continue
        onward = links.get("/".join((*reached, part)))
        if onward is None or followed == MAX_FOLLOWED:
            reached.append(part)
        else:
            followed += 1
            ahead.appendleft(onward)
    return "/".join(reached)
