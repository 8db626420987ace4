// A model of two outputs keeps both: the first is not fetched chunk by chunk, whatever its size.
// RUN: %nnc_opt %s '--passes=chunk{rows=128 bytes=1K}' --target=cuda --gpu-arch=sm_90 | FileCheck %s
// CHECK-LABEL: func.func @predict
// CHECK-NOT: nn.tap
// CHECK: return %{{[0-9]+}}, %{{[0-9]+}} : tensor<300x64xf32>, tensor<300x8xf32>
func.func @predict(%x: tensor<300x8xf32>, %w: tensor<8x64xf32>) -> (tensor<300x64xf32> {nn.name = "m.0", nn.role = "output"}, tensor<300x8xf32> {nn.name = "m.1", nn.role = "output"}) {
  %y = "nn.matmul"(%x, %w) {transpose_a = false, transpose_b = false} : (tensor<300x8xf32>, tensor<8x64xf32>) -> tensor<300x64xf32>
  %z = "nn.relu"(%x) : (tensor<300x8xf32>) -> tensor<300x8xf32>
  return %y, %z : tensor<300x64xf32>, tensor<300x8xf32>
}
