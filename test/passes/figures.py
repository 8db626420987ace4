"""What the compiler makes of the models: no more of anything than is recorded, and as much where a name begins with '='.

figures.py NNC MODELS RECORD steps|kernels [write]
"""
import concurrent.futures
import json
import math
import pathlib
import re
import subprocess
import sys

nnc, models, record, kind = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3]), sys.argv[4]
TARGETS = {"sm_80": ["--target=cuda", "--machine=a100"], "sm_90a-bf16": ["--target=cuda", "--gpu-arch=sm_90a", "--machine=h100", "--dtype=bf16"],
           "avx2": ["--cpu=x86-64-v3", "--machine=xeon-avx512-2core"]}


def emitted(model, target, what):
    command = [nnc, str(models / model), *TARGETS[target], f"--emit={what}", "-o", "-"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def nodes_of(model, target):
    return json.loads(emitted(model, target, "problem"))["nodes"]


def microseconds(nodes):
    return round(1e6 * sum(n["cost"] for n in nodes), 2)


def steps(model, target):
    nodes = nodes_of(model, target)
    arena = re.match(r"arena .*\((\d+) bytes\)", emitted(model, target, "plan"))
    return {"nodes": len(nodes), "bytes": sum(n["bytes"] for n in nodes), "workspace": sum(n["workspace"] for n in nodes),
            "arena": int(arena.group(1)), "=microseconds": microseconds(nodes)}


# The text of all kernels, their launches, and on the host the price: bytes depend on the machine there.
def kernels(model, target):
    text = emitted(model, target, "kernels")
    launches = re.findall(r"^// (?:launch \d+: .*|grid .*|recomputes .*)", text, re.M)
    return {"operations": text.count("\n"), "loads": text.count("llvm.load"), "stores": text.count("llvm.store"), "barriers": text.count("barrier"),
            "divisions": len(re.findall(r"arith\.(?:div|rem)", text)), "selects": text.count("arith.select"), "loops": text.count("scf.for"),
            "=launches": len(launches), "=sizes": round(sum(math.log2(1 + int(n)) for line in launches for n in re.findall(r"\d+", line))),
            **({"=microseconds": microseconds(nodes_of(model, target))} if target == "avx2" else {})}


if kind == "steps":   # without resnet_deep, which takes longer than all others together
    cases = [(m.name, t) for m in sorted(models.glob("*.nn")) for t in ("sm_80", "sm_90a-bf16") if m.name != "resnet_deep.nn"]
else:   # on the host without convolutions, whose layouts depend on the machine
    cases = [(f"{m}.nn", t) for m in ("gpt_small", "lstm_lm", "gcn", "graphsage", "mlp") for t in TARGETS]
    cases += [(f"{m}.nn", t) for m in ("lenet", "diffusion_unet", "two_inputs", "resnet_cifar") for t in ("sm_80", "sm_90a-bf16")]
with concurrent.futures.ThreadPoolExecutor(2) as pool:
    found = dict(zip(cases, pool.map(lambda c: globals()[kind](*c), cases)))
if sys.argv[5:] == ["write"]:
    record.write_text("".join(f"{m} {t} {' '.join(f'{k}:{v}' for k, v in f.items())}\n" for (m, t), f in found.items()))
    sys.exit()
known = {tuple(line.split()[:2]): {k: float(v) for k, v in (x.split(":") for x in line.split()[2:])} for line in record.read_text().splitlines()}
failed = set(known) != set(found)
for case in sorted(set(known) & set(found)):
    for name, was in known[case].items():
        now = found[case][name]
        slack = 2e-3 * was + 2   # an input more, a kernel with other comments
        if now > was + slack or (name.startswith("=") and now < was - slack):
            failed = True
            print(f"{' '.join(case)}: {name.strip('=')}: {now}, {was:.10g} is recorded")
if failed:
    print(f"where this is meant: figures.py NNC MODELS RECORD {kind} write")
sys.exit(failed)
