#!/usr/bin/env python3
"""docs/layers.md from the built-in functions: nnc --list-ops | tools/layers-page.py > docs/layers.md"""
import sys

print("""# The functions of the language

Generated from the table in `compiler/layer.c`. Arguments are `name: kind = default`; a default of `none` makes one optional. Kinds: `tensor`, `int`, `float`,
`number` (either), `bool`, `str`, `init` (an initialiser), `list`, `ints` (an integer or a list), `pair` (an integer or two), `padding` (one, two or four), `any`.
`...` stands for further arguments: tensors for `einsum`, sizes by name for `rearrange`.

| function | arguments | meaning |
|---|---|---|""")
lines = sys.stdin.read().splitlines()
for call, doc in zip(lines[0::2], lines[1::2]):
    name, signature = call[:-1].split("(", 1)
    arguments = ", ".join(f"`{a.strip()}`" for a in signature.split(",") if a.strip())
    doc = doc.strip().replace("|", "\\|")
    print(f"| `{name}` | {arguments} | {doc} |")
