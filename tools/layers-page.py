#!/usr/bin/env python3
"""docs/layers.md from the built-in functions: nnc --list-ops | tools/layers-page.py > docs/layers.md"""
import sys

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

Values and gradients are PyTorch's there, too; `test/gradients/kinks.test` compares them at every kink and its neighbours, both zeros, infinities and NaN, in f32 and f64.

| function | where | gradient |
|---|---|---|
| `relu`, `leaky_relu` | 0 | that of the negative side: 0, `slope` |
| `relu6`, `clamp` | at a limit, and beyond | 0 (in older versions of PyTorch `clamp` has 1 at the limits) |
| `abs` | 0 | 0 |
| `maximum`, `minimum` | equal operands | half to each |
| `amax`, `amin`, `segment_max` | several equal extremes | the same part to each |
| `maxpool` | several equal maxima | all to the first of the window |
| `argmax`, `accuracy` | several equal maxima | none; the first counts |
| `where` | | 0 for what is not chosen; but what is made of it is computed all the same: in `where(x > 0, log(x), 0)` the gradient at 0 is 0/0, NaN. Choose before: `log(where(x > 0, x, 1))` |
| `sqrt`, `x ** 0.5`, `rsqrt`, `log` | 0 | infinite; `sqrt(sum(square(x)))` of zeros NaN. Add a small number inside |
| `x ** y` | x = 0 | that of y is 0 for y >= 0; `x ** 0` is 1 everywhere, with gradient 0 |
| `floor` | | 0 everywhere, also of `x // y`; `x % y` has 1 and -floor(x/y) |
| `softplus`, `binary_cross_entropy` | 0 | sigmoid(x) everywhere; small results keep their digits (PyTorch's `softplus` is x above 20) |
| `layernorm`, `rmsnorm`, `groupnorm`, `batchnorm` | equal elements | finite: `eps` keeps it from dividing by 0 |
| `softmax`, `log_softmax`, `cross_entropy` | -infinity | a class that cannot be; a row of nothing else is NaN. `attention` gives zeros where a query sees no key |
| `cross_entropy`, `nll_loss` | no label counts: all are ignored, or all weights are 0 | 0, and so is the mean, where PyTorch has NaN |
| `segment_max` | | a segment of nothing but -infinity is like an empty one: 0 |

A NaN that enters a function makes what is computed of it NaN: `relu`, `clamp`, `maximum`, `amax`, `maxpool` do not hide it, comparisons with it are false. What the gradient is at a NaN
is not specified. Results below the smallest normal number may be 0.""")
