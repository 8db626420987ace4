#!/usr/bin/env python3
"""Trains networks with K ranks and with `accumulate K` on one, and compares the checkpoints: equal bytes.

same_bytes.py NNC FOLDER MODELS MPIRUN... [--ranks=1,2,3] [--only=NAME,...] [--steps=N] [--mpi=NAME] [--target=NAME] [--dtype=NAME] [--shard=WHAT,...] [--budget=SIZE] [--accumulate=A] [--check] [--no-eval] [--fast-reduce]: MPIRUN is the command before `-n K`.
With --budget the ranks have one, the one has none: `tight` is one near the smallest that is found in which something is computed again, and fails where there is none; --check compares each rank's arena with what was promised; --no-eval leaves out the evaluation at the end.
With --fast-reduce the ranks are compiled so, and what must be equal but for rounding is: every number to 1e-4 of the largest of its tensor.
With --accumulate each rank has A micro-batches a step, the one A times K; --shard=gradients and parameters alone give the same bytes then.
"""
import json, os, random, re, struct, subprocess, sys

def safetensors(path, tensors):
    sizes = {"F32": 4, "I32": 4, "U8": 1}
    header, body = {}, b""
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + body)

def idx(path, shape, data):
    with open(path, "wb") as f:
        f.write(bytes([0, 0, 8, len(shape)]) + b"".join(struct.pack(">I", n) for n in shape) + data)

def npy(path, shape, data):
    head = "{'descr': '|u1', 'fortran_order': False, 'shape': (%s,), }" % ", ".join(map(str, shape))
    head += " " * ((-len(head) - 11) % 64) + "\n"
    with open(path, "wb") as f:
        f.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + data)

RECORDS = 400
EVALUATED = 22   # some batches of 4 and of 8, the last incomplete; more of them show no more, and take long in the emulator
def make_data(folder):
    draw = random.Random(1)
    labels = bytes(draw.randrange(5) for _ in range(RECORDS))
    lighter = [bytes(60 * v // 256 + 40 * label for v in range(256)) for label in range(5)]
    def images(records, n): return b"".join(draw.randbytes(n).translate(lighter[label]) for label in labels[:records])
    for name, n in (("train", RECORDS), ("t10k", EVALUATED)):
        idx(f"{folder}/{name}-images-idx3-ubyte.gz", (n, 28, 28), images(n, 784))
        idx(f"{folder}/{name}-labels-idx1-ubyte.gz", (n,), labels[:n])
    npy(f"{folder}/images.npy", (RECORDS, 3, 8, 8), images(RECORDS, 192))
    npy(f"{folder}/labels.npy", (RECORDS,), labels)
    with open(f"{folder}/input.txt", "wb") as f:
        f.write(bytes(97 + (i * i + draw.randrange(2)) % 23 for i in range(20000)))
    numbers = [draw.gauss(0, 1) for _ in range(RECORDS * 64)]
    safetensors(f"{folder}/pairs.safetensors", {
        "image": ("F32", [RECORDS, 1, 8, 8], struct.pack(f"<{len(numbers)}f", *numbers)),
        "text": ("I32", [RECORDS, 4], struct.pack(f"<{RECORDS * 4}i", *(draw.randrange(128) for _ in range(RECORDS * 4)))),
        "label": ("I32", [RECORDS], struct.pack(f"<{RECORDS}i", *labels)),
        "rating": ("F32", [RECORDS, 1], struct.pack(f"<{RECORDS}f", *numbers[:RECORDS]))})

# name, file, what -D gives it, what is replaced in it, options of nnc
LSTM = [("continued=true", ""), (", )", ")"), ("state h0: f32[N, H]", "param h0: f32[N, H] = zeros"), ("state c0: f32[N, H]", "param c0: f32[N, H] = zeros"),
        ("update h0 = h\n", "\n"), ("update c0 = c\n", "\n")]
CASES = [
    ("lenet", "lenet.nn", ["N=4"], [], []),
    ("resnet", "resnet_cifar.nn", ["N=4", "size=8", "n=1", "width=4"], [], []),
    ("resnet_budget", "resnet_cifar.nn", ["N=16", "size=8", "n=1", "width=8"], [], []),
    ("resnet_f16", "resnet_cifar.nn", ["N=4", "size=8", "n=1", "width=4"], [("    optimizer ", "    loss_scale dynamic(init=524288, every=2)\n    optimizer ")], ["--dtype=f16"]),
    ("gpt", "gpt_small.nn", ["B=2", "T=16", "width=32", "layers=2", "heads=2"], [], []),
    ("gpt_bf16", "gpt_small.nn", ["B=2", "T=16", "width=32", "layers=1", "heads=2"], [], ["--dtype=bf16"]),
    ("gpt_f16", "gpt_small.nn", ["B=2", "T=16", "width=32", "layers=1", "heads=2"], [], ["--dtype=f16"]),   # with a dynamic loss scale
    ("gpt_ema", "gpt_small.nn", ["B=2", "T=16", "width=32", "layers=1", "heads=2"], [("    clip ", "    ema 0.9\n    average slow = gpt, decay=0.5, every=2\n    loss near = 0.1 * mse(scores, gpt(tokens, parameters=slow))\n    clip ")], ["--dtype=f64"]),
    ("lstm", "lstm_lm.nn", ["N=2", "T=12", "width=16"], LSTM, []),
    ("draws", "../test/e2e/Inputs/draws.nn", [], [], []),
    ("two_inputs", "two_inputs.nn", ["N=4", "T=4", "size=8"], [], []),
]
NAMED = [("mlp", "mlp.nn", ["N=8"], [], []),   # whose parts come in several chunks
         ("one_parameter", "../test/ranks/Inputs/one_parameter.nn", [], [], []), ("wide_layer", "../test/ranks/Inputs/wide_layer.nn", [], [], []),
         ("scaled_loss", "../test/ranks/Inputs/scaled_loss.nn", [], [], []),
         ("scalar_parameter", "../test/ranks/Inputs/scalar_parameter.nn", [], [], []),   # with a number for each parameter among its states
         # which a tight budget finds something to compute again in
         ("lenet_large", "lenet.nn", ["N=32"], [], []), ("lstm_large", "lstm_lm.nn", ["N=16", "T=64", "width=32"], LSTM, []),
         ("gpt_large", "gpt_small.nn", ["B=8", "T=16", "width=32", "layers=2", "heads=2"], [], []),
         ("resnet_large", "resnet_cifar.nn", ["N=32", "size=8", "n=1", "width=16"], [], []),
         ("gpt_layers", "gpt_small.nn", ["B=8", "T=16", "width=32", "layers=4", "heads=2"], [], [])]   # only where it is asked for

def smallest_budget(command):
    """Bytes, as nnc tells of a budget that it cannot meet."""
    said = subprocess.run(command + ["--memory-budget=1%"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, universal_newlines=True).stderr
    found = re.search(r"smallest budget found is .*\((\d+) bytes\)", said)
    return int(found.group(1)) if found else sys.exit(f"no smallest budget: {said}")

TIGHT = 101, 100, 102, 103, 105, 108, 112, 116, 120   # percent of it

def build_tightly(command):
    """With the first budget that computes something again; which does depends on the processor's library, too."""
    least = smallest_budget(command)
    for percent in TIGHT:
        said = run(command + [f"--memory-budget={least * percent // 100}"])
        if "recompute +" in said and "recompute +0.0 %" not in said:
            return
    sys.exit(f"{command[-2]} was to compute something again: {said}")

def tensors(path):
    """Of a checkpoint: name to type, shape and bytes, and its metadata without checksums; sums of gradients, zeros between steps, left out."""
    data = open(path, "rb").read()
    n = struct.unpack("<Q", data[:8])[0]
    header, body = json.loads(data[8:8 + n]), data[8 + n:]
    out = {}
    for name, t in header.items():
        if name == "__metadata__":
            out[name] = {k: v for k, v in t.items() if k != "xxh3"}
            continue
        begin, end = t["data_offsets"]
        if not name.endswith(".grad_accum"):
            out[name] = (t["dtype"], t["shape"], body[begin:end])
        elif any(body[begin:end]):
            sys.exit(f"{path}: {name} is not zero")
    return out

def differences(one, other):
    a, b = tensors(one), tensors(other)
    return [name for name in sorted(a.keys() | b.keys()) if a.get(name) != b.get(name)]

def is_near(one, other):
    """Whether f32 tensors differ by rounding."""
    def values(t): return struct.unpack(f"<{len(t[2]) // 4}f", t[2])
    a, b = tensors(one), tensors(other)
    for name in differences(one, other):
        if name not in a or name not in b or a[name][0] != "F32" or a[name][:2] != b[name][:2]:
            return False
        x, y = values(a[name]), values(b[name])
        bound = 1e-4 * max(map(abs, x))
        if not all(abs(p - q) <= bound for p, q in zip(x, y)):   # NaN is far
            return False
    return True

# Open MPI asks whoever is root to say so twice, and for more ranks than cores. Nothing but memory is between the ranks.
ENVIRONMENT = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_rmaps_base_oversubscribe="1",
                   OMPI_MCA_hwloc_base_binding_policy="none", OMPI_MCA_btl="self,vader")
def run(command):
    p = subprocess.run(command, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=1800)
    if p.returncode != 0:
        sys.exit(f"{' '.join(command)}: status {p.returncode}\n{p.stdout}")
    return p.stdout

OPTIONS = ("ranks", "only", "steps", "mpi", "target", "dtype", "bucket", "shard", "budget", "check", "accumulate", "no-eval", "fast-reduce")
def main():
    options = dict((a[2:].split("=", 1) + [""])[:2] for a in sys.argv[1:] if a.startswith("--") and a[2:].split("=")[0] in OPTIONS)
    words = [a for a in sys.argv[1:] if not (a.startswith("--") and a[2:].split("=")[0] in options)]
    nnc, folder, models, mpirun = words[0], words[1], words[2], words[3:]
    more = [f"--{name}={options[name]}" for name in ("mpi", "bucket") if name in options] + ["--fast-reduce"] * ("fast-reduce" in options)
    common = [f"--{name}={options[name]}" for name in ("target", "dtype") if name in options]
    ranks, steps = [int(k) for k in options.get("ranks", "1,2,3").split(",")], options.get("steps", "3")
    shards, accumulate = options.get("shard", "none").split(","), int(options.get("accumulate", 1))
    os.makedirs(folder, exist_ok=True)
    make_data(folder)
    for name, file, defines, edits, flags in CASES + NAMED:
        if name not in options.get("only", ",".join(case[0] for case in CASES)).split(","):
            continue
        text = open(f"{models}/{file}").read()
        for old, new in edits:
            text = text.replace(old, new)
        text = text.replace("begin=0.9", "begin=0.986")   # 17 windows of 16 bytes to evaluate, as few as EVALUATED
        text = "dim micro_batches = 1\n" + text.replace("train {\n", "train {\n    accumulate micro_batches\n")
        if "no-eval" in options:
            text = re.sub(r"^    eval(_every)? .*\n", "", text, flags=re.M)
        source = f"{folder}/{name}.nn"
        with open(source, "w") as f:
            f.write(text)
        given = [w for d in defines for w in ("-D", d)] + flags + common + [source, "-o"]
        budget = options.get("budget", "tight" if name.endswith("_budget") else None)
        def build(words, program, budget=None):
            command = [nnc] + words + given + [program]
            if budget == "tight":
                build_tightly(command + ["--remat-effort=0.1"])
            else:
                run(command + (["--memory-budget=" + budget] if budget else []))
        if "none" in shards:
            build(["--shard=none"] + more, f"{folder}/{name}", budget)
        for k in ranks:
            one = f"{folder}/{name}_{k}"
            build(["-D", f"micro_batches={accumulate * k}"], one)
            train = ["train", f"--data={folder}", "--threads=1", f"--steps={steps}", "--seed=7", "-q"]
            run([one] + train + [f"--save={one}.one.safetensors"])
            start = mpirun + ["-n", str(k)] if k > 1 else []
            for shard in shards:
                program = f"{folder}/{name}" if shard == "none" else f"{one}_{shard}"
                if shard != "none":
                    build([f"--shard={shard}", f"--ranks={k}", "-D", f"micro_batches={accumulate}"] + more, program, budget)
                run(start + [program] + train + [f"--save={one}.ranks.safetensors"])
                different = differences(f"{one}.one.safetensors", f"{one}.ranks.safetensors")
                what = [name] + ([shard] if "shard" in options else []) + [k]
                if "fast-reduce" in options and different:
                    print(*what, "near" if is_near(f"{one}.one.safetensors", f"{one}.ranks.safetensors") else "FAR", flush=True)
                else:
                    print(*what, "differs: " + ", ".join(different) if different else "equal", flush=True)
                if "check" in options:   # fails where a rank used another arena than was promised
                    run(start + [program, "bench", "--steps=1", "--check", "--threads=1"])
    return 0

if __name__ == "__main__":
    sys.exit(main())
