"""What ./net step computes on the batch of values.c: outputs and gradients, each number in a line of its name. And what ./noise predicts."""
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(sys.argv[1], 'tools'))
import golden_format as gf

gf.write_safetensors('batch.st', {'image': ('U8', [16, 1, 4, 4], [i * 37 % 251 for i in range(256)]), 'label': ('U8', [16], [i % 3 for i in range(16)])})
subprocess.run(['./net', 'step', '--inputs', 'batch.st', '--outputs', 'step.st'], check=True, stdout=subprocess.DEVNULL)
gf.write_safetensors('zeros.st', {'x': ('F32', [5, 3], [0] * 15)})
subprocess.run(['./noise', 'predict', '--inputs', 'zeros.st', '--outputs', 'noise.st'], check=True, stdout=subprocess.DEVNULL)
for name, (_, _, values) in (*gf.read_safetensors('step.st').items(), *gf.read_safetensors('noise.st').items()):
    for v in values if name.startswith(('output.', 'grad.')) else ():
        print(f'{name} {v:.9g}')
