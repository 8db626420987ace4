"""The fields of a message in the wire format of Protocol Buffers, for tests that read what programs and nnc write of it."""


def fields(data):
    """Pairs of a field's number and its value: a number, or bytes; in order."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value - (1 << 64) if value >> 63 else value

    while at < len(data):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
        else:
            n = {1: 8, 5: 4}.get(key & 7) or varint()
            assert at + n <= len(data)
            yield key >> 3, data[at:at + n]
            at += n
