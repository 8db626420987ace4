// A product of few rows in a loop's step packs a weight of the loop once, in a workspace that no other step uses; one whose second operand is the step's own does not, nor one outside of loops.
// RUN: %nnc_opt %s --passes='simplify,fuse,scan,schedule,inplace,plan,check' -o %t.mlir && FileCheck %s < %t.mlir
// CHECK: func.func @predict
// CHECK: nn.matmul
// CHECK-NOT: nn.packs_once
// CHECK: func.func @loop_body(
// CHECK: nn.matmul{{.*}}nn.packs_once{{.*}}nn.workspace = [[FIRST:[0-9]+]] : i64
// CHECK: nn.matmul
// CHECK-NOT: nn.packs_once
// CHECK: nn.matmul{{.*}}nn.packs_once{{.*}}nn.workspace =
// CHECK-NOT: nn.workspace = [[FIRST]] : i64
// CHECK: return

// Nothing may lie over what is packed, before and behind the product in the order of the step.
// RUN: sed -E '/nn.packs_once/{s/nn.workspace = [0-9]+/nn.workspace = 0/}' %t.mlir > %t.both.mlir && not diff -q %t.mlir %t.both.mlir
// RUN: (%nnc_opt %t.both.mlir --passes=check > %t.log 2>&1; test $? -eq 70) && FileCheck %s --check-prefix=BOTH < %t.log
// BOTH: internal error: memory plan: @loop_body: step 0: another step has overwritten what it packs once
// RUN: sed -E '/call @kernel/{s/nn.offset = array<i64: [0-9]+>/nn.offset = array<i64: 0>/}' %t.mlir > %t.behind.mlir && not diff -q %t.mlir %t.behind.mlir
// RUN: (%nnc_opt %t.behind.mlir --passes=check > %t.log 2>&1; test $? -eq 70) && FileCheck %s --check-prefix=BEHIND < %t.log
// BEHIND: internal error: memory plan: @loop_body: what step 0 packs once is overwritten
func.func @predict(%x: tensor<10x32x256xf32> {nn.name = "x", nn.role = "input"}, %w: tensor<256x256xf32> {nn.name = "w", nn.role = "param", nn.init = "zeros"},
                   %v: tensor<256x256xf32> {nn.name = "v", nn.role = "param", nn.init = "zeros"}) -> (tensor<10x32x256xf32> {nn.name = "y", nn.role = "output"}) {
  %h = "nn.matmul"(%x, %v) {transpose_a = false, transpose_b = true} : (tensor<10x32x256xf32>, tensor<256x256xf32>) -> tensor<10x32x256xf32>
  %y = func.call @loop(%h, %w, %v) {nn.scan, nn.phase = "forward"} : (tensor<10x32x256xf32>, tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<10x32x256xf32>
  return %y : tensor<10x32x256xf32>
}

func.func private @loop(tensor<10x32x256xf32>, tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<10x32x256xf32>
  attributes {nn.kernel, nn.kind = "scan", nn.label = "scan", nn.body = "loop_body", nn.length = 10 : i64, nn.counts = array<i64: 1, 0, 0, 2, 1>}
func.func @loop_body(%x: tensor<32x256xf32>, %w: tensor<256x256xf32>, %v: tensor<256x256xf32>) -> tensor<32x256xf32> attributes {nn.scan_body} {
  %p = "nn.matmul"(%x, %w) {transpose_a = false, transpose_b = true} : (tensor<32x256xf32>, tensor<256x256xf32>) -> tensor<32x256xf32>
  %s = "nn.matmul"(%p, %x) {transpose_a = true, transpose_b = false} : (tensor<32x256xf32>, tensor<32x256xf32>) -> tensor<256x256xf32>
  %t = "nn.tanh"(%s) : (tensor<256x256xf32>) -> tensor<256x256xf32>
  %q = "nn.matmul"(%p, %t) {transpose_a = false, transpose_b = false} : (tensor<32x256xf32>, tensor<256x256xf32>) -> tensor<32x256xf32>
  %r = "nn.matmul"(%q, %v) {transpose_a = false, transpose_b = false} : (tensor<32x256xf32>, tensor<256x256xf32>) -> tensor<32x256xf32>
  return %r : tensor<32x256xf32>
}
