// Sums and moments over axes beside that of the tokens, also several, are of one position in @decode.
// RUN: %nnc_opt %s --passes=decode | FileCheck %s

// CHECK: func.func @decode
// CHECK: %[[R:.*]] = "nn.reshape"(%{{.*}}) {{.*}} -> tensor<2x1x2x4xf32>
// CHECK: "nn.moments"(%[[R]]) {axes = array<i64: 2, 3>{{.*}} -> (tensor<2x1xf32>, tensor<2x1xf32>)
// CHECK: "nn.reduce_sum"(%[[R]]) {axes = array<i64: 0, 2>{{.*}} -> tensor<1x4xf32>
module attributes {nn.model = "m"} {
  func.func @predict(%tokens: tensor<2x6xi32> {nn.limit = 9 : i64, nn.name = "tokens", nn.role = "input"}, %w: tensor<9x8xf32> {nn.name = "w", nn.role = "param"}) -> (tensor<2x6x2x4xf32> {nn.name = "output.m", nn.role = "output"}) {
    %x = "nn.gather"(%w, %tokens) : (tensor<9x8xf32>, tensor<2x6xi32>) -> tensor<2x6x8xf32>
    %r = "nn.reshape"(%x) : (tensor<2x6x8xf32>) -> tensor<2x6x2x4xf32>
    %m:2 = "nn.moments"(%r) {axes = array<i64: 2, 3>} : (tensor<2x6x2x4xf32>) -> (tensor<2x6xf32>, tensor<2x6xf32>)
    %s = "nn.reduce_sum"(%r) {axes = array<i64: 0, 2>} : (tensor<2x6x2x4xf32>) -> tensor<6x4xf32>
    %a = "nn.broadcast"(%m#0) {dims = array<i64: 0, 1>} : (tensor<2x6xf32>) -> tensor<2x6x2x4xf32>
    %b = "nn.broadcast"(%s) {dims = array<i64: 1, 3>} : (tensor<6x4xf32>) -> tensor<2x6x2x4xf32>
    %q = "nn.add"(%a, %b) : (tensor<2x6x2x4xf32>, tensor<2x6x2x4xf32>) -> tensor<2x6x2x4xf32>
    %o:2 = "nn.attention_3"(%q, %r, %r) {scale = 0.5 : f64, causal = true, layout = "bthd"} : (tensor<2x6x2x4xf32>, tensor<2x6x2x4xf32>, tensor<2x6x2x4xf32>) -> (tensor<2x6x2x4xf32>, tensor<2x2x6xf32>)
    return %o#0 : tensor<2x6x2x4xf32>
  }
}
