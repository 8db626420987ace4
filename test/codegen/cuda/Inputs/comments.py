"""Every entry of PTX on stdin stands under a comment that names ops, shapes, launches and what is computed again."""
import re, sys

WANTED = {"ops": r"// \S+.*: \S", "shapes": r"\[[\dn][\d, ]*\]|\d+ queries|// reads \w+(, \w+)*; writes \w+\n", "launches": r"\d threads", "recomputes": r"// recomputes \S"}
entries = 0
comment = []
for line in sys.stdin:
    if line.startswith("//"):
        comment.append(line)
        continue
    found = re.match(r"\.visible \.entry (\w+)", line)
    if found:
        entries += 1
        missing = [what for what, pattern in WANTED.items() if not re.search(pattern, "".join(comment))]
        if missing:
            sys.exit(f"{found[1]}: no {', '.join(missing)} in its comment:\n{''.join(comment)}")
    if line.strip():
        comment = []
print(f"{entries} entries have their comments")
