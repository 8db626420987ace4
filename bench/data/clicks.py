#!/usr/bin/env python3
"""Makes train.csv and test.csv for models/dlrm.nn, in the layout of Criteo's data, but synthetic: clicks.py FOLDER [RECORDS].

A click is drawn with a chance that follows from the record by a rule: each category has a vector, popular ones are drawn more often, and the numbers and some pairs of fields
add up to a logit. As many records again as a tenth are for the test. Prints the AUC of that rule itself on the test records: no model can do better but by luck.
"""
import os
import sys

import numpy as np

folder, records = sys.argv[1], int((sys.argv + [200000])[2])
NUMBERS, FIELDS, WIDTH = 13, 26, 4
random = np.random.default_rng(1)
sizes = np.geomspace(4, 3000, FIELDS).astype(int)
vectors = [random.normal(0, 1, (n, WIDTH)) for n in sizes]
of_number = random.normal(0, 0.25, NUMBERS)
pairs = [random.choice(FIELDS, 2, replace=False) for _ in range(12)]


def auc(score, label):
    rank = np.empty(len(score))
    rank[np.argsort(score)] = np.arange(1, len(score) + 1)
    ones = label.sum()
    return (rank[label == 1].sum() - ones * (ones + 1) / 2) / (ones * (len(label) - ones))


def write(name, n):
    number = np.floor(np.exp(random.normal(1, 1.5, (n, NUMBERS)))).astype(int)
    category = np.stack([np.minimum((random.pareto(1.1, n) * 2).astype(int), size - 1) for size in sizes], 1)
    logit = -1.2 + (np.log1p(number) - 1.2) @ of_number
    for a, b in pairs:
        logit = logit + 0.25 * (vectors[a][category[:, a]] * vectors[b][category[:, b]]).sum(1)
    label = (random.random(n) < 1 / (1 + np.exp(-logit))).astype(int)
    with open(os.path.join(folder, name), "w") as out:
        print("label", *(f"I{i + 1}" for i in range(NUMBERS)), *(f"C{i + 1}" for i in range(FIELDS)), sep=",", file=out)
        for l, x, c in zip(label, number, category):
            print(l, *x, *(f"{i * 40503 + k * 2654435761 & 0xffffffff:08x}" for i, k in enumerate(map(int, c))), sep=",", file=out)
    return auc(logit, label), label.mean()


os.makedirs(folder, exist_ok=True)
write("train.csv", records)
print("the rule: AUC {:.4f}; {:.1%} of the records are clicks".format(*write("test.csv", records // 10)))
