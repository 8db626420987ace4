"""A table in three files, larger than the memory that a program may have, and programs under that limit.

big_table.py make: writes them. big_table.py limit STATUS COMMAND...: the command must end with that status in so much address space.
"""
import os
import resource
import subprocess
import sys

LIMIT, RECORDS, COLUMNS = 88 << 20, 200000, 128

if sys.argv[1] == "make":
    names = ["label", "note"] + [f"c{i}" for i in range(COLUMNS)]
    for part in range(3):
        order = names[part:] + names[:part]   # each file has its own
        with open(f"big_{part}.csv", "w") as out:
            out.write(",".join(order) + "\n")
            for r in range(part, RECORDS, 3):
                digits = [str((r >> i) % 7) for i in range(16)] * (COLUMNS // 16)
                row = [str(r % 2), '"' + f'record {r}, ""so"" called\n' * 9 + '"'] + digits
                row = row[part:] + row[:part]
                out.write(",".join(row) + "\n")
    assert sum(os.path.getsize(f"big_{part}.csv") for part in range(3)) > LIMIT
else:
    env = os.environ | {"MALLOC_ARENA_MAX": "1", "OMP_NUM_THREADS": "1"}   # an arena of malloc takes 64 MiB of addresses
    done = subprocess.run(sys.argv[3:], env=env, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (LIMIT, LIMIT)))
    sys.exit(done.returncode != int(sys.argv[2]))
