#!/usr/bin/env python3
"""Starts processes as ranks by variables alone, on this machine: start.py [--srun] -n K COMMAND... [: -n L COMMAND...]

Ends with the worst of their statuses. Where one has failed the others have a minute to end by themselves, those that are stopped five seconds;
then it kills them, and says so.
NAME=VALUE in front of a command is set for its ranks, after the others; without a VALUE it is unset.
"""
import os, signal, socket, subprocess, sys, time

def variables(style, rank, size, port):
    if style == "srun":
        return {"SLURM_PROCID": rank, "SLURM_STEP_NUM_TASKS": size, "SLURM_NTASKS": size, "SLURM_LOCALID": rank, "SLURM_JOB_ID": 1, "MASTER_PORT": port,
                "SLURM_STEP_NODELIST": "localhost" if rank % 2 else "127.0.0.[1-2]"}
    return {"RANK": rank, "WORLD_SIZE": size, "LOCAL_RANK": rank, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}

def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]

def main():
    words, style = sys.argv[1:], "variables"
    if words[0] == "--srun":
        words, style = words[1:], "srun"
    ranks = []
    while words:
        end = words.index(":") if ":" in words else len(words)
        part, words = words[:end], words[end + 1:]
        command, own = part[2:], {}
        while "=" in command[0] and "/" not in command[0].split("=")[0]:
            name, own[name] = command[0].split("=", 1)[0], command[0].split("=", 1)[1]
            command = command[1:]
        ranks += [(command, own)] * int(part[1])
    port = free_port()
    processes = []
    for r, (command, own) in enumerate(ranks):
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("OMPI_COMM", "PMI"))}
        environment.update((k, str(v)) for k, v in variables(style, r, len(ranks), port).items())
        environment.update(own)
        processes.append(subprocess.Popen(command, env={k: v for k, v in environment.items() if v != ""}))
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda n, _: [p.send_signal(n) for p in processes])
    def is_stopped(p):
        return open(f"/proc/{p.pid}/stat").read().rsplit(")", 1)[1].split()[0] == "T"
    failed = None
    while any(p.poll() is None for p in processes):
        time.sleep(0.02)
        if not failed and any(p.poll() for p in processes):
            failed = time.time()
        for r, p in enumerate(processes):
            if failed and p.poll() is None and time.time() > failed + (5 if is_stopped(p) else 60):
                print(f"had to kill rank {r}", flush=True)
                p.kill()
                p.wait()
    return max(abs(p.returncode) for p in processes)

if __name__ == "__main__":
    sys.exit(main())
