#!/usr/bin/env python3
"""Ranks that do not find each other: starters.py NNC FOLDER MODELS. What is said, and that all end."""
import os, signal, socket, subprocess, sys, time
from same_bytes import make_data
from start import free_port

nnc, folder, models = sys.argv[1:4]
START = [sys.executable, os.path.join(os.path.dirname(os.path.abspath(__file__)), "start.py")]
os.makedirs(folder, exist_ok=True)
make_data(folder)
program = f"{folder}/mlp"
subprocess.run([nnc, "--shard=none", "--mpi=none", f"{models}/mlp.nn", "-o", program], check=True, capture_output=True)
TRAIN = [program, "train", f"--data={folder}", "--threads=1", "--steps=1", "-q", f"--save={folder}/none.safetensors"]

def check(what, words, messages, limit=60, environment={}):
    begin = time.time()
    p = subprocess.run(words, env=dict(os.environ, **environment), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120)
    ok = p.returncode != 0 and all(m in p.stdout for m in messages) and time.time() - begin < limit
    print(what, "as wanted" if ok else f"FAILED, status {p.returncode}\n{p.stdout}", flush=True)

def interrupted(what, rank):
    """One of three ranks waits for others and is asked to end, long before it gives up."""
    environment = dict(os.environ, WORLD_SIZE="3", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()))
    ranks = [subprocess.Popen(TRAIN, env=dict(environment, RANK=str(r)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for r in range(rank + 1)]
    time.sleep(2)
    try:
        for p in reversed(ranks):
            p.send_signal(signal.SIGTERM)
            output, _ = p.communicate(timeout=20)
            print(what, "as wanted" if p.returncode > 0 and "interrupted before all had come" in output else f"FAILED, status {p.returncode}\n{output}", flush=True)
    except subprocess.TimeoutExpired:
        print(what, "FAILED, goes on")
        for p in ranks:
            p.kill()

def another_server(what):
    """At the port of rank 0 there is one that answers something else."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        environment = dict(os.environ, RANK="1", WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(server.getsockname()[1]))
        p = subprocess.Popen(TRAIN, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        server.settimeout(60)
        with server.accept()[0] as s:
            s.sendall(b"\xff" * 4096)
            output, _ = p.communicate(timeout=60)
    print(what, "as wanted" if p.returncode == 1 and "(MASTER_ADDR, MASTER_PORT) is not rank 0" in output else f"FAILED, status {p.returncode}\n{output}", flush=True)

late = TRAIN + ["--rank-timeout=2"]
check("another number", START + ["-n", "2"] + TRAIN + [":", "-n", "1", "WORLD_SIZE=4"] + TRAIN, ["is rank 2 of 4, rank 0 is one of 3: all must be told the same number of ranks"])
check("one number twice", START + ["-n", "2"] + TRAIN + [":", "-n", "1", "RANK=1"] + TRAIN, ["says that it is rank 1 of 3, which process "])
check("one missing", START + ["-n", "2", "WORLD_SIZE=3"] + late, ["error: rank 2 of 3 has not come to 127.0.0.1, port ", ", within 2 seconds"])
check("the first missing", START + ["-n", "1", "RANK=1", "WORLD_SIZE=2"] + late, ["error: rank 1 of 2 cannot reach rank 0 at 127.0.0.1, port ", ", within 2 seconds: Connection refused"])
check("no address", START + ["-n", "2", "MASTER_ADDR="] + TRAIN, ["rank 1 of 2, started by RANK and WORLD_SIZE: ", "; MASTER_ADDR is not set"])
check("no port", START + ["-n", "2", "MASTER_PORT="] + TRAIN, ["; MASTER_PORT is not set"])
check("no such address", START + ["-n", "2", "MASTER_ADDR=no-such.invalid"] + TRAIN, ["MASTER_ADDR no-such.invalid, MASTER_PORT "])
for port, most, more in (("0", 65535, {}), ("99999", 65535, {}), ("http", 65535, {}), ("65535", 65534, {"TORCHELASTIC_USE_AGENT_STORE": "True"})):
    check(f"port {port}", START + ["-n", "2", f"MASTER_PORT={port}"] + late, [f'MASTER_PORT is "{port}", not a number from 1 to {most}'], environment=more)
check("too many ranks", START + ["-n", "1", "WORLD_SIZE=2000000000"] + TRAIN, ["error: WORLD_SIZE is 2000000000: there can be 4096 ranks"])
check("no number", START + ["-n", "1", "RANK=first"] + TRAIN, ['error: RANK is "first", not a number'])
check("too large a number", START + ["-n", "1", "RANK=2", "WORLD_SIZE=2"] + TRAIN, ["error: RANK is 2, but WORLD_SIZE is 2: ranks are 0 to 1"])
check("no WORLD_SIZE", TRAIN, ["error: RANK is set and WORLD_SIZE is not: ranks need both"], environment={"RANK": "0"})
check("no RANK", TRAIN, ["error: WORLD_SIZE is set and RANK is not: ranks need both"], environment={"WORLD_SIZE": "2"})
check("no engine", TRAIN, ["error: started by mpirun as one of several, but this program was compiled by an nnc without MPI"],
      environment={"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2"})
check("no engine, no number", TRAIN, ["error: started by a PMIx server as one of several, but this program was compiled by an nnc without MPI"],
      environment={"PMIX_RANK": "0"})
interrupted("asked to end", 0)
interrupted("asked to end, two", 1)
another_server("another server")
