"""The likeliest token after a prompt by the scores of `predict --json`, and by `predict --sample`: sample-aside.py PROGRAM WORKDIR"""
import json
import os
import struct
import subprocess
import sys

program, work = sys.argv[1:]
prompt = b'1234567890123456789012345678901234'
head = json.dumps({'tokens': {'dtype': 'I32', 'shape': [2, 64], 'data_offsets': [0, 512]}}).encode()
with open(os.path.join(work, 'in.safetensors'), 'wb') as f:
    f.write(struct.pack('<Q', len(head)) + head + struct.pack('<64i', *prompt, *[0] * (64 - len(prompt))) * 2)
weights = os.path.join(work, 'w.safetensors')
subprocess.run([program, 'export', '--init', weights], check=True, stdout=subprocess.DEVNULL)
told = subprocess.run([program, 'predict', '--json', '--inputs', os.path.join(work, 'in.safetensors'), '--weights', weights], check=True, stdout=subprocess.PIPE).stdout
scores = next(iter(json.loads(told.split(b'\n')[0]).values()))
row = scores[64 * (len(prompt) - 1):64 * len(prompt)]
sampled = subprocess.run([program, 'predict', '--sample=1', '--temperature=0', '--prompt=' + prompt.decode(), '--weights', weights], check=True, stdout=subprocess.PIPE).stdout
assert sampled[len(prompt):-1] == bytes([row.index(max(row))]), (sampled, row.index(max(row)))
print('the same token')
