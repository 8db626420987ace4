#!/usr/bin/env python3
"""The 3x3 and 1x1 convolutions of ResNet-50, which kernels.c (`kernels shapes`) and peers.py run; as a program prints them."""


def convolutions(tiny):
    """Size of the images, channels, outputs, kernel, stride: those of `convolutions` in kernels.c, in its order."""
    for stage in range(2 if tiny else 4):
        width, size = (16 if tiny else 64) << stage, 5 if tiny else 112 >> stage if stage else 56
        inside = (size - 1) // 2 + 1 if stage else size
        shapes = [(size, 2 * width if stage else width, width, 1, 1), (size, width, width, 3, 2), (size, 2 * width, 4 * width, 1, 2), (inside, width, 4 * width, 1, 1),
                  (inside, 4 * width, width, 1, 1), (inside, width, width, 3, 1)]
        yield from (s for s in shapes if stage or s[4] == 1)


def label(size, inputs, outputs, kernel, stride):
    return f'{kernel}x{kernel} {inputs} to {outputs} at {size}' + (' stride 2' if stride == 2 else '')


if __name__ == '__main__':
    for shape in convolutions(False):
        print(label(*shape))
