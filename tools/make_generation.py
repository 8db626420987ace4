#!/usr/bin/env python3
"""Goldens of what an encoder-decoder writes: a small T5 of Hugging Face's transformers, with weights that its `generate` and models/t5.nn share.

usage: make_generation.py NNC      writes test/e2e/Inputs/generation.json; needs torch and transformers
"""
import json
import os
import subprocess
import sys
import tempfile

import torch
import transformers

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..')
sys.path.insert(0, os.path.join(ROOT, 'test/e2e/Inputs'))
import generation  # noqa: E402

SIZES = dict(B=3, S=6, T=12, width=8, layers=2, heads=2, inner=12, vocabulary=30, buckets=8, furthest=6, p=0)
MOST, END = 10, 7


def theirs(name):
    """Our name of a parameter as that of transformers."""
    stack, *rest = name.split('.')
    if stack == 'shared':
        return 'shared.weight'
    if rest[0] == 'final':
        return f'{stack}.final_layer_norm.weight'
    if rest[0] == 'relative_bias':
        return f'{stack}.block.0.layer.0.SelfAttention.relative_attention_bias.weight'
    last = 1 if stack == 'encoder' else 2
    place = {'norm1': '0.layer_norm', 'norm2': '1.layer_norm', 'norm3': '2.layer_norm', 'self_attention': '0.SelfAttention', 'cross_attention': '1.EncDecAttention',
             'feed_forward': f'{last}.DenseReluDense'}[rest[2]]
    return f'{stack}.block.{rest[1]}.layer.{place}.' + '.'.join(rest[3:])


def network(shapes):
    config = transformers.T5Config(vocab_size=SIZES['vocabulary'], d_model=SIZES['width'], d_kv=SIZES['width'] // SIZES['heads'], d_ff=SIZES['inner'], num_layers=SIZES['layers'],
                                   num_heads=SIZES['heads'], relative_attention_num_buckets=SIZES['buckets'], relative_attention_max_distance=SIZES['furthest'], dropout_rate=0,
                                   decoder_start_token_id=0, pad_token_id=0, eos_token_id=END, feed_forward_proj='relu')
    net = transformers.T5ForConditionalGeneration(config).eval()
    state = {theirs(name): torch.tensor(generation.values_of(name, shape)).reshape(shape) for name, shape in shapes.items()}
    missing = net.load_state_dict(state, strict=False)
    assert not missing.unexpected_keys and all('embed_tokens' in k or k == 'lm_head.weight' for k in missing.missing_keys), missing
    net.tie_weights()
    return net


def main():
    nnc = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([nnc, os.path.join(ROOT, 'models/t5.nn'), *(o for n, v in SIZES.items() for o in ('-D', f'{n}={v}')), '-o', 't5'], cwd=folder, check=True, capture_output=True)
        subprocess.run(['./t5', 'export', '--init', 'w.safetensors'], cwd=folder, check=True, capture_output=True)
        net = network(generation.shapes_of(os.path.join(folder, 'w.safetensors')))
    sources = torch.randint(2, SIZES['vocabulary'], (6, SIZES['S']), generator=torch.Generator().manual_seed(8))
    golden = {'options': ' '.join(f'-D {n}={v}' for n, v in SIZES.items()), 'most': MOST, 'end': END, 'sources': sources.tolist()}

    def generate(name, options, **how):
        texts, sums = [], []
        for source in sources:
            made = net.generate(source[None], attention_mask=torch.ones(1, SIZES['S'], dtype=torch.long), max_new_tokens=MOST, do_sample=False, return_dict_in_generate=True,
                                output_scores=True, **how)
            text = made.sequences[0].tolist()
            if END in text and how.get('eos_token_id', END):
                text = text[:text.index(END) + 1]   # padding
            texts.append(text)
            if 'sequences_scores' in made:
                sums.append(made.sequences_scores[0].item() * (len(text) - 1) ** how.get('length_penalty', 1.0))
        golden[name] = {'options': options, 'texts': texts, 'sums': sums}

    generate('likeliest', ['--temperature=0'], eos_token_id=None)
    generate('ended', ['--temperature=0', f'--end={END}'])
    generate('beams', ['--beams=3', f'--end={END}'], num_beams=3)
    generate('short', ['--beams=3', f'--end={END}', '--length-penalty=-2'], num_beams=3, length_penalty=-2.0)
    generate('sums', ['--beams=2', f'--end={END}', '--length-penalty=0'], num_beams=2, length_penalty=0.0)
    generate('endless', ['--beams=3'], num_beams=3, eos_token_id=None)
    with open(os.path.join(ROOT, 'test/e2e/Inputs/generation.json'), 'w', encoding='ascii') as f:
        json.dump(golden, f, indent=1)
        f.write('\n')


if __name__ == '__main__':
    if len(sys.argv) < 2 or sys.argv[1].startswith('-'):
        sys.exit(__doc__)
    main()
