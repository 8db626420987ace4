"""page.py PAGE WORD [OLD NEW]...: the one program of a page that contains the word, with words replaced."""
import re
import sys

with open(sys.argv[1], encoding="utf-8") as page:
    (program,) = [p for p in re.findall(r"^```nn\n(.*?)^```", page.read(), re.M | re.S) if sys.argv[2] in p]
for old, new in zip(sys.argv[3::2], sys.argv[4::2]):
    assert old in program, old
    program = re.sub(rf"\b{old}\b", new, program)
print(program, end="")
