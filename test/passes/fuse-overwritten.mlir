// A value that could be computed again from an argument is stored where its kernel also updates the argument: a later reader would keep
// the update from being done in place. With another argument in its place the value is computed again.
// RUN: %nnc_opt %s --passes=fuse | FileCheck %s
// CHECK-LABEL: func.func @overwritten
// CHECK-NEXT: %[[K:.*]]:3 = call @kernel_{{[0-9]+}}(
// CHECK-NEXT: %[[Y:.*]] = "nn.matmul"(%[[K]]
// CHECK-NEXT: call @kernel_{{[0-9]+}}(%[[K]]#{{[0-9]}}, %[[Y]])
func.func @overwritten(%p: tensor<64x64xf32> {nn.role = "param", nn.name = "p"}, %x: tensor<64x64xf32>)
    -> (tensor<64x64xf32> {nn.role = "update", nn.tied = 0 : i64}, tensor<64x64xf32>) {
  %c = "nn.mul"(%p, %x) {nn.phase = "backward"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %e = "nn.exp"(%c) {nn.phase = "backward"} : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %n = "nn.sub"(%p, %c) {nn.phase = "update"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %y = "nn.matmul"(%e, %e) {transpose_a = false, transpose_b = false, nn.phase = "backward"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %z = "nn.sub"(%c, %y) {nn.phase = "backward"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %n, %z : tensor<64x64xf32>, tensor<64x64xf32>
}

// CHECK-LABEL: func.func @left_alone
// CHECK-NEXT: %[[K:.*]]:2 = call @kernel_{{[0-9]+}}(
// CHECK-NEXT: %[[Y:.*]] = "nn.matmul"(%[[K]]
// CHECK-NEXT: call @kernel_{{[0-9]+}}(%arg2, %arg1, %[[Y]])
func.func @left_alone(%p: tensor<64x64xf32> {nn.role = "param", nn.name = "p"}, %x: tensor<64x64xf32>, %q: tensor<64x64xf32>)
    -> (tensor<64x64xf32> {nn.role = "update", nn.tied = 0 : i64}, tensor<64x64xf32>) {
  %c = "nn.mul"(%q, %x) {nn.phase = "backward"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %e = "nn.exp"(%c) {nn.phase = "backward"} : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %n = "nn.sub"(%p, %c) {nn.phase = "update"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %y = "nn.matmul"(%e, %e) {transpose_a = false, transpose_b = false, nn.phase = "backward"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %z = "nn.sub"(%c, %y) {nn.phase = "backward"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %n, %z : tensor<64x64xf32>, tensor<64x64xf32>
}
