#!/usr/bin/env python3
"""How often an MPI is asked for its own sums: mpi_sums.py NNC FOLDER MODELS LIBRARY MPI MPIRUN. By each of three ranks, in three steps."""
import os, re, subprocess, sys
from same_bytes import ENVIRONMENT, make_data, run

nnc, folder, models, library, mpi, mpirun = sys.argv[1:]
os.makedirs(folder, exist_ok=True)
make_data(folder)
for shard in ("none", "gradients"):
    for fast in ([], ["--fast-reduce"]):
        program = f"{folder}/{shard}{len(fast)}"
        run([nnc, f"--shard={shard}", f"--mpi={mpi}", "-D", "N=8"] + fast + [f"{models}/lenet.nn", "-o", program] + ["--ranks=3"] * (shard != "none"))
        front = ["env", "ASAN_OPTIONS=verify_asan_link_order=0", f"LD_PRELOAD={library}", "MPI_SUMS=1"]
        p = subprocess.run([mpirun, "-n", "3"] + front + [program, "train", f"--data={folder}", "--threads=1", "--steps=3", "-q", f"--save={folder}/sums.safetensors"], env=ENVIRONMENT,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120)
        told = re.findall(r"\d+ sums, \d+ scattered", p.stdout)
        print(shard, *fast, "; ".join(told) if p.returncode == 0 else f"status {p.returncode}: {p.stdout}", flush=True)
