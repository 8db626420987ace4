#!/usr/bin/env python3
"""Deep Q-learning (Mnih et al., 2015) of a pole on a cart, with the step of models/dqn.nn: the loop, the memory of transitions and the cart are here, all else is in the model.

usage: cartpole.py [EPISODES]     `pip install ./python`; nnc is in PATH or named by the variable NNC
Prints how many steps the pole stood, of 200, as a mean over each 20 episodes.
"""
import math
import pathlib
import sys

import nnc
import numpy as np

MODEL = pathlib.Path(__file__).resolve().parents[2] / 'models' / 'dqn.nn'
BATCH, MEMORY, LIMIT = 64, 10_000, 200


class Cart:
    """A cart of 1 kg pushed left or right by 10 N so that its pole, 1 m and 0.1 kg, does not fall (Barto, Sutton and Anderson, 1983); steps of 20 ms."""

    def __init__(self, draws):
        self.state = draws.uniform(-0.05, 0.05, 4)   # place, speed, angle, its speed

    def push(self, action):
        """The new state, and whether the pole has fallen or the cart has left its track."""
        x, v, angle, spin = self.state
        force, half, pole, whole = (10.0 if action else -10.0), 0.5, 0.1, 1.1
        pushed = (force + pole * half * spin ** 2 * math.sin(angle)) / whole
        turned = (9.8 * math.sin(angle) - math.cos(angle) * pushed) / (half * (4 / 3 - pole * math.cos(angle) ** 2 / whole))
        moved = pushed - pole * half * turned * math.cos(angle) / whole
        self.state = self.state + 0.02 * np.array([v, moved, spin, turned])
        return self.state, abs(self.state[0]) > 2.4 or abs(self.state[2]) > math.radians(12)


def main():
    episodes = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    draws = np.random.default_rng(1)
    memory = {'state': np.zeros((MEMORY, 4), 'f4'), 'action': np.zeros((MEMORY, 1), 'i4'), 'reward': np.ones((MEMORY, 1), 'f4'),
              'next': np.zeros((MEMORY, 4), 'f4'), 'ended': np.zeros((MEMORY, 1), 'f4')}
    seen, stood = 0, []
    with nnc.compile(MODEL, N=BATCH, options={'seed': 1}) as net:
        for episode in range(episodes):
            cart, explores = Cart(draws), max(0.02, 1 - episode / (episodes / 3))
            for length in range(1, LIMIT + 1):
                state = cart.state
                action = draws.integers(2) if draws.random() < explores else net.predict(state=state[None].astype('f4')).argmax()
                following, ended = cart.push(action)
                for name, value in ('state', state), ('action', action), ('next', following), ('ended', ended):
                    memory[name][seen % MEMORY] = value
                seen += 1
                if seen >= 4 * BATCH:
                    chosen = draws.integers(min(seen, MEMORY), size=BATCH)
                    net.step({name: values[chosen] for name, values in memory.items()})
                if ended:
                    break
            stood.append(length)
            if len(stood) % 20 == 0:
                print(f'episode {len(stood)}  {np.mean(stood[-20:]):.0f} steps', flush=True)


if __name__ == '__main__':
    main()
