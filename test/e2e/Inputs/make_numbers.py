# make_numbers.py OUT: a file with extreme numbers of four types. make_numbers.py IN JSON: whether predict gave them back.
import json
import math
import struct
import sys

VALUES = {
    'x': ('F32', 'f', [[0.1, math.nan, -math.inf, 2.0**24 + 2], [math.inf, 2.0**-126, -0.0, 3.0]]),
    'y': ('F64', 'd', [[0.1], [1 + 2.0**-52]]),
    'k': ('I64', 'q', [[1234567891, -2**63], [2**53 + 1, 0]]),
    's': ('I32', 'i', [[2**31 - 1, -2**31], [0, -1]]),
}

if len(sys.argv) == 2:
    header, data = {}, b''
    for name, (dtype, code, rows) in VALUES.items():
        new = b''.join(struct.pack(f'<{len(row)}{code}', *row) for row in rows)
        header[name] = {'dtype': dtype, 'shape': [2, len(rows[0])], 'data_offsets': [len(data), len(data) + len(new)]}
        data += new
    text = json.dumps(header).encode()
    with open(sys.argv[1], 'wb') as f:
        f.write(struct.pack('<Q', len(text)) + text + data)
else:
    def reject(word):
        raise ValueError(word)

    with open(sys.argv[2], encoding='ascii') as f:
        lines = [json.loads(line, parse_constant=reject) for line in f]
    for row, line in enumerate(lines):
        for (dtype, code, rows), found in zip(VALUES.values(), line.values(), strict=True):
            for wanted, value in zip(rows[row], found, strict=True):
                assert value is None if not math.isfinite(wanted) else struct.pack(code, value) == struct.pack(code, wanted), (wanted, value)
