#!/usr/bin/env python3
"""docs/layers.md from the built-in functions: nnc --list-ops | tools/layers-page.py > docs/layers.md"""
import sys

import kinks

print("""# The functions of the language

Generated from the table in `compiler/layer.c` and, for those that are written in the language itself, from `compiler/library/`. Arguments are `name: kind = default`; a default of `none` makes one
optional. Kinds: `tensor`, `int`, `float`, `number` (either), `bool`, `str`, `init` (an initialiser), `list`, `ints` (an integer or a list), `pair` (an integer or two), `padding` (one, two or four),
`border` (integers or a word), `bias` (a bool or a tensor), `numeric` (a tensor or a number), `any`; `target`, `labels` and `weights` are tensors whose shape [another argument tells](language.md#blocks-and-models).
`...` stands for further arguments: tensors for `einsum`, sizes by name for `rearrange`.

| function | arguments | meaning |
|---|---|---|""")
lines = sys.stdin.read().splitlines()
for call, doc in zip(lines[0::2], lines[1::2]):
    name, signature = call[:-1].split("(", 1)
    arguments = ", ".join(f"`{a.strip()}`" for a in signature.split(",") if a.strip())
    doc = doc.strip().replace("|", "\\|")
    print(f"| `{name}` | {arguments} | {doc} |")
print("""
## At kinks, zeros and infinities

Values and gradients are PyTorch's there, too; `test/gradients/kinks.test` compares them at every kink and its neighbours, both zeros, infinities and NaN, in f32 and f64, of
every function that has one.

| function | where | gradient |
|---|---|---|""")
for functions, where, gradient in kinks.TABLE:
    print(f"| {functions} | {where} | {gradient} |")
print("""
A NaN that enters a function makes what is computed of it NaN: `relu`, `clamp`, `maximum`, `amax`, `maxpool` do not hide it, comparisons with it are false. What the gradient is at a NaN,
or where the result is one, is not specified. Results below the smallest normal number may be 0.""")
