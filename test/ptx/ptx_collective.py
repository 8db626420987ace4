"""What the threads of a warp, warpgroup or block do together: the part of read_ptx.py that knows barriers, shuffles,
asynchronous copies and the tensor cores."""
from ptx_text import Statement

# Bits of a form of wgmma; ORDER EMULATE: runtime/cuda/emulator/wgmma.c has the same.
FORM_F16, FORM_REGISTERS, FORM_TRANSPOSED_A, FORM_TRANSPOSED_B, FORM_COLUMNS = 1, 2, 4, 8, 8


def accumulators(kernel):
    """Registers that may hold a product on its way: results of wgmma, and what is copied from one."""
    found = set()
    for s in kernel.body:
        if isinstance(s, Statement) and s.name == "wgmma" and s.modifiers[0] == "mma_async":
            found.update(o[1] for o in s.operands[0][1])
    moves = [(s.operands[0][1], s.operands[1][1]) for s in kernel.body
             if isinstance(s, Statement) and s.opcode in ("mov.b32", "mov.f32") and s.operands[1][0] == "reg"]
    while True:
        more = {to for to, source in moves if source in found} - found
        if not more:
            return sorted(found)
        found |= more


def is_one(t, s, *opcodes):
    return any(s.opcode == o for o in opcodes)


def barrier(t, s):
    words = [m for m in s.modifiers if m not in ("cta", "aligned")]
    aligned = "" if s.name == "barrier" and "aligned" not in s.modifiers else ".aligned"
    if s.name == "bar" and words == ["warp", "sync"]:
        t.call("void", "llvm.nvvm.bar.warp.sync", [f"i32 {t.get(s.operands[0], 32)}"])
    elif words == ["sync"]:
        counts = [f"i32 {t.get(o, 32)}" for o in s.operands]
        t.call("void", f"llvm.nvvm.barrier.cta.sync{aligned}.{'all' if len(counts) == 1 else 'count'}", counts)
    elif words == ["arrive"]:
        t.call("void", f"llvm.nvvm.barrier.cta.arrive{aligned}.count", [f"i32 {t.get(o, 32)}" for o in s.operands])
    elif words[:1] == ["red"] and len(s.operands) == 3 and words[1] in ("popc", "and", "or"):
        wide = words[1] == "popc"
        x = t.call("i32" if wide else "i1", f"llvm.nvvm.barrier.cta.red.{words[1]}.aligned.all",
                   [f"i32 {t.get(s.operands[1], 32)}", f"i1 {t.get(s.operands[2], 1)}"])
        t.put(s.operands[0], x, 32 if wide else 1)
    else:
        return False
    return True


def fence(t, s):
    if s.modifiers == ["proxy", "async"] or s.modifiers == ["proxy", "async", "shared::cta"]:
        t.call("void", "llvm.nvvm.fence.proxy.async.shared_cta", [])
        return True
    return s.modifiers[0] in ("acq_rel", "sc")


def shuffle(t, s):
    if s.modifiers[0] != "sync" or s.modifiers[-1] != "b32":
        return False
    d = s.operands[0]
    values = [f"i32 {t.get(s.operands[i], 32)}" for i in (4, 1, 2, 3)]
    if d[0] != "pair":
        t.put(d, t.call("i32", f"llvm.nvvm.shfl.sync.{s.modifiers[1]}.i32", values), 32)
        return True
    x = t.call("{ i32, i1 }", f"llvm.nvvm.shfl.sync.{s.modifiers[1]}.i32p", values)
    t.put(d[1], t.value(f"extractvalue {{ i32, i1 }} {x}, 0"), 32)
    t.put(d[2], t.value(f"extractvalue {{ i32, i1 }} {x}, 1"), 1)
    return True


def vote(t, s):
    ballot = s.modifiers[1] == "ballot"
    if s.modifiers[0] != "sync" or s.modifiers[1] not in ("ballot", "any", "all", "uni"):
        return False
    x = t.call("i32" if ballot else "i1", "llvm.nvvm.vote." + s.modifiers[1] + ".sync",
               [f"i32 {t.get(s.operands[2], 32)}", f"i1 {t.get(s.operands[1], 1)}"])
    t.put(s.operands[0], x, 32 if ballot else 1)
    return True


def redux(t, s):
    operation, kind = s.modifiers[1], s.modifiers[-1]
    if s.modifiers[0] != "sync" or len(s.modifiers) != 3 or kind not in ("s32", "u32", "b32"):
        return False
    name = "u" + operation if operation in ("min", "max") and kind == "u32" else operation
    x = t.call("i32", f"llvm.nvvm.redux.sync.{name}", [f"i32 {t.get(o, 32)}" for o in s.operands[1:3]])
    t.put(s.operands[0], x, 32)
    return True


def elect(t, s):
    x = t.call("{ i32, i1 }", "llvm.nvvm.elect.sync", [f"i32 {t.get(s.operands[1], 32)}"])
    d = s.operands[0]
    t.put(d[1], t.value(f"extractvalue {{ i32, i1 }} {x}, 0"), 32)
    t.put(d[2], t.value(f"extractvalue {{ i32, i1 }} {x}, 1"), 1)
    return True


def copy(t, s):
    words = [m for m in s.modifiers if not m.startswith("L2::")]
    if words == ["async", "commit_group"]:
        t.call("void", "llvm.nvvm.cp.async.commit.group", [])
    elif words == ["async", "wait_group"]:
        t.call("void", "llvm.nvvm.cp.async.wait.group", [f"i32 {t.get(s.operands[0], 32)}"])
    elif words == ["async", "wait_all"]:
        t.call("void", "llvm.nvvm.cp.async.wait.all", [])
    elif words in (["async", "ca", "shared", "global"], ["async", "cg", "shared", "global"],
                   ["async", "ca", "shared::cta", "global"], ["async", "cg", "shared::cta", "global"]):
        if any(m.startswith("L2::cache_hint") for m in s.modifiers) or s.operands[2][0] != "int":
            return False
        to, source = t.pointer(s.operands[0], 3), t.pointer(s.operands[1], 1)
        arguments = [f"ptr addrspace(3) {to}", f"ptr addrspace(1) {source}"]
        suffix = ""
        if len(s.operands) > 3:
            if s.operands[3][0] in ("reg", "int") and t.register_width(s.operands[3][1]) != 32 \
                    if s.operands[3][0] == "reg" else False:
                return False
            arguments.append(f"i32 {t.get(s.operands[3], 32)}")
            suffix = ".s"
        t.call("void", f"llvm.nvvm.cp.async.{words[1]}.shared.global.{s.operands[2][1]}{suffix}", arguments)
    else:
        return False
    return True


def matrices(t, s):
    words = [m.split("::")[0] for m in s.modifiers]
    if words[:3] != ["sync", "aligned", "m8n8"] or words[3] not in ("x1", "x2", "x4") or words[-1] != "b16" \
            or "cluster" in s.opcode:
        return False
    n, trans = int(words[3][1]), ".trans" if "trans" in words else ""
    name = f"llvm.nvvm.{s.name}.sync.aligned.m8n8.x{n}{trans}.b16.p3"
    address, registers = (s.operands[1], s.operands[0]) if s.name == "ldmatrix" else s.operands[:2]
    registers = registers[1] if registers[0] == "vector" else [registers]
    p = f"ptr addrspace(3) {t.pointer(address, 3)}"
    if s.name == "stmatrix":
        t.call("void", name, [p] + [f"i32 {t.get(r, 32)}" for r in registers])
        return True
    result = "i32" if n == 1 else "{ " + ", ".join(["i32"] * n) + " }"
    x = t.call(result, name, [p])
    for i, r in enumerate(registers):
        t.put(r, x if n == 1 else t.value(f"extractvalue {result} {x}, {i}"), 32)
    return True


MMA = {  # shape and operands' type: the intrinsic, the type of an operand register
    ("m16n8k16", "bf16"): ("m16n8k16.row.col.bf16", "i32"),
    ("m16n8k8", "bf16"): ("m16n8k8.row.col.bf16", "i32"),
    ("m16n8k16", "f16"): ("m16n8k16.row.col.f32.f32", "<2 x half>"),
    ("m16n8k8", "f16"): ("m16n8k8.row.col.f32.f32", "<2 x half>"),
    ("m16n8k8", "tf32"): ("m16n8k8.row.col.tf32", "i32"),
    ("m16n8k4", "tf32"): ("m16n8k4.row.col.tf32", "i32"),
}


def mma(t, s):
    words = s.modifiers
    if words[:2] != ["sync", "aligned"] or words[3:5] != ["row", "col"] or len(words) != 9 or words[5] != "f32" or \
            words[8] != "f32" or words[6] != words[7] or (words[2], words[6]) not in MMA:
        return False
    name, operand = MMA[words[2], words[6]]
    arguments = []
    for r in s.operands[1][1] + (s.operands[2][1] if s.operands[2][0] == "vector" else [s.operands[2]]):
        x = t.get(r, 32)
        arguments.append(f"{operand} {x if operand == 'i32' else t.value(f'bitcast i32 {x} to {operand}')}")
    arguments += [f"float {t.get_float(r, 'f32')}" for r in s.operands[3][1]]
    result = "{ float, float, float, float }"
    d = t.call(result, f"llvm.nvvm.mma.{name}", arguments)
    for i, r in enumerate(s.operands[0][1]):
        t.put_float(r, t.value(f"extractvalue {result} {d}, {i}"), "f32")
    return True


def packed_call(t, name, registers, more):
    """A function of the emulator whose first operands come back as results."""
    values = [f"i32 {t.get(('reg', r), 32)}" for r in registers]
    result = "{ " + ", ".join(["i32"] * len(registers)) + " }" if registers else "void"
    x = t.call(result, name, values + more)
    for i, r in enumerate(registers):
        t.put(("reg", r), t.value(f"extractvalue {result} {x}, {i}"), 32)


def wgmma(t, s):
    words = s.modifiers
    if words == ["fence", "sync", "aligned"]:
        t.call("void", "llvm.nvvm.wgmma.fence.sync.aligned", [])
    elif words == ["commit_group", "sync", "aligned"]:
        t.call("void", "llvm.nvvm.wgmma.commit_group.sync.aligned", [])
    elif words == ["wait_group", "sync", "aligned"]:
        packed_call(t, f"nnc.asm.wgmma.wait_registers.{len(t.pending)}", t.pending,
                    [f"i32 {t.get(s.operands[0], 32)}"])
    elif words[:3] == ["mma_async", "sync", "aligned"]:
        return wgmma_product(t, s)
    else:
        return False
    return True


def wgmma_product(t, s):
    words = s.modifiers
    d, a, b = s.operands[:3]
    columns = 2 * len(d[1])
    if len(words) != 7 or words[3] != f"m64n{columns}k16" or words[4] != "f32" or words[5] != words[6] or \
            words[5] not in ("bf16", "f16"):
        return False
    registers = a[0] == "vector"
    immediates = [o[1] for o in s.operands[4:]]
    transposed_a = 0 if registers else immediates[2]
    if immediates[:2] != [1, 1] or len(immediates) != (3 if registers else 4):
        return False
    form = (columns << FORM_COLUMNS | (FORM_F16 if words[5] == "f16" else 0) | (FORM_REGISTERS if registers else 0) |
            (FORM_TRANSPOSED_A if transposed_a else 0) | (FORM_TRANSPOSED_B if immediates[-1] else 0))
    more = [f"i32 {t.get(r, 32)}" for r in a[1]] if registers else [f"i64 {t.get(a, 64)}"]
    scale = t.value(f"zext i1 {t.get(s.operands[3], 1)} to i32")
    packed_call(t, f"nnc.asm.wgmma.mma.{form}", [o[1] for o in d[1]],
                more + [f"i64 {t.get(b, 64)}", f"i32 {scale}", f"i32 {form}"])
    return True


FAMILIES = {"bar": barrier, "barrier": barrier, "fence": fence, "shfl": shuffle, "vote": vote, "redux": redux,
            "elect": elect, "cp": copy, "ldmatrix": matrices, "stmatrix": matrices, "mma": mma, "wgmma": wgmma}


def translate(t, s):
    """False: not known"""
    return s.name in FAMILIES and FAMILIES[s.name](t, s)
