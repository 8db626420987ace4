#!/usr/bin/env python3
"""Ranks that keep parts: resumed with as many, with one, with others; the wrong number of them: parts.py NNC FOLDER MODELS MPIRUN..."""
import json, os, random, shutil, struct, subprocess, sys
from same_bytes import ENVIRONMENT, differences, make_data, run, safetensors

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
other = f"{folder}/other"
shutil.copytree(folder, other, ignore=lambda _, names: [n for n in names if not n.endswith(".gz")])
with open(f"{other}/t10k-images-idx3-ubyte.gz", "r+b") as f:
    f.seek(5000)
    f.write(b"\xff")
command = mpirun + ["-n", "3"] + words + [":", "-n", "1"] + words[:2] + [f"--data={other}"] + words[3:]
p = subprocess.run(command, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
print("other eval data:", p.returncode, p.stdout.strip())

print(train("four", 3, "wrong", [], True).strip())
print(train("four", 1, "wrong", [], True).strip())

# what is done with the weights, by all together
def output(program, ranks, words, fails=False):
    start = mpirun + ["-n", str(ranks)] if ranks > 1 else []
    p = subprocess.run(start + [f"{folder}/{program}"] + words, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT if fails else None, text=True, errors="backslashreplace", timeout=120)
    if (p.returncode != 0) != fails:
        sys.exit(f"{program} {' '.join(words)}: status {p.returncode}\n{p.stdout}")
    return p.stdout

def same_output(what, words, program="four", one="alone", ranks=4):
    shared, alone = output(program, ranks, words), output(one, 1, words)
    print(f"{what}: {'equal' if shared == alone and alone else 'DIFFERENT ' + shared + ' and ' + alone}", flush=True)

draw = random.Random(2)
safetensors(f"{folder}/in.safetensors", {"image": ("F32", [11, 1, 28, 28], struct.pack("<8624f", *(draw.random() for _ in range(8624))))})
weights = [f"--weights={folder}/whole.safetensors", "--threads=1"]
predict = ["predict", f"--inputs={folder}/in.safetensors"] + weights
same_output("eval", ["eval", f"--data={folder}"] + weights)
same_output("predict", predict + ["--json"])
for program, ranks in (("four", 4), ("alone", 1)):
    output(program, ranks, predict + [f"--outputs={folder}/{program}.out"])
print("outputs:", "equal" if open(f"{folder}/four.out", "rb").read() == open(f"{folder}/alone.out", "rb").read() else "DIFFERENT")
print("predict, no inputs:", output("four", 4, ["predict", f"--inputs={folder}/none.safetensors"] + weights, True).count("none.safetensors"))
print("eval by one:", output("four", 1, ["eval", f"--data={folder}"] + weights, True).strip())
for alone in (["export", f"{folder}/w.safetensors"], ["import", f"{folder}/whole.safetensors"], ["step", "--inputs=none", "--outputs=none"]):
    print(output("four", 1, alone, True).strip())
gpt = ["-D", "B=2", "-D", "T=16", "-D", "width=32", "-D", "layers=1", "-D", "heads=2", f"{models}/gpt_small.nn", "-o"]
run([nnc] + gpt + [f"{folder}/gpt"])
run([nnc, "--shard=parameters", "--ranks=2"] + gpt + [f"{folder}/gpt_two"])
run([f"{folder}/gpt", "train", f"--data={folder}", "--threads=1", "--steps=2", "-q", f"--save={folder}/gpt.safetensors"])
same_output("sample", ["predict", "--sample=20", "--prompt=a", "--seed=3", f"--weights={folder}/gpt.safetensors", "--threads=1"], "gpt_two", "gpt", 2)
