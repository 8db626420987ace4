// What @train updates counts as overwritten in @accumulate too, where nothing updates it: both have the same kernels, so that a micro-batch's
// gradients are the same bits in both. Where no @train updates it the value is computed again.
// RUN: %nnc_opt %s --passes=fuse | FileCheck %s
// RUN: sed 's/@train/@eval/' %s | %nnc_opt --passes=fuse - | FileCheck %s --check-prefix=ALONE
// CHECK-LABEL: func.func @accumulate
// CHECK-NEXT: %[[K:.*]]:2 = call @kernel_{{[0-9]+}}(%arg0, %arg1)
// CHECK-NEXT: %[[Y:.*]] = "nn.matmul"(%[[K]]
// CHECK-NEXT: call @kernel_{{[0-9]+}}(%[[K]]#{{[0-9]}}, %[[Y]])
// ALONE-LABEL: func.func @accumulate
// ALONE-NEXT: %[[E:.*]] = call @kernel_{{[0-9]+}}(%arg0, %arg1)
// ALONE-NEXT: %[[Y:.*]] = "nn.matmul"(%[[E]], %[[E]])
// ALONE-NEXT: call @kernel_{{[0-9]+}}(%arg0, %arg1, %[[Y]])
func.func @accumulate(%p: tensor<64x64xf32> {nn.role = "param", nn.name = "p"}, %x: tensor<64x64xf32> {nn.role = "input", nn.name = "x"}) -> tensor<64x64xf32> {
  %c = "nn.mul"(%p, %x) {nn.phase = "backward"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %e = "nn.exp"(%c) {nn.phase = "backward"} : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %y = "nn.matmul"(%e, %e) {transpose_a = false, transpose_b = false, nn.phase = "backward"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %z = "nn.sub"(%c, %y) {nn.phase = "backward"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %z : tensor<64x64xf32>
}
func.func @train(%p: tensor<64x64xf32> {nn.role = "param", nn.name = "p"}, %x: tensor<64x64xf32> {nn.role = "input", nn.name = "x"})
    -> (tensor<64x64xf32> {nn.role = "update", nn.tied = 0 : i64}) {
  %n = "nn.sub"(%p, %x) {nn.phase = "update"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %n : tensor<64x64xf32>
}
