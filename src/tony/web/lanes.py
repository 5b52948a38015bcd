"""The kinds of blocking work of a server of pages that have threads of their own.

Reading the record of a job of the user's own has the usual lane of `tony.linux.threads.to_thread`.
"""

from __future__ import annotations

from tony.linux.threads import Lane

#: Logins, groups and the index of jobs: local files of the portal's own, so that a list is never behind a record.
LISTS = Lane("the list of jobs", 15.0)
#: File systems and servers that are named by a history or by a job.
STORES = Lane("a file system on other machines", 30.0)
#: Records on this machine outside of the state directory of the user: their owners choose how long they take to read.
OTHERS = Lane("the record of another user's job", 30.0)
