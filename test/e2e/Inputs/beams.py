"""Beam search with two beams by the scores of `predict --inputs`: beams.py PROGRAM WEIGHTS CONTEXT COUNT. The program's own search must find the same."""
import json
import math
import re
import struct
import subprocess
import sys

program, weights, context, count = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])


def log_softmax(row):
    top = max(row)
    total = top + math.log(sum(math.exp(x - top) for x in row))
    return [x - total for x in row]


def scores(texts):
    rows = [t + [0] * (context - len(t)) for t in texts]
    data = struct.pack(f"<{2 * context}i", *rows[0], *rows[1])
    header = json.dumps({"tokens": {"dtype": "I32", "shape": [2, context], "data_offsets": [0, len(data)]}}).encode()
    open("beams.safetensors", "wb").write(struct.pack("<Q", len(header)) + header + data)
    out = subprocess.run([program, "predict", "--inputs=beams.safetensors", "--json", f"--weights={weights}"], check=True, capture_output=True, text=True).stdout
    at = len(texts[0]) - 1
    result = []
    for line in out.splitlines():
        values = json.loads(line)["output.text"]
        size = len(values) // context
        result.append(log_softmax(values[at * size:(at + 1) * size]))
    return result


texts, sums = [list(b"ab")] * 2, [0, -math.inf]
for _ in range(count):
    found = sorted((-(sums[b] + p), b, token) for b, row in enumerate(scores(texts)) for token, p in enumerate(row))
    texts, sums = [texts[b] + [token] for _, b, token in found[:2]], [-s for s, _, _ in found[:2]]
run = subprocess.run([program, "predict", f"--sample={count}", "--prompt=ab", "--beams=2", f"--weights={weights}"], check=True, capture_output=True)
assert run.stdout == bytes(texts[0]) + b"\n", (run.stdout, texts[0])
told = float(re.search(rb"log probability (\S+)", run.stderr).group(1))
assert abs(told - sums[0]) < 1e-4, (told, sums[0])
