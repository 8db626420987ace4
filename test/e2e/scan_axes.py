# The loss and the gradients of two steps whose tensors differ in axes of 1 only.
import os
import sys

sys.path.insert(0, os.path.join(sys.argv[1], "tools"))
import golden_format as gf

a, b = (gf.read_safetensors(f) for f in sys.argv[2:])
names = sorted(n for n in a if n == "loss" or n.startswith("grad."))
for n in names:
    assert len(a[n][2]) == len(b[n][2]), n
    assert all(abs(x - y) <= 1e-12 * max(1, abs(y)) for x, y in zip(a[n][2], b[n][2])), n
    assert any(a[n][2]), n
print("the same:", ", ".join(names))
