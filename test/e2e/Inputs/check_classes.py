"""check_classes.py CLASSES SCORES NAME...: each line of CLASSES, "3: 1 b 0.6, 0 a 0.4", is the softmax of the scores of that line, the greatest first."""
import json
import math
import sys

names = sys.argv[3:]
with open(sys.argv[1]) as classes, open(sys.argv[2]) as scores:
    lines = list(zip(classes, scores, strict=True))
for i, (line, record) in enumerate(lines):
    (values,) = json.loads(record).values()
    p = [math.exp(v - max(values)) for v in values]
    order = sorted(range(len(p)), key=lambda c: -p[c])
    expected = f"{i}: " + ", ".join(f"{c} {names[c]} {p[c] / sum(p):.4f}" for c in order)
    assert line.strip() == expected, (line, expected)
print(len(lines))
