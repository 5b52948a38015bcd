#!/usr/bin/env python
"""Says where the head of the Ray cluster is, by TF_CONFIG, which tony sets for every task.

TF_CONFIG begins like {"cluster": {"head": ["n1:41001"], "worker": [...]}}: `./discovery.py --head-address` prints
`n1:41001`, and `./discovery.py --head-port` prints `41001`.
"""

import argparse
import json
import os


def main() -> None:
    parser = argparse.ArgumentParser()
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--head-address", action="store_true", help="print HOST:PORT of the head")
    what.add_argument("--head-port", action="store_true", help="print the port that is kept for it")
    options = parser.parse_args()
    (address,) = json.loads(os.environ["TF_CONFIG"])["cluster"]["head"]
    print(address if options.head_address else address.rpartition(":")[2])


if __name__ == "__main__":
    main()
