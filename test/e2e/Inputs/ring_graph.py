# A graph for the graph networks: two rings of nodes joined by one edge. A node's words tell little, its neighbours' labels much.
# ring_graph.py OUT [KIND]: a safetensors file laid out as Cora's, besides the edges as compressed sparse rows; KIND "predict" or "predict-csr" has the names of
# the model's inputs, "nameless" lacks one under either name, "narrow" has words too few, others are wrong files.
import json
import struct
import sys

NODES, WORDS = 24, 5
half = NODES // 2
ring = [(i, i - i % half + (i + 1) % half) for i in range(NODES)] + [(0, half)]
edges = sorted([(b, a) for a, b in ring] + ring)
source = [a for b, a in edges]
target = [b for b, a in edges]
starts = [sum(b < i for b in target) for i in range(NODES + 1)]
kind = sys.argv[2] if len(sys.argv) > 2 else ""
if kind == "falls":
    starts[7] -= 5
elif kind == "begins":
    starts[0] = 1
elif kind == "long":
    starts[NODES] += 2
elif kind == "short":
    starts[NODES] -= 1
elif kind == "rows":
    starts.pop()
elif kind == "index":
    source[9] = NODES
label = [i // half for i in range(NODES)]
words = [[w == label[i] and i % 2 == 0 if w < 2 else (i * 7 + w * 3) % 5 == 0 for w in range(WORDS)] for i in range(NODES)]
train = [i % half < 4 for i in range(NODES)]
tensors = {
    "features": ("U8", [NODES, WORDS], bytes(int(v) for row in words for v in row)),
    "label": ("I32", [NODES], struct.pack(f"<{NODES}i", *label)),
    "edge_src": ("I32", [len(source)], struct.pack(f"<{len(source)}i", *source)),
    "edge_dst": ("I32", [len(target)], struct.pack(f"<{len(target)}i", *target)),
    "indptr": ("F32" if kind == "float" else "I64", [len(starts)], struct.pack(f"<{len(starts)}{'f' if kind == 'float' else 'q'}", *starts)),
    "train_mask": ("U8", [NODES], bytes(map(int, train))),
    "test_mask": ("U8", [NODES], bytes(1 - int(v) for v in train)),
}
if kind.startswith("predict"):
    tensors = {new: tensors[old] for new, old in (("x", "features"), ("source", "edge_src"), ("target", "indptr" if kind == "predict-csr" else "edge_dst"))}
elif kind == "narrow":
    tensors["features"] = ("U8", [NODES, WORDS - 1], bytes(NODES * (WORDS - 1)))
elif kind == "nameless":
    tensors["words"] = tensors.pop("features")
header, data = {}, b""
for name, (dtype, shape, values) in tensors.items():
    header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(values)]}
    data += values
text = json.dumps(header).encode()
with open(sys.argv[1], "wb") as out:
    out.write(struct.pack("<Q", len(text)) + text + data)
