// Updates that no step can make in the place of what they update, the first as well as the second: products that read both. They are copied at the end.
// RUN: %nnc_opt %s --passes=plan | FileCheck %s
// CHECK: func.func @train{{.*}} -> (tensor<64x64xf32> {nn.copy_back = true, nn.role = "update", nn.tied = 0 : i64}, tensor<64x64xf32> {nn.copy_back = true, nn.role = "update", nn.tied = 1 : i64})
func.func @train(%p: tensor<64x64xf32> {nn.role = "param", nn.name = "p"}, %q: tensor<64x64xf32> {nn.role = "param", nn.name = "q"})
    -> (tensor<64x64xf32> {nn.role = "update", nn.tied = 0 : i64}, tensor<64x64xf32> {nn.role = "update", nn.tied = 1 : i64}) {
  %n = "nn.matmul"(%p, %q) {nn.phase = "update", transpose_a = false, transpose_b = false} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %m = "nn.matmul"(%q, %p) {nn.phase = "update", transpose_a = false, transpose_b = false} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %n, %m : tensor<64x64xf32>, tensor<64x64xf32>
}
