// The gradient of a norm: one kernel sums over the columns, another one over the rows. What both are made of is computed in each of them, though the second reads the norm's weight, which is to be overwritten, if the update is a kernel of its own; where the sums' kernel overwrites it, it hands on what the weight was used for.
// RUN: %nnc_opt %s --passes=fuse | FileCheck %s

// CHECK-LABEL: func.func @train(
// CHECK: %[[DY:.*]] = "nn.matmul"
// CHECK: %[[DW:.*]] = call @kernel_{{[0-9]+}}(%[[DY]], %arg5, %arg0) {nn.phase = "backward"} : {{.*}} -> tensor<32xf32>
// CHECK: call @kernel_{{[0-9]+}}({{.*}}%[[DY]], %arg5, %arg3, {{.*}}) {nn.phase = "backward"} : {{.*}} -> tensor<256x32xf32>
// CHECK: "nn.matmul"
// CHECK-LABEL: func.func @train.together(
// CHECK: "nn.matmul"
// CHECK: %[[BOTH:.*]]:2 = call @kernel_{{[0-9]+}}({{.*}}) {nn.phase = "update"} : {{.*}} -> (tensor<256x32xf32>, tensor<32xf32>)
// CHECK-NEXT: call @kernel_{{[0-9]+}}(%[[BOTH]]#0, %arg0)
// CHECK: "nn.matmul"
func.func @train(%x: tensor<256x32xf32>, %d: tensor<256x16xf32>, %m: tensor<16x32xf32>, %w: tensor<32xf32> {nn.role = "param", nn.name = "w"}, %n: tensor<32x8xf32>, %e: tensor<256x32xf32>)
    -> (tensor<256x8xf32>, tensor<32xf32> {nn.tied = 3 : i64, nn.role = "update", nn.name = "w"}) {
  %d1 = "nn.matmul"(%d, %m) {nn.phase = "backward", transpose_a = false, transpose_b = false} : (tensor<256x16xf32>, tensor<16x32xf32>) -> tensor<256x32xf32>
  %dy = "nn.add"(%d1, %e) {nn.phase = "backward"} : (tensor<256x32xf32>, tensor<256x32xf32>) -> tensor<256x32xf32>
  %p = "nn.mul"(%dy, %x) {nn.phase = "backward"} : (tensor<256x32xf32>, tensor<256x32xf32>) -> tensor<256x32xf32>
  %dw = "nn.reduce_sum"(%p) {axes = array<i64: 0>, nn.phase = "backward"} : (tensor<256x32xf32>) -> tensor<32xf32>
  %b = "nn.broadcast"(%w) {dims = array<i64: 1>, nn.phase = "backward"} : (tensor<32xf32>) -> tensor<256x32xf32>
  %t = "nn.mul"(%dy, %b) {nn.phase = "backward"} : (tensor<256x32xf32>, tensor<256x32xf32>) -> tensor<256x32xf32>
  %u = "nn.mul"(%t, %x) {nn.phase = "backward"} : (tensor<256x32xf32>, tensor<256x32xf32>) -> tensor<256x32xf32>
  %s = "nn.reduce_sum"(%u) {axes = array<i64: 1>, nn.phase = "backward"} : (tensor<256x32xf32>) -> tensor<256xf32>
  %sb = "nn.broadcast"(%s) {dims = array<i64: 0>, nn.phase = "backward"} : (tensor<256xf32>) -> tensor<256x32xf32>
  %q = "nn.mul"(%sb, %x) {nn.phase = "backward"} : (tensor<256x32xf32>, tensor<256x32xf32>) -> tensor<256x32xf32>
  %dx = "nn.sub"(%t, %q) {nn.phase = "backward"} : (tensor<256x32xf32>, tensor<256x32xf32>) -> tensor<256x32xf32>
  %y = "nn.matmul"(%dx, %n) {nn.phase = "backward", transpose_a = false, transpose_b = false} : (tensor<256x32xf32>, tensor<32x8xf32>) -> tensor<256x8xf32>
  %k = "nn.optimization_barrier"(%dw) {nn.phase = "backward"} : (tensor<32xf32>) -> tensor<32xf32>
  %new = "nn.sub"(%w, %k) {nn.phase = "update"} : (tensor<32xf32>, tensor<32xf32>) -> tensor<32xf32>
  return %y, %new : tensor<256x8xf32>, tensor<32xf32>
}

func.func @train.together(%x: tensor<256x32xf32>, %d: tensor<256x16xf32>, %m: tensor<16x32xf32>, %w: tensor<32xf32> {nn.role = "param", nn.name = "w"}, %n: tensor<32x8xf32>, %e: tensor<256x32xf32>)
    -> (tensor<256x8xf32>, tensor<32xf32> {nn.tied = 3 : i64, nn.role = "update", nn.name = "w"}) {
  %d1 = "nn.matmul"(%d, %m) {nn.phase = "backward", transpose_a = false, transpose_b = false} : (tensor<256x16xf32>, tensor<16x32xf32>) -> tensor<256x32xf32>
  %dy = "nn.add"(%d1, %e) {nn.phase = "backward"} : (tensor<256x32xf32>, tensor<256x32xf32>) -> tensor<256x32xf32>
  %p = "nn.mul"(%dy, %x) {nn.phase = "backward"} : (tensor<256x32xf32>, tensor<256x32xf32>) -> tensor<256x32xf32>
  %dw = "nn.reduce_sum"(%p) {axes = array<i64: 0>, nn.phase = "backward"} : (tensor<256x32xf32>) -> tensor<32xf32>
  %b = "nn.broadcast"(%w) {dims = array<i64: 1>, nn.phase = "backward"} : (tensor<32xf32>) -> tensor<256x32xf32>
  %t = "nn.mul"(%dy, %b) {nn.phase = "backward"} : (tensor<256x32xf32>, tensor<256x32xf32>) -> tensor<256x32xf32>
  %u = "nn.mul"(%t, %x) {nn.phase = "backward"} : (tensor<256x32xf32>, tensor<256x32xf32>) -> tensor<256x32xf32>
  %s = "nn.reduce_sum"(%u) {axes = array<i64: 1>, nn.phase = "backward"} : (tensor<256x32xf32>) -> tensor<256xf32>
  %sb = "nn.broadcast"(%s) {dims = array<i64: 0>, nn.phase = "backward"} : (tensor<256xf32>) -> tensor<256x32xf32>
  %q = "nn.mul"(%sb, %x) {nn.phase = "backward"} : (tensor<256x32xf32>, tensor<256x32xf32>) -> tensor<256x32xf32>
  %dx = "nn.sub"(%t, %q) {nn.phase = "backward"} : (tensor<256x32xf32>, tensor<256x32xf32>) -> tensor<256x32xf32>
  %y = "nn.matmul"(%dx, %n) {nn.phase = "backward", transpose_a = false, transpose_b = false} : (tensor<256x32xf32>, tensor<32x8xf32>) -> tensor<256x8xf32>
  %new = "nn.sub"(%w, %dw) {nn.phase = "update"} : (tensor<32xf32>, tensor<32xf32>) -> tensor<32xf32>
  return %y, %new : tensor<256x8xf32>, tensor<32xf32>
}
