"""sweep_agrees.py NNC MODEL [OPTION...]: each line of --sweep is what compiling for that budget gives, and the smallest
budget that an error names is the last line's."""
import re
import subprocess
import sys

nnc, options = sys.argv[1], sys.argv[2:]


def compile_for(budget):
    run = subprocess.run([nnc, *options, f'--memory-budget={budget}', '--emit=remat'], capture_output=True, text=True)
    smallest = re.search(r'smallest budget found is .*\((\d+) bytes\)', run.stderr)
    overhead = re.search(r'nn.overhead = ([-+.\deE]+)', run.stdout)
    return overhead and float(overhead[1]), smallest and int(smallest[1])


lines = subprocess.run([nnc, *options, '--sweep'], capture_output=True, text=True, check=True).stdout.split()[1:]
points = [line.split(',') for line in lines]
assert any(point[5] == '0' for point in points), lines
for budget, arena, overhead, _, _, feasible, _ in points[-4:]:
    found, smallest = compile_for(budget)
    if feasible == '1':
        assert found is not None and abs(found - float(overhead)) < 1e-6, (budget, overhead, found)
    else:
        assert smallest == int(arena), (budget, arena, smallest)
print(len(points), 'budgets, the last four compiled')
