"""Arithmetic, conversions, comparisons and moves: the part of read_ptx.py that needs no memory and no other thread."""
from ptx_text import TYPE_BYTES

FLOATS = {"f16": "half", "f32": "float", "f64": "double"}
INT_COMPARE = {"eq": "eq", "ne": "ne", "lo": "ult", "ls": "ule", "hi": "ugt", "hs": "uge"}
FLOAT_COMPARE = {"eq": "oeq", "ne": "one", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge", "equ": "ueq",
                 "neu": "une", "ltu": "ult", "leu": "ule", "gtu": "ugt", "geu": "uge", "num": "ord", "nan": "uno"}


def width_of(kind):
    return 1 if kind == "pred" else 128 if kind == "b128" else 8 * {"bf16": 2, "bf16x2": 4, "f16x2": 4}.get(
        kind, TYPE_BYTES.get(kind, 0))


class Arithmetic:
    """Methods of the translator, which has get, put, value, call and refuse; op_NAME translates NAME."""

    # ----------------------------------------------------------------------------------------------------------------
    # Arithmetic

    def only(self, *allowed):
        for m in self.statement.modifiers[:-1]:
            if m not in allowed:
                self.refuse(f".{m}")

    def is_float(self, kind):
        return kind in FLOATS

    def float_binary(self, s, kind, operation):
        self.only("rn", "ftz", "sat", "approx", "full", "NaN")
        x, y = (self.get_float(o, kind) for o in s.operands[1:3])
        t = FLOATS[kind]
        if operation.startswith("llvm."):
            result = self.call(t, f"{operation}.{kind}", [f"{t} {x}", f"{t} {y}"])
        else:
            result = self.value(f"{operation} {t} {x}, {y}")
        if s.has("sat"):
            result = self.saturate(result, kind)
        self.put_float(s.operands[0], result, kind)

    def saturate(self, x, kind):
        t = FLOATS[kind]
        x = self.call(t, f"llvm.maximumnum.{kind}", [f"{t} {x}", f"{t} 0.0"])
        return self.call(t, f"llvm.minimumnum.{kind}", [f"{t} {x}", f"{t} 1.0"])

    def int_binary(self, s, kind, operation):
        width = width_of(kind)
        self.only("lo", "pred")
        x, y = (self.get(o, width) for o in s.operands[1:3])
        if operation.startswith("llvm."):
            result = self.call(f"i{width}", f"{operation}.i{width}", [f"i{width} {x}", f"i{width} {y}"])
        else:
            result = self.value(f"{operation} i{width} {x}, {y}")
        self.put(s.operands[0], result, width, kind[0] == "s")

    def binary(self, s, integers, floats):
        kind = s.modifiers[-1]
        if kind == "pred" or (kind in TYPE_BYTES and not self.is_float(kind)):
            operation = integers.get(kind[0]) if isinstance(integers, dict) else integers
            if not operation:
                self.refuse()
            self.int_binary(s, kind, operation)
        elif self.is_float(kind) and floats:
            self.float_binary(s, kind, floats)
        else:
            self.refuse()

    def with_carry(self, s, x, y, operation="add"):
        """x + y of add, sub and mad with .cc, which leaves a carry, and of addc, subc and madc, which take one"""
        kind = s.modifiers[-1]
        width = width_of(kind)
        if kind not in ("u32", "s32", "u64", "s64"):
            self.refuse()
        wide = width + 2
        total = self.value(f"{operation} i{wide} {self.resize(x, width, wide)}, {self.resize(y, width, wide)}")
        if s.name.endswith("c"):
            carry = self.value(f"zext i1 {self.value('load i1, ptr %carry')} to i{wide}")
            total = self.value(f"{operation} i{wide} {total}, {carry}")
        if s.has("cc"):
            carry = self.value(f"lshr i{wide} {total}, {width}")
            carry = self.value(f"trunc i{wide} {carry} to i1")
            self.emit(f"store i1 {carry}, ptr %carry")
        self.put(s.operands[0], self.resize(total, wide, width), width)

    def op_add(self, s):
        if s.has("cc") or s.name == "addc":
            self.with_carry(s, *(self.get(o, width_of(s.modifiers[-1])) for o in s.operands[1:3]))
        else:
            self.binary(s, "add", "fadd")

    def op_sub(self, s):
        if s.has("cc") or s.name == "subc":
            self.with_carry(s, *(self.get(o, width_of(s.modifiers[-1])) for o in s.operands[1:3]), "sub")
        else:
            self.binary(s, "sub", "fsub")

    op_addc, op_subc = op_add, op_sub

    def op_div(self, s):
        self.binary(s, {"s": "sdiv", "u": "udiv"}, "fdiv")

    def op_rem(self, s):
        self.binary(s, {"s": "srem", "u": "urem"}, None)

    def op_min(self, s):
        self.binary(s, {"s": "llvm.smin", "u": "llvm.umin"}, "llvm.minimum" if s.has("NaN") else "llvm.minimumnum")

    def op_max(self, s):
        self.binary(s, {"s": "llvm.smax", "u": "llvm.umax"}, "llvm.maximum" if s.has("NaN") else "llvm.maximumnum")

    def op_and(self, s):
        self.binary(s, "and", None)

    def op_or(self, s):
        self.binary(s, "or", None)

    def op_xor(self, s):
        self.binary(s, "xor", None)

    def product(self, s):
        """x y of mul and mad, and its width"""
        kind = s.modifiers[-1]
        width, signed = width_of(kind), kind[0] == "s"
        form = [m for m in s.modifiers[:-1] if m in ("lo", "hi", "wide")]
        if len(form) != 1 or len(s.modifiers) != (3 if s.has("cc") else 2):
            self.refuse()
        x, y = (self.get(o, width) for o in s.operands[1:3])
        if form[0] == "lo":
            return self.value(f"mul i{width} {x}, {y}"), width
        double = 2 * width
        x, y = (self.resize(v, width, double, signed) for v in (x, y))
        wide = self.value(f"mul i{double} {x}, {y}")
        if form[0] == "wide":
            return wide, double
        return self.resize(self.value(f"lshr i{double} {wide}, {width}"), double, width), width

    def op_mul(self, s):
        kind = s.modifiers[-1]
        if self.is_float(kind):
            self.float_binary(s, kind, "fmul")
        else:
            x, width = self.product(s)
            self.put(s.operands[0], x, width)

    def op_mad(self, s):
        if self.is_float(s.modifiers[-1]):
            self.op_fma(s)
            return
        x, width = self.product(s)
        if s.has("cc") or s.name == "madc":
            self.with_carry(s, x, self.get(s.operands[3], width))
            return
        self.put(s.operands[0], self.value(f"add i{width} {x}, {self.get(s.operands[3], width)}"), width)

    op_madc = op_mad

    def op_fma(self, s):
        kind = s.modifiers[-1]
        self.only("rn", "ftz", "sat")
        if not self.is_float(kind):
            self.refuse()
        t = FLOATS[kind]
        x = self.call(t, f"llvm.fma.{kind}", [f"{t} {self.get_float(o, kind)}" for o in s.operands[1:4]])
        self.put_float(s.operands[0], self.saturate(x, kind) if s.has("sat") else x, kind)

    def op_neg(self, s):
        kind = s.modifiers[-1]
        self.only("ftz")
        if self.is_float(kind):
            x = self.get_float(s.operands[1], kind)
            self.put_float(s.operands[0], self.value(f"fneg {FLOATS[kind]} {x}"), kind)
        else:
            width = width_of(kind)
            self.put(s.operands[0], self.value(f"sub i{width} 0, {self.get(s.operands[1], width)}"), width)

    def op_abs(self, s):
        kind = s.modifiers[-1]
        self.only("ftz")
        if self.is_float(kind):
            t = FLOATS[kind]
            x = self.call(t, f"llvm.fabs.{kind}", [f"{t} {self.get_float(s.operands[1], kind)}"])
            self.put_float(s.operands[0], x, kind)
        else:
            width = width_of(kind)
            x = self.call(f"i{width}", f"llvm.abs.i{width}", [f"i{width} {self.get(s.operands[1], width)}", "i1 false"])
            self.put(s.operands[0], x, width)

    def op_not(self, s):
        width = width_of(s.modifiers[-1])
        self.put(s.operands[0], self.value(f"xor i{width} {self.get(s.operands[1], width)}, -1"), width)

    def shift(self, s, operation):
        """Amounts beyond the width count as the width."""
        width = width_of(s.modifiers[-1])
        x, amount = self.get(s.operands[1], width), s.operands[2]
        if amount[0] == "int" and amount[1] < width:
            result = self.value(f"{operation} i{width} {x}, {amount[1]}")
        else:
            n = self.get(amount, 32)
            inside = self.value(f"icmp ult i32 {n}, {width}")
            most = self.value(f"select i1 {inside}, i32 {n}, i32 {width - 1}")
            result = self.value(f"{operation} i{width} {x}, {self.resize(most, 32, width)}")
            if operation != "ashr":
                result = self.value(f"select i1 {inside}, i{width} {result}, i{width} 0")
        self.put(s.operands[0], result, width)

    def op_shl(self, s):
        self.shift(s, "shl")

    def op_shr(self, s):
        self.shift(s, "ashr" if s.modifiers[-1][0] == "s" else "lshr")

    def op_shf(self, s):
        direction, mode = s.modifiers[0], s.modifiers[1]
        if mode != "wrap" or s.modifiers[-1] != "b32":
            self.refuse()
        low, high, n = (f"i32 {self.get(o, 32)}" for o in s.operands[1:4])
        self.put(s.operands[0], self.call("i32", f"llvm.fsh{direction}.i32", [high, low, n]), 32)

    def op_lop3(self, s):
        x, y, z = (self.get(o, 32) for o in s.operands[1:4])
        table, total = s.operands[4][1], "0"
        for i in range(8):
            if table >> i & 1:
                term = "-1"
                for bit, v in ((4, x), (2, y), (1, z)):
                    v = v if i & bit else self.value(f"xor i32 {v}, -1")
                    term = self.value(f"and i32 {term}, {v}")
                total = self.value(f"or i32 {total}, {term}")
        self.put(s.operands[0], total, 32)

    def op_bfe(self, s):
        kind = s.modifiers[-1]
        width, (at, length) = width_of(kind), s.operands[2:4]
        if at[0] != "int" or length[0] != "int" or not 0 < length[1] <= width - at[1]:
            self.refuse("a field that is no constant part of the operand")
        x = self.value(f"shl i{width} {self.get(s.operands[1], width)}, {width - at[1] - length[1]}")
        x = self.value(f"{'ashr' if kind[0] == 's' else 'lshr'} i{width} {x}, {width - length[1]}")
        self.put(s.operands[0], x, width)

    def op_bfi(self, s):
        width, (at, length) = width_of(s.modifiers[-1]), s.operands[3:5]
        if at[0] != "int" or length[0] != "int":
            self.refuse("a field that is no constant")
        mask = ((1 << length[1]) - 1) << at[1] & ((1 << width) - 1)
        x = self.value(f"shl i{width} {self.get(s.operands[1], width)}, {at[1]}")
        x = self.value(f"and i{width} {x}, {self.get(('int', mask), width)}")
        y = self.value(f"and i{width} {self.get(s.operands[2], width)}, {self.get(('int', ~mask), width)}")
        self.put(s.operands[0], self.value(f"or i{width} {x}, {y}"), width)

    def count_bits(self, s, name, extra=()):
        width = width_of(s.modifiers[-1])
        x = self.call(f"i{width}", f"llvm.{name}.i{width}", [f"i{width} {self.get(s.operands[1], width)}", *extra])
        to = width if name == "bitreverse" else 32
        self.put(s.operands[0], self.resize(x, width, to), to)

    def op_popc(self, s):
        self.count_bits(s, "ctpop")

    def op_clz(self, s):
        self.count_bits(s, "ctlz", ["i1 false"])

    def op_brev(self, s):
        self.count_bits(s, "bitreverse")

    def op_prmt(self, s):
        if s.modifiers != ["b32"]:
            self.refuse()
        x = self.call("i32", "llvm.nvvm.prmt", [f"i32 {self.get(o, 32)}" for o in s.operands[1:4]])
        self.put(s.operands[0], x, 32)

    def unary_float(self, s, intrinsic):
        """intrinsic: by type, a name of LLVM's; None: 1 / x"""
        kind = s.modifiers[-1]
        self.only("rn", "approx", "ftz")
        t, x = FLOATS[kind], self.get_float(s.operands[1], kind)
        name = intrinsic.get(kind)
        if name is None:
            self.refuse()
        result = self.value(f"fdiv {t} 1.0, {x}") if name == "" else self.call(t, name, [f"{t} {x}"])
        self.put_float(s.operands[0], result, kind)

    def op_rcp(self, s):
        self.unary_float(s, {"f32": "", "f64": ""})

    def op_sqrt(self, s):
        self.unary_float(s, {"f32": "llvm.sqrt.f32", "f64": "llvm.sqrt.f64"})

    def op_rsqrt(self, s):
        self.unary_float(s, {"f32": "llvm.nvvm.rsqrt.approx.f", "f64": "llvm.nvvm.rsqrt.approx.d"})

    def op_ex2(self, s):
        self.unary_float(s, {"f32": "llvm.nvvm.ex2.approx.f32"})

    def op_lg2(self, s):
        self.unary_float(s, {"f32": "llvm.nvvm.lg2.approx.f"})

    def op_sin(self, s):
        self.unary_float(s, {"f32": "llvm.nvvm.sin.approx.f"})

    def op_cos(self, s):
        self.unary_float(s, {"f32": "llvm.nvvm.cos.approx.f"})

    def op_tanh(self, s):
        self.unary_float(s, {"f32": "llvm.nvvm.tanh.approx.f32"})

    # ----------------------------------------------------------------------------------------------------------------
    # Conversions, comparisons, moves

    def op_cvt(self, s):
        to, source = s.modifiers[-2:]
        how = [m for m in s.modifiers[:-2] if m not in ("ftz", "relu", "satfinite")]
        if s.has("relu") or s.has("satfinite") or "sat" in how:
            self.refuse()
        if to in ("bf16x2", "f16x2") and source == "f32" and how == ["rn"]:
            x, y = (f"float {self.get_float(o, 'f32')}" for o in s.operands[1:3])
            t = "<2 x bfloat>" if to == "bf16x2" else "<2 x half>"
            pair = self.call(t, f"llvm.nvvm.ff2{to}.rn", [x, y])
            self.put(s.operands[0], self.value(f"bitcast {t} {pair} to i32"), 32)
        elif to == "tf32" and source == "f32" and how in (["rna"], ["rn"]):
            x = self.call("i32", f"llvm.nvvm.f2tf32.{how[0]}", [f"float {self.get_float(s.operands[1], 'f32')}"])
            self.put(s.operands[0], x, 32)
        elif source in FLOATS or source == "bf16":
            self.from_float(s, to, source, how)
        elif to in FLOATS and how in (["rn"], ["rz"]):
            width, signed = width_of(source), source[0] == "s"
            if how == ["rz"]:
                self.refuse()
            x = self.value(f"{'si' if signed else 'ui'}tofp i{width} {self.get(s.operands[1], width)} to {FLOATS[to]}")
            self.put_float(s.operands[0], x, to)
        elif to in TYPE_BYTES and to not in FLOATS and not how:
            x = self.resize(self.get(s.operands[1], width_of(source)), width_of(source), width_of(to), source[0] == "s")
            self.put(s.operands[0], x, width_of(to), to[0] == "s")
        else:
            self.refuse()

    def from_float(self, s, to, source, how):
        x = self.get_float(s.operands[1], source)
        if source == "bf16":
            source = "f32"   # get_float has widened it
            if to == "f32" and not how:
                self.put_float(s.operands[0], x, "f32")
                return
        rounding = {"rzi": "trunc", "rni": "roundeven", "rmi": "floor", "rpi": "ceil"}
        t = FLOATS[source]
        if len(how) == 1 and how[0] in rounding:
            x = self.call(t, f"llvm.{rounding[how[0]]}.{source}", [f"{t} {x}"])
            if to == source:
                self.put_float(s.operands[0], x, to)
            elif to[0] in "su":
                width, sign = width_of(to), "s" if to[0] == "s" else "u"
                x = self.call(f"i{width}", f"llvm.fpto{sign}i.sat.i{width}.{source}", [f"{t} {x}"])
                self.put(s.operands[0], x, width, sign == "s")
            else:
                self.refuse()
        elif to == "bf16" and source == "f32" and how == ["rn"]:
            self.put_float(s.operands[0], x, "bf16")
        elif to in FLOATS and width_of(to) > width_of(source) and not how:
            self.put_float(s.operands[0], self.value(f"fpext {t} {x} to {FLOATS[to]}"), to)
        elif to in FLOATS and width_of(to) < width_of(source) and how == ["rn"]:
            self.put_float(s.operands[0], self.value(f"fptrunc {t} {x} to {FLOATS[to]}"), to)
        else:
            self.refuse()

    def compare(self, s, operation, kind, operands):
        if kind in FLOATS or kind == "bf16":
            if operation not in FLOAT_COMPARE:
                self.refuse()
            x, y = (self.get_float(o, kind) for o in operands)
            return self.value(f"fcmp {FLOAT_COMPARE[operation]} {FLOATS.get(kind, 'float')} {x}, {y}")
        name = INT_COMPARE.get(operation)
        if not name and operation in ("lt", "le", "gt", "ge"):
            name = ("s" if kind[0] == "s" else "u") + operation
        if not name:
            self.refuse()
        width = width_of(kind)
        x, y = (self.get(o, width) for o in operands)
        return self.value(f"icmp {name} i{width} {x}, {y}")

    def op_setp(self, s):
        modifiers = [m for m in s.modifiers if m != "ftz"]
        x = self.compare(s, modifiers[0], modifiers[-1], s.operands[1:3])
        join = modifiers[1:-1]
        if join:
            if len(join) != 1 or join[0] not in ("and", "or", "xor") or s.operands[0][0] == "pair":
                self.refuse()
            x = self.value(f"{join[0]} i1 {x}, {self.get(s.operands[3], 1)}")
        if s.operands[0][0] == "pair":
            self.put(s.operands[0][1], x, 1)
            self.put(s.operands[0][2], self.value(f"xor i1 {x}, true"), 1)
        else:
            self.put(s.operands[0], x, 1)

    def op_selp(self, s):
        width = width_of(s.modifiers[-1])
        x, y = (self.get(o, width) for o in s.operands[1:3])
        which = self.get(s.operands[3], 1)
        self.put(s.operands[0], self.value(f"select i1 {which}, i{width} {x}, i{width} {y}"), width)

    def op_mov(self, s):
        width = width_of(s.modifiers[-1])
        x = self.get(s.operands[1], width)
        self.put(s.operands[0], x, width)
