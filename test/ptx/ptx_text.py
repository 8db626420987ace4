"""PTX text as statements: what read_ptx.py translates. Knows the grammar of the PTX ISA, not its instructions."""
import re
import struct


class Refused(Exception):
    """Something that is not known, by name and line."""

    def __init__(self, line, what):
        super().__init__(f"line {line}: {what}")


class Statement:
    """[@[!]guard] opcode.modifiers operands; An operand is ('reg', name), ('not', name), ('int', n), ('float', bits
    of f32), ('double', bits of f64), ('symbol', name, offset), ('address', base operand, offset), ('vector', [..])
    or ('pair', a, b)."""

    def __init__(self, line, guard, opcode, operands):
        self.line, self.guard, self.operands = line, guard, operands
        self.opcode = opcode
        self.parts = opcode.split(".")
        self.name = self.parts[0]
        self.modifiers = self.parts[1:]

    def has(self, modifier):
        return modifier in self.modifiers

    def refuse(self, why=""):
        raise Refused(self.line, f"'{self.opcode}' is not known" + (f": {why}" if why else ""))


class Kernel:
    def __init__(self, name):
        self.name = name
        self.parameters = []  # (name, type)
        self.max_threads = None
        self.registers = {}  # name -> type
        self.locals = []  # variables of a thread
        self.body = []  # Statement or ('label', name) or ('targets', name, [labels])


class Variable:
    def __init__(self, space, name, align, element_bytes, count, values):
        self.space, self.name, self.align = space, name, align
        self.bytes = element_bytes * count
        self.element_bytes, self.values = element_bytes, values


TOKEN = re.compile(
    r"""\s*(?:
    (?P<float>0[fF][0-9a-fA-F]{8}) | (?P<double>0[dD][0-9a-fA-F]{16}) |
    (?P<int>0[xX][0-9a-fA-F]+U? | [0-9]+U?) |
    (?P<name>[%$_a-zA-Z][\w$]*(?:\.[xyzw])?) |
    (?P<mark>[\[\]{}(),|+\-!<>=*]) )""",
    re.VERBOSE,
)
TYPE_BYTES = {"b8": 1, "u8": 1, "s8": 1, "b16": 2, "u16": 2, "s16": 2, "f16": 2, "b32": 4, "u32": 4, "s32": 4, "f32": 4,
              "b64": 8, "u64": 8, "s64": 8, "f64": 8}


def tokens(text, line):
    found, at = [], 0
    text = text.strip()
    while at < len(text):
        match = TOKEN.match(text, at)
        if not match:
            raise Refused(line, f"cannot read '{text[at:at + 40]}'")
        kind = match.lastgroup
        found.append((kind, match.group(kind)))
        at = match.end()
        while at < len(text) and text[at].isspace():
            at += 1
    return found


def integer(text):
    return int(text.rstrip("U"), 0) if not re.fullmatch(r"0[0-7]+U?", text) else int(text.rstrip("U"), 8)


class Operands:
    def __init__(self, text, line):
        self.tokens, self.at, self.line = tokens(text, line), 0, line

    def peek(self):
        return self.tokens[self.at] if self.at < len(self.tokens) else (None, None)

    def take(self, value=None):
        kind, text = self.peek()
        if kind is None or (value is not None and text != value):
            raise Refused(self.line, f"expected '{value or 'an operand'}', found '{text}'")
        self.at += 1
        return kind, text

    def all(self):
        found = []
        while self.peek()[0]:
            found.append(self.one())
            if self.peek()[1] == ",":
                self.take()
        return found

    def offset(self):
        total = 0
        while self.peek()[1] in ("+", "-"):
            sign = 1 if self.take()[1] == "+" else -1
            if self.peek()[1] == "-":
                sign = -sign
                self.take()
            total += sign * integer(self.take()[1])
        return total

    def one(self):
        kind, text = self.take()
        if text == "{":
            inside = []
            while self.peek()[1] != "}":
                inside.append(self.one())
                if self.peek()[1] == ",":
                    self.take()
            self.take("}")
            return ("vector", inside)
        if text == "[":
            base = self.one()
            offset = self.offset()
            if base[0] == "symbol":
                offset, base = offset + base[2], ("symbol", base[1], 0)
            self.take("]")
            return ("address", base, offset)
        if text == "!":
            return ("not", self.take()[1])
        if text == "-":
            return ("int", -integer(self.take()[1]))
        if kind == "int":
            return ("int", integer(text))
        if kind == "float":
            return ("float", int(text[2:], 16))
        if kind == "double":
            return ("double", int(text[2:], 16))
        if kind != "name":
            raise Refused(self.line, f"cannot read an operand at '{text}'")
        operand = ("reg", text) if text.startswith("%") else ("symbol", text, self.offset())
        if self.peek()[1] == "|":
            self.take()
            return ("pair", operand, self.one())
        return operand


def strip_comments(text):
    text = re.sub(r"/\*.*?\*/", lambda m: "\n" * m.group().count("\n"), text, flags=re.DOTALL)
    return re.sub(r"//[^\n]*", "", text)


def pieces(text):
    """(line, text) of what ends with ';', '{', '}' or ':' at the level of statements."""
    line, start, start_line, depth, i = 1, 0, 1, 0, 0
    while i < len(text):
        c = text[i]
        if c == "\n":
            line += 1
            if text[start:i].strip() == "" or re.match(r"\s*\.(version|target|address_size|loc|file)\b",
                                                       text[start:i]):
                start, start_line = i + 1, line
        elif c in "([":
            depth += 1
        elif c in ")]":
            depth -= 1
        elif depth == 0:
            head = text[start:i].strip()
            operand = c in "{}" and (re.match(r"(@!?[%\w$]+\s+)?[a-z]", head) or "=" in head)
            if c == "{" and operand:
                depth += 100
            elif c in ";{}" or (c == ":" and re.fullmatch(r"[\w$]+", head)):
                if text[i:i + 2] != "::":
                    yield start_line, head, c
                    start, start_line = i + 1, line
        elif c == "}" and depth >= 100:
            depth -= 100
        i += 1


def parameters(text, line):
    for declaration in re.split(r",(?![^\[]*\])", text):
        match = re.fullmatch(r"\s*\.param\s+(.*?)\.?(\w+)\s*(\[\d+\])?\s*", declaration, re.DOTALL)
        words = declaration.split()
        types = [w[1:] for w in words if w[1:] in TYPE_BYTES]
        if not match or len(types) != 1 or "[" in declaration:
            raise Refused(line, f"parameter '{' '.join(words)}' is not known")
        yield words[-1], types[0]


def variable(text, line):
    match = re.fullmatch(
        r"((?:\.\w+\s+)*)\.(shared|const|global|local)\s+(?:\.attribute\([^)]*\)\s*)?(?:\.align\s+(\d+)\s+)?\.(\w+)\s+"
        r"([\w$]+)\s*(?:\[(\d*)\])?\s*(?:=\s*(.*))?", text, re.DOTALL)
    if not match or match.group(4) not in TYPE_BYTES:
        raise Refused(line, f"declaration '{text}' is not known")
    _, space, align, kind, name, count, values = match.groups()
    element = TYPE_BYTES[kind]
    numbers = None
    if values is not None:
        numbers = []
        for word in values.strip("{} \n\t").split(","):
            word = word.strip()
            if re.fullmatch(r"0[fF][0-9a-fA-F]{8}", word):
                numbers.append(int(word[2:], 16))
            elif re.fullmatch(r"-?(0[xX][0-9a-fA-F]+|\d+)U?", word):
                numbers.append(integer(word))
            elif word:
                raise Refused(line, f"value '{word}' of variable '{name}' is not known")
    return Variable(space, name, int(align or element), element, int(count or 0) if count is not None else 1, numbers)


class Module:
    """kernels and variables of a PTX text"""

    def __init__(self, text):
        self.kernels, self.variables = [], []
        self.scopes = []  # of registers that stand in braces, for the current kernel
        self.kernel, self.unique = None, 0
        skipping = 0  # braces deep in a section of debug information
        section = False
        for line, head, end in pieces(strip_comments(text)):
            if section or skipping:
                skipping += {"{": 1, "}": -1}.get(end, 0)
                section = False
                continue
            if re.match(r"\.section\b", head):
                skipping = end == "{"
                continue
            self.piece(line, head, end)

    def piece(self, line, head, end):
        if self.kernel is None:
            self.outside(line, head, end)
        elif end == "{":
            if head and not re.fullmatch(r"(\.\w+\s+[\d, ]+\s*)*", head):
                raise Refused(line, f"cannot read '{head}'")
            self.scopes.append({})
        elif end == "}":
            self.statement(line, head)
            self.scopes.pop()
            if not self.scopes:
                self.kernel = None
        elif end == ":":
            self.kernel.body.append(("label", head))
        else:
            self.statement(line, head)

    def outside(self, line, head, end):
        if not head:
            return
        entry = re.fullmatch(r"(?:\.visible\s+|\.weak\s+)?\.entry\s+([\w$]+)\s*(?:\((.*)\))?\s*((?:\.\w+\s+[\d,\s]+)*)",
                             head, re.DOTALL)
        if entry and end == "{":
            self.kernel = Kernel(entry.group(1))
            if (entry.group(2) or "").strip():
                self.kernel.parameters = list(parameters(entry.group(2), line))
            for directive, numbers in re.findall(r"\.(maxntid|reqntid)\s+([\d,\s]+)", entry.group(3) or ""):
                threads = 1
                for n in numbers.split(","):
                    threads *= int(n)
                self.kernel.max_threads = threads
            self.kernels.append(self.kernel)
            self.scopes = [{}]
        elif re.match(r"(\.\w+\s+)*\.(shared|const|global)\b", head) and end == ";":
            self.variables.append(variable(head, line))
        else:
            raise Refused(line, f"'{head.split(chr(10))[0][:80]}' is not known")

    def declare(self, line, head):
        match = re.fullmatch(r"\.reg\s+\.(\w+)\s+(.*)", head, re.DOTALL)
        for name in match.group(2).split(","):
            name = name.strip()
            counted = re.fullmatch(r"(%?[\w$]+)<(\d+)>", name)
            names = [f"{counted.group(1)}{i}" for i in range(int(counted.group(2)))] if counted else [name]
            for n in names:
                own = n
                if len(self.scopes) > 1:
                    self.unique += 1
                    own = f"{n}.{self.unique}"
                self.scopes[-1][n] = own
                self.kernel.registers[own] = match.group(1)

    def resolve(self, operand):
        kind = operand[0]
        if kind in ("reg", "not", "symbol"):
            for scope in reversed(self.scopes):
                if operand[1] in scope:
                    return ("not" if kind == "not" else "reg", scope[operand[1]])
            return operand
        if kind == "address":
            return ("address", self.resolve(operand[1]), operand[2])
        if kind == "vector":
            return ("vector", [self.resolve(o) for o in operand[1]])
        if kind == "pair":
            return ("pair", self.resolve(operand[1]), self.resolve(operand[2]))
        return operand

    def statement(self, line, head):
        if not head or re.match(r"\.(loc|file|pragma)\b", head):
            return
        if head.startswith(".reg"):
            self.declare(line, head)
            return
        if re.match(r"\.(shared|const|local)\b", head):
            self.variables.append(variable(head, line))
            if head.startswith(".local"):
                self.kernel.locals.append(self.variables.pop())
            return
        match = re.fullmatch(r"(?:@(!?)([%\w$]+)\s+)?([a-z][\w.:]*)\s*(.*)", head, re.DOTALL)
        if not match:
            if head.startswith(".branchtargets"):
                names = [n.strip() for n in head[len(".branchtargets"):].split(",")]
                label = self.kernel.body.pop()
                self.kernel.body.append(("targets", label[1], names))
                return
            raise Refused(line, f"cannot read '{head[:80]}'")
        guard = None
        if match.group(2):
            guard = self.resolve(("not" if match.group(1) else "reg", match.group(2)))
        operands = [self.resolve(o) for o in Operands(match.group(4), line).all()]
        self.kernel.body.append(Statement(line, guard, match.group(3), operands))


def float_bits(x):
    return struct.unpack("<I", struct.pack("<f", x))[0]
