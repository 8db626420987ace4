#!/usr/bin/env python3
"""The loss scale in checkpoints: same_scale.py AFTER-ONE-STEP WHOLE RESUMED"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'tools'))
import golden_format as gf

one, whole, resumed = (gf.read_safetensors(path) for path in sys.argv[1:4])


def scalars(t):
    return t['loss_scale'][-1][0], t['loss_scale.good_steps'][-1][0]


moments = [x for name, t in one.items() if name.endswith('.exp_avg') for x in t[-1]]
print('after 1 step: scale %d, %d good steps, optimizer state %s' % (*scalars(one), 'changed' if not moments or any(moments) else 'all zero'))
differ = [name for name in whole if whole[name] != resumed[name]]
print('after 12 steps: scale %d, %d good steps; resumed %s' % (*scalars(whole), 'differently: ' + ', '.join(differ[:5]) if differ else 'the same'))
