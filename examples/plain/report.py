"""Add up what the workers found; tony starts this when every worker has succeeded."""

import argparse
import json
from pathlib import Path


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True, help="the folder that the workers wrote to")
    out = parser.parse_args().out.expanduser()

    parts = [json.loads(path.read_text()) for path in sorted(out.glob("part-*.json"))]
    if not parts or len(parts) != parts[0]["workers"]:
        raise SystemExit(f"report: {len(parts)} parts in {out}, but every worker writes one")
    total = sum(part["primes"] for part in parts)
    print(f"report: {total} primes below {parts[0]['below']}, counted by {len(parts)} workers", flush=True)
    (out / "total.json").write_text(json.dumps({"primes": total}) + "\n")


if __name__ == "__main__":
    main()
