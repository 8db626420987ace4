// What other inputs decide @predict computes once: @decode, of the second input, in which the model is causal, is given keys and values of it.
// RUN: %nnc_opt %s --passes=decode | FileCheck %s

// CHECK: func.func @predict
// CHECK-SAME: tensor<2x3x2x4xf32> {nn.name = "cache.2", nn.role = "cache"}
// CHECK: func.func @decode(%[[TOKENS:.*]]: tensor<2x1xi32> {nn.limit = 9 : i64, nn.name = "tokens", nn.role = "input"}, %{{.*}}: tensor<9x8xf32>
// CHECK-NOT: "source"
// CHECK-SAME: %[[M:arg[0-9]+]]: tensor<2x3x2x4xf32> {nn.name = "cache.2", nn.role = "cache", nn.whole = true})
// CHECK: "nn.attention_3"(%{{.*}}, %[[M]], %[[M]]) {layout = "bthd", nn.phase = "forward", scale = 5.000000e-01 : f64} : (tensor<2x1x2x4xf32>, tensor<2x3x2x4xf32>, tensor<2x3x2x4xf32>)
// CHECK: return %{{.*}}, %[[M]] : tensor<2x1x8xf32>
module attributes {nn.model = "m"} {
  func.func @predict(%source: tensor<2x3xi32> {nn.limit = 9 : i64, nn.name = "source", nn.role = "input"}, %tokens: tensor<2x6xi32> {nn.limit = 9 : i64, nn.name = "tokens", nn.role = "input"}, %w: tensor<9x8xf32> {nn.name = "w", nn.role = "param"}) -> (tensor<2x6x8xf32> {nn.name = "output.m", nn.role = "output"}) {
    %s = "nn.gather"(%w, %source) : (tensor<9x8xf32>, tensor<2x3xi32>) -> tensor<2x3x8xf32>
    %h = "nn.reshape"(%s) : (tensor<2x3x8xf32>) -> tensor<2x3x2x4xf32>
    %e:2 = "nn.attention_3"(%h, %h, %h) {scale = 0.5 : f64, layout = "bthd"} : (tensor<2x3x2x4xf32>, tensor<2x3x2x4xf32>, tensor<2x3x2x4xf32>) -> (tensor<2x3x2x4xf32>, tensor<2x2x3xf32>)
    %x = "nn.gather"(%w, %tokens) : (tensor<9x8xf32>, tensor<2x6xi32>) -> tensor<2x6x8xf32>
    %q = "nn.reshape"(%x) : (tensor<2x6x8xf32>) -> tensor<2x6x2x4xf32>
    %o:2 = "nn.attention_3"(%q, %q, %q) {scale = 0.5 : f64, causal = true, layout = "bthd"} : (tensor<2x6x2x4xf32>, tensor<2x6x2x4xf32>, tensor<2x6x2x4xf32>) -> (tensor<2x6x2x4xf32>, tensor<2x2x6xf32>)
    %c:2 = "nn.attention_3"(%o#0, %e#0, %e#0) {scale = 0.5 : f64, layout = "bthd"} : (tensor<2x6x2x4xf32>, tensor<2x3x2x4xf32>, tensor<2x3x2x4xf32>) -> (tensor<2x6x2x4xf32>, tensor<2x2x6xf32>)
    %r = "nn.reshape"(%c#0) : (tensor<2x6x2x4xf32>) -> tensor<2x6x8xf32>
    return %r : tensor<2x6x8xf32>
  }
}
