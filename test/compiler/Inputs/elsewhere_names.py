# nnc --list-ops | elsewhere_names.py ELSEWHERE.C: no row of its tables is about a function that exists, and those that
# the hints tell to write do exist.
import re
import sys

functions = {line.split('(')[0] for line in sys.stdin if not line.startswith(' ')}
syntax = set('dim let block model import param state for repeat else checkpoint scan precision optimizer adam in f'.split())
values = {'x', 'y', 'N', 'none', 'true', 'false', 'count', 'name', 'names', 'f32'}
prose = {'a', 'and', 'for', 'leave', 'of', 'on', 'the', 'which'}   # that follows a comma or an `or`
# Words that stand for something else than the function or value of that name: `var x = 1`, `None`, `True`, `False`.
other = {'var', 'none', 'true', 'false'}

with open(sys.argv[1], encoding='utf-8') as f:
    text = re.sub(r'"\s*\n\s*"', '', f.read())   # a text of two lines
tables = {name: re.findall(r'^    \{"(.*?)", "(.*)"\},$', body, re.M)
          for name, body in re.findall(r'^static const Known (\w+)\[\] = \{\n(.*?)^\};', text, re.M | re.S)}
assert len(tables) == 3 and sum(map(len, tables.values())) == text.count('\n    {"') > 100, tables

seen, wrong = set(), []
for table, rows in tables.items():
    for word, hint in rows:
        if (table, word) in seen:
            wrong.append(f'{table}: {word} has two rows')
        seen.add((table, word))
        if word in functions | {'none', 'true', 'false'} and not (table == 'words' and word in other):
            wrong.append(f'{table}: {word} exists')
        if table == 'modules':
            continue   # which speak of the other framework's names
        called = re.findall(r'\b([A-Za-z_]\w*)[(\[]', hint)
        bare = re.sub(r': docs/.*|[(\[][^()]*[)\]]', '', hint[hint.find('write'):])   # without arguments
        told = re.findall(r'(?:\bwrite|\bor|\bwith|\|>|,) (?:or )?([A-Za-z_]\w*)', bare)
        for name in set(called + told):
            if name not in functions | syntax | values | prose:
                wrong.append(f'{table}: {word}: {name} does not exist')
sys.exit('\n'.join(wrong) or 0)
