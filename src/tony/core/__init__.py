"""The state machine of a job. No I/O, no clock, no randomness: events in, actions out.

`application` dispatches an event to one of `steps/`; these get a `step_context`, ask `policies/` for decisions, change
`state` and request actions. `transitions` has the tables of allowed states. `report_builder` turns the state into a
report; `sentences` words parts of it. `state_digest` compares a replay with the recorded run.
"""
