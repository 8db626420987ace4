# A graph for the graph networks: two rings of nodes joined by one edge. A node's words tell little, its neighbours' labels much.
# ring_graph.py OUT: a safetensors file laid out as Cora's.
import json
import struct
import sys

NODES, WORDS = 24, 5
half = NODES // 2
ring = [(i, i - i % half + (i + 1) % half) for i in range(NODES)] + [(0, half)]
source = [a for a, b in ring] + [b for a, b in ring]
target = [b for a, b in ring] + [a for a, b in ring]
label = [i // half for i in range(NODES)]
words = [[w == label[i] and i % 2 == 0 if w < 2 else (i * 7 + w * 3) % 5 == 0 for w in range(WORDS)] for i in range(NODES)]
train = [i % half < 4 for i in range(NODES)]
tensors = {
    "features": ("U8", [NODES, WORDS], bytes(int(v) for row in words for v in row)),
    "label": ("I32", [NODES], struct.pack(f"<{NODES}i", *label)),
    "edge_src": ("I32", [len(source)], struct.pack(f"<{len(source)}i", *source)),
    "edge_dst": ("I32", [len(target)], struct.pack(f"<{len(target)}i", *target)),
    "train_mask": ("U8", [NODES], bytes(map(int, train))),
    "test_mask": ("U8", [NODES], bytes(1 - int(v) for v in train)),
}
if len(sys.argv) > 2:   # inputs of predict
    tensors = {new: tensors[old] for new, old in (("x", "features"), ("source", "edge_src"), ("target", "edge_dst"))}
header, data = {}, b""
for name, (dtype, shape, values) in tensors.items():
    header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(values)]}
    data += values
text = json.dumps(header).encode()
with open(sys.argv[1], "wb") as out:
    out.write(struct.pack("<Q", len(text)) + text + data)
