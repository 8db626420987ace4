// The textual pipeline, printing between passes, the time table, and what nnc-opt says about bad input.
// RUN: split-file %s %t
// RUN: %nnc_opt %t/good.mlir | FileCheck %s
// RUN: %nnc_opt - < %t/good.mlir | FileCheck %s
// RUN: %nnc_opt %t/good.mlir -o %t.mlir && %nnc_opt %t.mlir --passes= | FileCheck %s
// RUN: %nnc_opt %t/good.mlir --passes=' simplify, decompose ' --print-ir-before=simplify --print-ir-after=all --time-passes 2>&1 >%t.out | FileCheck %s --check-prefix=HOOKS
// RUN: %nnc_opt --list-passes | FileCheck %s --check-prefix=LIST
// RUN: %nnc_opt --dump-irdl > %t.irdl.mlir && mlir-opt --irdl-file=%t.irdl.mlir %t/good.mlir | FileCheck %s
// RUN: %nnc_opt --help | FileCheck %s --check-prefix=HELP
// RUN: %nnc_opt --version | FileCheck %s --check-prefix=VERSION

// CHECK: func.func @train(%arg0: tensor<4xf32> {nn.name = "x", nn.role = "input"}) -> tensor<4xf32>
// CHECK: "nn.relu"(%arg0) {nn.phase = "forward"} : (tensor<4xf32>) -> tensor<4xf32>

// HOOKS: IR before simplify
// HOOKS: nn.relu
// HOOKS: IR after simplify
// HOOKS-NOT: IR before
// HOOKS: IR after decompose
// HOOKS: nn.relu
// HOOKS: {{^}}pass {{ *}}seconds {{ *}}share
// HOOKS: {{^}}simplify {{ *[0-9.]+ *[0-9.]+%}}
// HOOKS: {{^}}decompose
// HOOKS: {{^}}total
// LIST: {{^}}simplify
// LIST: {{^}}layout
// LIST: {{^}}autodiff
// LIST: {{^}}decompose
// LIST: {{^}}fuse
// LIST: {{^}}remat
// LIST-NEXT: policy=
// LIST: {{^}}plan
// HELP: Usage: nnc-opt
// VERSION: nnc-opt {{[0-9]+\.[0-9]+}}

// Wrong usage: status 2 and one sentence.
// RUN: sh -c '%nnc_opt %t/good.mlir --passes=simplfy; test $? = 2' 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// UNKNOWN: nnc-opt: --passes: unknown pass 'simplfy'
// RUN: sh -c '%nnc_opt %t/good.mlir --passes=simplify,; test $? = 2' 2>&1 | FileCheck %s --check-prefix=COMMA
// COMMA: expected the name of a pass after the last ','
// RUN: sh -c '%nnc_opt %t/good.mlir --passes="simplify decompose"; test $? = 2' 2>&1 | FileCheck %s --check-prefix=MISSING-COMMA
// MISSING-COMMA: expected ',' after pass 'simplify', found 'decompose'
// RUN: sh -c '%nnc_opt %t/good.mlir --passes="simplify{fast=1}"; test $? = 2' 2>&1 | FileCheck %s --check-prefix=NO-OPTIONS
// NO-OPTIONS: pass 'simplify' takes no options, found 'fast'
// RUN: sh -c '%nnc_opt %t/good.mlir --passes="remat{speed}"; test $? = 2' 2>&1 | FileCheck %s --check-prefix=KEY-VALUE
// KEY-VALUE: expected 'key=value' or '}' in the options of pass 'remat', found speed}
// RUN: sh -c '%nnc_opt %t/good.mlir --passes="remat{policy=best}"; test $? = 2' 2>&1 | FileCheck %s --check-prefix=POLICY
// POLICY: option 'policy' of pass 'remat' takes none|manual|{{.*}}, found 'best'
// RUN: sh -c '%nnc_opt %t/good.mlir --passes="remat{budget=12parsecs}"; test $? = 2' 2>&1 | FileCheck %s --check-prefix=BUDGET
// BUDGET: option 'budget' of pass 'remat' takes SIZE|PERCENT%, found '12parsecs'
// RUN: sh -c '%nnc_opt %t/good.mlir --passes="plan{budget=50%%}"; test $? = 2' 2>&1 | FileCheck %s --check-prefix=PERCENT
// PERCENT: option 'budget' of pass 'plan' takes SIZE, found '50%'
// RUN: sh -c '%nnc_opt %t/good.mlir --passes="remat{seed=1 seed=2}"; test $? = 2' 2>&1 | FileCheck %s --check-prefix=TWICE
// TWICE: option 'seed' of pass 'remat' is given twice
// RUN: sh -c '%nnc_opt %t/good.mlir --print-ir-after=nothing; test $? = 2' 2>&1 | FileCheck %s --check-prefix=PRINT
// PRINT: --print-ir-{{.*}} takes all, gradients, {{.*}} or check, found 'nothing'
// RUN: %nnc_opt %t/good.mlir --passes=simplify --target=cuda-emu | FileCheck %s
// RUN: sh -c '%nnc_opt %t/good.mlir --target=tpu; test $? = 2' 2>&1 | FileCheck %s --check-prefix=TARGET
// TARGET: --target takes host, cuda or cuda-emu, found 'tpu'
// RUN: sh -c '%nnc_opt %t/good.mlir --gpu-arch=sm_80; test $? = 2' 2>&1 | FileCheck %s --check-prefix=ARCH
// ARCH: nnc-opt: --gpu-arch=sm_80 goes with --target=cuda
// RUN: sh -c '%nnc_opt; test $? = 2' 2>&1 | FileCheck %s --check-prefix=NO-INPUT
// NO-INPUT: expected one input file

// Bad input: status 1, file:line:column, the line and a caret.
// RUN: sh -c '%nnc_opt %t/syntax.mlir; test $? = 1' 2>&1 | FileCheck %s --check-prefix=SYNTAX
// SYNTAX: syntax.mlir:3:{{[0-9]+}}: error:
// SYNTAX-NEXT: {{^ +3 \| +}}%y = "nn.relu"(%x : tensor<4xf32>
// SYNTAX-NEXT: {{^ +\| +\^}}
// RUN: sh -c '%nnc_opt - < %t/syntax.mlir; test $? = 1' 2>&1 | FileCheck %s --check-prefix=STDIN
// STDIN: <stdin>:3:{{[0-9]+}}: error:
// RUN: sh -c '%nnc_opt %t/shape.mlir; test $? = 1' 2>&1 | FileCheck %s --check-prefix=SHAPE
// SHAPE: shape.mlir:3:8: error: {{.*}}f32[4]{{.*}}f32[5]
// SHAPE-NEXT: {{^ +3 \| +}}%y = "nn.add"
// SHAPE-NEXT: {{^ +\| +\^}}
// RUN: sh -c '%nnc_opt %t/none.mlir; test $? = 1' 2>&1 | FileCheck %s --check-prefix=NOFILE
// NOFILE: error: cannot read '{{.*}}none.mlir': No such file or directory
// RUN: sh -c '%nnc_opt %t/good.mlir -o %t/no/folder.mlir; test $? = 1' 2>&1 | FileCheck %s --check-prefix=NOFOLDER
// NOFOLDER: cannot write '{{.*}}folder.mlir': No such file or directory

//--- good.mlir
func.func @train(%x: tensor<4xf32> {nn.role = "input", nn.name = "x"}) -> tensor<4xf32> {
  %y = "nn.relu"(%x) {nn.phase = "forward"} : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
//--- syntax.mlir
// a comment
func.func @train(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = "nn.relu"(%x : tensor<4xf32>
}
//--- shape.mlir
// a comment
func.func @train(%x: tensor<4xf32>, %z: tensor<5xf32>) -> tensor<4xf32> {
  %y = "nn.add"(%x, %z) : (tensor<4xf32>, tensor<5xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
