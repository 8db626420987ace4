"""Whether programs have the kernels, tables, plans and prices that are recorded, byte for byte.

outputs.py NNC SOURCE RECORD [write]
"""
import concurrent.futures
import hashlib
import pathlib
import re
import subprocess
import sys

nnc, source, record = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
GPUS = {"sm_80": "--target=cuda --machine=a100", "sm_90a-bf16": "--target=cuda --gpu-arch=sm_90a --machine=h100 --dtype=bf16"}
HOST = {"avx2": "--cpu=x86-64-v3 --machine=xeon-avx512-2core"}
# On the host the kernels alone, and without convolutions: workspaces and layouts of the library's calls depend on the machine.
CONVOLUTIONS = {"conv", "layers", "norms", "gradients/scan", "products", "resnet_tiny", "families", "residual", "lenet", "two_inputs"}
FILES = {
    "test/gradients": "attention classes conv elementwise layers matmul norms reductions scan shapes",
    "test/e2e/Inputs": "carried chunks loops many_products modes nested products resnet_tiny roots rows rows_attention scan scan_gru "
                       "scan_lm scan_nested scan_pair",
    "test/codegen/Inputs": "odd_rows",
    "test/codegen/cuda/Inputs": "families residual",
    "models": "gcn graphsage gru_lm lenet two_inputs",
}
# Budgets and loops cut into segments, loops of two pieces, programs of several ranks.
MORE = ["scan.nn -DT=19", "scan_batchnorm.nn", "scan_outputs.nn", "scan_outputs.nn -DT=19", "overlap.nn"]
MORE += [f"{case} --remat-effort=0.05" for case in (
    "gpt_small.nn --memory-budget=80%", "resnet_small.nn --memory-budget=90%", "scan_long.nn --memory-budget=60%", "scan_outputs.nn --memory-budget=60%",
    "scan_lm.nn -DT=64 --memory-budget=90%", "scan_gru.nn --memory-budget=87%", "scan_nested_long.nn -DL=37 --memory-budget=90%")]
MORE += [f"gpt_small.nn --mpi=none {shard}" for shard in ("--shard=none --bucket=4KiB", "--shard=optimizer --ranks=2", "--shard=gradients --ranks=2",
                                                          "--shard=parameters --ranks=2")]


# The place of the file and the version, and fields of the tables that are 0 in any case, so that a new one is none.
OTHERWISE = re.compile(r'\.(?:source_id|compiler)="[^"]*",?|\.\w+=(?:0|false|NULL|"")(?:,|(?=}))')


def emitted(file, options, what):
    done = subprocess.run([nnc, file, *options, f"--emit={what}"], cwd=source, capture_output=True, text=True)
    if done.returncode != 0:
        return f"status-{done.returncode}"
    return hashlib.sha256(OTHERWISE.sub("", done.stdout).encode()).hexdigest()[:12]


def outputs(case):
    file, options = case
    kinds = ["kernels"] if "--cpu" in options else ["kernels", "tables", "plan", "problem"] if "--memory-budget" not in options else ["tables", "plan"]
    return {what: emitted(file, options.split(), what) for what in kinds}


cases = {f"{folder}/{name}.nn {target}": (f"{folder}/{name}.nn", options) for folder, names in FILES.items() for name in names.split()
         for target, options in (GPUS if {name, f"{pathlib.Path(folder).name}/{name}"} & CONVOLUTIONS else GPUS | HOST).items()}
cases |= {f"test/e2e/Inputs/{case}": (f"test/e2e/Inputs/{case.split()[0]}", f"{' '.join(case.split()[1:])} {GPUS['sm_80']}") for case in MORE}
with concurrent.futures.ThreadPoolExecutor(2) as pool:
    found = dict(zip(cases, pool.map(outputs, cases.values())))
if sys.argv[4:] == ["write"]:
    record.write_text("".join(f"{case}: {' '.join(f'{k}:{v}' for k, v in o.items())}\n" for case, o in found.items()))
    sys.exit()
known = {case: dict(x.split(":") for x in o.split()) for line in record.read_text().splitlines() for case, o in [line.split(": ")]}
different = [f"{case}: {' '.join(k for k in found[case] if found[case][k] != known.get(case, {}).get(k))}"
             for case in found if found[case] != known.get(case)]
if different or set(known) != set(found):
    print("\n".join(different))
    print("other bytes than recorded; tools/same-output shows them for two commits. Where this is meant: outputs.py NNC SOURCE RECORD write")
    sys.exit(1)
