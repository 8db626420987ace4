"""Exits 1 unless two safetensors files hold the same bytes behind their headers, which tell how a training was started, too."""
import struct
import sys


def data(path):
    with open(path, 'rb') as f:
        header, = struct.unpack("<Q", f.read(8))
        return f.read()[header:]


x, y = map(data, sys.argv[1:])
sys.exit(0 if x == y and x else f'{sys.argv[1]} and {sys.argv[2]} differ')
