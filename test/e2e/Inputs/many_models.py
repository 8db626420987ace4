"""A program with as many models as there may be, of which 16 are trained, each in a phase of its own."""
models = [f'model m{i}(x: f32[2, 3]) {{ {"linear(x, 1)" if i < 16 else f"sum(x, axes=1) * {i}"} }}' for i in range(200)]
phases = [f'    phase p{i} {{\n        loss       mean(square(m{i}(normal([2, 3]))))\n        optimizer  sgd(lr=0.1)\n        parameters m{i}\n    }}' for i in range(16)]
print('\n'.join(models + ['train {', '    accumulate 2'] + phases + ['    steps 2', '}']))
