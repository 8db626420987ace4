"""Steps on request: a peer stays in memory while others take their turns, and is compiled once."""
import json
import resource
import statistics
import sys
import time


def serve(step, name):
    """Takes two steps, prints a line, and then answers each number on standard input by as many steps. step() returns when its work is done."""
    step()
    step()
    print(json.dumps({'peer': name}), flush=True)
    for line in sys.stdin:
        times = []
        for _ in range(int(line)):
            start = time.perf_counter()
            step()
            times.append(1e3 * (time.perf_counter() - start))
        print(json.dumps({'median': statistics.median(times), 'least': min(times),
                          'bytes': 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}), flush=True)
