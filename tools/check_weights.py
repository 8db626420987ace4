#!/usr/bin/env python3
"""The way of a PyTorch state_dict through a compiled model and back: torchvision's ResNet-50, Hugging Face's GPT-2 and BERT for pre-training, small.

usage: check_weights.py NNC WORKDIR [resnet50|gpt2|bert[:f32|bf16|f16]]...      the types of the files; without names all three, in f32

The modules below have the names, the layouts and the arithmetic of those programs, so that their state_dict is one that users have. For each: the state_dict goes to a
safetensors file, `import` reads it through the mapping file of models/maps, `predict` must give the module's own outputs, and `export` the file's tensors, bit for bit.
Needs PyTorch; where the Python that runs this has none, /usr/bin/python3 is tried, and without one it says "skipped" and ends with status 0.
"""
import os
import subprocess
import sys

try:
    import torch
except ImportError:
    again = '/usr/bin/python3'
    if os.environ.get('NNC_TRIED') or not os.path.exists(again) or subprocess.run([again, '-c', 'import torch'], stderr=subprocess.DEVNULL).returncode != 0:
        print('skipped: no PyTorch')
        sys.exit(0)
    os.execve(again, [again] + sys.argv, dict(os.environ, NNC_TRIED='1'))
import torch.nn as nn
import torch.nn.functional as F

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import golden_format as gf

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..')
CODES = {torch.float32: 'F32', torch.float16: 'F16', torch.bfloat16: 'BF16', torch.int64: 'I64', torch.int32: 'I32', torch.uint8: 'U8'}
BOUND = 1e-4   # of the largest output


def raw(tensor):
    t = tensor.detach().contiguous()
    return (t.view(torch.int16) if t.dtype == torch.bfloat16 else t).numpy().tobytes()


def save(path, tensors):
    gf.write_bytes(path, {name: (CODES[t.dtype], t.shape, raw(t)) for name, t in tensors.items()})


# --- torchvision.models.resnet50 --------------------------------------------------------------------------------------

class Bottleneck(nn.Module):
    def __init__(self, inputs, width, stride, downsample):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.conv3, self.bn3 = nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width)
        self.downsample = nn.Sequential(nn.Conv2d(inputs, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width)) if downsample else None

    def forward(self, x):
        y = F.relu(self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x))))))
        return F.relu(self.bn3(self.conv3(y)) + (self.downsample(x) if self.downsample else x))


class ResNet(nn.Module):
    def __init__(self, width=4, depths=(3, 4, 6, 3), classes=10):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width)
        inputs = width
        for i, depth in enumerate(depths):
            blocks = []
            for k in range(depth):
                blocks.append(Bottleneck(inputs, width << i, 2 if i and not k else 1, k == 0))
                inputs = 4 * width << i
            setattr(self, f'layer{i + 1}', nn.Sequential(*blocks))
        self.fc = nn.Linear(inputs, classes)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        return self.fc(self.layer4(self.layer3(self.layer2(self.layer1(x)))).mean((2, 3)))


# --- transformers.GPT2Model, with its tied head -----------------------------------------------------------------------

class Conv1D(nn.Module):
    """Theirs: weights are [inputs, outputs]."""

    def __init__(self, outputs, inputs):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.empty(inputs, outputs)), nn.Parameter(torch.empty(outputs))

    def forward(self, x):
        return x @ self.weight + self.bias


def heads_of(x, heads):
    return x.view(*x.shape[:2], heads, -1).transpose(1, 2)


def attend(q, k, v, heads, hidden):
    """hidden: places that are not seen, of [B, heads, T, T]."""
    q, k, v = (heads_of(x, heads) for x in (q, k, v))
    scores = (q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5).masked_fill(hidden, float('-inf'))
    return (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)


class Gpt2Attention(nn.Module):
    def __init__(self, d, context):
        super().__init__()
        self.register_buffer('bias', torch.ones(context, context).tril().to(torch.uint8).view(1, 1, context, context))
        self.c_attn, self.c_proj = Conv1D(3 * d, d), Conv1D(d, d)

    def forward(self, x, heads):
        t = x.shape[1]
        return self.c_proj(attend(*self.c_attn(x).chunk(3, -1), heads, self.bias[..., :t, :t] == 0))


class Gpt2Mlp(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.c_fc, self.c_proj = Conv1D(4 * d, d), Conv1D(d, 4 * d)

    def forward(self, x):
        return self.c_proj(F.gelu(self.c_fc(x), approximate='tanh'))


class Gpt2Block(nn.Module):
    def __init__(self, d, context):
        super().__init__()
        self.ln_1, self.attn, self.ln_2, self.mlp = nn.LayerNorm(d), Gpt2Attention(d, context), nn.LayerNorm(d), Gpt2Mlp(d)


class Gpt2(nn.Module):
    def __init__(self, d=16, layers=2, heads=4, vocabulary=50, context=16):
        super().__init__()
        self.heads = heads
        self.wte, self.wpe = nn.Embedding(vocabulary, d), nn.Embedding(context, d)
        self.h, self.ln_f = nn.ModuleList([Gpt2Block(d, context) for _ in range(layers)]), nn.LayerNorm(d)

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe.weight[:tokens.shape[1]]
        for b in self.h:
            x = x + b.attn(b.ln_1(x), self.heads)
            x = x + b.mlp(b.ln_2(x))
        return self.ln_f(x) @ self.wte.weight.T


# --- transformers.BertForPreTraining ----------------------------------------------------------------------------------

def tree(**children):
    m = nn.Module()
    for name, child in children.items():
        setattr(m, name, child)
    return m


def normed(d, inputs):
    return tree(dense=nn.Linear(inputs, d), LayerNorm=nn.LayerNorm(d, eps=1e-12))


class Bert(nn.Module):
    def __init__(self, d=16, layers=2, heads=4, vocabulary=40, context=12):
        super().__init__()
        self.heads = heads
        embeddings = tree(word_embeddings=nn.Embedding(vocabulary, d), position_embeddings=nn.Embedding(context, d), token_type_embeddings=nn.Embedding(2, d), LayerNorm=nn.LayerNorm(d, eps=1e-12))
        embeddings.register_buffer('position_ids', torch.arange(context)[None])
        layer = lambda: tree(attention=tree(**{'self': tree(query=nn.Linear(d, d), key=nn.Linear(d, d), value=nn.Linear(d, d))}, output=normed(d, d)), intermediate=tree(dense=nn.Linear(d, 4 * d)), output=normed(d, 4 * d))
        self.bert = tree(embeddings=embeddings, encoder=tree(layer=nn.ModuleList([layer() for _ in range(layers)])), pooler=tree(dense=nn.Linear(d, d)))
        predictions = tree(transform=normed(d, d), decoder=nn.Linear(d, vocabulary))
        predictions.bias = predictions.decoder.bias
        predictions.decoder.weight = embeddings.word_embeddings.weight
        self.cls = tree(predictions=predictions, seq_relationship=nn.Linear(d, 2))

    def forward(self, tokens, segments, valid, positions):
        e = self.bert.embeddings
        x = e.LayerNorm(e.word_embeddings(tokens) + e.token_type_embeddings(segments) + e.position_embeddings.weight)
        hidden = (valid == 0)[:, None, None, :]
        for layer in self.bert.encoder.layer:
            s, o = getattr(layer.attention, 'self'), layer.attention.output
            x = o.LayerNorm(x + o.dense(attend(s.query(x), s.key(x), s.value(x), self.heads, hidden)))
            x = layer.output.LayerNorm(x + layer.output.dense(F.gelu(layer.intermediate.dense(x))))
        p = self.cls.predictions
        masked = x[torch.arange(len(x))[:, None], positions]
        words = p.decoder(p.transform.LayerNorm(F.gelu(p.transform.dense(masked))))
        return words, self.cls.seq_relationship(torch.tanh(self.bert.pooler.dense(x[:, 0])))


# --- The check ---------------------------------------------------------------------------------------------------------

def numbers(below, *shape):
    return torch.randint(below, shape)


def cases():
    """name: module, program, its options, its mapping, inputs by name"""
    valid = (torch.arange(12)[None] < torch.tensor([[12], [7]])).float()
    return {
        'resnet50': (ResNet(), 'resnet50', dict(N=2, size=64, width=4, classes=10), 'resnet', dict(image=torch.rand(2, 3, 64, 64))),
        'gpt2': (Gpt2(), 'gpt2', dict(B=2, T=12, width=16, layers=2, heads=4, vocabulary=50, context=16), 'gpt2', dict(tokens=numbers(50, 2, 12))),
        'bert': (Bert(), 'bert_base', dict(N=2, T=12, width=16, layers=2, heads=4, vocabulary=40, M=3), 'bert',
                 dict(tokens=numbers(40, 2, 12), segments=numbers(2, 2, 12), valid=valid, positions=numbers(7, 2, 3))),
    }


def fill(module, dtype):
    """Parameters and states as after some training: no constants, and positive variances. In the type of the file they are what the module computes with."""
    with torch.no_grad():
        for name, t in list(module.named_parameters()) + list(module.named_buffers()):
            if not t.dtype.is_floating_point:
                continue
            fan_in = t[0].numel() if t.dim() > 1 else 25
            t.copy_(torch.rand_like(t) + 0.5 if name.endswith('running_var') else torch.randn_like(t) / fan_in ** 0.5 + (t.dim() == 1 and name.endswith('weight')))
            t.copy_(t.to(dtype).float())


def run(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True)
    if done.returncode != 0:
        sys.exit(f'{" ".join(command)}: {done.returncode}\n{done.stdout}')


def check(nnc, work, name, dtype_name):
    dtype = {'f32': torch.float32, 'bf16': torch.bfloat16, 'f16': torch.float16}[dtype_name]
    module, program, options, mapping, inputs = cases()[name]
    fill(module, dtype)
    module.eval()
    path = lambda file: os.path.join(work, file)
    model, mapping = path(program), '--map=' + os.path.join(ROOT, 'models', 'maps', mapping + '.txt')
    run(nnc, os.path.join(ROOT, 'models', program + '.nn'), *[f'-D{k}={v}' for k, v in options.items()], '-o', model)
    save(path('theirs.st'), {k: v.to(dtype) if v.dtype == torch.float32 else v for k, v in module.state_dict().items()})
    save(path('inputs.st'), {k: v.to(torch.int32) if v.dtype == torch.int64 else v for k, v in inputs.items()})
    run(model, 'import', path('theirs.st'), mapping, '--output=' + path('ours.st'))
    run(model, 'predict', '--weights=' + path('ours.st'), '--inputs=' + path('inputs.st'), '--outputs=' + path('outputs.st'))
    run(model, 'export', '--weights=' + path('ours.st'), mapping, '--dtype=' + dtype_name, path('back.st'))
    with torch.no_grad():
        want = module(*inputs.values())
    want = want if isinstance(want, tuple) else (want,)
    worst = 0
    for (got_name, (_, shape, data)), w in zip(gf.read_bytes(path('outputs.st')).items(), want):
        got = torch.frombuffer(bytearray(data), dtype=torch.float32).view(shape)
        if list(w.shape) != list(shape):
            sys.exit(f'{name}: {got_name} is {shape}, PyTorch has {list(w.shape)}')
        worst = max(worst, ((got - w).abs().max() / w.abs().max()).item())
    theirs, back = gf.read_bytes(path('theirs.st')), gf.read_bytes(path('back.st'))
    different = [n for n in back if theirs.get(n) != back[n]]
    left = len(theirs) - len(back)
    ok = worst <= BOUND and not different
    print(f'{name} {dtype_name}: outputs differ by {worst:.1e} of the largest at most; {len(back)} tensors came back, {len(different)} of them different, {left} without a place: {"ok" if ok else "WRONG"}')
    return ok


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    nnc, work = sys.argv[1:3]
    torch.manual_seed(1)
    torch.set_num_threads(1)
    os.makedirs(work, exist_ok=True)
    results = [check(nnc, work, *(n + ':f32').split(':')[:2]) for n in sys.argv[3:] or cases()]
    sys.exit(not all(results))


if __name__ == '__main__':
    main()
