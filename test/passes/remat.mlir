// Recomputation in visible regions; what it may not repeat; the budget.
// RUN: %nnc_opt %s --passes='fuse,schedule,remat' | FileCheck %s --check-prefix=NONE
// RUN: %nnc_opt %s --passes='fuse,schedule,remat{policy=manual}' | FileCheck %s --check-prefix=MANUAL
// RUN: %nnc_opt %s --cpu=x86-64-v3 --passes='fuse,schedule,remat{policy=sqrt},inplace,plan' | FileCheck %s --check-prefix=SQRT
// RUN: %nnc_opt %s --passes='fuse,schedule,remat{budget=170KiB},inplace,plan{budget=170KiB}' | FileCheck %s --check-prefix=BUDGET
// RUN: %nnc_opt %s --passes='fuse,schedule,remat{budget=85%%},inplace,plan' | FileCheck %s --check-prefix=BUDGET
// RUN: not %nnc_opt %s --passes='fuse,schedule,remat{budget=20KiB}' 2>&1 | FileCheck %s --check-prefix=OVER
// RUN: not %nnc_opt %s --passes='fuse,schedule,remat{budget=170KiB policy=none}' 2>&1 | FileCheck %s --check-prefix=NOT-NONE

// OVER: memory budget 20KiB cannot be met: the smallest budget found is {{[0-9.]+}} KiB
// NOT-NONE: memory budget 170KiB cannot be met: the smallest budget found is {{[0-9.]+}} KiB

// Four layers of x = tanh(x * w), their gradients and updates; the second activation is marked.
// NONE-LABEL: func.func @train
// NONE-SAME: nn.overhead = 0.000000e+00 : f64, nn.remat = "none"
// NONE-NOT: scf.execute_region
// NONE: "nn.checkpoint"

// The originals that run again have a name and the clones refer to it. What is marked (matmul.2 and its tanh) does not run again, nor
// do updates.
// MANUAL-LABEL: func.func @train
// MANUAL-SAME: nn.remat = "manual"
// MANUAL-NOT: "nn.checkpoint"
// MANUAL: %[[M0:.*]] = "nn.matmul"(%arg0, %arg1) {nn.name = "matmul.0"
// MANUAL-NEXT: %[[H0:.*]] = call @[[TANH:kernel_[0-9]+]](%[[M0]]) {{{.*}}nn.name = "[[TANH]].1"
// MANUAL-NOT: nn.recompute = "matmul.2
// MANUAL-NOT: phase = "update", nn.recompute
// MANUAL: %[[AGAIN:.*]] = scf.execute_region -> tensor<256x32xf32> no_inline {
// MANUAL-NEXT: %[[M:.*]] = "nn.matmul"(%arg0, %arg1) {nn.offset = [[AT:.*]], nn.phase = "forward", nn.recompute = "matmul.0"
// MANUAL-NEXT: %[[H:.*]] = func.call @[[TANH]](%[[M]]) {nn.inplace = array<i64: 0, 0>, nn.offset = [[AT]], nn.phase = "forward", nn.recompute = "[[TANH]].1"}
// MANUAL-NEXT: scf.yield %[[H]]
// MANUAL-NEXT: } {nn.recompute = "matmul.0, [[TANH]].1"}
// MANUAL-NEXT: "nn.matmul"(%[[AGAIN]],
// MANUAL-NOT: nn.recompute
// MANUAL: return

// Four activations of 32 KiB are held without recomputation.
// SQRT-LABEL: func.func @train
// SQRT-SAME: nn.activations_none = 131136 : i64, nn.arena = {{1[0-9]+}} : i64, nn.arena_none = 221248 : i64
// SQRT-SAME: nn.remat = "sqrt"
// SQRT: scf.execute_region

// BUDGET-LABEL: func.func @train
// BUDGET-SAME: nn.remat = "auto"
// BUDGET: scf.execute_region
// BUDGET: nn.recompute
// BUDGET-LABEL: func.func @eval
// BUDGET-NOT: scf.execute_region
func.func @train(%x: tensor<256x32xf32> {nn.role = "input", nn.name = "x"}, %w0: tensor<32x32xf32> {nn.role = "param", nn.name = "w0"}, %w1: tensor<32x32xf32> {nn.role = "param", nn.name = "w1"}, %w2: tensor<32x32xf32> {nn.role = "param", nn.name = "w2"}, %w3: tensor<32x32xf32> {nn.role = "param", nn.name = "w3"})
    -> (tensor<f32> {nn.role = "loss", nn.name = "loss"}, tensor<32x32xf32> {nn.role = "update", nn.tied = 1 : i64}, tensor<32x32xf32> {nn.role = "update", nn.tied = 2 : i64}, tensor<32x32xf32> {nn.role = "update", nn.tied = 3 : i64}, tensor<32x32xf32> {nn.role = "update", nn.tied = 4 : i64}) {
  %m0 = "nn.matmul"(%x, %w0) {transpose_a = false, transpose_b = false, nn.phase = "forward"} : (tensor<256x32xf32>, tensor<32x32xf32>) -> tensor<256x32xf32>
  %h0 = "nn.tanh"(%m0) {nn.phase = "forward"} : (tensor<256x32xf32>) -> tensor<256x32xf32>
  %m1 = "nn.matmul"(%h0, %w1) {transpose_a = false, transpose_b = false, nn.phase = "forward"} : (tensor<256x32xf32>, tensor<32x32xf32>) -> tensor<256x32xf32>
  %h1 = "nn.tanh"(%m1) {nn.phase = "forward"} : (tensor<256x32xf32>) -> tensor<256x32xf32>
  "nn.checkpoint"(%h1) : (tensor<256x32xf32>) -> ()
  %m2 = "nn.matmul"(%h1, %w2) {transpose_a = false, transpose_b = false, nn.phase = "forward"} : (tensor<256x32xf32>, tensor<32x32xf32>) -> tensor<256x32xf32>
  %h2 = "nn.tanh"(%m2) {nn.phase = "forward"} : (tensor<256x32xf32>) -> tensor<256x32xf32>
  %m3 = "nn.matmul"(%h2, %w3) {transpose_a = false, transpose_b = false, nn.phase = "forward"} : (tensor<256x32xf32>, tensor<32x32xf32>) -> tensor<256x32xf32>
  %h3 = "nn.tanh"(%m3) {nn.phase = "forward"} : (tensor<256x32xf32>) -> tensor<256x32xf32>
  %loss = "nn.reduce_sum"(%h3) {axes = array<i64: 0, 1>, nn.phase = "forward"} : (tensor<256x32xf32>) -> tensor<f32>
  %one = "nn.constant"() {value = 1.0 : f64, nn.phase = "backward"} : () -> tensor<256x32xf32>
  %s3 = "nn.mul"(%h3, %h3) {nn.phase = "backward"} : (tensor<256x32xf32>, tensor<256x32xf32>) -> tensor<256x32xf32>
  %t3 = "nn.sub"(%one, %s3) {nn.phase = "backward"} : (tensor<256x32xf32>, tensor<256x32xf32>) -> tensor<256x32xf32>
  %g3 = "nn.mul"(%one, %t3) {nn.phase = "backward"} : (tensor<256x32xf32>, tensor<256x32xf32>) -> tensor<256x32xf32>
  %dw3 = "nn.matmul"(%h2, %g3) {transpose_a = true, transpose_b = false, nn.phase = "backward"} : (tensor<256x32xf32>, tensor<256x32xf32>) -> tensor<32x32xf32>
  %d3 = "nn.matmul"(%g3, %w3) {transpose_a = false, transpose_b = true, nn.phase = "backward"} : (tensor<256x32xf32>, tensor<32x32xf32>) -> tensor<256x32xf32>
  %s2 = "nn.mul"(%h2, %h2) {nn.phase = "backward"} : (tensor<256x32xf32>, tensor<256x32xf32>) -> tensor<256x32xf32>
  %t2 = "nn.sub"(%one, %s2) {nn.phase = "backward"} : (tensor<256x32xf32>, tensor<256x32xf32>) -> tensor<256x32xf32>
  %g2 = "nn.mul"(%d3, %t2) {nn.phase = "backward"} : (tensor<256x32xf32>, tensor<256x32xf32>) -> tensor<256x32xf32>
  %dw2 = "nn.matmul"(%h1, %g2) {transpose_a = true, transpose_b = false, nn.phase = "backward"} : (tensor<256x32xf32>, tensor<256x32xf32>) -> tensor<32x32xf32>
  %d2 = "nn.matmul"(%g2, %w2) {transpose_a = false, transpose_b = true, nn.phase = "backward"} : (tensor<256x32xf32>, tensor<32x32xf32>) -> tensor<256x32xf32>
  %s1 = "nn.mul"(%h1, %h1) {nn.phase = "backward"} : (tensor<256x32xf32>, tensor<256x32xf32>) -> tensor<256x32xf32>
  %t1 = "nn.sub"(%one, %s1) {nn.phase = "backward"} : (tensor<256x32xf32>, tensor<256x32xf32>) -> tensor<256x32xf32>
  %g1 = "nn.mul"(%d2, %t1) {nn.phase = "backward"} : (tensor<256x32xf32>, tensor<256x32xf32>) -> tensor<256x32xf32>
  %dw1 = "nn.matmul"(%h0, %g1) {transpose_a = true, transpose_b = false, nn.phase = "backward"} : (tensor<256x32xf32>, tensor<256x32xf32>) -> tensor<32x32xf32>
  %d1 = "nn.matmul"(%g1, %w1) {transpose_a = false, transpose_b = true, nn.phase = "backward"} : (tensor<256x32xf32>, tensor<32x32xf32>) -> tensor<256x32xf32>
  %s0 = "nn.mul"(%h0, %h0) {nn.phase = "backward"} : (tensor<256x32xf32>, tensor<256x32xf32>) -> tensor<256x32xf32>
  %t0 = "nn.sub"(%one, %s0) {nn.phase = "backward"} : (tensor<256x32xf32>, tensor<256x32xf32>) -> tensor<256x32xf32>
  %g0 = "nn.mul"(%d1, %t0) {nn.phase = "backward"} : (tensor<256x32xf32>, tensor<256x32xf32>) -> tensor<256x32xf32>
  %dw0 = "nn.matmul"(%x, %g0) {transpose_a = true, transpose_b = false, nn.phase = "backward"} : (tensor<256x32xf32>, tensor<256x32xf32>) -> tensor<32x32xf32>
  %n0 = "nn.sub"(%w0, %dw0) {nn.phase = "update"} : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  %n1 = "nn.sub"(%w1, %dw1) {nn.phase = "update"} : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  %n2 = "nn.sub"(%w2, %dw2) {nn.phase = "update"} : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  %n3 = "nn.sub"(%w3, %dw3) {nn.phase = "update"} : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  return %loss, %n0, %n1, %n2, %n3 : tensor<f32>, tensor<32x32xf32>, tensor<32x32xf32>, tensor<32x32xf32>, tensor<32x32xf32>
}

func.func @eval(%x: tensor<256x32xf32> {nn.role = "input", nn.name = "x"}, %w0: tensor<32x32xf32> {nn.role = "param", nn.name = "w0"}) -> (tensor<256x32xf32> {nn.role = "output", nn.name = "y"}) {
  %m = "nn.matmul"(%x, %w0) {transpose_a = false, transpose_b = false, nn.phase = "forward"} : (tensor<256x32xf32>, tensor<32x32xf32>) -> tensor<256x32xf32>
  return %m : tensor<256x32xf32>
}
