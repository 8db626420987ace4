"""plan_agrees.py NNC NNC-PLAN POINTS MODEL [OPTION...]: at 60 % of the arena the compiler's plan is within POINTS points of
what nnc-plan adds on the same problem, whatever had to be corrected in it on the way."""
import json
import re
import subprocess
import sys

nnc, planner, points, options = sys.argv[1], sys.argv[2], float(sys.argv[3]), sys.argv[4:]


def run(*command, text=None):
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


problem = run(nnc, *options, '--emit=problem')
step = run(nnc, *options, '--memory-budget=60%', '--emit=remat')
found = {name: float(value) for name, value in re.findall(r'nn\.(overhead|budget|arena_none) = ([-+.\deE]+)', step)}
peak = json.loads(run(planner, 'remat', '-', '--policy=none', text=problem))['peak']
budget = int(found['budget'] + peak - found['arena_none'])
planned = json.loads(run(planner, 'remat', '-', f'--budget={budget}', text=problem))['overhead']
added = found['overhead']
assert planned > 0 and 100 * (added - planned) < points, (added, planned)
print('agree')
