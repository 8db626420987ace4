#!/usr/bin/env python3
"""Training steps of LeNet and of the perceptron of bench/run in tinygrad, f32 on the host: one jitted function per step.

usage: tinygrad_peer.py lenet|mlp [--threads N]      answers as pytorch_peer.py does
"""
import argparse
import os
import sys

import serve


class Lenet:
    def __init__(self):
        self.convs = [nn.Conv2d(1, 6, 5, padding=2), nn.Conv2d(6, 16, 5)]
        self.linears = [nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, 10)]

    def __call__(self, x):
        for conv in self.convs:
            x = conv(x).relu().max_pool2d(2)
        x = x.flatten(1)
        for linear in self.linears[:-1]:
            x = linear(x).relu()
        return self.linears[-1](x)


class Mlp:
    def __init__(self):
        self.linears = [nn.Linear(784, 512), nn.Linear(512, 256), nn.Linear(256, 10)]

    def __call__(self, x):
        x = self.linears[0](x.flatten(1)).relu().dropout(0.2)
        return self.linears[2](self.linears[1](x).relu())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('model', choices=['lenet', 'mlp'])
    parser.add_argument('--threads', type=int, default=os.cpu_count())
    options = parser.parse_args()
    os.environ['DEV'] = 'CPU'
    os.environ['NUM_CPU_THREADS'] = str(options.threads)
    global nn
    from tinygrad import Context, Tensor, TinyJit, nn
    import importlib.metadata
    Tensor.manual_seed(1)
    model, lr = (Lenet(), 4e-3) if options.model == 'lenet' else (Mlp(), 1e-3)
    images, labels = Tensor.rand(128, 1, 28, 28).realize(), Tensor.randint(128, high=10).realize()
    optimizer = nn.optim.AdamW(nn.state.get_parameters(model), lr=lr, b1=0.9, b2=0.999, eps=1e-8, weight_decay=0.01)

    @TinyJit
    @Context(TRAINING=1)
    def jitted():
        optimizer.zero_grad()
        loss = model(images).sparse_categorical_crossentropy(labels).backward()
        return loss.realize(*optimizer.schedule_step())

    def step():
        return jitted().item()

    step()   # the second call is what tinygrad records
    serve.serve(step, 'tinygrad ' + importlib.metadata.version('tinygrad'))


if __name__ == '__main__':
    sys.exit(main())
