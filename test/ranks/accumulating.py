#!/usr/bin/env python3
"""Several micro-batches on each of several ranks: accumulating.py NNC FOLDER MODELS MPIRUN..., in a folder that same_bytes.py has filled."""
import sys
from same_bytes import differences, run, tensors

nnc, folder, models, mpirun = sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:]
source = f"{folder}/resnet.nn"
defines = [w for d in ("N=4", "size=8", "n=1", "width=4") for w in ("-D", d)]

def build(name, micro_batches, more):
    run([nnc, "-D", f"micro_batches={micro_batches}"] + defines + more + [source, "-o", f"{folder}/{name}"])

def train(name, ranks, program, steps):
    save = f"{folder}/{name}.safetensors"
    start = mpirun + ["-n", str(ranks)] if ranks > 1 else []
    run(start + [f"{folder}/{program}", "train", f"--data={folder}", "--threads=1", "--steps=3", f"--stop-at={steps}", "--seed=7", "-q", f"--save={save}"])
    return save

def say(what, different, good, bad="DIFFERENT"):
    print(f"{what}: {bad + ' ' + ', '.join(different) if different else good}", flush=True)

build("alone_4", 4, [])
build("ranks_4", 4, ["--shard=none"])
build("ranks_2", 2, ["--shard=none"])
alone = train("alone_4", 1, "alone_4", 3)
say("one rank, four micro-batches", differences(alone, train("ranks_4", 1, "ranks_4", 3)), "equal")
say("two ranks, two micro-batches", differences(train("first", 2, "ranks_2", 3), train("second", 2, "ranks_2", 3)), "equal from run to run")
one, two = tensors(train("alone_1", 1, "alone_4", 1)), tensors(train("two_1", 2, "ranks_2", 1))
states = [name for name in one if "running" in name or name.endswith((".mean", ".var"))]
if not states:
    sys.exit(f"no running statistics among {', '.join(one)}")
say("running statistics after a step", [name for name in states if one[name] != two[name]], "equal to four micro-batches on one")
