"""The guest in the container: starts the user's program, watches it, reports. Imports nothing but the standard library.

main ──▶ life ──▶ executor ──┬▶ link         one connection to the application master, made anew when it breaks
  │                          │    ├▶ dialog       what was said and what follows from it; no I/O
  │                          │    ├▶ lease        how long to go on alone
  │                          │    ├▶ summons      where an application master that has come up elsewhere calls
  │                          │    ├▶ log_readers  who reads what the program prints, through the application master
  │                          │    └▶ tunnels      who connects to its ports, through the application master
  │                          ├▶ stacks       where the program stands, when somebody asks: as a sampler sees it, or as
  │                          │               Python says it itself (`faulthandlers`)
  │                          ├▶ meeting      a process that answers on the task's own port, if its framework wants one:
  │                          │    ├▶ meeting_store  a key-value store over HTTP
  │                          │    └▶ meeting_relay  a way to a server of the user's
  ▼                          └▶ trial        one try, from the order to start to the word that all is over
watchdog                          ├▶ environment  what the program is started with; `hadoop_classpath` asks the node
a second, tiny process            │                 (`said`), `addresses` asks for a host's address
that ends the program             ├▶ spawn        fork and exec; `reaper` waits, `no_start` says why not;
when the executor cannot          │                 `first_word` sees to it that the program may be run
any more                          ├▶ family       everything the program has started: found, signalled, ended
                                  ├▶ output       from pipes into each `log_file`, the last lines; `pen` writes them;
                                  │               `decisive_line` says why the program failed
                                  ├▶ rank_output  labels the lines of each of its processes, where it has several
                                  ├▶ exports      lines of it that are for other programs
                                  ├▶ memory       what it uses, or the kernel's word that it was too much
                                  ├▶ measuring    a sample every few seconds: its processes, GPUs (`devices`), how far
                                  │               it is, as it tells (`progress`), prints (`log_pattern`), or writes for
                                  │               TensorBoard (`summaries`, `event_files`)
                                  ├▶ python_hooks  what of ours is on its PYTHONPATH
                                  ├▶ reserved     its ports, and who took them
                                  ├▶ missing_files  which left-out file it did not find
                                  └▶ verdict      how it ended, in a word and a sentence

`on_yarn` is the same program in a container of YARN: it finds its papers and lays down its files before `main` goes on.
"""
