"""The application master: the only loop; turns events into actions performed.

main ──▶ master ──┬▶ barrier      nothing is seen before its cause is in safety
  │               ├▶ executors    who is connected, what was acknowledged, who fell silent
  │               │    ├▶ log_relay    what programs print, on its way to those who read it
  │               │    └▶ tunnels      a client's connection and one of an executor, joined
  │               ├▶ summoning    calls the executors of earlier attempts, which do not know where we are
  │               ├▶ launching    what an executor is told at its birth
  │               ├▶ starts       the orders to start, each made once
  │               ├▶ watchers     reports to clients, on demand and on change
  ├▶ taking_over  │               the job as the event logs of earlier attempts leave it
  │               └▶ job_clock    the job's own time, also over attempts
  ├▶ requests     what was asked of the job while no application master answered
  ├▶ page         how the job stands, for those who come through a cluster's own pages
  ├▶ open_files   room for the connections of all executors
  └▶ verdict      on a job that cannot be gone on with

`on_yarn` is the same program in a container of YARN: it finds its papers before `main` goes on.
"""
