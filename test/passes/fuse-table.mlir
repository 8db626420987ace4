// What is computed of indices alone is computed in every kernel that reads it, but for a table of sines that is repeated many times: it is stored, once.
// RUN: %nnc_opt %s --passes=fuse | FileCheck %s

// CHECK-LABEL: func.func @train
// CHECK: %[[TABLE:.*]] = call @[[SINES:kernel_[0-9]+]]() {nn.phase = "forward"} : () -> tensor<16x8xf32>
// CHECK: %[[Y:.*]] = call @kernel_{{[0-9]+}}(%arg0, %[[TABLE]])
// CHECK: "nn.matmul"(%[[Y]], %arg1)
// CHECK: call @kernel_{{[0-9]+}}(%{{.*}}, %[[TABLE]])
// CHECK: return
// A cheap one, and one that is repeated a few times, are not.
// CHECK: call @[[CHEAP:kernel_[0-9]+]](%arg0)
// CHECK-NEXT: return
// CHECK: call @[[FEW:kernel_[0-9]+]](%arg0)
// CHECK-NEXT: return
func.func @train(%x: tensor<32x16x8xf32>, %w: tensor<8x8xf32>) -> tensor<32x16x8xf32> {
  %i = "nn.iota"() {axis = 0 : i64, nn.phase = "forward"} : () -> tensor<16x8xf32>
  %s = "nn.sin"(%i) {nn.phase = "forward"} : (tensor<16x8xf32>) -> tensor<16x8xf32>
  %b = "nn.broadcast"(%s) {dims = array<i64: 1, 2>, nn.phase = "forward"} : (tensor<16x8xf32>) -> tensor<32x16x8xf32>
  %y = "nn.mul"(%x, %b) {nn.phase = "forward"} : (tensor<32x16x8xf32>, tensor<32x16x8xf32>) -> tensor<32x16x8xf32>
  %m = "nn.matmul"(%y, %w) {nn.phase = "forward", transpose_a = false, transpose_b = false} : (tensor<32x16x8xf32>, tensor<8x8xf32>) -> tensor<32x16x8xf32>
  %z = "nn.mul"(%m, %b) {nn.phase = "backward"} : (tensor<32x16x8xf32>, tensor<32x16x8xf32>) -> tensor<32x16x8xf32>
  return %z : tensor<32x16x8xf32>
}
func.func @eval(%x: tensor<32x16x8xf32>) -> tensor<32x16x8xf32> {
  %i = "nn.iota"() {axis = 0 : i64, nn.phase = "forward"} : () -> tensor<16x8xf32>
  %s = "nn.add"(%i, %i) {nn.phase = "forward"} : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
  %b = "nn.broadcast"(%s) {dims = array<i64: 1, 2>, nn.phase = "forward"} : (tensor<16x8xf32>) -> tensor<32x16x8xf32>
  %y = "nn.mul"(%x, %b) {nn.phase = "forward"} : (tensor<32x16x8xf32>, tensor<32x16x8xf32>) -> tensor<32x16x8xf32>
  return %y : tensor<32x16x8xf32>
}
func.func @predict(%x: tensor<15x16x8xf32>) -> tensor<15x16x8xf32> {
  %i = "nn.iota"() {axis = 0 : i64, nn.phase = "forward"} : () -> tensor<16x8xf32>
  %s = "nn.sin"(%i) {nn.phase = "forward"} : (tensor<16x8xf32>) -> tensor<16x8xf32>
  %b = "nn.broadcast"(%s) {dims = array<i64: 1, 2>, nn.phase = "forward"} : (tensor<16x8xf32>) -> tensor<15x16x8xf32>
  %y = "nn.mul"(%x, %b) {nn.phase = "forward"} : (tensor<15x16x8xf32>, tensor<15x16x8xf32>) -> tensor<15x16x8xf32>
  return %y : tensor<15x16x8xf32>
}

// Rotary positions and their gradient are one kernel each: a wider type of what is in memory, through a reshape, is cast where it is read, and what a map makes of it is not stored to be turned around.
// CHECK-LABEL: func.func @turned
// CHECK: "nn.matmul"
// CHECK-NEXT: "nn.reshape"
// CHECK-NEXT: call @[[TURNED:kernel_[0-9]+]](%{{[0-9]+}}, %arg2)
// CHECK-NEXT: return
// CHECK: func.func private @[[SINES]]()
// CHECK: "nn.sin"
// CHECK: func.func private @[[CHEAP]](
// CHECK: "nn.iota"
// CHECK: func.func private @[[FEW]](
// CHECK: "nn.sin"
// CHECK: func.func private @[[TURNED]](
// CHECK: "nn.slice"({{.*}}strides = array<i64: 1, -1, 1>
func.func @turned(%x: tensor<16x16xbf16>, %w: tensor<16x16xbf16>, %t: tensor<2x8xf32>) -> tensor<16x2x8xf32> {
  %m = "nn.matmul"(%x, %w) {nn.phase = "backward", transpose_a = false, transpose_b = false} : (tensor<16x16xbf16>, tensor<16x16xbf16>) -> tensor<16x16xbf16>
  %r = "nn.reshape"(%m) {nn.phase = "backward"} : (tensor<16x16xbf16>) -> tensor<16x2x8xbf16>
  %c = "nn.cast"(%r) {nn.phase = "backward"} : (tensor<16x2x8xbf16>) -> tensor<16x2x8xf32>
  %b = "nn.broadcast"(%t) {dims = array<i64: 1, 2>, nn.phase = "backward"} : (tensor<2x8xf32>) -> tensor<16x2x8xf32>
  %p = "nn.mul"(%c, %b) {nn.phase = "backward"} : (tensor<16x2x8xf32>, tensor<16x2x8xf32>) -> tensor<16x2x8xf32>
  %s = "nn.slice"(%p) {sizes = array<i64: 16, 2, 8>, starts = array<i64: 0, 1, 0>, strides = array<i64: 1, -1, 1>, nn.phase = "backward"} : (tensor<16x2x8xf32>) -> tensor<16x2x8xf32>
  %y = "nn.add"(%c, %s) {nn.phase = "backward"} : (tensor<16x2x8xf32>, tensor<16x2x8xf32>) -> tensor<16x2x8xf32>
  return %y : tensor<16x2x8xf32>
}
