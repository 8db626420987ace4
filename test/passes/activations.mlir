// Activations are results of forward steps that are there while a backward step runs: %a and %c, 2 KiB. What the forward pass
// holds at its own peak, 6 KiB with %b, and results of backward steps, are none.
// RUN: %nnc_opt %s --passes=remat | FileCheck %s
// CHECK: nn.activations_none = 2048 : i64
func.func @train(%x: tensor<16x16xf32> {nn.role = "input", nn.name = "x"}, %w: tensor<16x64xf32> {nn.role = "input", nn.name = "w"}) -> (tensor<16x64xf32> {nn.role = "output", nn.name = "y"}) {
  %a = "nn.matmul"(%x, %x) {transpose_a = false, transpose_b = false, nn.phase = "forward"} : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
  %b = "nn.matmul"(%a, %w) {transpose_a = false, transpose_b = false, nn.phase = "forward"} : (tensor<16x16xf32>, tensor<16x64xf32>) -> tensor<16x64xf32>
  %c = "nn.matmul"(%b, %b) {transpose_a = false, transpose_b = true, nn.phase = "forward"} : (tensor<16x64xf32>, tensor<16x64xf32>) -> tensor<16x16xf32>
  %d = "nn.matmul"(%a, %c) {transpose_a = false, transpose_b = false, nn.phase = "backward"} : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
  %e = "nn.matmul"(%d, %w) {transpose_a = false, transpose_b = false, nn.phase = "backward"} : (tensor<16x16xf32>, tensor<16x64xf32>) -> tensor<16x64xf32>
  return %e : tensor<16x64xf32>
}
