// What is not read for `far` ops goes away on the lane out and comes back on the lane in: %a, between the second product
// and the last. What is read near (%b, %c) and what is returned stays.
// RUN: %nnc_opt %s --passes='offload{far=3 late=1 early=1}' | FileCheck %s
// RUN: %nnc_opt %s --passes='offload{far=3 late=1 early=1},inplace,plan,check' | FileCheck %s --check-prefix=PLAN
// RUN: %nnc_opt %s --passes=offload | FileCheck %s --check-prefix=NONE
// RUN: %nnc_opt %s --passes='offload{far=9}' | FileCheck %s --check-prefix=NONE

// CHECK: %[[A:.*]] = "nn.matmul"(%arg0, %arg0)
// CHECK-NEXT: %[[B:.*]] = "nn.matmul"(%[[A]], %arg0)
// CHECK-NEXT: %[[C:.*]] = "nn.matmul"(%[[B]], %arg0)
// CHECK-NEXT: %[[AWAY:.*]] = "nn.copy"(%[[A]]) {nn.lane = "out"}
// CHECK-NEXT: %[[D:.*]] = "nn.matmul"(%[[C]], %arg0)
// CHECK-NEXT: %[[BACK:.*]] = "nn.copy"(%[[AWAY]]) {nn.lane = "in"}
// CHECK-NEXT: %[[E:.*]] = "nn.matmul"(%[[D]], %arg0)
// CHECK-NEXT: %[[F:.*]] = "nn.matmul"(%[[E]], %[[BACK]])
// CHECK-NEXT: return %[[F]]

// PLAN: "nn.copy"({{.*}}nn.lane = "out"{{.*}}nn.waits = array<i64: 0>
// PLAN: "nn.copy"({{.*}}nn.lane = "in"

// NONE-NOT: nn.copy
// NONE: return
func.func @train(%x: tensor<32x32xf32> {nn.role = "input", nn.name = "x"}) -> (tensor<32x32xf32> {nn.role = "output", nn.name = "y"}) {
  %a = "nn.matmul"(%x, %x) {transpose_a = false, transpose_b = false} : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  %b = "nn.matmul"(%a, %x) {transpose_a = false, transpose_b = false} : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  %c = "nn.matmul"(%b, %x) {transpose_a = false, transpose_b = false} : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  %d = "nn.matmul"(%c, %x) {transpose_a = false, transpose_b = false} : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  %e = "nn.matmul"(%d, %x) {transpose_a = false, transpose_b = false} : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  %f = "nn.matmul"(%e, %a) {transpose_a = false, transpose_b = false} : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  return %f : tensor<32x32xf32>
}
