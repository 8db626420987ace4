#!/usr/bin/env python3
"""What ends several ranks, and what is left then: failures.py NNC FOLDER MODELS MPIRUN... [--kills=N [--seed=S]] [--mpi=NAME] [--target=NAME]

With --kills it kills each of four ranks N times instead, while they save after every step: at random times and, every other, during a save.
"""
import os, random, re, shutil, signal, subprocess, sys, time
from same_bytes import ENVIRONMENT, differences, make_data, npy

KILLS, SEED = [next((int(a[len(name):]) for a in sys.argv if a.startswith(name)), n) for name, n in (("--kills=", 0), ("--seed=", 1))]
MPI, TARGET = [a for a in sys.argv[1:] if a.startswith("--mpi=")], [a for a in sys.argv[1:] if a.startswith("--target=")]
nnc, folder, models, *mpirun = [a for a in sys.argv[1:] if not a.startswith(("--kills=", "--seed=")) and a not in MPI + TARGET]
TRAIN = ["train", f"--data={folder}", "--threads=1", "-q"]

FILES = """dim N = 2
model m(x: f32[N, 3]) { linear(x, 1) }
train {
    data      x = npy(["x0.npy", "x1.npy"], num_workers=1)
    loss      mean(square(m(x)))
    optimizer sgd
    steps     3
}
"""

def checkpoint(name): return f"{folder}/{name}.safetensors"

def rank_process(program, save, rank, command_word=None):
    """The process of a rank of the training that saves there, or of what has that word."""
    for entry in os.listdir("/proc"):
        try:
            command = open(f"/proc/{entry}/cmdline").read().split("\0")
            variables = open(f"/proc/{entry}/environ").read().split("\0")
        except OSError:
            continue
        if command[0] == program and (command_word or f"--save={save}") in command and any(f"{v}={rank}" in variables for v in ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "RANK", "SLURM_PROCID")):
            return int(entry)
    return None

def start(program, name, ranks, more):
    command = mpirun + ["-n", str(ranks), program] + TRAIN + [f"--save={checkpoint(name)}"] + more
    return subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

def wait_until(what, condition, seconds=60):
    end = time.time() + seconds
    while time.time() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.05)
    sys.exit(f"{what}: not within {seconds} seconds")

def finish(process, what):
    try:
        output, _ = process.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        sys.exit(f"{what}: still running after 60 seconds")
    return process.returncode, output

def say(what, ok, output=""):
    print(what, "as wanted" if ok else "FAILED\n" + output, flush=True)

def left(program, name):
    """Processes end a little after what started them."""
    end = time.time() + 20
    while any(rank_process(program, checkpoint(name), r) for r in range(4)):
        if time.time() > end:
            return True
        time.sleep(0.1)
    return False

def kind_of(message, output): return message in output if message else "had to kill" not in output

def signalled(what, program, number, more, wanted, expects_message):
    name = what.replace(" ", "-")
    process = start(program, name, 3, ["--epochs=100000", "--save-every=5"] + more)
    wait_until(what, lambda: os.path.exists(checkpoint(name)))
    os.kill(wait_until(what, lambda: rank_process(program, checkpoint(name), 1)), number)
    begin = time.time()
    status, output = finish(process, what)
    seconds = time.time() - begin
    good = subprocess.run([program, "info", checkpoint(name)], capture_output=True).returncode == 0
    stays = left(program, name)
    ok = wanted(status) and good and not stays and kind_of(expects_message, output)
    say(what, ok, f"status {status} after {seconds:.1f} s, checkpoint {good}, a rank left {stays}\n{output[-3000:]}")

def benchmark_ended(what, program):
    process = subprocess.Popen(mpirun + ["-n", "3", program, "bench", "--steps=1000000", "--threads=1"], env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    rank = wait_until(what, lambda: rank_process(program, None, 1, "bench"))
    time.sleep(1)
    os.kill(rank, signal.SIGTERM)
    status, output = finish(process, what)
    say(what, status != 0 and "had to kill" not in output, f"status {status}\n{output[-3000:]}")

def stopped_together(what, program):
    """As by Ctrl-Z, or a batch system that lets others go first: nobody takes a rank that did not run for one that hangs."""
    name = what.replace(" ", "-")
    process = start(program, name, 3, ["--epochs=100000", "--save-every=5", "--rank-timeout=4"])
    wait_until(what, lambda: os.path.exists(checkpoint(name)))
    ranks = [wait_until(what, lambda: rank_process(program, checkpoint(name), r)) for r in range(3)]
    for number, seconds in ((signal.SIGSTOP, 6), (signal.SIGCONT, 3)):
        for rank in ranks:
            os.kill(rank, number)
        time.sleep(seconds)
    if process.poll() is None:
        os.kill(ranks[1], signal.SIGTERM)
    status, output = finish(process, what)
    say(what, "interrupted after step" in output and not left(program, name), f"status {status}\n{output[-3000:]}")

def is_saving(name): return any(f.startswith(f"{name}.safetensors.") and f.endswith(".tmp") for f in os.listdir(folder))

MOST_STUCK = 2

def kill_often(program):
    draw, name, bad, longest, saving, stuck = random.Random(SEED), "often", 0, 0, 0, 0
    for i in range(KILLS * 4):
        rank, resume = i % 4, ["--resume"] if os.path.exists(checkpoint(name)) else []
        for left_over in [f for f in os.listdir(folder) if f.endswith(".tmp")]:
            os.remove(f"{folder}/{left_over}")
        process = start(program, name, 4, ["--epochs=100000", "--save-every=1"] + resume)
        found = wait_until("a rank", lambda: rank_process(program, checkpoint(name), rank))
        if i // 4 % 2:   # while it is being saved
            end = time.time() + 60
            while not is_saving(name) and time.time() < end:
                pass
        else:
            time.sleep(draw.uniform(0, 3))
        saving += is_saving(name)
        begin = time.time()
        os.kill(found, signal.SIGKILL)
        try:
            output, _ = process.communicate(timeout=60)
            longest = max(longest, time.time() - begin)
        except subprocess.TimeoutExpired:   # Open MPI's can wait for a lock of PMIx in its own end, all ranks of it ended
            stuck += 1
            ended = not left(program, name)
            process.kill()
            output = process.communicate(timeout=60)[0] + ("" if ended else "had to kill")
        status, seconds = process.returncode, time.time() - begin
        good = not os.path.exists(checkpoint(name)) or subprocess.run([program, "info", checkpoint(name)], capture_output=True).returncode == 0
        if status == 0 or "had to kill" in output or not good or left(program, name) or stuck > MOST_STUCK:
            bad += 1
            print(f"kill {i + 1}, rank {rank}, {seconds:.1f} s, status {status}, checkpoint {'good' if good else 'BAD'}: FAILED\n{output[-2000:]}", flush=True)
    step = re.search(r"after step (\d+)", subprocess.run([program, "info", checkpoint(name)], capture_output=True, text=True).stdout)
    print(f"each of 4 ranks killed {KILLS} times, {saving} of them during a save, {bad} not as wanted, the longest end {longest:.1f} s, {stuck} times the starter alone did not end; the last checkpoint is of step {step.group(1) if step else '?'}")

def main():
    os.makedirs(folder, exist_ok=True)
    make_data(folder)
    source, program, one = f"{folder}/lenet.nn", f"{folder}/lenet", f"{folder}/lenet_one"
    text = open(f"{models}/lenet.nn").read()
    text = "dim micro_batches = 1\n" + text.replace("train {\n", "train {\n    accumulate micro_batches\n").replace("idx(\"t10k", "idx(\"train", 1).replace("    eval ", "    # ")
    with open(source, "w") as f:
        f.write(text)
    subprocess.run([nnc, "-D", "N=8", "--shard=none"] + MPI + TARGET + [source, "-o", program], check=True, capture_output=True)
    subprocess.run([nnc, "-D", "N=8", "-D", "micro_batches=3"] + TARGET + [source, "-o", one], check=True, capture_output=True)

    if KILLS:
        kill_often(program)
        return 0

    # another seed, other data on one rank
    def different(name, ranks_option, other=program, first=program):
        command = mpirun + ["-n", "2", first] + TRAIN + [f"--save={checkpoint(name)}", "--steps=3", ":", "-n", "1", other, "train"] + ranks_option
        command += ["--steps=3", f"--save={checkpoint(name)}"]
        p = subprocess.run(command, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
        return p.returncode, p.stdout
    status, output = different("seed", TRAIN[1:] + ["--seed=9"])
    say("another seed", status != 0 and "rank 2 of 3 has seed 9, rank 0 has 0" in output and not os.path.exists(checkpoint("seed")), output)
    status, output = different("keep", TRAIN[1:] + ["--keep=2"])
    say("another --keep", status != 0 and "rank 2 of 3 has --keep 2, rank 0 has 0" in output, output)
    other = f"{folder}/other"
    os.makedirs(other, exist_ok=True)
    for name in ("train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"):
        shutil.copy(f"{folder}/{name}", f"{other}/{name}")
    with open(f"{other}/train-images-idx3-ubyte.gz", "r+b") as f:
        f.seek(5000)
        byte = f.read(1)[0]
        f.seek(5000)
        f.write(bytes([byte ^ 1]))
    status, output = different("data", [f"--data={other}", "--threads=1", "-q"])
    say("other data", status != 0 and "rank 2 of 3 has other train data than rank 0" in output, output)

    # a file behind the first that is read step by step
    for place, last in ((folder, 1), (other, 2)):
        for name, value in (("x0", 0), ("x1", last)):
            npy(f"{place}/{name}.npy", (12, 3), bytes(35) + bytes([value]))
    with open(f"{folder}/files.nn", "w") as f:
        f.write(FILES)
    subprocess.run([nnc, "--shard=none"] + MPI + TARGET + [f"{folder}/files.nn", "-o", f"{folder}/files"], check=True, capture_output=True)
    status, output = different("files", [f"--data={other}", "--threads=1", "-q"], f"{folder}/files", f"{folder}/files")
    say("another second file", status != 0 and "rank 2 of 3 has other train data than rank 0" in output, output)

    # another program on one rank
    subprocess.run([nnc, "-D", "N=8", "--bucket=64KiB", "--shard=none"] + MPI + TARGET + [source, "-o", f"{folder}/lenet_other"], check=True, capture_output=True)
    status, output = different("program", [f"--data={folder}", "--threads=1", "-q"], f"{folder}/lenet_other")
    say("another program", status != 0 and "rank 2 of 3 has another program than rank 0" in output, output)

    # a rank that is killed, stopped, asked to end
    signalled("killed", program, signal.SIGKILL, [], lambda s: s != 0, None)
    signalled("stopped", program, signal.SIGSTOP, ["--rank-timeout=3"], lambda s: s != 0, "rank 1 of 3 ")
    signalled("asked to end", program, signal.SIGTERM, [], lambda s: s != 0, "interrupted after step")

    benchmark_ended("bench asked to end", program)
    stopped_together("stopped together", program)

    # 3 ranks, 3 ranks resumed, one rank resumed
    def train(name, ranks, more, what=program):
        command = (mpirun + ["-n", str(ranks)] if ranks > 1 else []) + [what] + TRAIN + [f"--save={checkpoint(name)}"] + more
        p = subprocess.run(command, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
        if p.returncode != 0:
            sys.exit(f"{' '.join(command)}\n{p.stdout}")
    train("whole", 3, ["--steps=9"])
    for name in ("part", "alone"):
        train(name, 3, ["--steps=9", "--stop-at=4"])
    train("part", 3, ["--steps=9", "--resume"])
    train("alone", 1, ["--steps=9", "--resume"], one)
    for name in ("part", "alone"):
        different_names = differences(checkpoint("whole"), checkpoint(name))
        say(f"resumed, {name}", not different_names, ", ".join(different_names))
    return 0

if __name__ == "__main__":
    sys.exit(main())
