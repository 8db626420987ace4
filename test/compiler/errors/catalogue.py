"""Runs a catalogue of wrong programs and compares every message whole; `nnc check --json` must say the same, in JSON.

    catalogue.py NNC FOLDER CATALOGUE... [--update]

A catalogue is a text of entries: `#--- name [options]`, the program, `#=== ` and what nnc must say on standard error, with exit status 1. The options are given to
`nnc check`, or to `nnc` when they begin with `nnc`. --update writes what nnc says now into the catalogue, to be read before it is committed.
"""
import json
import os
import re
import shlex
import subprocess
import sys

FIELDS = {"file", "line", "column", "end_column", "severity", "message", "related"}


def same_in_json(text, said):
    """Whether the array has the errors and warnings of the messages that were printed, in their order."""
    items = json.loads(text)
    heads = [line for line in said.split("\n") if re.search(r"(^|: )(error|warning): ", line)]
    mine = []
    for item in items:
        place = f"{item['file']}:{item['line']}:{item['column']}: " if item["line"] else ""
        whole = set(item) == FIELDS and (not item["line"] or 1 <= item["column"] < item["end_column"]) and all(set(r) == FIELDS - {"related"} for r in item["related"])
        mine.append(f"{place}{item['severity']}: {item['message']}" if whole else "not whole")
    return len(mine) == len(heads) and all(head.endswith(m) for head, m in zip(heads, mine))


update = "--update" in sys.argv
nnc, folder, *catalogues = [a for a in sys.argv[1:] if a != "--update"]
wrong = 0
for path in catalogues:
    with open(path, encoding="utf-8") as text:
        head, *entries = re.split(r"^#--- ", text.read(), flags=re.M)
    os.makedirs(folder, exist_ok=True)
    names = [e.split()[0] for e in entries]
    assert len(set(names)) == len(names), "a name is used twice"
    for i, entry in enumerate(entries):
        title, rest = entry.split("\n", 1)
        name, *options = shlex.split(title)
        program, _, expected = rest.partition("#===\n")
        with open(f"{folder}/{name}.nn", "w", encoding="utf-8") as out:
            out.write(program)
        command = [nnc] + options[1:] if options[:1] == ["nnc"] else [nnc, "check"] + options
        run = subprocess.run(command + [name + ".nn"], cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=100)
        said = run.stderr.decode()
        entries[i] = f"{title}\n{program}#===\n{said}\n"
        fits = run.returncode == 1 and said.strip() == expected.strip()
        if fits and options[:1] != ["nnc"]:
            found = subprocess.run([nnc, "check", "--json"] + options + [name + ".nn"], cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=100)
            if found.returncode != 1 or not same_in_json(found.stdout.decode(), said):
                wrong += 1
                print(f"{path}: {name}: --json says\n{found.stdout.decode()}", file=sys.stderr)
        if update or fits:
            continue
        wrong += 1
        print(f"{path}: {name}: exit status {run.returncode}, said\n{said}\nexpected\n{expected}", file=sys.stderr)
    print(f"{os.path.basename(path)}: {len(entries)} programs")
    if update:
        with open(path, "w", encoding="utf-8") as out:
            out.write(head + "".join(f"#--- {e}" for e in entries).rstrip("\n") + "\n")
sys.exit(wrong > 0)
