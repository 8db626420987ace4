#!/usr/bin/env python3
"""An MPI that takes calls of fewer threads: mpi_threads.py NNC FOLDER MODELS LIBRARY MPI MPIRUN. What is told, and the bytes of one that takes all."""
import os, subprocess, sys
from same_bytes import ENVIRONMENT, make_data, run

nnc, folder, models, library, mpi, mpirun = sys.argv[1:]
os.makedirs(folder, exist_ok=True)
make_data(folder)
for shard in ("none", "parameters"):
    program = f"{folder}/{shard}"
    run([nnc, f"--shard={shard}", f"--mpi={mpi}", "--bucket=8KiB", "-D", "N=4", "-D", "size=8", "-D", "n=1", "-D", "width=4", f"{models}/resnet_cifar.nn", "-o", program] + ["--ranks=3"] * (shard != "none"))
    saved = {}
    for threads in ("multiple", "serialized", "funneled"):
        less = [] if threads == "multiple" else ["env", "ASAN_OPTIONS=verify_asan_link_order=0", f"LD_PRELOAD={library}", f"MPI_THREADS={threads}"]
        saved[threads] = f"{folder}/{threads}.safetensors"
        p = subprocess.run([mpirun, "-n", "3"] + less + [program, "train", f"--data={folder}", "--threads=1", "--steps=3", "-q", f"--save={saved[threads]}"], env=ENVIRONMENT,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120)
        same = p.returncode == 0 and open(saved[threads], "rb").read() == open(saved["multiple"], "rb").read()
        print(shard, threads, "equal:" if same else f"DIFFERENT, status {p.returncode}:", p.stdout.strip(), flush=True)
