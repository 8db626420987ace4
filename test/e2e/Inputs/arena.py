"""What `bench --check` printed, on stdin: the arena planned is the one used, and a step wrote it up to its end, but for what aligns the last buffer."""
import re
import sys

ALIGN = 64   # NNC_ALIGN in runtime/program.h
text = sys.stdin.read()
planned, used, written = (int(re.search(pattern, text).group(1)) for pattern in (r'arena planned +(\d+) bytes', r'arena used +(\d+) bytes', r'arena written +up to byte (\d+)'))
print(f'planned {planned}, used {used}, written up to {written}')
if used != planned or not planned - ALIGN < written <= planned:
    sys.exit('not the arena that was planned')
