"""Fit y = 5x + 2 from noisy points with MXNet's distributed key-value store.

Scheduler, servers and workers run this same program. `import mxnet` finds its part by DMLC_ROLE and the other DMLC
variables, which tony sets: in the scheduler and the servers it serves, and ends the program when all workers have.
"""

import argparse

import mxnet as mx
from mxnet import autograd, gluon

POINTS = 64  # per step and worker


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100)
    options = parser.parse_args()

    store = mx.kv.create("dist_sync")
    print(f"worker {store.rank}: joined, {store.num_workers} workers", flush=True)
    mx.random.seed(store.rank)  # each worker its own points
    line = gluon.nn.Dense(1)
    line.initialize(mx.init.Zero())
    trainer = gluon.Trainer(line.collect_params(), "sgd", {"learning_rate": 0.1}, kvstore=store)

    for step in range(options.steps):
        x = mx.nd.random.uniform(-1, 1, shape=(POINTS, 1))
        y = 5 * x + 2 + mx.nd.random.normal(0, 0.1, shape=(POINTS, 1))
        with autograd.record():
            loss = ((line(x) - y) ** 2).mean()
        loss.backward()
        trainer.step(store.num_workers)  # the servers add up what all workers send
        if step % 25 == 24:
            print(f"worker {store.rank}: step {step + 1}, loss {loss.asscalar():.3f}", flush=True)

    slope, offset = (each.data().asnumpy().item() for each in (line.weight, line.bias))
    print(f"worker {store.rank}: y = {slope:.2f} x + {offset:.2f}", flush=True)


if __name__ == "__main__":
    main()
