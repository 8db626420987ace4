// The mask of a gradient reads the bias that its sum is to update: in one kernel the new bias could not be written in place, and would be copied there. Where updates share launches it is a kernel of its own.
// RUN: %nnc_opt %s --target=cuda --passes='fuse,inplace' | FileCheck %s
// RUN: %nnc_opt %s --passes='fuse,inplace' | FileCheck %s --check-prefix=HOST

// CHECK: func.func @train
// CHECK-NOT: nn.copy_back
// CHECK: %[[DB:.*]] = call @[[SUM:kernel_[0-9]+]](%arg0, %arg1, %arg2)
// CHECK-NEXT: %[[B:.*]] = call @[[UPDATE:kernel_[0-9]+]](%arg1, %[[DB]]) {{.*}}nn.inplace = array<i64: 0, 0>
// CHECK-NEXT: return %[[B]]
// CHECK: func.func private @[[SUM]]{{.*}}nn.kind = "column"
// CHECK: func.func private @[[UPDATE]]{{.*}}nn.kind = "map"
// HOST: nn.copy_back
// HOST: %[[B:.*]] = call @{{kernel_[0-9]+}}(
// HOST-NEXT: return %[[B]]
func.func @train(%x: tensor<256x32xf32> {nn.role = "input"}, %bias: tensor<32xf32> {nn.role = "param", nn.name = "bias"}, %dy: tensor<256x32xf32> {nn.role = "input"})
    -> (tensor<32xf32> {nn.role = "update", nn.tied = 1 : i64}) {
  %wide = "nn.broadcast"(%bias) {dims = array<i64: 1>, nn.phase = "backward"} : (tensor<32xf32>) -> tensor<256x32xf32>
  %h = "nn.add"(%x, %wide) {nn.phase = "backward"} : (tensor<256x32xf32>, tensor<256x32xf32>) -> tensor<256x32xf32>
  %t = "nn.tanh"(%h) {nn.phase = "backward"} : (tensor<256x32xf32>) -> tensor<256x32xf32>
  %dx = "nn.mul"(%t, %dy) {nn.phase = "backward"} : (tensor<256x32xf32>, tensor<256x32xf32>) -> tensor<256x32xf32>
  %db = "nn.reduce_sum"(%dx) {axes = array<i64: 0>, nn.phase = "backward"} : (tensor<256x32xf32>) -> tensor<32xf32>
  %new = "nn.sub"(%bias, %db) {nn.phase = "update"} : (tensor<32xf32>, tensor<32xf32>) -> tensor<32xf32>
  return %new : tensor<32xf32>
}
