// Composites become maps and reductions with the composite's phase, in every public function; nothing else changes.
// RUN: %nnc_opt %s --passes=decompose | FileCheck %s
// RUN: %nnc_opt %s --passes=decompose,simplify | FileCheck %s --check-prefix=CLEAN

// CHECK-LABEL: func.func @train
// CHECK-NOT: "nn.softmax"
// CHECK-NOT: "nn.log_softmax"
// CHECK-NOT: "nn.layernorm"
// CHECK-NOT: "nn.batchnorm"
// CHECK-NOT: "nn.cross_entropy"
// CHECK: "nn.reduce_max"(%arg0) {axes = array<i64: 1>, nn.phase = "backward"}
// CHECK: "nn.reduce_sum"(%{{.*}}) {axes = array<i64: 1>, nn.phase = "forward"}
// CHECK: "nn.moments"(%{{.*}}) {axes = array<i64: 0>, nn.phase = "forward"}
// CHECK: "nn.iota"() {axis = 1 : i64, nn.phase = "forward"}
// CHECK: return
// CLEAN-LABEL: func.func @train
func.func @train(%x: tensor<4x8xf32>, %g: tensor<8xf32>, %b: tensor<8xf32>, %labels: tensor<4xi32>) -> (tensor<4x8xf32>, tensor<8xf32>, tensor<4xf32>) {
  %s = "nn.softmax"(%x) {nn.phase = "backward"} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %l = "nn.log_softmax"(%s) {nn.phase = "forward"} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %n:3 = "nn.layernorm"(%l, %g, %b) {eps = 1.0e-5 : f64, nn.phase = "forward"} : (tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4xf32>, tensor<4xf32>)
  %m:3 = "nn.batchnorm"(%n#0, %g, %b) {eps = 1.0e-5 : f64, axis = 1 : i64, nn.phase = "forward"} : (tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>)
  %c:2 = "nn.cross_entropy"(%m#0, %labels) {nn.phase = "forward"} : (tensor<4x8xf32>, tensor<4xi32>) -> (tensor<4xf32>, tensor<4xf32>)
  return %m#0, %m#2, %c#0 : tensor<4x8xf32>, tensor<8xf32>, tensor<4xf32>
}

// CHECK-LABEL: func.func @predict
// CHECK-NEXT: "nn.relu"
// CHECK-NEXT: "nn.reduce_max"
// CHECK-NOT: "nn.softmax"
// CLEAN-LABEL: func.func @predict
func.func @predict(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %r = "nn.relu"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %s = "nn.softmax"(%r) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %s : tensor<4x8xf32>
}
