// Kernels that go over a convolution's result become part of it, on a target that can.
// RUN: %nnc_opt %s --target=cuda --gpu-arch=sm_80 --passes=fuse,epilogue | FileCheck %s
// RUN: %nnc_opt %s --passes=fuse,epilogue | FileCheck %s --check-prefix=HOST
// HOST-NOT: _conv

// A map that alone reads the result: what it needs besides comes first, then the convolution's operands. The kernel by itself is gone.
// CHECK-LABEL: func.func @activation
// CHECK-NEXT: %[[Y:.*]] = call @[[ACT:kernel_[0-9]+_conv]](%arg2, %arg0, %arg1) {nn.phase = "forward"}
// CHECK-NEXT: return %[[Y]]
func.func @activation(%x: tensor<2x8x8x32xf32>, %w: tensor<64x32x3x3xf32>, %b: tensor<64xf32>) -> tensor<2x8x8x64xf32> {
  %0 = "nn.conv2d"(%x, %w) {strides = array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>, layout = "nhwc", nn.phase = "forward"} : (tensor<2x8x8x32xf32>, tensor<64x32x3x3xf32>) -> tensor<2x8x8x64xf32>
  %1 = "nn.broadcast"(%b) {dims = array<i64: 3>, nn.phase = "forward"} : (tensor<64xf32>) -> tensor<2x8x8x64xf32>
  %2 = "nn.add"(%0, %1) {nn.phase = "forward"} : (tensor<2x8x8x64xf32>, tensor<2x8x8x64xf32>) -> tensor<2x8x8x64xf32>
  %3 = "nn.relu"(%2) {nn.phase = "forward"} : (tensor<2x8x8x64xf32>) -> tensor<2x8x8x64xf32>
  return %3 : tensor<2x8x8x64xf32>
}

// The first reader takes it; the other gets the convolution's result from there.
// CHECK-LABEL: func.func @statistics
// CHECK-NEXT: %[[S:.*]]:3 = call @[[STATS:kernel_[0-9]+_conv]](%arg0, %arg1) {nn.phase = "forward"}
// CHECK-NEXT: %[[N:.*]] = call @kernel_{{[0-9]+}}(%[[S]]#2, %[[S]]#0)
// CHECK-NEXT: return %[[N]], %[[S]]#1
func.func @statistics(%x: tensor<2x8x8x32xf32>, %w: tensor<64x32x1x1xf32>) -> (tensor<2x8x8x64xf32>, tensor<64xf32>) {
  %0 = "nn.conv2d"(%x, %w) {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, layout = "nhwc", nn.phase = "forward"} : (tensor<2x8x8x32xf32>, tensor<64x32x1x1xf32>) -> tensor<2x8x8x64xf32>
  %1:2 = "nn.moments"(%0) {axes = array<i64: 0, 1, 2>, nn.phase = "forward"} : (tensor<2x8x8x64xf32>) -> (tensor<64xf32>, tensor<64xf32>)
  %2 = "nn.broadcast"(%1#0) {dims = array<i64: 3>, nn.phase = "forward"} : (tensor<64xf32>) -> tensor<2x8x8x64xf32>
  %3 = "nn.sub"(%0, %2) {nn.phase = "forward"} : (tensor<2x8x8x64xf32>, tensor<2x8x8x64xf32>) -> tensor<2x8x8x64xf32>
  return %3, %1#1 : tensor<2x8x8x64xf32>, tensor<64xf32>
}

// A convolution of few channels has no code for it.
// CHECK-LABEL: func.func @narrow
// CHECK: "nn.conv2d"
// CHECK-NEXT: call @kernel_{{[0-9]+}}(
func.func @narrow(%x: tensor<2x8x8x3xf32>, %w: tensor<64x3x1x1xf32>) -> tensor<2x8x8x64xf32> {
  %0 = "nn.conv2d"(%x, %w) {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, layout = "nhwc", nn.phase = "forward"} : (tensor<2x8x8x3xf32>, tensor<64x3x1x1xf32>) -> tensor<2x8x8x64xf32>
  %1 = "nn.relu"(%0) {nn.phase = "forward"} : (tensor<2x8x8x64xf32>) -> tensor<2x8x8x64xf32>
  return %1 : tensor<2x8x8x64xf32>
}

// Not before what has to come first: a kernel of the backward pass does not take a forward convolution with it, and a convolution stays
// before the update of the weight that it reads.
// CHECK-LABEL: func.func @phases
// CHECK: "nn.conv2d"
// CHECK-NEXT: call @kernel_{{[0-9]+}}(
func.func @phases(%x: tensor<2x8x8x32xf32>, %w: tensor<64x32x1x1xf32>) -> tensor<2x8x8x64xf32> {
  %0 = "nn.conv2d"(%x, %w) {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, layout = "nhwc", nn.phase = "forward"} : (tensor<2x8x8x32xf32>, tensor<64x32x1x1xf32>) -> tensor<2x8x8x64xf32>
  %1 = "nn.relu"(%0) {nn.phase = "backward"} : (tensor<2x8x8x64xf32>) -> tensor<2x8x8x64xf32>
  return %1 : tensor<2x8x8x64xf32>
}

// CHECK-LABEL: func.func @overwritten
// CHECK: %[[Y:.*]] = "nn.conv2d"(%arg0, %arg1)
// CHECK: call @kernel_{{[0-9]+}}(%arg1, %arg2)
// CHECK: call @kernel_{{[0-9]+}}(%[[Y]])
func.func @overwritten(%x: tensor<2x8x8x32xf32>, %w: tensor<64x32x1x1xf32> {nn.role = "param", nn.name = "w"}, %g: tensor<64x32x1x1xf32>)
    -> (tensor<64x32x1x1xf32> {nn.role = "update", nn.tied = 1 : i64}, tensor<2x8x8x64xf32>) {
  %0 = "nn.conv2d"(%x, %w) {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, layout = "nhwc", nn.phase = "backward"} : (tensor<2x8x8x32xf32>, tensor<64x32x1x1xf32>) -> tensor<2x8x8x64xf32>
  %1 = "nn.sub"(%w, %g) {nn.phase = "update"} : (tensor<64x32x1x1xf32>, tensor<64x32x1x1xf32>) -> tensor<64x32x1x1xf32>
  %2 = "nn.relu"(%0) {nn.phase = "update"} : (tensor<2x8x8x64xf32>) -> tensor<2x8x8x64xf32>
  return %1, %2 : tensor<64x32x1x1xf32>, tensor<2x8x8x64xf32>
}

// Equal convolutions in front of equal kernels are one function; the same tensor given to both is one argument.
// CHECK-LABEL: func.func @residual
// CHECK-NEXT: %[[A:.*]] = call @[[RES:kernel_[0-9]+_conv]](%arg0, %arg1)
// CHECK-NEXT: call @[[RES]](%[[A]], %arg2)
// CHECK: func.func private @[[RES]](%arg0: tensor<2x8x8x64xf32>, %arg1: tensor<64x64x1x1xf32>) -> tensor<2x8x8x64xf32>
// CHECK-SAME: nn.kind = "map", nn.label = "conv2d+add"
// CHECK-NEXT: %[[Y:.*]] = "nn.conv2d"(%arg0, %arg1)
// CHECK-NEXT: %[[Z:.*]] = "nn.add"(%[[Y]], %arg0)
// CHECK-NEXT: return %[[Z]]
func.func @residual(%x: tensor<2x8x8x64xf32>, %w: tensor<64x64x1x1xf32>, %v: tensor<64x64x1x1xf32>) -> tensor<2x8x8x64xf32> {
  %0 = "nn.conv2d"(%x, %w) {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, layout = "nhwc", nn.phase = "forward"} : (tensor<2x8x8x64xf32>, tensor<64x64x1x1xf32>) -> tensor<2x8x8x64xf32>
  %1 = "nn.add"(%0, %x) {nn.phase = "forward"} : (tensor<2x8x8x64xf32>, tensor<2x8x8x64xf32>) -> tensor<2x8x8x64xf32>
  %2 = "nn.conv2d"(%1, %v) {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, layout = "nhwc", nn.phase = "forward"} : (tensor<2x8x8x64xf32>, tensor<64x64x1x1xf32>) -> tensor<2x8x8x64xf32>
  %3 = "nn.add"(%2, %1) {nn.phase = "forward"} : (tensor<2x8x8x64xf32>, tensor<2x8x8x64xf32>) -> tensor<2x8x8x64xf32>
  return %3 : tensor<2x8x8x64xf32>
}
