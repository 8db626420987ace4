#!/usr/bin/env python3
"""accumulate_arena.py NNC FOLDER FILE: plans FILE, which accumulates, for several budgets, and compares what `bench` says was planned and used with the arena of the plan."""
import os, re, subprocess, sys

nnc, folder, source = sys.argv[1:]
os.makedirs(folder, exist_ok=True)
program, larger, wrong = f"{folder}/program", 0, 0
for percent in range(96, 80, -2):
    command = [nnc, source, "--cpu=x86-64-v3", f"--memory-budget={percent}%", "--remat-effort=0.05"]
    plan = subprocess.run(command + ["--emit=plan"], capture_output=True, text=True)
    if plan.returncode != 0:
        continue
    subprocess.run(command + ["-o", program], check=True, capture_output=True)
    arenas = dict(re.findall(r"^@(train|accumulate): arena ([0-9.]+) KiB", plan.stdout, re.M))
    larger += float(arenas["accumulate"]) > float(arenas["train"])
    arena = int(re.match(r"arena .*\((\d+) bytes\)", plan.stdout).group(1))
    bench = subprocess.run([program, "bench", "--steps=1", "--check", "--threads=1"], capture_output=True, text=True)
    said = [int(n) for n in re.findall(r"^arena (?:planned|used) +(\d+) bytes", bench.stdout, re.M)]
    if bench.returncode != 0 or said != [arena, arena]:
        wrong += 1
        print(f"{percent} %: {arena} bytes by the plan, {said} by bench, status {bench.returncode}\n{bench.stderr}")
print(f"{'some' if larger else 'none'} with more for the earlier micro-batches, {wrong} wrong")
