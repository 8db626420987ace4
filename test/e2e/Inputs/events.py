"""Reads an event file of TensorBoard by itself: events.py FILE [CUT]. Prints its scalars and histograms; with CUT cuts so many bytes off its end.
Where TensorBoard is installed its own reader must find the same."""
import os
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from protobuf_fields import fields


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def messages(data):
    at = 0
    while at < len(data):
        n, head = struct.unpack_from("<QI", data, at)
        assert head == masked(data[at:at + 8])
        message = data[at + 12:at + 12 + n]
        assert struct.unpack_from("<I", data, at + 12 + n)[0] == masked(message)
        at += n + 16
        yield message


def doubles(data):
    return list(struct.unpack(f"<{len(data) // 8}d", data))


def read(path):
    scalars, histograms, versions = {}, {}, 0
    for message in messages(open(path, "rb").read()):
        event = dict(fields(message))
        versions += event.get(3) == b"brain.Event:2"
        for _, value in fields(event.get(5, b"")):
            value = dict(fields(value))
            tag = value[1].decode()
            if 2 in value:
                scalars.setdefault(tag, []).append((event[2], struct.unpack("<f", value[2])[0]))
            else:
                h = dict(fields(value[5]))
                numbers = [struct.unpack("<d", h[i])[0] for i in range(1, 6)]
                histograms.setdefault(tag, []).append((event[2], numbers, doubles(h[6]), doubles(h[7])))
    assert versions == 1
    return scalars, histograms


def compare(path, scalars, histograms):
    try:
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    except ImportError:
        return
    theirs = EventAccumulator(os.path.dirname(path) or ".", size_guidance={"scalars": 0, "histograms": 0, "tensors": 0})
    theirs.Reload()
    assert sorted(theirs.Tags()["scalars"]) == sorted(scalars), theirs.Tags()
    for tag, values in scalars.items():
        assert [(v.step, v.value) for v in theirs.Scalars(tag)] == values, tag
    assert sorted(theirs.Tags()["histograms"]) == sorted(histograms)
    for tag, values in histograms.items():
        for ours, h in zip(values, theirs.Histograms(tag), strict=True):
            v = h.histogram_value
            assert ours == (h.step, [v.min, v.max, v.num, v.sum, v.sum_squares], list(v.bucket_limit), list(v.bucket))
    print("TensorBoard reads the same", file=sys.stderr)


path = sys.argv[1]
scalars, histograms = read(path)
compare(path, scalars, histograms)
for tag, values in scalars.items():
    print(tag, *[f"{step}:{value:.9g}" if "seconds" not in tag else step for step, value in values])
for tag, values in histograms.items():
    for step, (least, most, n, total, squares), limits, counts in values:
        assert sum(counts) == n and sorted(limits) == limits and counts[0] == 0 and limits[0] <= least and most <= limits[-1]
        print(tag, step, f"n {n:g} sum {total:.9g} squares {squares:.9g} bins {len([c for c in counts if c])}")
if len(sys.argv) > 2:
    os.truncate(path, os.path.getsize(path) - int(sys.argv[2]))
