"""What the kernel offers: processes, control groups, ports. Standard library only; knows nothing of jobs.

process      families and markers, signals to those that are meant; `identity`: what a fork shows of itself
usage        what processes use; `waiting`: where in the kernel they stand
cgroup       limits that the kernel enforces, and what it counts; `oom`: whom it kills first
ports        kept for a program that is not there yet; `listening`: who has one; `peers`: who is at the other end
box          open files that outlive whoever opened them; `life_lock`: a lock that says "I live"
descriptors  open files that a fork has no use for; `limits`: how many there may be
refusals     which limit was reached, in words; `numbers`: in files of the kernel's
inotify      being told of changes; `threads`: blocking work in lanes of threads
plain_files  files and folders that another user may have put there, opened without following links
ownership    which files only root can change
"""
