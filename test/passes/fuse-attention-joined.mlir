// Attention whose queries, keys and values are slices of one tensor reads it, and so does its gradient; the bias is added to the whole.
// RUN: %nnc_opt %s --passes=fuse | FileCheck %s

// CHECK-LABEL: func.func @slices
// CHECK-NEXT: %[[X:.*]] = call @[[BIAS:kernel_[0-9]+]](%arg0, %arg1)
// CHECK-NEXT: %[[H:.*]] = "nn.reshape"(%[[X]]) {{.*}} -> tensor<2x16x8x4xf32>
// CHECK-NEXT: %[[O:.*]]:2 = "nn.attention_3"(%[[H]], %[[H]], %[[H]]) {{{.*}}heads = 4 : i64{{.*}} -> (tensor<2x16x4x4xf32>, tensor<2x4x16xf32>)
// CHECK: "nn.attention_grad_packed_6"(%{{.*}}, %{{.*}}, %{{.*}}, %[[O]]#0, %[[O]]#1, %arg2) {{{.*}}heads = 4 : i64
// CHECK-NOT: nn.slice
// CHECK: return
func.func @slices(%y: tensor<2x16x32xf32>, %bias: tensor<32xf32>, %d: tensor<2x16x4x4xf32>) -> (tensor<2x16x4x4xf32>, tensor<2x16x32xf32>) {
  %b = "nn.broadcast"(%bias) {dims = array<i64: 2>} : (tensor<32xf32>) -> tensor<2x16x32xf32>
  %x = "nn.add"(%y, %b) : (tensor<2x16x32xf32>, tensor<2x16x32xf32>) -> tensor<2x16x32xf32>
  %0 = "nn.slice"(%x) {sizes = array<i64: 2, 16, 16>, starts = array<i64: 0, 0, 0>, strides = array<i64: 1, 1, 1>} : (tensor<2x16x32xf32>) -> tensor<2x16x16xf32>
  %1 = "nn.slice"(%x) {sizes = array<i64: 2, 16, 8>, starts = array<i64: 0, 0, 16>, strides = array<i64: 1, 1, 1>} : (tensor<2x16x32xf32>) -> tensor<2x16x8xf32>
  %2 = "nn.slice"(%x) {sizes = array<i64: 2, 16, 8>, starts = array<i64: 0, 0, 24>, strides = array<i64: 1, 1, 1>} : (tensor<2x16x32xf32>) -> tensor<2x16x8xf32>
  %q = "nn.reshape"(%0) : (tensor<2x16x16xf32>) -> tensor<2x16x4x4xf32>
  %k = "nn.reshape"(%1) : (tensor<2x16x8xf32>) -> tensor<2x16x2x4xf32>
  %v = "nn.reshape"(%2) : (tensor<2x16x8xf32>) -> tensor<2x16x2x4xf32>
  %o:2 = "nn.attention_3"(%q, %k, %v) {causal = true, layout = "bthd", scale = 0.5 : f64} : (tensor<2x16x4x4xf32>, tensor<2x16x2x4xf32>, tensor<2x16x2x4xf32>) -> (tensor<2x16x4x4xf32>, tensor<2x4x16xf32>)
  %g = "nn.attention_grad_packed_6"(%q, %k, %v, %o#0, %o#1, %d) {causal = true, layout = "bthd", scale = 0.5 : f64} : (tensor<2x16x4x4xf32>, tensor<2x16x2x4xf32>, tensor<2x16x2x4xf32>, tensor<2x16x4x4xf32>, tensor<2x4x16xf32>, tensor<2x16x4x4xf32>) -> tensor<2x16x32xf32>
  return %o#0, %g : tensor<2x16x4x4xf32>, tensor<2x16x32xf32>
}

// Keys and values the other way round are read from their slices.
// CHECK-LABEL: func.func @turned
// CHECK-NOT: heads = 
// CHECK: return
func.func @turned(%x: tensor<2x16x24xf32>) -> tensor<2x16x2x4xf32> {
  %0 = "nn.slice"(%x) {sizes = array<i64: 2, 16, 8>, starts = array<i64: 0, 0, 0>, strides = array<i64: 1, 1, 1>} : (tensor<2x16x24xf32>) -> tensor<2x16x8xf32>
  %1 = "nn.slice"(%x) {sizes = array<i64: 2, 16, 8>, starts = array<i64: 0, 0, 16>, strides = array<i64: 1, 1, 1>} : (tensor<2x16x24xf32>) -> tensor<2x16x8xf32>
  %2 = "nn.slice"(%x) {sizes = array<i64: 2, 16, 8>, starts = array<i64: 0, 0, 8>, strides = array<i64: 1, 1, 1>} : (tensor<2x16x24xf32>) -> tensor<2x16x8xf32>
  %q = "nn.reshape"(%0) : (tensor<2x16x8xf32>) -> tensor<2x16x2x4xf32>
  %k = "nn.reshape"(%1) : (tensor<2x16x8xf32>) -> tensor<2x16x2x4xf32>
  %v = "nn.reshape"(%2) : (tensor<2x16x8xf32>) -> tensor<2x16x2x4xf32>
  %o:2 = "nn.attention_3"(%q, %k, %v) {layout = "bthd", scale = 0.5 : f64} : (tensor<2x16x2x4xf32>, tensor<2x16x2x4xf32>, tensor<2x16x2x4xf32>) -> (tensor<2x16x2x4xf32>, tensor<2x2x16xf32>)
  return %o#0 : tensor<2x16x2x4xf32>
}

// Of every other element, or of tokens turned round, too.
// CHECK-LABEL: func.func @strided
// CHECK-NOT: heads = 
// CHECK: return
func.func @strided(%x: tensor<2x16x24xf32>) -> tensor<2x16x2x4xf32> {
  %0 = "nn.slice"(%x) {sizes = array<i64: 2, 16, 8>, starts = array<i64: 0, 15, 0>, strides = array<i64: 1, -1, 1>} : (tensor<2x16x24xf32>) -> tensor<2x16x8xf32>
  %1 = "nn.slice"(%x) {sizes = array<i64: 2, 16, 8>, starts = array<i64: 0, 0, 8>, strides = array<i64: 1, 1, 2>} : (tensor<2x16x24xf32>) -> tensor<2x16x8xf32>
  %2 = "nn.slice"(%x) {sizes = array<i64: 2, 16, 8>, starts = array<i64: 0, 0, 16>, strides = array<i64: 1, 1, 1>} : (tensor<2x16x24xf32>) -> tensor<2x16x8xf32>
  %q = "nn.reshape"(%0) : (tensor<2x16x8xf32>) -> tensor<2x16x2x4xf32>
  %k = "nn.reshape"(%1) : (tensor<2x16x8xf32>) -> tensor<2x16x2x4xf32>
  %v = "nn.reshape"(%2) : (tensor<2x16x8xf32>) -> tensor<2x16x2x4xf32>
  %o:2 = "nn.attention_3"(%q, %k, %v) {layout = "bthd", scale = 0.5 : f64} : (tensor<2x16x2x4xf32>, tensor<2x16x2x4xf32>, tensor<2x16x2x4xf32>) -> (tensor<2x16x2x4xf32>, tensor<2x2x16xf32>)
  return %o#0 : tensor<2x16x2x4xf32>
}
