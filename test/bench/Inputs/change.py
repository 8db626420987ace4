"""Adds one to the first value that a recorded suite expects in its buffer 1."""
import struct
import sys

suite = sys.argv[1]
with open(suite + '.cases') as f:
    after = int([line for line in f if line.startswith('buffer')][1].split()[5])
with open(suite + '.data', 'r+b') as f:
    f.seek(after)
    value = struct.unpack('<f', f.read(4))[0]
    f.seek(after)
    f.write(struct.pack('<f', value + 1))
