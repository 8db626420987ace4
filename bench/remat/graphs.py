#!/usr/bin/env python3
"""Writes rematerialization problems for nnc-plan: training graphs of image networks in the style of Checkmate and
MOCCASIN (a node per layer forward and backward), chains, and random graphs. Plain Python 3, nothing else needed.

    graphs.py NAME [options] [-o FILE]      one problem, JSON on standard output by default
    graphs.py --all DIRECTORY               the set of 21 that bench/remat/ilp-graphs uses, one file each
    graphs.py --list                        the names of that set with their options

NAME is vgg16, unet, mobilenetv2, resnet50, chain, residual or random.

Costs are microseconds of a roofline with --flops and --bandwidth (a V100 by default), bytes those of float32 tensors.
"""
import argparse
import json
import os
import random
import sys

FLOAT = 4

# detail -> one backward node per layer, or data and weight gradients as nodes of their own
# merge  -> convolution, normalization and activation are one layer, or each its own
# update -> weight gradients stay to the end (keep), are read by an in-place update (apply), or are part of
#           fixed_bytes (fixed: they cost nothing here, as in Checkmate)
SET = [
    ("vgg16-a", "vgg16 --batch=256 --detail=fine --bias"),
    ("vgg16-b", "vgg16 --batch=128 --detail=fine --update=apply"),
    ("vgg16-c", "vgg16 --batch=64 --size=416 --detail=fine --norm"),
    ("vgg16-d", "vgg16 --batch=256 --detail=coarse --norm --bias"),
    ("vgg16-e", "vgg16 --batch=64 --detail=fine --norm --update=apply --cost=flops"),
    ("unet-a", "unet --batch=8 --size=416 --detail=coarse --norm"),
    ("unet-b", "unet --batch=16 --size=256 --detail=fine"),
    ("unet-c", "unet --batch=4 --size=512 --detail=fine --norm"),
    ("unet-d", "unet --batch=8 --size=416 --detail=fine --norm --update=apply"),
    ("unet-e", "unet --batch=32 --size=160 --detail=coarse --norm --bias --cost=flops"),
    ("mobilenetv2-a", "mobilenetv2 --batch=256 --detail=coarse"),
    ("mobilenetv2-b", "mobilenetv2 --batch=512 --detail=coarse --merge"),
    ("mobilenetv2-c", "mobilenetv2 --batch=128 --detail=fine --merge"),
    ("mobilenetv2-d", "mobilenetv2 --batch=256 --detail=fine --merge --update=apply"),
    ("mobilenetv2-e", "mobilenetv2 --batch=128 --size=320 --detail=fine"),
    ("resnet50-a", "resnet50 --batch=128 --detail=coarse"),
    ("resnet50-b", "resnet50 --batch=256 --detail=coarse --merge"),
    ("resnet50-c", "resnet50 --batch=128 --detail=fine --merge"),
    ("resnet50-d", "resnet50 --batch=64 --size=320 --detail=fine --merge --update=apply"),
    ("resnet50-e", "resnet50 --batch=128 --detail=coarse --cost=flops"),
    ("resnet50-f", "resnet50 --batch=96 --detail=fine --cost=flops --merge --update=fixed"),
]


class Layer:
    """What a layer's backward needs: `keeps` is a subset of "io" (input, output); `params` its weights' elements."""

    def __init__(self, name, kind, shape, inputs, flops, keeps, params):
        self.name, self.kind, self.shape, self.inputs = name, kind, shape, inputs
        self.flops, self.keeps, self.params = flops, keeps, params
        self.elements = 1
        for extent in shape:
            self.elements *= extent


class Network:
    """A list of layers; -1 stands for the batch of images, which is not a node (its bytes are fixed)."""

    def __init__(self, options):
        self.options, self.layers = options, []
        self.batch, self.size = options.batch, options.size

    def shape(self, layer):
        return (self.batch, 3, self.size, self.size) if layer < 0 else self.layers[layer].shape

    def add(self, kind, shape, inputs, flops, keeps, params=0):
        name = "%s%d" % (kind, len(self.layers))
        self.layers.append(Layer(name, kind, shape, [i for i in inputs if i >= 0], flops, keeps, params))
        return len(self.layers) - 1

    def elements(self, layer):
        product = 1
        for extent in self.shape(layer):
            product *= extent
        return product

    def conv(self, x, channels, kernel, stride=1, groups=1, norm=None, act="relu", transposed=False):
        """A convolution with its bias, normalization and activation, as one layer or several."""
        n, c, h, w = self.shape(x)
        h, w = (h * stride, w * stride) if transposed else (-(-h // stride), -(-w // stride))
        shape, params = (n, channels, h, w), channels * (c // groups) * kernel * kernel
        flops = 2 * n * h * w * params // (stride * stride if transposed else 1)
        norm = self.options.norm if norm is None else norm
        kind = "convt" if transposed else "dwconv" if groups > 1 else "conv"
        if self.options.merge:
            # As one kernel: the backward recomputes the normalization and the activation from the two it keeps.
            return self.add(kind, shape, [x], flops, "io", params + 2 * channels)
        y = self.add(kind, shape, [x], flops, "i", params)
        if self.options.bias and not norm:
            y = self.add("bias", shape, [y], self.elements(y), "", channels)
        if norm:
            y = self.add("norm", shape, [y], 8 * self.elements(y), "i", 2 * channels)
        if act:
            y = self.add(act, shape, [y], self.elements(y), "o")
        return y

    def pool(self, x, kernel=2, stride=2):
        n, c, h, w = self.shape(x)
        shape = (n, c, -(-h // stride), -(-w // stride))
        return self.add("maxpool", shape, [x], n * c * shape[2] * shape[3] * kernel * kernel, "io")

    def dense(self, x, features, act=None):
        n = self.batch
        wide = self.elements(x) // n
        y = self.add("dense", (n, features), [x], 2 * n * wide * features, "i", wide * features)
        if self.options.bias:
            y = self.add("bias", (n, features), [y], n * features, "", features)
        return self.add(act, (n, features), [y], n * features, "o") if act else y

    def join(self, kind, a, b):
        shape = self.shape(a)
        if kind == "concat":
            shape = (shape[0], shape[1] + self.shape(b)[1]) + shape[2:]
        return self.add(kind, shape, [a, b], self.elements(a), "")

    def unary(self, kind, x, shape=None, keeps="o"):
        return self.add(kind, shape or self.shape(x), [x], self.elements(x), keeps)


def vgg16(net):
    x = -1
    for repeats, channels in ((2, 64), (2, 128), (3, 256), (3, 512), (3, 512)):
        for _ in range(repeats):
            x = net.conv(x, channels, 3)
        x = net.pool(x)
    x = net.dense(x, 4096, "relu")
    x = net.dense(x, 4096, "relu")
    return net.dense(x, 1000)


def unet(net):
    skips, x = [], -1
    for channels in (64, 128, 256, 512):
        x = net.conv(net.conv(x, channels, 3), channels, 3)
        skips.append(x)
        x = net.pool(x)
    x = net.conv(net.conv(x, 1024, 3), 1024, 3)
    for channels in (512, 256, 128, 64):
        x = net.conv(x, channels, 2, stride=2, norm=False, act=None, transposed=True)
        x = net.join("concat", x, skips.pop())
        x = net.conv(net.conv(x, channels, 3), channels, 3)
    return net.conv(x, 2, 1, norm=False, act=None)


def mobilenetv2(net):
    x = net.conv(-1, 32, 3, stride=2, norm=True)
    for expand, channels, repeats, stride in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2),
                                              (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)):
        for i in range(repeats):
            wide = net.shape(x)[1] * expand
            y = net.conv(x, wide, 1, norm=True) if expand > 1 else x
            y = net.conv(y, wide, 3, stride=stride if i == 0 else 1, groups=wide, norm=True)
            y = net.conv(y, channels, 1, norm=True, act=None)
            x = net.join("add", x, y) if i else y
    x = net.conv(x, 1280, 1, norm=True)
    x = net.unary("mean", x, (net.batch, 1280), "")
    return net.dense(x, 1000)


def resnet50(net):
    x = net.pool(net.conv(-1, 64, 7, stride=2, norm=True), 3, 2)
    for repeats, channels, stride in ((3, 64, 1), (4, 128, 2), (6, 256, 2), (3, 512, 2)):
        for i in range(repeats):
            step = stride if i == 0 else 1
            y = net.conv(x, channels, 1, norm=True)
            y = net.conv(y, channels, 3, stride=step, norm=True)
            y = net.conv(y, 4 * channels, 1, norm=True, act=None)
            short = net.conv(x, 4 * channels, 1, stride=step, norm=True, act=None) if i == 0 else x
            x = net.unary("relu", net.join("add", y, short))
    x = net.unary("mean", x, (net.batch, 2048), "")
    return net.dense(x, 1000)


class Problem:
    def __init__(self):
        self.nodes, self.outputs, self.anti, self.fixed = [], [], [], 0

    def add(self, name, cost, size, inputs, role="forward", expensive=False, **more):
        node = {"name": name, "cost": round(cost, 3), "bytes": size, "inputs": sorted(set(inputs)), "role": role}
        if expensive:
            node["class"] = "expensive"
        node.update(more)
        self.nodes.append(node)
        return len(self.nodes) - 1

    def write(self, file):
        file.write('{"fixed_bytes": %d,\n "nodes": [\n' % self.fixed)
        file.write(",\n".join("  " + json.dumps(node) for node in self.nodes))
        file.write('],\n "outputs": %s' % json.dumps(self.outputs))
        if self.anti:
            file.write(',\n "anti": %s' % json.dumps(self.anti))
        file.write("}\n")


def seconds(options, flops, elements):
    """Microseconds of a kernel of that many operations which moves that many elements."""
    if options.cost == "flops":
        return max(flops, elements / 8) / 1e6
    return max(flops / options.flops, elements * FLOAT / options.bandwidth) * 1e6 + options.launch


EXPENSIVE = ("conv", "convt", "dwconv", "dense")


def training(net, result):
    """Forward nodes, a loss, and backward nodes in reverse order."""
    options, problem = net.options, Problem()
    layers = net.layers
    parameters = sum(layer.params for layer in layers)
    problem.fixed = FLOAT * (parameters * (2 if options.update == "fixed" or options.detail == "coarse" else 1)
                             + net.elements(-1))
    for layer in layers:
        moved = layer.elements + layer.params + sum(layers[i].elements for i in layer.inputs)
        problem.add(layer.name, seconds(options, layer.flops, moved), FLOAT * layer.elements, layer.inputs,
                    expensive=layer.kind in EXPENSIVE)
    loss = problem.add("loss", seconds(options, 0, layers[result].elements), FLOAT, [result])
    problem.outputs.append(loss)
    (coarse_backward if options.detail == "coarse" else fine_backward)(net, problem, result, loss)
    return problem


def saved(layer, number):
    return (layer.inputs if "i" in layer.keeps else []) + ([number] if "o" in layer.keeps else [])


def coarse_backward(net, problem, result, loss):
    """One node per layer; its value is the gradient of all its inputs. It reads those of its users and what it keeps."""
    layers, options = net.layers, net.options
    users = [[] for _ in layers]
    for number, layer in enumerate(layers):
        for i in layer.inputs:
            users[i].append(number)
    start = problem.add("d_loss", seconds(options, 0, layers[result].elements), FLOAT * layers[result].elements,
                        [result, loss], "backward")
    gradient = {}
    for number in range(len(layers) - 1, -1, -1):
        layer = layers[number]
        upstream = [gradient[u] for u in users[number]] or [start]
        size = sum(layers[i].elements for i in layer.inputs[:1 if layer.kind == "add" else 2])
        moved = size + layer.elements * len(upstream) + layer.params
        work = layer.flops * (2 if layer.params and layer.inputs else 1)
        gradient[number] = problem.add("d_" + layer.name, seconds(options, work, moved), FLOAT * max(size, 1),
                                       upstream + saved(layer, number), "backward", layer.kind in EXPENSIVE)


def fine_backward(net, problem, result, loss):
    """Data gradients, weight gradients, and sums of gradients as nodes of their own."""
    layers, options = net.layers, net.options
    parts = [[] for _ in layers]
    parts[result].append(problem.add("d_loss", seconds(options, 0, layers[result].elements),
                                     FLOAT * layers[result].elements, [result, loss], "backward"))
    for number in range(len(layers) - 1, -1, -1):
        layer = layers[number]
        upstream = parts[number][0]
        if len(parts[number]) > 1:
            upstream = problem.add("sum_" + layer.name, seconds(options, layer.elements, 3 * layer.elements),
                                   FLOAT * layer.elements, parts[number], "backward")
        dense = layer.kind in EXPENSIVE
        if layer.params:
            weight_gradient(problem, options, layer, [upstream] + layer.inputs * ("i" in layer.keeps), dense)
        if layer.kind == "add":  # passes its gradient on
            for i in layer.inputs:
                parts[i].append(upstream)
            continue
        for i in layer.inputs:
            moved = layers[i].elements + layer.elements + layer.params
            parts[i].append(problem.add("d_" + layer.name, seconds(options, layer.flops, moved),
                                        FLOAT * layers[i].elements,
                                        [upstream] + (saved(layer, number) if not dense or options.merge else []),
                                        "backward", dense))


def weight_gradient(problem, options, layer, inputs, dense):
    moved = layer.elements + layer.params
    size = FLOAT if options.update == "fixed" else FLOAT * layer.params
    node = problem.add("dw_" + layer.name, seconds(options, layer.flops, moved), size, inputs, "backward", dense)
    if options.update == "apply":
        problem.add("sgd_" + layer.name, seconds(options, 0, 3 * layer.params), 0, [node], "update",
                    recomputable=False)
    else:
        problem.outputs.append(node)


def chain(options, residual):
    """n equal layers; the backward of a layer reads its output (tanh) and, in a residual chain, its input too."""
    problem, n = Problem(), options.nodes
    for i in range(n):
        problem.add("f%d" % i, 1, options.unit, [i - 1] if i else [])
    last = problem.add("loss", 1, options.unit, [n - 1])
    for i in range(n - 1, -1, -1):
        kept = [i] + ([i - 1] if residual and i else [])
        last = problem.add("b%d" % i, 1, options.unit, [last] + kept, "backward")
    problem.outputs.append(last)
    return problem


def random_graph(options):
    """Any DAG: a few inputs each, some without use, some workspace, some nodes that execute once."""
    source, problem = random.Random(options.seed), Problem()
    for i in range(options.nodes):
        back = min(i, source.choice((2, 4, options.nodes)))
        inputs = source.sample(range(i - back, i), min(back, source.choice((1, 1, 2, 2, 3)))) if i else []
        more = {}
        if source.random() < 0.2:
            more["workspace"] = source.randint(1, 8) * options.unit
        if source.random() < 0.1:
            more["recomputable"] = False
        role = "backward" if i >= options.nodes // 2 else "forward"
        problem.add("n%d" % i, source.randint(1, 9), source.randint(0, 9) * options.unit, inputs, role, **more)
    problem.outputs.append(options.nodes - 1)
    return problem


def parse(arguments):
    parser = argparse.ArgumentParser(description="Writes rematerialization problems for nnc-plan.")
    parser.add_argument("name", nargs="?", choices=("vgg16", "unet", "mobilenetv2", "resnet50", "chain", "residual",
                                                    "random"))
    parser.add_argument("--all", metavar="DIRECTORY", help="write the whole set")
    parser.add_argument("--list", action="store_true", help="print the names of the set")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--size", type=int, default=224, help="height and width of the images")
    parser.add_argument("--detail", choices=("coarse", "fine"), default="fine")
    parser.add_argument("--merge", action="store_true", help="convolution, normalization, activation are one layer")
    parser.add_argument("--norm", action="store_true", help="batch normalization in vgg16 and unet")
    parser.add_argument("--bias", action="store_true", help="biases are layers of their own")
    parser.add_argument("--update", choices=("keep", "apply", "fixed"), default="keep")
    parser.add_argument("--cost", choices=("roofline", "flops"), default="roofline")
    parser.add_argument("--flops", type=float, default=12e12, help="per second")
    parser.add_argument("--bandwidth", type=float, default=800e9, help="bytes per second")
    parser.add_argument("--launch", type=float, default=5.0, help="microseconds per node")
    parser.add_argument("--nodes", type=int, default=100, help="of chain, residual and random")
    parser.add_argument("--unit", type=int, default=1, help="bytes of a value of chain, residual and random")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("-o", "--output", default="-")
    return parser, parser.parse_args(arguments)


def make(options):
    if options.name in ("chain", "residual"):
        return chain(options, options.name == "residual")
    if options.name == "random":
        return random_graph(options)
    net = Network(options)
    return training(net, globals()[options.name](net))


def main():
    parser, options = parse(sys.argv[1:])
    if options.list:
        for name, line in SET:
            print(name, line)
    elif options.all:
        os.makedirs(options.all, exist_ok=True)
        for name, line in SET:
            problem = make(parse(line.split())[1])
            with open(os.path.join(options.all, name + ".json"), "w") as file:
                problem.write(file)
            print("%-14s %4d nodes" % (name, len(problem.nodes)))
    elif not options.name:
        parser.error("name a graph, or use --all or --list")
    elif options.output == "-":
        make(options).write(sys.stdout)
    else:
        with open(options.output, "w") as file:
            make(options).write(file)


if __name__ == "__main__":
    main()
