"""Feeds nnc-plan malformed problems, budgets and tampered schedules: each must end with exit status 1 (a bad time
limit with 2), the expected sentence and its place, no traceback of ours and no schedule file. Usage: remat-errors.py DIRECTORY."""
import copy
import json
import os
import subprocess
import sys

DIRECTORY = sys.argv[1]
os.makedirs(DIRECTORY, exist_ok=True)
PROBLEM, SCHEDULE = os.path.join(DIRECTORY, "p.json"), os.path.join(DIRECTORY, "s.json")
GOOD = '{"nodes":[{"id":"a","cost":1,"bytes":4},{"cost":1,"bytes":4,"inputs":[0]}],"outputs":[1]}'
failures = 0


def run(*arguments):
    return subprocess.run(["nnc-plan", "remat", *arguments], capture_output=True, timeout=20,
                          stdin=subprocess.DEVNULL)


def expect(what, result, status, text):
    global failures
    message = result.stderr.decode(errors="replace")
    if result.returncode != status or text not in message:
        failures += 1
        print("%s: exit status %d, wanted %d and '%s'; printed: %s" % (what, result.returncode, status, text, message))


def node(extra):
    return '{"nodes":[{"cost":1,"bytes":4%s}]}' % extra


BAD = [
    ("", ":1:1: error: unexpected end of text"),
    (" \n\n", ":3:1: error: unexpected end of text"),
    ("{", ":1:2: error: expected a member name"),
    ("[]", ":1:1: error: the problem must be an object, not an array"),
    ("{}", ":1:1: error: the problem lacks \"nodes\""),
    ("null", "must be an object, not null"),
    ('{"nodes":3}', ":1:10: error: nodes must be an array, not a number"),
    ('{"nodes":[3]}', ":1:11: error: a node must be an object"),
    ('{"nodes":[{"cost":NaN,"bytes":1}]}', ":1:19: error: expected a value"),
    ('{"nodes":[{"cost":Infinity,"bytes":1}]}', ":1:19: error: expected a value"),
    ('{"nodes":[{"cost":-Infinity,"bytes":1}]}', ":1:20: error: expected a digit"),
    ('{"nodes":[{"cost":1e400,"bytes":1}]}', ":1:19: error: number too large"),
    ('{"nodes":[{"cost":-1,"bytes":1}]}', ":1:19: error: cost must be >= 0"),
    ('{"nodes":[{"cost":"1","bytes":1}]}', ":1:19: error: cost must be a number, not a string"),
    ('{"nodes":[{"cost":1,"bytes":1.5}]}', ":1:29: error: bytes must be an integer"),
    ('{"nodes":[{"cost":1,"bytes":9223372036854775808}]}', ":1:29: error: bytes must be an integer of at most 63 bits"),
    ('{"nodes":[{"cost":1,"bytes":9223372036854775807}]}', ":1:29: error: the sum of all bytes is too large"),
    ('{"nodes":[{"cost":1,"bytes":2000000000000000000},\n{"cost":1,"bytes":2000000000000000000}]}',
     ":2:19: error: the sum of all bytes is too large"),
    ('{"fixed_bytes":2000000000000000000,"nodes":[{"cost":1,"bytes":1,"workspace":2000000000000000000}]}',
     ": error: the sum of all bytes is too large"),
    ('{"nodes":[{"cost":1e308,"bytes":1},{"cost":1e308,"bytes":1}]}', ":1:44: error: the sum of all costs is too large"),
    ('{"fixed_bytes":-5,"nodes":[]}', ":1:16: error: fixed_bytes must be >= 0"),
    (node(',"workspace":-1'), ": error: workspace must be >= 0"),
    (node(',"inputs":[0]'), ": error: input 0 of node 0 comes later: a cycle"),
    (node(',"inputs":[-1]'), ": error: input: no such node"),
    (node(',"inputs":[7]'), ": error: input: no such node"),
    (node(',"inputs":[0.5]'), ": error: input: no such node"),
    (node(',"inputs":["a"]'), ": error: input must be a node number"),
    (node(',"inputs":0'), ": error: inputs must be an array"),
    (node(',"role":"sideways"'), ": error: unknown role 'sideways'"),
    (node(',"role":"update","recomputable":true'), ": error: an update must not be recomputable"),
    (node(',"recomputable":1'), ": error: recomputable must be true or false"),
    (node(',"bytes":8'), ':1:39: error: "bytes" is given twice'),
    ('{"nodes":[],"nodes":[]}', ': error: "nodes" is given twice'),
    ('{"nodes":[{"id":0,"cost":1,"bytes":1},\n{"id":0,"cost":1,"bytes":1}]}', ":2:7: error: duplicate id 0"),
    ('{"nodes":[{"id":5,"cost":1,"bytes":1}]}', ":1:17: error: the id of node 0 must be 0"),
    ('{"nodes":[{"id":"a","cost":1,"bytes":1},\n{"id":"a","cost":1,"bytes":1}]}', ":2:7: error: duplicate id 'a'"),
    ('{"nodes":[{"id":"b","cost":1,"bytes":1},\n{"id":"b","cost":1,"bytes":1},{"id":"a","cost":1,"bytes":1},{"id":"a","cost":1,"bytes":1}]}',
     ":2:67: error: duplicate id 'a'"),
    ('{"nodes":[{"cost":1,"bytes":1}],"outputs":[1]}', ":1:44: error: output: no such node"),
    ('{"nodes":[{"cost":1,"bytes":1}],"outputs":[9999999999999999999]}', ": error: output: no such node"),
    ('{"nodes":[{"cost":1,"bytes":1},{"cost":1,"bytes":1}],"anti":[[1,0]]}', ": error: node 0 comes before node 1"),
    ('{"nodes":[{"cost":1,"bytes":1},{"cost":1,"bytes":1}],"anti":[[0,1]]}', ": error: node 1 overwrites"),
    ('{"nodes":[{"cost":1,"bytes":1}],"anti":[[0]]}', ": error: an anti-dependence must be"),
    ("[" * 100000, ": error: nested too deeply"),
    ('{"a":' * 100000, ": error: nested too deeply"),
    (GOOD + "x", ": error: unexpected text after the value"),
    ("\xff\xfe" + GOOD, ":1:1: error: expected a value"),
    ('{"nodes":[{"cost":1,"bytes":1,"name":"\\q"}]}', ": error: unknown escape"),
    (GOOD[:-1], ": error: expected ',' or '}'"),
]


def bad_problems():
    if os.path.exists(SCHEDULE):
        os.remove(SCHEDULE)
    for text, message in BAD:
        with open(PROBLEM, "w", encoding="latin-1") as file:
            file.write(text)
        expect(text[:70], run(PROBLEM, "--budget=50%", "-o", SCHEDULE), 1, "p.json" + message if message[0] == ":" and
               message[1].isdigit() else message)
    if os.path.exists(SCHEDULE):
        raise SystemExit("a bad problem made a schedule")


def bad_values():
    with open(PROBLEM, "w") as file:
        file.write(GOOD)
    for value in ("0", "-1", "nan", "inf", "1e300", "", "1s", "0x10", "1e-400"):
        expect("--time-limit=" + value, run(PROBLEM, "--budget=50%", "--time-limit=" + value), 2, "--time-limit takes a number of seconds")
    for value in ("-1", "", "many", "nan%", "0x10%", "5Q", "5Mi5", "1..5%", "0%", "99999999999999999999",
                  "9223372036854775807K"):
        expect("--budget=" + value, run(PROBLEM, "--budget=" + value), 1, "is not a number of bytes below 4 EiB")
    for value in ("0", "7"):
        result = run(PROBLEM, "--budget=" + value, "-o", SCHEDULE)
        expect("--budget=" + value, result, 1, "exists; the smallest budget found is 8")
        line = json.loads(result.stdout)
        if line["status"] != "infeasible" or line["min_budget_found"] != 8 or line["proved"] is not True:
            raise SystemExit("an infeasible budget: %s" % line)
    for value in ("8", "100%", "4611686018427387904", "8B", "1TiB", "1000000%"):
        expect("--budget=" + value, run(PROBLEM, "--budget=" + value, "--time-limit=1e9"), 0, "")
    expect("a directory", run(DIRECTORY, "--budget=8"), 1, "cannot read")


def mutations(schedule):
    """Schedules that are not what the search wrote."""
    steps = schedule["steps"]
    for i in range(len(steps)):
        yield "without step %d" % i, steps[:i] + steps[i + 1:], {}
        yield "step %d twice" % i, steps[:i + 1] + steps[i:], {}
        if i + 1 < len(steps) and steps[i] != steps[i + 1]:
            swapped = steps[:i] + [steps[i + 1], steps[i]] + steps[i + 2:]
            both_free = "free" in steps[i] and "free" in steps[i + 1]
            if not both_free:  # the order of frees after one execution means nothing
                yield "steps %d and %d swapped" % (i, i + 1), swapped, {}
    yield "another cost", steps, {"cost": schedule["cost"] - 1}
    yield "another peak", steps, {"peak": schedule["peak"] - 1}
    yield "no steps", [], {}
    yield "an unknown node", steps + [{"execute": 99}], {}
    yield "a negative node", steps + [{"free": -1}], {}
    yield "an empty step", steps + [{}], {}
    yield "both at once", steps + [{"execute": 0, "free": 0}], {}


def tampered_schedules():
    n, nodes = 8, []
    for i in range(n):
        nodes.append({"cost": 1, "bytes": 10 + i, "inputs": [i - 1] if i else []})
    for i in range(n - 1, -1, -1):
        nodes.append({"cost": 2, "bytes": 20 + i, "inputs": [i] + ([len(nodes) - 1] if i < n - 1 else []),
                      "role": "backward"})
    with open(PROBLEM, "w") as file:
        json.dump({"nodes": nodes, "outputs": [len(nodes) - 1]}, file)
    result = run(PROBLEM, "--budget=85%", "-o", SCHEDULE)
    expect("a chain", result, 0, "")
    expect("its schedule", run(PROBLEM, "--verify=" + SCHEDULE), 0, "")
    line = json.loads(result.stdout)
    with open(SCHEDULE) as file:
        schedule = json.load(file)
    if sum("execute" in step for step in schedule["steps"]) <= len(nodes):
        raise SystemExit("the schedule recomputes nothing, so it tests little")
    count = 0
    for what, steps, fields in mutations(schedule):
        changed = copy.copy(schedule)
        changed.update(fields, steps=steps)
        with open(SCHEDULE, "w") as file:
            json.dump(changed, file)
        expect("a schedule with " + what, run(PROBLEM, "--verify=" + SCHEDULE), 1, ": error: ")
        count += 1
    with open(SCHEDULE, "w") as file:
        json.dump(schedule, file)
    expect("above its budget", run(PROBLEM, "--verify=" + SCHEDULE, "--budget=%d" % (line["peak"] - 1)), 1,
           "the schedule needs %d bytes" % line["peak"])
    for text in ("", "[]", "{}", '{"steps":{}}', '{"steps":[1]}', GOOD):
        with open(SCHEDULE, "w") as file:
            file.write(text)
        place = "s.json:1:11" if text == '{"steps":[1]}' else "s.json:1:1"
        expect("a schedule file '%s'" % text, run(PROBLEM, "--verify=" + SCHEDULE), 1, place + ": error: ")
    return count


bad_problems()
bad_values()
print("%d tampered schedules refused, %d failures" % (tampered_schedules(), failures))
sys.exit(failures != 0)
