#!/usr/bin/env python3
"""Laws that predictions keep: prediction.py NNC MODELS"""
import re, subprocess, sys
nnc, models = sys.argv[1:]

def predict(machine, ranks):
    text = subprocess.run([nnc, "--shard=none", "--target=cuda", f"--machine={machine}", f"--ranks={ranks}", "-D", "B=8", "-D", "T=256", "-D", "layers=2", "--emit=prediction", f"{models}/gpt2.nn"],
                          check=True, capture_output=True, text=True).stdout
    units = {"s": 1, "ms": 1e-3, "us": 1e-6, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
    return {name.strip(): float(n) * units[unit] for name, n, unit in re.findall(r"^(.+?) {2,}([0-9.]+) (\w+)$", text, re.M)}

two, eight, many = predict("h100", 2), predict("h100", 8), predict("h100", 64)
print("each of K sends 2 (K - 1) / K of the gradients:", abs(eight["sent by each"] / two["sent by each"] - 7 / 4) < 0.01)
print("more ranks exchange longer, computing the same:", two["exchanging"] < eight["exchanging"] < many["exchanging"] and two["computing"] == eight["computing"] == many["computing"])
print("a step is no shorter than its computing, no longer than both:", all(p["computing"] <= p["step"] <= (p["computing"] + p["exchanging"]) * 1.001 for p in (two, eight, many)))
print("slower links take longer:", predict("a100", 8)["exchanging"] > eight["exchanging"])
