"""XGBoost's tracker: workers register with it to find each other. It ends when they have ended.

python tracker.py HOST:PORT    at which it listens
"""

import os
import sys

from xgboost.tracker import RabitTracker


def main() -> None:
    host, _, port = sys.argv[1].rpartition(":")
    tracker = RabitTracker(n_workers=int(os.environ["TASK_NUM"]) - 1, host_ip=host, port=int(port))
    tracker.start()
    tracker.wait_for()


if __name__ == "__main__":
    main()
