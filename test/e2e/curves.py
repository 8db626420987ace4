#!/usr/bin/env python3
"""Compares the losses of two training runs: curves.py A.jsonl B.jsonl BOUND

Every step of A has its counterpart in B, with a loss that differs by at most BOUND, relatively.
"""
import json
import sys


def losses(path):
    with open(path) as f:
        rows = [json.loads(line) for line in f]
    return [row["loss"] for row in rows if row["kind"] == "train"]


a, b, bound = losses(sys.argv[1]), losses(sys.argv[2]), float(sys.argv[3])
if not a or len(a) != len(b):
    sys.exit(f"{len(a)} steps and {len(b)} steps")
worst = max(abs(x - y) / abs(x) for x, y in zip(a, b))
print(f"{len(a)} steps, loss {a[0]:.4f} to {a[-1]:.4f}, largest relative difference {worst:.2e}")
if not worst <= bound:
    sys.exit(f"above {bound}")
