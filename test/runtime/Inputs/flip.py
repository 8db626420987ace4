"""Damaged and unusual safetensors files.

flip.py IN BYTE BIT OUT           one bit, of a byte counted from the end where negative
flip.py --all FILE PROGRAM        every bit of the file in turn: how many PROGRAM info does not find
flip.py --plain IN OUT            the same tensors without metadata
flip.py --header KIND IN OUT      a plain file with something wrong in its header
"""
import json
import os
import struct
import subprocess
import sys


def read(path):
    with open(path, 'rb') as f:
        data = f.read()
    n, = struct.unpack('<Q', data[:8])
    return data[8:8 + n].decode(), data[8 + n:]


def write(path, header, data):
    with open(path, 'wb') as f:
        f.write(struct.pack('<Q', len(header)) + header.encode() + data)


def flip(data, byte, bit):
    return data[:byte] + bytes([data[byte] ^ 1 << bit]) + data[byte:][1:]


def every_bit(path, program):
    with open(path, 'rb') as f:
        data = f.read()
    missed = []
    # Many files a call: all of a call must be told to be bad.
    for first in range(0, 8 * len(data), 512):
        names = []
        for i in range(first, min(first + 512, 8 * len(data))):
            names.append(f'flip{i}.safetensors')
            with open(names[-1], 'wb') as f:
                f.write(flip(data, i // 8, i % 8))
        told = subprocess.run([program, 'info', *names], capture_output=True, text=True, check=False).stdout
        missed += [n for n in names if n in told]
        for n in names:
            os.remove(n)
    print(f'{8 * len(data)} bits, {len(missed)} not found', *missed)


def spoil(kind, header, data):
    entries = json.loads(header)
    mean, old = entries['running_mean'], json.dumps(entries)
    text = json.dumps(mean)
    begin, end = mean['data_offsets']
    if kind == 'overlap':
        mean['data_offsets'] = [begin - 4, end - 4]
        return json.dumps(entries), data[:-4]
    if kind == 'hole':
        mean['data_offsets'] = [begin + 4, end + 4]
        return json.dumps(entries), data + b'abcd'
    if kind == 'wraps':
        entries['huge'] = {'dtype': 'F32', 'shape': [2**32, 2**32], 'data_offsets': [end, end]}
        return json.dumps(entries), data
    second = json.dumps(dict(mean, data_offsets=[end, end + 4]))
    return {'behind': (old, data + b'abcd'),
            'twice': (f'{old[:-1]}, "running_mean": {second}}}', data + b'abcd'),
            'metadata twice': (f'{{"__metadata__": {{"a": "b", "a": "b"}}, {old[1:]}', data),
            'dtype twice': (old.replace(text, text[:-1] + ', "dtype": "F32"}'), data),
            'blank': (' ' + old, data), 'behind header': (old + '  {}', data)}[kind]


def main():
    arguments = sys.argv[1:]
    if arguments[0] == '--all':
        every_bit(*arguments[1:])
    elif arguments[0] == '--plain':
        header, data = read(arguments[1])
        write(arguments[2], json.dumps({k: v for k, v in json.loads(header).items() if k != '__metadata__'}), data)
    elif arguments[0] == '--header':
        write(arguments[3], *spoil(arguments[1], *read(arguments[2])))
    else:
        with open(arguments[0], 'rb') as f:
            data = f.read()
        byte = int(arguments[1])
        with open(arguments[3], 'wb') as f:
            f.write(flip(data, byte % len(data), int(arguments[2])))


main()
