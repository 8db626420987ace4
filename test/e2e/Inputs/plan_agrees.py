"""plan_agrees.py NNC NNC-PLAN POINTS MODEL [OPTION...]: at 59 to 63 % of the arena the compiler's plans are, in the mean, within POINTS
points of what nnc-plan adds on the same problem, whatever had to be corrected in them on the way."""
import json
import re
import subprocess
import sys

nnc, planner, points, options = sys.argv[1], sys.argv[2], float(sys.argv[3]), sys.argv[4:]


def run(*command, text=None):
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


problem = run(nnc, *options, '--emit=problem')
peak = json.loads(run(planner, 'remat', '-', '--policy=none', text=problem))['peak']
more = []
for percent in range(59, 64):
    step = run(nnc, *options, f'--memory-budget={percent}%', '--emit=remat')
    found = {name: float(value) for name, value in re.findall(r'nn\.(overhead|budget|arena_none) = ([-+.\deE]+)', step)}
    budget = int(found['budget'] + peak - found['arena_none'])
    planned = json.loads(run(planner, 'remat', '-', f'--budget={budget}', text=problem))['overhead']
    assert planned > 0
    more.append(100 * (found['overhead'] - planned))
assert sum(more) / len(more) < points, more
print('agree')
