#!/usr/bin/env python3
"""Reads PTX and writes LLVM IR that codegen/cuda/emulate takes: PTX of others, and of LLVM's NVPTX back end, in the
emulator. usage: read_ptx.py [--shared-align=BYTES] FILE.ptx [-o FILE.ll]

Registers are integers of their width in memory, which LLVM's sroa makes values. Shared addresses count from the start
of the block's shared memory, as on a device. What is not known (an instruction, a modifier, a type) is refused by its
name. Not modelled: .ftz (subnormal numbers stay), the widths of approximations (div.full and the like are exact),
caches, orders of memory beyond barriers.
"""
import argparse
import re
import sys

import ptx_collective
from ptx_arithmetic import FLOATS, Arithmetic, width_of
from ptx_text import Module, Refused, Statement, TYPE_BYTES

SPACES = {"global": 1, "shared": 3, "const": 4, "local": 5}
SREGS = {f"%{name}.{axis}": f"{name}.{axis}" for name in ("tid", "ntid", "ctaid", "nctaid") for axis in "xyz"}
SREGS.update({"%laneid": "laneid", "%warpid": "warpid", "%lanemask_lt": "lanemask.lt", "%lanemask_le": "lanemask.le",
              "%lanemask_eq": "lanemask.eq", "%lanemask_ge": "lanemask.ge", "%lanemask_gt": "lanemask.gt",
              "%dynamic_smem_size": "dynamic_smem_size", "%total_smem_size": "total_smem_size"})
CONSTANT_SREGS = {"%cluster_ctarank": 0, "%cluster_ctaid.x": 0, "%cluster_ctaid.y": 0, "%cluster_ctaid.z": 0,
                  "%cluster_nctarank": 1, "%clusterid.x": 0}
# In a load or store, besides space, vector and type.
MEMORY_HINTS = {"weak", "relaxed", "acquire", "release", "volatile", "gpu", "cta", "sys", "cluster", "nc", "ca", "cg",
                "cs", "lu", "cv", "wb", "wt", "L1", "L2"}
class Translator(Arithmetic):
    def __init__(self, module, shared_align=1):
        self.shared_align = shared_align
        self.module, self.declared, self.lines, self.count = module, {}, [], 0
        self.statement = None

    # ----------------------------------------------------------------------------------------------------------------
    # Text

    def temporary(self):
        self.count += 1
        return f"%t{self.count}"

    def emit(self, text):
        line = self.statement.line if self.statement else 0
        self.lines.append(f"  {text}, !dbg !DILocation(line: {line}, scope: !{self.scope})")

    def value(self, text):
        name = self.temporary()
        self.emit(f"{name} = {text}")
        return name

    def declare(self, signature):
        name = signature[signature.index("@"):signature.index("(")]
        self.declared[name] = signature

    def call(self, result, name, arguments):
        """arguments: 'type value' texts; returns the result or None"""
        types = ", ".join(a.rsplit(" ", 1)[0] for a in arguments)
        self.declare(f"declare {result} @{name}({types})")
        text = f"call {result} @{name}({', '.join(arguments)})"
        if result == "void":
            self.emit(text)
            return None
        return self.value(text)

    def refuse(self, why=""):
        self.statement.refuse(why)

    # ----------------------------------------------------------------------------------------------------------------
    # Operands

    def register_width(self, name):
        return width_of(self.kernel.registers[name])

    def get(self, operand, width):
        """the operand's bits as an integer of this width; registers may be wider (cut) or narrower (zeros)"""
        kind = operand[0]
        if kind == "int":
            if width == 1:
                return "true" if operand[1] else "false"
            n = operand[1] & ((1 << width) - 1)
            return str(n - (1 << width) if n >> (width - 1) else n)
        if kind == "float":
            return self.get(("int", operand[1]), width)
        if kind == "double":
            return self.get(("int", operand[1]), width)
        if kind == "not":
            return self.value(f"xor i1 {self.get(('reg', operand[1]), 1)}, true")
        if kind == "symbol":
            return self.get_symbol(operand, width)
        if kind == "vector":
            return self.get_vector(operand, width)
        if kind != "reg":
            self.refuse(f"operand {operand}")
        if operand[1] not in self.kernel.registers:
            return self.special(operand[1], width)
        own = self.register_width(operand[1])
        x = self.value(f'load i{own}, ptr %"{operand[1]}"')
        return self.resize(x, own, width)

    def resize(self, x, own, width, signed=False):
        if own == width:
            return x
        cast = "trunc" if own > width else "sext" if signed else "zext"
        return self.value(f"{cast} i{own} {x} to i{width}")

    def get_vector(self, operand, width):
        part = width // len(operand[1])
        if len(operand[1]) == 1:
            return self.get(operand[1][0], width)
        total = None
        for i, element in enumerate(operand[1]):
            x = self.value(f"zext i{part} {self.get(element, part)} to i{width}")
            if i:
                x = self.value(f"shl i{width} {x}, {i * part}")
            total = x if total is None else self.value(f"or i{width} {total}, {x}")
        return total

    def special(self, name, width):
        if name in SREGS:
            x = self.call("i32", f"llvm.nvvm.read.ptx.sreg.{SREGS[name]}", [])
        elif name in CONSTANT_SREGS:
            x = str(CONSTANT_SREGS[name])
        else:
            self.refuse(f"register {name}")
        return self.resize(x, 32, width)

    def get_symbol(self, operand, width):
        variable = self.variables.get(operand[1])
        if operand[1] in [v.name for v in self.kernel.locals]:
            return self.get(("int", operand[2]), width)
        if not variable:
            self.refuse(f"name {operand[1]}")
        space = SPACES[variable.space]
        address = self.value(f'ptrtoint ptr addrspace({space}) @"{variable.name}" to i64')
        if space == 3:
            address = self.value(f"sub i64 {address}, {self.window()}")
        if operand[2]:
            address = self.value(f"add i64 {address}, {operand[2]}")
        return self.resize(address, 64, width)

    def window(self):
        """where the block's shared memory begins, a multiple of 2^18 in the emulator"""
        shared = [v for v in self.module.variables if v.space == "shared"]
        if not shared:
            self.refuse("shared memory without a variable")
        x = self.value(f'ptrtoint ptr addrspace(3) @"{shared[0].name}" to i64')
        return self.value(f"and i64 {x}, -262144")

    def local_window(self):
        """where the thread's own memory begins, to which local addresses are relative"""
        if len(self.kernel.locals) != 1:
            self.refuse("several local variables")
        return self.value(f'ptrtoint ptr %"{self.kernel.locals[0].name}" to i64')

    def pointer(self, operand, space):
        if operand[0] != "address":
            self.refuse("an address is expected")
        base, offset = operand[1], operand[2]
        if base[0] == "reg":
            own = self.register_width(base[1])
            x = self.resize(self.get(base, own), own, 64)
        else:
            x = self.get(base, 64)
        if offset:
            x = self.value(f"add i64 {x}, {offset}")
        if space == 3:
            x = self.value(f"add i64 {x}, {self.window()}")
        elif space == 5:
            x, space = self.value(f"add i64 {x}, {self.local_window()}"), 0   # the stack of the fiber
        return self.value(f"inttoptr i64 {x} to ptr" + (f" addrspace({space})" if space else ""))

    def put(self, operand, x, width, signed=False):
        if operand[0] == "vector":
            part = width // len(operand[1])
            for i, element in enumerate(operand[1]):
                if len(operand[1]) == 1:
                    self.put(element, x, width)
                    return
                high = self.value(f"lshr i{width} {x}, {i * part}") if i else x
                self.put(element, self.value(f"trunc i{width} {high} to i{part}"), part)
            return
        if operand == ("symbol", "_", 0):
            return
        if operand[0] != "reg" or operand[1] not in self.kernel.registers:
            self.refuse(f"result {operand}")
        own = self.register_width(operand[1])
        if own < width:
            self.refuse(f"result of {width} bits in {operand[1]}")
        self.emit(f'store i{own} {self.resize(x, width, own, signed)}, ptr %"{operand[1]}"')

    def get_float(self, operand, kind):
        width = width_of(kind)
        x = self.get(operand, width)
        if kind == "bf16":
            wide = self.value(f"shl i32 {self.value(f'zext i16 {x} to i32')}, 16")
            return self.value(f"bitcast i32 {wide} to float")
        return self.value(f"bitcast i{width} {x} to {FLOATS[kind]}")

    def put_float(self, operand, x, kind):
        width = width_of(kind)
        if kind == "bf16":
            x = self.call("bfloat", "llvm.nvvm.f2bf16.rn", [f"float {x}"])
            self.put(operand, self.value(f"bitcast bfloat {x} to i16"), 16)
            return
        self.put(operand, self.value(f"bitcast {FLOATS[kind]} {x} to i{width}"), width)

    # ----------------------------------------------------------------------------------------------------------------
    # Memory

    def memory_form(self, s):
        """(space, elements, type)"""
        space, elements = 0, 1
        for m in s.modifiers[:-1]:
            head = m.split("::")[0]
            if head in SPACES:
                space = SPACES[head]
                if m.endswith("::cluster"):
                    self.refuse()
            elif m in ("v2", "v4"):
                elements = int(m[1])
            elif head not in MEMORY_HINTS:
                self.refuse(f".{m}")
        return space, elements, s.modifiers[-1]

    def op_ld(self, s):
        if s.modifiers[0] == "param":
            index = [p[0] for p in self.kernel.parameters].index(s.operands[1][1][1])
            if s.operands[1][2] or len(s.modifiers) != 2:
                self.refuse()
            own, width = width_of(self.kernel.parameters[index][1]), width_of(s.modifiers[1])
            self.put(s.operands[0], self.resize(f"%p{index}", own, width), width)
            return
        space, elements, kind = self.memory_form(s)
        width = width_of(kind)
        p = self.pointer(s.operands[1], space)
        space = 0 if space == 5 else space
        t = f"i{width}" if elements == 1 else f"<{elements} x i{width}>"
        pt = f"ptr addrspace({space})" if space else "ptr"
        x = self.value(f"load {t}, {pt} {p}, align {elements * width // 8}")
        parts = s.operands[0][1] if s.operands[0][0] == "vector" else [s.operands[0]]
        for i, part in enumerate(parts):
            element = self.value(f"extractelement {t} {x}, i32 {i}") if elements > 1 else x
            self.put(part, element, width, kind[0] == "s")

    def op_ldu(self, s):
        self.op_ld(s)

    def op_cvta(self, s):
        space = [m for m in s.modifiers if m in SPACES]
        x = self.get(s.operands[1], 64)
        if space[0] == "shared":
            x = self.value(f"{'sub' if s.has('to') else 'add'} i64 {x}, {self.window()}")
        elif space[0] == "local":
            x = self.value(f"{'sub' if s.has('to') else 'add'} i64 {x}, {self.local_window()}")
        self.put(s.operands[0], x, 64)

    def op_st(self, s):
        space, elements, kind = self.memory_form(s)
        width = width_of(kind)
        parts = s.operands[1][1] if s.operands[1][0] == "vector" and elements > 1 else [s.operands[1]]
        values = [self.get(o, width) for o in parts]
        p = self.pointer(s.operands[0], space)
        space = 0 if space == 5 else space
        t = f"i{width}" if elements == 1 else f"<{elements} x i{width}>"
        x = values[0]
        if elements > 1:
            x = "poison"
            for i, v in enumerate(values):
                x = self.value(f"insertelement {t} {x}, i{width} {v}, i32 {i}")
        pt = f"ptr addrspace({space})" if space else "ptr"
        self.emit(f"store {t} {x}, {pt} {p}, align {elements * width // 8}")

    def op_atom(self, s):
        kind, operation = s.modifiers[-1], s.modifiers[-2]
        space = [SPACES[m.split("::")[0]] for m in s.modifiers if m.split("::")[0] in SPACES]
        operations = {"add": "add", "and": "and", "or": "or", "xor": "xor", "exch": "xchg", "min": "min", "max": "max"}
        result, operands = (s.operands[0], s.operands[1:]) if s.name == "atom" else (None, s.operands)
        p = self.pointer(operands[0], space[0] if space else 0)
        pt = f"ptr addrspace({space[0]})" if space else "ptr"
        width = width_of(kind)
        if operation == "cas":
            old = self.value(f"cmpxchg {pt} {p}, i{width} {self.get(operands[1], width)}, i{width} "
                             f"{self.get(operands[2], width)} seq_cst seq_cst")
            old = self.value(f"extractvalue {{ i{width}, i1 }} {old}, 0")
        elif operation == "add" and kind in ("f32", "f64"):
            old = self.value(f"atomicrmw fadd {pt} {p}, {FLOATS[kind]} {self.get_float(operands[1], kind)} seq_cst")
            old = self.value(f"bitcast {FLOATS[kind]} {old} to i{width}")
        elif operation in operations and kind not in FLOATS:
            name = operations[operation]
            name = "u" + name if name in ("min", "max") and kind[0] == "u" else name
            old = self.value(f"atomicrmw {name} {pt} {p}, i{width} {self.get(operands[1], width)} seq_cst")
        else:
            self.refuse()
        if result:
            self.put(result, old, width)

    def op_red(self, s):
        if s.has("async"):
            self.refuse()
        self.op_atom(s)

    def nothing(self, s):
        pass

    op_prefetch = op_prefetchu = op_griddepcontrol = op_setmaxnreg = op_nanosleep = op_membar = nothing

    # ----------------------------------------------------------------------------------------------------------------
    # Control flow

    def label(self, name):
        return f'%"L{name}"'

    def op_bra(self, s):
        self.emit(f"br label {self.label(s.operands[0][1])}")
        self.ended = True

    def op_brx(self, s):
        labels = self.targets[s.operands[1][1]]
        cases = " ".join(f"i32 {i}, label {self.label(name)}" for i, name in enumerate(labels[:-1]))
        self.emit(f"switch i32 {self.get(s.operands[0], 32)}, label {self.label(labels[-1])} [ {cases} ]")
        self.ended = True

    def op_ret(self, s):
        self.emit("ret void")
        self.ended = True

    op_exit = op_ret

    def op_trap(self, s):
        self.call("void", "llvm.trap", [])
        self.emit("unreachable")
        self.ended = True

    def translate_statement(self, s):
        self.statement = s
        after = None
        if s.guard:
            self.count += 1
            then, after = f'"then{self.count}"', f'"after{self.count}"'
            self.emit(f"br i1 {self.get(s.guard, 1)}, label %{then}, label %{after}")
            self.lines.append(f"{then}:")
        method = getattr(self, "op_" + s.name, None)
        if method:
            method(s)
        elif not ptx_collective.translate(self, s):
            self.refuse()
        if after:
            if not self.ended:
                self.emit(f"br label %{after}")
            self.lines.append(f"{after}:")
            self.ended = False

    def translate_kernel(self, kernel, scope):
        self.kernel, self.scope, self.ended = kernel, scope, False
        self.pending = ptx_collective.accumulators(kernel)
        self.targets = {item[1]: item[2] for item in kernel.body if isinstance(item, tuple) and item[0] == "targets"}
        parameters = ", ".join(f"i{width_of(t)} %p{i}" for i, (_, t) in enumerate(kernel.parameters))
        attributes = f' "nvvm.maxntid"="{kernel.max_threads}"' if kernel.max_threads else ""
        self.lines.append(f'define ptx_kernel void @"{kernel.name}"({parameters}){attributes} !dbg !{scope} {{')
        self.statement = Statement(1, None, "entry", [])
        for name, kind in kernel.registers.items():
            if not width_of(kind):
                raise Refused(1, f"a register of type .{kind}")
            self.lines.append(f'  %"{name}" = alloca i{width_of(kind)}')
        self.lines.append("  %carry = alloca i1")
        for v in kernel.locals:
            self.lines.append(f'  %"{v.name}" = alloca [{v.bytes} x i8], align {v.align}')
        for item in kernel.body:
            if isinstance(item, Statement):
                if self.ended:   # what nobody can reach
                    self.count += 1
                    self.lines.append(f'"dead{self.count}":')
                    self.ended = False
                self.translate_statement(item)
            elif item[0] == "label":
                if not self.ended:
                    self.emit(f"br label {self.label(item[1])}")
                self.lines.append(f'"L{item[1]}":')
                self.ended = False
        if not self.ended:
            self.emit("ret void")
        self.lines.append("}")

    def translate_variable(self, v):
        space = SPACES[v.space]
        if space == 3:
            what = "external" if not v.bytes else "internal"
            initial = "" if not v.bytes else " undef"
            align = v.align if v.bytes else max(v.align, self.shared_align)
            self.lines.append(f'@"{v.name}" = {what} addrspace(3) global [{v.bytes} x i8]{initial}, align {align}')
            return
        count, width = v.bytes // v.element_bytes, 8 * v.element_bytes
        values = [("0" if i >= len(v.values or []) else str(v.values[i])) for i in range(count)]
        initial = "[" + ", ".join(f"i{width} {x}" for x in values) + "]"
        self.lines.append(f'@"{v.name}" = internal addrspace({space}) {"constant" if space == 4 else "global"} '
                          f"[{count} x i{width}] {initial}, align {v.align}")

    def translate(self, file_name):
        self.variables = {v.name: v for v in self.module.variables}
        for v in self.module.variables:
            self.translate_variable(v)
        for i, kernel in enumerate(self.module.kernels):
            self.translate_kernel(kernel, 10 + i)
        self.lines += sorted(self.declared.values())
        self.lines += ["!llvm.dbg.cu = !{!0}", "!llvm.module.flags = !{!1}",
                       "!0 = distinct !DICompileUnit(language: DW_LANG_C, file: !2, emissionKind: LineTablesOnly)",
                       '!1 = !{i32 2, !"Debug Info Version", i32 3}',
                       f'!2 = !DIFile(filename: "{file_name}", directory: "")', "!3 = !DISubroutineType(types: !{})"]
        for i, kernel in enumerate(self.module.kernels):
            self.lines.append(f'!{10 + i} = distinct !DISubprogram(name: "{kernel.name}", scope: !2, file: !2, '
                              "line: 1, type: !3, unit: !0, spFlags: DISPFlagDefinition)")
        return "\n".join(self.lines) + "\n"


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("file")
    options.add_argument("-o", "--output", default="-")
    options.add_argument("--shared-align", type=int, default=1,
                         help="of dynamic shared memory, at least: Triton promises 16 and relies on 1024, which a "
                              "kernel without static shared memory gets")
    options = options.parse_args()
    with open(options.file, encoding="utf-8") as f:
        text = f.read()
    try:
        ir = Translator(Module(text), options.shared_align).translate(re.sub(r'["\\]', "_", options.file))
    except Refused as refused:
        sys.exit(f"{options.file}: {refused}")
    if options.output == "-":
        sys.stdout.write(ir)
    else:
        with open(options.output, "w", encoding="utf-8") as f:
            f.write(ir)


if __name__ == "__main__":
    main()
