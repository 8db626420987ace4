// Maps of the backward pass that read two large values in common go over them once (the gradients of a gate and of what it lets through); with one in common they stay apart, and where one needs the other first.
// RUN: %nnc_opt %s --passes=fuse | FileCheck %s

// CHECK-LABEL: func.func @gate(
// CHECK: "nn.matmul"
// CHECK-NEXT: %[[BOTH:.*]]:2 = call @kernel_{{[0-9]+}}(
// CHECK-NEXT: "nn.matmul"(%[[BOTH]]#
// CHECK-NEXT: "nn.matmul"(%[[BOTH]]#
// CHECK-NEXT: return
func.func @gate(%g: tensor<64x32xf32>, %u: tensor<64x32xf32>, %d: tensor<64x8xf32>, %w: tensor<8x32xf32>, %v: tensor<32x8xf32>) -> (tensor<64x8xf32>, tensor<64x8xf32>) {
  %dh = "nn.matmul"(%d, %w) {nn.phase = "backward", transpose_a = false, transpose_b = false} : (tensor<64x8xf32>, tensor<8x32xf32>) -> tensor<64x32xf32>
  %s = "nn.sigmoid"(%g) {nn.phase = "backward"} : (tensor<64x32xf32>) -> tensor<64x32xf32>
  %du = "nn.mul"(%dh, %s) {nn.phase = "backward"} : (tensor<64x32xf32>, tensor<64x32xf32>) -> tensor<64x32xf32>
  %a = "nn.matmul"(%du, %v) {nn.phase = "backward", transpose_a = false, transpose_b = false} : (tensor<64x32xf32>, tensor<32x8xf32>) -> tensor<64x8xf32>
  %t = "nn.tanh"(%g) {nn.phase = "backward"} : (tensor<64x32xf32>) -> tensor<64x32xf32>
  %p = "nn.mul"(%dh, %t) {nn.phase = "backward"} : (tensor<64x32xf32>, tensor<64x32xf32>) -> tensor<64x32xf32>
  %dg = "nn.mul"(%p, %u) {nn.phase = "backward"} : (tensor<64x32xf32>, tensor<64x32xf32>) -> tensor<64x32xf32>
  %b = "nn.matmul"(%dg, %v) {nn.phase = "backward", transpose_a = false, transpose_b = false} : (tensor<64x32xf32>, tensor<32x8xf32>) -> tensor<64x8xf32>
  return %a, %b : tensor<64x8xf32>, tensor<64x8xf32>
}

// CHECK-LABEL: func.func @apart(
// CHECK: "nn.matmul"
// CHECK-COUNT-2: call @kernel_
// CHECK: return
func.func @apart(%g: tensor<64x32xf32>, %u: tensor<64x32xf32>, %d: tensor<64x8xf32>, %w: tensor<8x32xf32>) -> (tensor<64x32xf32>, tensor<64x32xf32>) {
  %dh = "nn.matmul"(%d, %w) {nn.phase = "backward", transpose_a = false, transpose_b = false} : (tensor<64x8xf32>, tensor<8x32xf32>) -> tensor<64x32xf32>
  %a = "nn.mul"(%dh, %g) {nn.phase = "backward"} : (tensor<64x32xf32>, tensor<64x32xf32>) -> tensor<64x32xf32>
  %b = "nn.mul"(%dh, %u) {nn.phase = "backward"} : (tensor<64x32xf32>, tensor<64x32xf32>) -> tensor<64x32xf32>
  return %a, %b : tensor<64x32xf32>, tensor<64x32xf32>
}

// CHECK-LABEL: func.func @between(
// CHECK: %[[A:.*]] = call @kernel_
// CHECK-NEXT: %[[M:.*]] = "nn.matmul"(%[[A]]
// CHECK-NEXT: call @kernel_{{[0-9]+}}({{.*}}%[[M]]
// CHECK-NEXT: return
func.func @between(%g: tensor<64x32xf32>, %u: tensor<64x32xf32>, %w: tensor<32x32xf32>) -> tensor<64x32xf32> {
  %a = "nn.mul"(%u, %g) {nn.phase = "backward"} : (tensor<64x32xf32>, tensor<64x32xf32>) -> tensor<64x32xf32>
  %m = "nn.matmul"(%a, %w) {nn.phase = "backward", transpose_a = false, transpose_b = false} : (tensor<64x32xf32>, tensor<32x32xf32>) -> tensor<64x32xf32>
  %s = "nn.sub"(%u, %g) {nn.phase = "backward"} : (tensor<64x32xf32>, tensor<64x32xf32>) -> tensor<64x32xf32>
  %b = "nn.mul"(%s, %m) {nn.phase = "backward"} : (tensor<64x32xf32>, tensor<64x32xf32>) -> tensor<64x32xf32>
  return %b : tensor<64x32xf32>
}
