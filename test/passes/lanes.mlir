// Two copies on lanes beside compute: the waits that the plan finds are those that the bytes need and no more, `check`
// accepts them and finds each that is left out.
// RUN: %nnc_opt %s --passes=fuse,inplace,plan,check -o %t.mlir && FileCheck %s < %t.mlir

// RUN: sed 's/nn.waits = array<i64: 0>//; s/, } :/} :/' %t.mlir > %t.less.mlir && not diff -q %t.mlir %t.less.mlir
// RUN: (%nnc_opt %t.less.mlir --passes=check > %t.log 2>&1; test $? -eq 70) && FileCheck %s --check-prefix=MADE < %t.log
// MADE: internal error: memory plan: @train: step 2 on lane out reads operand 0 in bytes 4096 to 8192, which step 0 on lane compute writes, without a wait in between

// RUN: sed 's/nn.waits = array<i64: 2>, //; s/, } :/} :/' %t.mlir > %t.less.mlir && not diff -q %t.mlir %t.less.mlir
// RUN: (%nnc_opt %t.less.mlir --passes=check > %t.log 2>&1; test $? -eq 70) && FileCheck %s --check-prefix=REUSED < %t.log
// REUSED: internal error: memory plan: @train: step 4 on lane compute writes result 0 in bytes 4096 to 8192, which step 2 on lane out reads, without a wait in between

// RUN: sed 's/nn.waits = array<i64: 3, 2>//; s/, } :/} :/' %t.mlir > %t.less.mlir && not diff -q %t.mlir %t.less.mlir
// RUN: (%nnc_opt %t.less.mlir --passes=check > %t.log 2>&1; test $? -eq 70) && FileCheck %s --check-prefix=FAR < %t.log
// FAR: internal error: memory plan: @train: step 5 on lane in reads operand 0 in far bytes 0 to 4096, which step 2 on lane out writes, without a wait in between

// RUN: sed 's/nn.waits = array<i64: 3, 2>/nn.waits = array<i64: 2>/' %t.mlir > %t.less.mlir && not diff -q %t.mlir %t.less.mlir
// RUN: (%nnc_opt %t.less.mlir --passes=check > %t.log 2>&1; test $? -eq 70) && FileCheck %s --check-prefix=FREE < %t.log
// FREE: internal error: memory plan: @train: step 5 on lane in writes result 0 in bytes 8192 to 12288, which step 1 on lane compute writes, without a wait in between

// RUN: sed 's/nn.waits = array<i64: 5>, //; s/, } :/} :/' %t.mlir > %t.less.mlir && not diff -q %t.mlir %t.less.mlir
// RUN: (%nnc_opt %t.less.mlir --passes=check > %t.log 2>&1; test $? -eq 70) && FileCheck %s --check-prefix=BACK < %t.log
// BACK: internal error: memory plan: @train: step 7 on lane compute reads operand 1 in bytes 8192 to 12288, which step 5 on lane in writes, without a wait in between

// RUN: sed 's/nn.waits = array<i64: 3, 2>/nn.waits = array<i64: 6, 2>/' %t.mlir > %t.later.mlir && not diff -q %t.mlir %t.later.mlir
// RUN: (%nnc_opt %t.later.mlir --passes=check > %t.log 2>&1; test $? -eq 70) && FileCheck %s --check-prefix=LATER < %t.log
// LATER: internal error: memory plan: @train: step 5: it waits for step 6, which is none of another lane before it

// RUN: sed 's/lane = "in"/lane = "inward"/' %s > %t.unknown.mlir && not %nnc_opt %t.unknown.mlir --passes=fuse,inplace,plan 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// UNKNOWN: error: 'inward' is no lane: expected compute, out, in or comm

// Without the waits it is found where the passes begin again, and what is there already is not added to.
// RUN: %nnc_opt %t.mlir --passes=plan,check | diff %t.mlir -

// CHECK-LABEL: func.func @train
func.func @train(%x: tensor<32x32xf32> {nn.role = "input", nn.name = "x"}, %p: tensor<32x32xf32> {nn.role = "param", nn.name = "p"})
    -> (tensor<32x32xf32> {nn.role = "output", nn.name = "y"}) {
  %a = "nn.matmul"(%x, %p) {transpose_a = false, transpose_b = false} : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  // CHECK: nn.matmul{{.*}}nn.offset = array<i64: 4096>
  // CHECK: nn.matmul{{.*}}nn.offset = array<i64: 8192>
  %b = "nn.matmul"(%a, %p) {transpose_a = false, transpose_b = false} : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  // The copy, into the far arena, waits for what it reads, and the step that has its bytes next for the copy.
  // CHECK: nn.copy{{.*}}nn.lane = "out", nn.offset = array<i64: 1152921504606846976>, nn.waits = array<i64: 0>
  %far = "nn.copy"(%a) {nn.lane = "out"} : (tensor<32x32xf32>) -> tensor<32x32xf32>
  // CHECK: nn.matmul{{.*}}nn.offset = array<i64: 12288>, transpose
  %c = "nn.matmul"(%b, %p) {transpose_a = false, transpose_b = false} : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  // CHECK: nn.matmul{{.*}}nn.offset = array<i64: 4096>, nn.waits = array<i64: 2>
  %d = "nn.matmul"(%c, %p) {transpose_a = false, transpose_b = false} : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  // Behind step 3, which reads what was there, and behind step 2, which has copied what is read.
  // CHECK: nn.copy{{.*}}nn.lane = "in", nn.offset = array<i64: 8192>, nn.waits = array<i64: 3, 2>
  %near = "nn.copy"(%far) {nn.lane = "in"} : (tensor<32x32xf32>) -> tensor<32x32xf32>
  // CHECK: nn.matmul{{.*}}nn.offset = array<i64: 12288>, transpose
  %e = "nn.matmul"(%d, %p) {transpose_a = false, transpose_b = false} : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  // CHECK: nn.matmul{{.*}}nn.offset = array<i64: 4096>, nn.waits = array<i64: 5>
  %y = "nn.matmul"(%e, %near) {transpose_a = false, transpose_b = false} : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  return %y : tensor<32x32xf32>
}
