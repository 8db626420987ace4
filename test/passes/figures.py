"""What the passes make of every model: no more nodes, bytes, workspace and arena than are recorded, at the recorded price.

figures.py NNC MODELS RECORD [write]
"""
import concurrent.futures
import json
import pathlib
import re
import subprocess
import sys

nnc, models, record = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
TARGETS = {"sm_80": ["--machine=a100"], "sm_90a-bf16": ["--gpu-arch=sm_90a", "--machine=h100", "--dtype=bf16"]}
NAMES = ["nodes", "bytes", "workspace", "arena"]


def emitted(model, target, what):
    return subprocess.run([nnc, str(models / model), "--target=cuda", *TARGETS[target], f"--emit={what}", "-o", "-"], check=True, capture_output=True,
                          text=True).stdout


def figures(model, target):
    nodes = json.loads(emitted(model, target, "problem"))["nodes"]
    arena = re.match(r"arena .*\((\d+) bytes\)", emitted(model, target, "plan"))
    return [len(nodes), sum(n["bytes"] for n in nodes), sum(n["workspace"] for n in nodes), int(arena.group(1)), 1e6 * sum(n["cost"] for n in nodes)]


# Without resnet_deep, which takes longer than all others together.
cases = [(m.name, t) for m in sorted(models.glob("*.nn")) for t in TARGETS if m.name != "resnet_deep.nn"]
with concurrent.futures.ThreadPoolExecutor(2) as pool:
    found = dict(zip(cases, pool.map(lambda c: figures(*c), cases)))
if sys.argv[4:] == ["write"]:
    lines = [" ".join([*case, *map(str, f[:4]), f"{f[4]:.2f}"]) for case, f in found.items()]
    record.write_text("# Model, target, nodes, their bytes, the bytes of their workspaces, of the arena, microseconds of the step.\n" + "\n".join(lines) + "\n")
    sys.exit()
known = {tuple(line.split()[:2]): [float(x) for x in line.split()[2:]] for line in record.read_text().splitlines() if not line.startswith("#")}
failed = set(known) != set(found)
for case in sorted(set(known) & set(found)):
    old, new = known[case], found[case]
    for name, a, b in zip(NAMES, old, new):
        if b > a:
            failed = True
            print(f"{' '.join(case)}: {name}: {b:.0f}, {a:.0f} is recorded")
    if abs(new[4] - old[4]) > 1e-3 * old[4]:
        failed = True
        print(f"{' '.join(case)}: price: {new[4]:.2f} us, {old[4]:.2f} is recorded")
if failed:
    print("where this is meant: figures.py NNC MODELS RECORD write")
sys.exit(failed)
