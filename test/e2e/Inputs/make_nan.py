"""The tensors of a safetensors file, with NaN in all of them: make_nan.py FROM TO"""
import json
import struct
import sys

with open(sys.argv[1], 'rb') as f:
    data = f.read()
at = 8 + struct.unpack('<Q', data[:8])[0]
header = json.loads(data[8:at])
header.pop('__metadata__', None)   # has a checksum
text = json.dumps(header).encode()
with open(sys.argv[2], 'wb') as f:
    f.write(struct.pack('<Q', len(text)) + text + b'\xff' * (len(data) - at))
