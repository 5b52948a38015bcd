"""The decision machine. No I/O, no clock, no randomness: events in, actions out.

machine             the door: which step takes which event
events, actions     what can happen, and what is asked for then
steps, policies     what is done about it, and whether; packages
state               what is remembered: jobs, roles, tasks, containers
line, timers        in it: who waits, in order; what is due when
tables              which state follows which
turn                one event being handled
failures            failures in words, and the first cause among several
shortage, gathered  in words, too: which containers are missing; with how many tasks a session starts
wanted              what an executor that comes back must know
silent_peers        which tasks are silent since a peer of theirs succeeded
view                the state as a report for people and programs
unfinished          in it: which tasks the job still waits for once another has succeeded
fingerprint         the state in few bytes
invariants          what must be true of it after every event
"""
