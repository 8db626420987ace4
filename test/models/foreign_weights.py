#!/usr/bin/env python3
"""Writes weights under the names and shapes of other programs; what is written is a hash of the name.

usage: foreign_weights.py resnet50|gpt2|bert FILE
The lists are those of torchvision's resnet50 (width 2, 10 classes) and of Hugging Face's GPT2Model (2 layers, width 16, 50 tokens, 16 positions) and
BertForPreTraining (2 layers, width 16, 40 tokens, 12 positions).
"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'tools'))
import golden_format as gf


def pair(name, weight, bias):
    return [(name + '.weight', weight), (name + '.bias', [bias])]


def batchnorm(name, n):
    return pair(name, [n], n) + [(name + '.running_mean', [n]), (name + '.running_var', [n]), (name + '.num_batches_tracked', [])]


def resnet50():
    t = [('conv1.weight', [2, 3, 7, 7])] + batchnorm('bn1', 2)
    inputs = 2
    for i, depth in enumerate((3, 4, 6, 3)):
        w = 2 << i
        for k in range(depth):
            p = f'layer{i + 1}.{k}.'
            for j, shape in enumerate(([w, inputs, 1, 1], [w, w, 3, 3], [4 * w, w, 1, 1])):
                t += [(f'{p}conv{j + 1}.weight', shape)] + batchnorm(f'{p}bn{j + 1}', shape[0])
            if k == 0:
                t += [(p + 'downsample.0.weight', [4 * w, inputs, 1, 1])] + batchnorm(p + 'downsample.1', 4 * w)
            inputs = 4 * w
    return t + pair('fc', [10, inputs], 10)


def gpt2():
    t = [('wte.weight', [50, 16]), ('wpe.weight', [16, 16])]
    for i in range(2):
        p = f'h.{i}.'
        t += pair(p + 'ln_1', [16], 16) + [(p + 'attn.bias', [1, 1, 16, 16])] + pair(p + 'attn.c_attn', [16, 48], 48) + pair(p + 'attn.c_proj', [16, 16], 16)
        t += pair(p + 'ln_2', [16], 16) + pair(p + 'mlp.c_fc', [16, 64], 64) + pair(p + 'mlp.c_proj', [64, 16], 16)
    return t + pair('ln_f', [16], 16)


def bert():
    e = 'bert.embeddings.'
    t = [(e + 'word_embeddings.weight', [40, 16]), (e + 'position_embeddings.weight', [12, 16]), (e + 'token_type_embeddings.weight', [2, 16])] + pair(e + 'LayerNorm', [16], 16)
    for i in range(2):
        p = f'bert.encoder.layer.{i}.'
        for n in 'self.query', 'self.key', 'self.value', 'output.dense':
            t += pair(p + 'attention.' + n, [16, 16], 16)
        t += pair(p + 'attention.output.LayerNorm', [16], 16) + pair(p + 'intermediate.dense', [64, 16], 64) + pair(p + 'output.dense', [16, 64], 16)
        t += pair(p + 'output.LayerNorm', [16], 16)
    t += pair('bert.pooler.dense', [16, 16], 16) + [('cls.predictions.bias', [40])] + pair('cls.predictions.transform.dense', [16, 16], 16)
    return t + pair('cls.predictions.transform.LayerNorm', [16], 16) + [('cls.predictions.decoder.weight', [40, 16])] + pair('cls.seq_relationship', [2, 16], 2)


def main():
    tensors = {}
    for name, shape in {'resnet50': resnet50, 'gpt2': gpt2, 'bert': bert}[sys.argv[1]]():
        count = 1
        for d in shape:
            count *= d
        integer = name.endswith('tracked')
        tensors[name] = ('I64' if integer else 'F32', shape, [7] if integer else gf.tensor(name, count))
    gf.write_safetensors(sys.argv[2], tensors)


if __name__ == '__main__':
    main()
