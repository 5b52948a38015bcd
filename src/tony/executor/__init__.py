"""The task executor: starts the user's program in a container, watches it and reports. Standard library only.

    main ─▶ executor ─┬▶ control/  am_connection ─▶ session_protocol, lease (no I/O)
      │               ├▶ program/stack_dump, output/log_serving, remote/: what clients ask for through the AM
      ▼               └▶ task_run ─┬▶ program/  environment, start, processes, exit
    program/watchdog: a second     ├▶ output/   capture, rotation, decisive line
    process that ends the program  ├▶ metrics/  memory, GPUs, steps
    when the executor cannot       └▶ network/  ports, rendezvous

`task_run` is one task attempt, from the start command to the last report. `network/rendezvous_process` answers on the
task's own port where the framework needs one. `container_main` is the same program in a container on
another machine: it takes its task and prepares the files before `main` continues.
"""
