"""What the jobs of the pictures run: it fits a plane to points by gradient descent, and keeps what it has learnt.

Reads its few words from the command line: `steps=400 pace=0.05 keep=/folder break=worker:1@150 lack=FILE brief=yes`.
"""

import json
import os
import random
import sys
import time
from pathlib import Path

import tony

said = dict(word.split("=", 1) for word in sys.argv[1:])
if "brief" in said:
    sys.tracebacklimit = 0
steps, pace = int(said.get("steps", "200")), float(said.get("pace", "0.02"))
me = f"{os.environ['JOB_NAME']}:{os.environ['TASK_INDEX']}"
session = int(os.environ["SESSION_ID"])
if "lack" in said:
    print(f"reading the vocabulary from {said['lack']}", flush=True)
    time.sleep(pace * 20)
    Path(said["lack"]).read_text()

points = random.Random(me)
truth = [-0.9, 0.2, 0.7, -0.4, 0.5, -0.1, 0.8, -0.6]
weights, first = [0.0] * 8, 0
kept = Path(said.get("keep", "."), "state.json")
if kept.exists():
    state = json.loads(kept.read_text())
    weights, first = state["weights"], state["step"]
    print(f"continues from step {first}", flush=True)

# Room that it takes, as a model does: 40 MB, and a little more in each step.
room = [bytearray(40 << 20)]
for step in range(first + 1, steps + 1):
    batch = [[points.gauss(0, 1) for _ in range(8)] for _ in range(64)]
    loss = 0.0
    for x in batch:
        miss = points.gauss(0, 0.2) + sum((w - t) * v for w, t, v in zip(weights, truth, x, strict=True))
        loss += miss * miss / len(batch)
        weights = [w - 0.0006 * miss * v for w, v in zip(weights, x, strict=True)]
    room.append(bytearray(1 << 16))
    time.sleep(pace * points.uniform(0.8, 1.2))
    tony.progress(step, total=steps, loss=loss)
    if step % 20 == 0:
        print(f"step {step}: loss {loss:.4f}", flush=True)
    if step % 50 == 0 and me in ("chief:0", "worker:0"):
        with tony.checkpoint(step):
            time.sleep(pace * 4)
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.with_suffix(".new").write_text(json.dumps({"weights": weights, "step": step}))
            kept.with_suffix(".new").replace(kept)
    if said.get("break") == f"{me}@{step}" and session == 1:
        raise ConnectionResetError("the gradient of chief:0 did not come: connection reset by peer")
