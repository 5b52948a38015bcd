"""Judge every checkpoint on the held-out digits while the others train; ends after the last one.

The evaluator is no part of the cluster that trains: it builds no distribution strategy and only reads what the
chief writes. Its curve lies in logs/evaluation/, for TensorBoard.
"""

import argparse
import time
from pathlib import Path

import tensorflow as tf

from checkpoints import Checkpoints
from model import accuracy, build_model, load_data

PATIENCE = 120  # seconds without a new checkpoint, after which training must have died


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True, help="the folder that the chief writes to")
    parser.add_argument("--checkpoints", default="", help="where the chief keeps them, if not in --out")
    parser.add_argument("--steps", type=int, default=240, help="the step of the last checkpoint")
    options = parser.parse_args()
    out = options.out.expanduser()

    _, test_x, _, test_y = load_data()
    model = build_model()
    step = tf.Variable(0, dtype=tf.int64)
    checkpoint = tf.train.Checkpoint(model=model, step=step)
    kept = Checkpoints(options.checkpoints or str(out / "checkpoints"))
    print("evaluator: waiting for checkpoints", flush=True)

    with tf.summary.create_file_writer(str(out / "logs" / "evaluation")).as_default():
        for now in every_checkpoint(kept, options.steps):
            with kept.reading(now) as folder:
                checkpoint.read(str(folder / "state")).expect_partial()  # the optimizer's part is not needed here
            logits = model(test_x)
            share = accuracy(logits, test_y)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(test_y, logits))
            tf.summary.scalar("accuracy", share, step=now)
            tf.summary.scalar("loss", loss, step=now)
            tf.summary.flush()
            print(f"evaluator: step {now}, held-out accuracy {share:.2%}", flush=True)


def every_checkpoint(kept: Checkpoints, last: int):
    """The steps of all checkpoints, as they come, up to the last one."""
    judged = -1
    heard = time.monotonic()
    while judged < last:
        for step in kept.steps():
            if step > judged:
                yield step
                judged, heard = step, time.monotonic()
        if time.monotonic() > heard + PATIENCE:
            raise SystemExit(f"evaluator: no new checkpoint for {PATIENCE} s; has training died at step {judged}?")
        time.sleep(0.5)


if __name__ == "__main__":
    main()
