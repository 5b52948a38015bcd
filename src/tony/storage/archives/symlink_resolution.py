"""Resolves symbolic links inside a folder without touching a disk.

A link is resolved as the kernel would follow it, folder by folder and through other links, since its text alone is
misleading: `a/../../x` stays inside if `a` is a link to a deeper folder, and `to_top/../x` leaves the folder if
`to_top` is a link to its top.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

#: Links that the kernel follows in one path before it fails with ELOOP; further links cannot matter.
MAX_FOLLOWED = 40


def resolve(link: str, target: str, links: Mapping[str, str]) -> str | None:
    """Return the path that a link leads to, relative to the folder's top; empty for the top itself.

    Args:
        link: the link's own path, relative to the top; the folders above it are real ones.
        target: the link's target.
        links: path -> target of every link in the folder.

    Returns:
        None if the path leads out of the folder, even if it returns by the folder's own name, or begins with `/`.
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
