#!/usr/bin/env python3
"""NCCL fails on one rank, in the emulator: nccl_failures.py NNC FOLDER MODELS [--all]. All ranks end with a message, the checkpoint is good.

Calls fail (NNC_EMU_NCCL_FAIL), messages are lost (NNC_EMU_NCCL_LOSE); some of them, or with --all each that there is.
"""
import os, subprocess, sys, time
from same_bytes import make_data

ALL = "--all" in sys.argv
nnc, folder, models = [a for a in sys.argv[1:] if a != "--all"]
START = [sys.executable, os.path.join(os.path.dirname(os.path.abspath(__file__)), "start.py")]
os.makedirs(folder, exist_ok=True)
make_data(folder)
program = f"{folder}/mlp"
subprocess.run([nnc, "-D", "N=8", "--shard=none", "--target=cuda-emu", f"{models}/mlp.nn", "-o", program], check=True, capture_output=True)

def run(rank, name, number):
    save = f"{folder}/{name}.{number}.safetensors"
    train = [program, "train", f"--data={folder}", "--threads=1", "--steps=9", "--save-every=1", "-q", f"--save={save}"]
    before, behind = (["-n", str(rank)] + train + [":"] if rank else []), ([":", "-n", str(2 - rank)] + train if rank < 2 else [])
    begin = time.time()
    p = subprocess.run(START + before + ["-n", "1", f"NNC_EMU_NCCL_{name}={number}"] + train + behind, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=100)
    good = not os.path.exists(save) or subprocess.run([program, "info", save], capture_output=True).returncode == 0
    return p.returncode, p.stdout, good and time.time() - begin < 60 and "had to kill" not in p.stdout

def check(name, number, rank, message):
    status, output, fine = run(rank, name, number)
    if status == 0 and ALL:
        return False
    ok = status != 0 and fine and message in output and f"mlp[{rank}]: error: " in output
    print(f"{name} {number} on rank {rank}", "as wanted" if ok else f"FAILED, status {status}\n{output}", flush=True)
    return True

def main():
    for name, message, some in (("FAIL", " failed: unhandled system error", (1, 2, 3, 7)), ("LOSE", "a message of NCCL failed: remote process exited", (1, 2, 9))):
        numbers = range(1, 1000) if ALL else some
        for number in numbers:
            if not check(name, number, number % 3 if name != "FAIL" or number > 3 else 0, message):
                break
    return 0

if __name__ == "__main__":
    sys.exit(main())
