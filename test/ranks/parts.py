#!/usr/bin/env python3
"""Ranks that keep parts: resumed with as many, with one, with others; the wrong number of them: parts.py NNC FOLDER MODELS MPIRUN..."""
import json, os, subprocess, sys
from same_bytes import ENVIRONMENT, differences, make_data, run

nnc, folder, models, mpirun = sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:]
os.makedirs(folder, exist_ok=True)
make_data(folder)
source = f"{folder}/lenet.nn"
text = open(f"{models}/lenet.nn").read()
with open(source, "w") as f:
    f.write("dim micro_batches = 1\n" + text.replace("train {\n", "train {\n    accumulate micro_batches\n"))

def build(name, batch, micro_batches, more):
    run([nnc, "-D", f"N={batch}", "-D", f"micro_batches={micro_batches}"] + more + [source, "-o", f"{folder}/{name}"])

def train(program, ranks, save, more, fails=False):
    start = mpirun + ["-n", str(ranks)] if ranks > 1 else []
    command = start + [f"{folder}/{program}", "train", f"--data={folder}", "--threads=1", "--steps=6", "--seed=7", "-q", f"--save={folder}/{save}.safetensors"] + more
    p = subprocess.run(command, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
    if (p.returncode != 0) != fails:
        sys.exit(f"{' '.join(command)}: status {p.returncode}\n{p.stdout}")
    return p.stdout

def compare(what, one, other):
    different = differences(f"{folder}/{one}.safetensors", f"{folder}/{other}.safetensors")
    print(f"{what}: {'DIFFERENT ' + ', '.join(different) if different else 'equal'}", flush=True)

def loss_of(log):
    return json.loads([line for line in open(f"{folder}/{log}") if '"train"' in line][-1])["loss"]

build("four", 8, 1, ["--shard=parameters", "--ranks=4"])
build("alone", 8, 4, [])
build("two", 16, 1, ["--shard=gradients", "--ranks=2"])
build("eight", 4, 1, ["--shard=parameters", "--ranks=8"])
train("four", 4, "whole", [f"--log={folder}/whole.log"])
for save in ("again", "one", "by_two", "by_eight"):
    train("four", 4, save, ["--stop-at=3"])
train("four", 4, "again", ["--resume"])
compare("resumed by four ranks", "whole", "again")
train("alone", 1, "one", ["--resume"])
compare("resumed by one rank", "whole", "one")
for program, ranks, save in (("two", 2, "by_two"), ("eight", 8, "by_eight")):
    said = train(program, ranks, save, ["--resume", f"--log={folder}/{save}.log"])
    told = f"a run with 4 micro-batches a step, this one has {ranks}: sums are rounded otherwise" in said and "order" not in said
    near = abs(loss_of(f"{save}.log") - loss_of("whole.log")) < 1e-4 * abs(loss_of("whole.log"))
    print(f"resumed by {program} ranks: {'within rounding, and told' if told and near else 'WRONG ' + said}", flush=True)

build("twice", 8, 2, ["--shard=gradients", "--ranks=2"])
train("twice", 2, "twice", [])
train("alone", 1, "four_times", [])
compare("two micro-batches on each of two ranks", "four_times", "twice")

words = [f"{folder}/four", "train", f"--data={folder}", "--threads=1", "--steps=6", "-q", f"--save={folder}/wrong.safetensors"]
command = mpirun + ["-n", "3"] + words + [f"--weights={folder}/whole.safetensors", ":", "-n", "1"] + words + [f"--weights={folder}/by_two.safetensors"]
p = subprocess.run(command, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
print("another file:", p.returncode, p.stdout.strip())

print(train("four", 3, "wrong", [], True).strip())
print(train("four", 1, "wrong", [], True).strip())
p = subprocess.run([f"{folder}/four", "eval", f"--data={folder}", f"--weights={folder}/whole.safetensors"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
print(p.returncode, p.stdout.strip())
