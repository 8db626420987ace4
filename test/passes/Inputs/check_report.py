# Checks a page of `nnc --report` against the table of `--emit=plan`: usage: check_report.py plan.html plan.txt
import html.parser
import json
import re
import sys


class Page(html.parser.HTMLParser):
    VOID = {'meta', 'br', 'path', 'rect', 'circle'}

    def __init__(self):
        super().__init__()
        self.open, self.ids, self.rects, self.text = [], {}, [], {}
        self.attributes = []

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.attributes += attributes.items()
        if 'id' in attributes:
            assert attributes['id'] not in self.ids, attributes['id']
            self.ids[attributes['id']] = tag
        if tag not in ('meta', 'br'):
            self.open.append((tag, attributes))

    def handle_startendtag(self, tag, attributes):
        self.attributes += attributes

    def handle_endtag(self, tag):
        assert self.open and self.open[-1][0] == tag, 'closing %s inside %s' % (tag, self.open[-1:])
        self.open.pop()

    def handle_data(self, data):
        for tag, attributes in self.open:
            if 'id' in attributes:
                self.text[attributes['id']] = self.text.get(attributes['id'], '') + data
        if len(self.open) > 1 and self.open[-1][0] == 'title' and self.open[-2][0] == 'rect':
            self.rects.append((self.open[-2][1], data))


def main():
    text, plan = open(sys.argv[1]).read(), open(sys.argv[2]).read()
    page = Page()
    page.feed(text)
    page.close()
    assert not page.open, page.open
    for name in 'line memory memory-chart curve curve-chart map arena-map recomputed'.split():
        assert name in page.ids, name
    assert not re.search(r'https?:|<link|<img|@import|url\(|src=', text), 'something from elsewhere'

    train = plan[plan.index('@train:'):].split('\n@')[0]
    arena = int(re.search(r'^arena .* \((\d+) bytes\)', plan, re.M).group(1))
    assert '%d bytes' % arena in page.text['arena'], page.text['arena']
    again, steps = re.search(r'(\d+) of (\d+) steps run again', train).groups()
    assert '%s of %s' % (again, steps) in page.text['again'], page.text['again']
    overhead = re.search(r'again \(marked \*\), (\S+ %) time', train).group(1)
    assert overhead in page.text['overhead'], page.text['overhead']
    without = re.search(r'without: (\S+ \S+?);', train).group(1)
    if int(again) > 0:
        assert without in page.text['without'], page.text['without']
        assert len(re.findall(r'^ *\d+\*', train, re.M)) == int(again)
        times = [int(n) for n in re.findall(r'</td><td>(\d+)</td><td>[^<]*</td><td>[^<]*</td><td>[^<]*%</td></tr>', text)]
        assert sum(times) == int(again), (times, again)
    live = re.search(r'live at most (\S+ \S+?),', train).group(1)
    assert 'at most %s live' % live in text, live

    # The chart's numbers are the table's column "live".
    before, after = json.loads(re.search(r'var memory=(.*?);</script>', text).group(1))
    assert len(after) == int(steps)
    units = {'bytes': 1, 'byte': 1, 'KiB': 1 << 10, 'MiB': 1 << 20, 'GiB': 1 << 30}
    column = {int(m.group(1)): (m.group(2), m.group(3)) for m in re.finditer(r'^ *(\d+)[* ] .{75,}? ([\d.]+) (bytes?|KiB|MiB|GiB)(?:  \S.*)?$', train, re.M)}
    checked = 0
    for row in after:
        if row[1] not in column:
            continue
        number, unit = column[row[1]]
        assert abs(sum(row[2:]) / units[unit] - float(number)) <= 0.51 * 10 ** -len((number + '.').split('.')[1]), (row, number, unit)
        checked += 1
    assert checked > int(steps) // 2, checked
    assert (int(again) > 0) == any(row[2 + 5] for row in after)
    assert not any(row[2 + 5] for row in before)

    # No two rectangles of the arena overlap, and all lie inside it. Kinds of one buffer follow each other.
    boxes = []
    for attributes, title in page.rects:
        m = re.search(r'(\d+) at offset|at offset (\d+)', title)
        offset = int(m.group(2))
        lower, upper = map(int, re.search(r'steps (\d+) to (\d+)$', title).groups())
        boxes.append((lower, upper, offset, title))
    assert len(boxes) > 40, len(boxes)
    for lower, upper, offset, title in boxes:
        assert 0 <= lower <= upper < int(steps) and 0 <= offset < arena, title
    taken = set()
    for lower, upper, offset, title in boxes:
        for step in range(lower, upper + 1):
            assert (step, offset) not in taken, title
            taken.add((step, offset))
    print('%d rectangles, %s of %s steps again' % (len(boxes), again, steps))


main()
