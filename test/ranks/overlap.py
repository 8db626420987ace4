#!/usr/bin/env python3
"""What the plan of a distributed program hides behind the backward pass: overlap.py NNC [OPTION]... FILE.

Reads the steps of @train. A bucket is begun where its all_reduce stands; compute has nothing to do with it before the first step that waits for it.
"""
import re, subprocess, sys

plan = subprocess.run([sys.argv[1]] + sys.argv[2:] + ["--emit=plan"], check=True, capture_output=True, text=True).stdout
train = re.search(r"^@train:.*?(?=^@|\Z)", plan, re.M | re.S).group(0)
steps = []   # op, is on the lane comm, steps that it waits for
for line in train.splitlines():
    m = re.match(r" *(\d+)[ *] (\S+)", line)
    if not m:
        continue
    assert int(m.group(1)) == len(steps), line
    waits = re.search(r"waits for ([\d, ]+)", line)
    steps.append((m.group(2), "on lane comm" in line, [int(n) for n in waits.group(1).split(",")] if waits else []))
buckets = [i for i, (op, _, _) in enumerate(steps) if op.startswith("all_reduce") or op.startswith("reduce_scatter")]
if not all(steps[i][1] for i in buckets):
    sys.exit("a bucket is not on the lane comm")
# the backward pass ends with the last step that a gradient comes from
end = max(i for i, (op, _, _) in enumerate(steps) if "_grad" in op or op == "matmul_rows")
first_wait = {b: min([i for i, (_, comm, waits) in enumerate(steps) if not comm and any(w >= b for w in waits)], default=len(steps)) for b in buckets}
print(f"{len(buckets)} buckets, {sum(b < end for b in buckets)} begun before the backward pass ends")
for k, b in enumerate(buckets[:-1]):
    if first_wait[b] < buckets[k + 1]:
        print(f"step {first_wait[b]} waits for bucket {k} before the next is begun, in step {buckets[k + 1]}")
