"""What draws one body of a program: a Maker holds the values that can be used at a place; MAKERS has a function for each construct, which returns a new Node, True where
it has made names for several, or None where it does not fit."""
import math

from fuzzing.tree import Node, var

SIZES = (1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 17, 18, 21, 33)
LARGEST = 1200        # elements of a tensor
DEEP = 3              # how deep blocks, loops and scans may stand inside of each other
COUNTED = 300         # largest magnitude of an integer that is used beside floats
NAMES = ('exp_avg', 'exp_avg_sq', 'momentum', 'ema', 'grad', 'loss', 'step', 'weight', 'bias', 'grad_accum', 'output', 'state', 'update', 'precision', 'over', 'init', 'axis', 'lr',
         'running_mean', 'running_var', 'loss_scale', 'group', 'data', 'seed', 'linear', 'ones', 'sum', 'main', 'int', 'NULL', 'f32', 'bf16')   # that files, optimizers, C or the language use
MAKERS = {}


def maker(*names):
    def keep(f):
        for name in names:
            MAKERS[name] = lambda g, name=name: f(g, name)
        return f
    return keep


def count(shape):
    return math.prod(shape)


class Maker:
    """One body under construction. pool: values that can be used, Nodes that are names or not yet named; shared by the whole program: counters and what was drawn."""

    def __init__(self, program, rng, depth=0, pool=(), states=True):
        self.program, self.rng, self.depth, self.pool, self.states = program, rng, depth, list(pool), states
        self.statements, self.layers, self.shown = [], [], []    # layers: that have labels; shown: values that are to be outputs

    # --- names and choices

    def fresh(self, letter):
        self.program.counter = getattr(self.program, 'counter', 0) + 1
        return f'{letter}{self.program.counter}'

    def own(self, letter):
        """A name of a parameter or label: in some programs one that others have, too."""
        spare = self.program.spare_names
        if spare and self.chance(0.5):
            name = self.rng.choice(spare)
            spare.remove(name)
            return name
        return self.fresh(letter)

    def label(self):
        return self.own('p') if self.rng.random() < 0.7 else None

    def chance(self, p):
        return self.rng.random() < p

    def size(self, limit=33):
        return self.rng.choice([s for s in SIZES if s <= limit])

    # --- values

    def name_it(self, node):
        """The value under a name of its own, so that it can be used again."""
        if node.op == 'name':
            return node
        name = self.fresh('v')
        self.statements.append(['let', [name], node])
        named = var(name, node.type, node.mag)
        self.pool = [named if x is node else x for x in self.pool]
        return named

    def name_all(self):
        for x in list(self.pool):
            self.name_it(x)

    def use(self, node):
        """A value of the pool as an operand: an expression that is used up here, or a name."""
        if node.op != 'name' and node in self.pool and self.chance(0.5):
            self.pool.remove(node)
            node.attrs.pop('pipe', None)
            return node
        return self.name_it(node) if node in self.pool else node

    def pick(self, kind='f', fits=lambda shape: True):
        found = [x for x in self.pool if x.kind == kind and fits(x.shape)]
        return self.use(self.rng.choice(found[-6:] if self.chance(0.7) else found)) if found else None

    def leaf(self, shape):
        """A float tensor from nothing."""
        what = self.rng.choice(('param', 'param', 'param', 'full', 'zeros_of', 'ones_of', 'iota'))
        if what == 'iota' and len(shape) == 1:
            whole = Node('cast', [Node('iota', type=('i', shape))], type=('f', shape), dtype='f32', first=['dtype'])
            return Node('mul', [whole, Node('number', text='0.25', value=0.25)], type=('f', shape), mag=shape[0] / 4)
        if what in ('zeros_of', 'ones_of') and shape and not self.program.spare_names:   # ones may be the name of a parameter
            return Node(what, type=('f', shape))
        if what == 'full':
            return Node('full', type=('f', shape), value=self.rng.choice((0.5, -1.25, 2.0)), mag=2)
        name = self.own('w')
        init = self.rng.choice(('normal(0.5)', 'normal(0.5, 1)', 'uniform(-1, 1)', 'constant(0.5)', 'zeros', 'ones', '', '0.5'))
        if init == 'ones' and self.program.spare_names:
            init = 'constant(1)'
        self.statements.append(['param', name, shape, init])
        if self.chance(0.3):                                    # to be used again
            self.pool.append(var(name, ('f', shape)))
        return var(name, ('f', shape))

    def want(self, shape, kind='f'):
        """A float tensor of that shape: one there is, one of as many elements, one stretched, or a new one."""
        shape = tuple(shape)
        x = self.pick('f', lambda s: s == shape) if self.chance(0.8) else None
        if x:
            return x
        x = self.pick('f', lambda s: count(s) == count(shape) and s != shape) if self.chance(0.7) else None
        if x:
            return Node('reshape', [x], type=('f', shape), mag=x.mag, shape=list(shape), first=['shape'])
        return self.leaf(shape)

    def of_rank(self, *ranks, fits=lambda shape: True):
        x = self.pick('f', lambda s: len(s) in ranks and fits(s)) if self.chance(0.85) else None
        if x:
            return x
        for _ in range(20):
            shape = tuple(self.size(9) for _ in range(self.rng.choice(ranks)))
            if fits(shape) and count(shape) <= LARGEST:
                return self.want(shape)
        return None

    def tame(self, x, limit=4):
        """x, or its tanh where it may be large."""
        return x if x.mag <= limit else Node('tanh', [x], type=x.type, mag=1)

    def integers(self, below, shape=None):
        """Indices below a number: an input of the model, or computed."""
        if shape is None:
            shape = tuple(self.size(7) for _ in range(self.rng.choice((1, 1, 2))))
            shape = (self.program.rows or shape[0],) + shape[1:]
        if len(shape) == 1 and self.chance(0.3):
            whole = Node('iota', type=('i', shape))
            return Node('mod', [whole, Node('number', text=str(below), value=below)], type=('i', shape))
        root, rows = getattr(self, 'root', None), self.program.rows
        if root is None or rows and shape[0] != rows:
            return None
        return self.input('i', self.rng.choice('iiiilu'), shape, below)

    def input(self, letter, kind, shape, below):
        name = self.fresh(letter)
        self.root.inputs.append((name, kind, shape, below))
        return var(name, (kind, shape), max(1, below))

    def whole(self):
        """A tensor of integers: one there is, an input, or made of floats."""
        kind = self.rng.choice('ilu')
        x = self.pick(kind) if self.chance(0.6) else None
        if x:
            return x
        what, rows = self.rng.choice(('input', 'input', 'cast', 'iota')), self.program.rows
        if what == 'input' and hasattr(self, 'root'):
            shape = tuple(self.size(9) for _ in range(self.rng.choice((1, 2, 2, 3))))
            shape = (rows or shape[0],) + shape[1:]
            if count(shape) <= LARGEST:
                return self.input('k', kind, shape, self.rng.choice((2, 7, 256)))
        x = self.pick('f') if what == 'cast' else None
        if x is None:
            n = self.size(17)
            return Node('iota', type=('i', (n,)), mag=n)
        if kind == 'u':
            return Node('cast', [Node('gt', [x, Node('number', text='0.1', value=0.1)], type=('b', x.shape))], type=('u', x.shape), dtype='u8', first=['dtype'])
        x = Node('mul', [self.tame(x), Node('number', text='3', value=3)], type=x.type)
        return Node('cast', [x], type=(kind, x.shape), mag=12, dtype={'i': 'i32', 'l': 'i64'}[kind], first=['dtype'])

    def whole_of(self, shape):
        """The same, of a shape."""
        shape = tuple(shape)
        x = self.pick(self.rng.choice('ilub'), lambda s: s == shape)
        if x:
            return x
        if not shape:
            return Node('sum', [self.whole()], type=('l', ()), mag=1e6)
        x = self.whole()
        n = count(x.shape)
        x = Node('reshape', [x], type=(x.kind, (n,)), mag=x.mag, shape=[n], first=['shape']) if len(x.shape) != 1 else x
        if n < count(shape):
            x = Node('pad', [x], type=(x.kind, (count(shape),)), mag=x.mag, low=[0], high=[count(shape) - n], first=['low', 'high'])
        elif n > count(shape):
            x = Node('index', [x], type=(x.kind, (count(shape),)), mag=x.mag, parts=[(None, count(shape), None)])
        return Node('reshape', [x], type=(x.kind, shape), mag=x.mag, shape=list(shape), first=['shape']) if len(shape) > 1 else x

    def counted(self, x):
        """x, or its remainder where it may be large: floats of 16 bits hold these."""
        if x.mag <= COUNTED:
            return x
        return Node('mod', [x, Node('number', text='31', value=31)], type=(promoted(x.kind), x.shape), mag=31)

    def any_kind(self, fits=lambda shape: True):
        """A float tensor, sometimes one of integers."""
        x = self.pick(self.rng.choice('ilub'), fits) if self.chance(0.2) else None
        return x or self.pick('f', fits)

    def add(self, node):
        self.pool.append(node)
        return node

    def grow(self, steps):
        for _ in range(steps):
            made = MAKERS[self.rng.choices(list(MAKERS), self.program.weights)[0]](self)
            if isinstance(made, Node):
                if made.kind == 'f' and made.mag > 50:
                    made = self.tame(made)
                elif made.kind in 'il' and made.mag > 1e9:
                    made = self.counted(made)
                if made.label and made.op not in ('call', 'scan'):
                    self.layers.append(made)
                if self.chance(0.4) and made.op not in ('full', 'iota', 'if', 'scan', 'concat', 'stack', 'meshgrid', 'einsum') and made.args:
                    made.attrs['pipe'] = True
                self.add(made)


def promoted(*kinds, operator=True):
    """What element types are together: the table is in docs/language.md."""
    least = 'i' if operator else 'b'
    return next((k for k in 'fli' if k in kinds), None) or ('u' if 'u' in kinds and not operator else least)


def unary(op, x, mag=None, **attrs):
    return Node(op, [x], type=x.type, mag=x.mag if mag is None else mag, **attrs)


def num(v):
    return Node('number', text=repr(v), value=v)
