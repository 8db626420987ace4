"""Compares runtime/cuda/driver.h with the toolkit's own headers and libraries: driver_headers.py DRIVER_H TOOLKIT FOLDER,
or runtime/cuda/nccl.h with NCCL's: driver_headers.py --nccl NCCL_H NCCL FOLDER, which needs no toolkit.

Enumerators, sizes of types and, parameter by parameter, the functions' types become assertions of a C program in FOLDER, which is compiled against the headers;
names are looked up in the toolkit's stub of libcuda and in its libcublas. An enumeration may be an int here, an opaque pointer has its own name. Prints what it has
compared; ends with status 1 and says what differs otherwise.
"""
import os
import re
import subprocess
import sys

NCCL = '--nccl' in sys.argv
HEADERS = '''#define __CUDA_API_VERSION_INTERNAL   /* also declares the older versions of functions, under their own names */
#include <cuda.h>
#include <cublas_v2.h>
'''
# What nccl.h takes from the toolkit. A stream of the runtime's is one of the driver's.
NCCL_HEADERS = '''#include <stddef.h>
typedef struct CUstream_st *cudaStream_t;
typedef struct CUstream_st *CUstream;
typedef struct { unsigned short x; } __half;
#define __CUDA_RUNTIME_H__
#include <nccl.h>
'''
COMPARING = '''#define IS_INT(t) _Generic(*(t *)0, int: 1, unsigned: 1, default: 0)
#define SAME(a, b) (__builtin_types_compatible_p(a, b) || (IS_INT(a) && IS_INT(b)))
'''


def read_declarations(path):
    """Enumerators and typedefs with the values and types that they have here, and the functions of the two lists of symbols."""
    with open(path) as f:
        text = re.sub(r'//[^\n]*', '', f.read()).replace('\\\n', ' ')
    enumerators = [pair for body in re.findall(r'enum \{([^}]*)\}', text) for pair in re.findall(r'(\w+)\s*=\s*(-?\d+)', body)]
    typedefs = re.findall(r'typedef (int|unsigned long long) (\w+);', text) + [('void *', name) for name in re.findall(r'typedef struct \w+ \*(\w+);', text)]
    functions = re.findall(r'X\(([^,()]+), \w+, "(\w+)",\s*\(([^()]*)\)\)', text)
    return enumerators, typedefs, functions


def type_of(parameter):
    """(words of the type, depth of pointers) of a parameter with or without a name; const tells nothing about the call."""
    words = re.findall(r'\w+', re.sub(r'\b(const|struct|enum)\b', '', parameter))
    basic = [w for w in words if w in ('void', 'char', 'int', 'unsigned', 'long', 'float', 'double', 'signed', 'short')]
    return ' '.join(basic or words[:1]), parameter.count('*') + parameter.count('[')


def parameters_of(text):
    return [] if text.strip() in ('', 'void') else [type_of(p) for p in text.split(',')]


def assertions(functions, preprocessed):
    """Lines of C for what the compiler has to compare, and a list of what differs in form."""
    lines, wrong = [], []

    def compare(name, what, ours, theirs):
        if ours[1] != theirs[1] or (ours[0] == 'void') != (theirs[0] == 'void'):
            wrong.append('%s: %s is %s%s here, %s%s in the headers' % (name, what, ours[0], '*' * ours[1], theirs[0], '*' * theirs[1]))
        elif ours[0] != 'void':
            lines.append('_Static_assert(SAME(%s, %s), "%s: %s");' % (ours[0], theirs[0], name, what))

    declarations = {}
    for found in re.finditer(r'(\w+)\s*\(([^()]*)\)\s*;', preprocessed):
        line = preprocessed[max(0, found.start() - 300):found.start()].rstrip()
        declarations.setdefault(found.group(1), (re.search(r'[\w \t*]*$', line).group(), found.group(2)))
    for result, name, parameters in functions:
        declared = declarations.get(name)
        if not declared:
            wrong.append('%s: not declared by the headers' % name)
            continue
        compare(name, 'the result', type_of(result), type_of(re.sub(r'\b(extern|__stdcall)\b', '', declared[0])))
        ours, theirs = parameters_of(parameters), parameters_of(declared[1])
        if len(ours) != len(theirs):
            wrong.append('%s: %d parameters here, %d in the headers' % (name, len(ours), len(theirs)))
            continue
        for i, pair in enumerate(zip(ours, theirs)):
            compare(name, 'parameter %d' % (i + 1), *pair)
    return lines, wrong


def find(toolkit, names):
    for folder in ('lib64/stubs', 'lib64', 'lib', 'targets/x86_64-linux/lib'):
        for name in names:
            path = os.path.join(toolkit, folder, name)
            if os.path.exists(path):
                return path
    return None


def missing_symbols(toolkit, functions):
    """Names that the toolkit's libraries lack; of a library that is not there, none."""
    if NCCL:
        lists = ((['libnccl.so.2', 'libnccl.so'], [n for _, n, _ in functions]),)
    else:
        lists = ((['libcuda.so'], [n for _, n, _ in functions if not n.startswith('cublas')]),
                 (['libcublas.so.%d' % v for v in (13, 12, 11)] + ['libcublas.so'], [n for _, n, _ in functions if n.startswith('cublas')]))
    wrong, looked = [], 0
    for names, symbols in lists:
        path = find(toolkit, names)
        if not path:
            print('no %s in %s: its names are not looked up' % (names[0], toolkit))
            continue
        exported = set(re.findall(r' [TtWi] (\w+)', subprocess.run(['nm', '-D', '--defined-only', path], check=True, stdout=subprocess.PIPE, universal_newlines=True).stdout))
        wrong += ['%s: not in %s' % (s, path) for s in symbols if s not in exported]
        looked += len(symbols)
    return wrong, looked


def main():
    path, toolkit, folder = [a for a in sys.argv[1:] if a != '--nccl']
    enumerators, typedefs, functions = read_declarations(path)
    os.makedirs(folder, exist_ok=True)
    source, cc = os.path.join(folder, 'headers.c'), ['cc', '-std=gnu11', '-w', '-isystem', os.path.join(toolkit, 'include')]
    with open(source, 'w') as f:
        f.write((NCCL_HEADERS if NCCL else HEADERS) + COMPARING)
    if NCCL:   # in place of the toolkit's
        cc += ['-I', folder]
        for name in ('cuda_runtime.h', 'cuda_fp16.h', 'cuda_bf16.h'):
            open(os.path.join(folder, name), 'w').close()
    preprocessed = subprocess.run(cc + ['-E', '-P', source], check=True, stdout=subprocess.PIPE, universal_newlines=True).stdout
    lines, wrong = assertions(functions, preprocessed)
    lines += ['_Static_assert((long long)%s == %s, "%s");' % (name, value, name) for name, value in enumerators]
    lines += ['_Static_assert(sizeof(%s) == sizeof(%s), "size of %s");' % (name, ours, name) for ours, name in typedefs]
    with open(source, 'a') as f:
        f.write('\n'.join(lines) + '\n')
    compiled = subprocess.run(cc + ['-fsyntax-only', source], stderr=subprocess.PIPE, universal_newlines=True)
    if compiled.returncode:
        wrong += [line.split('error: ')[1] for line in compiled.stderr.split('\n') if 'error: ' in line]
    absent, looked = missing_symbols(toolkit, functions)
    wrong += absent
    for line in wrong:
        print(line)
    print('%d enumerators, %d types, %d functions, %d of them looked up' % (len(enumerators), len(typedefs), len(functions), looked))
    return 1 if wrong or not functions or not enumerators else 0


if __name__ == '__main__':
    sys.exit(main())
