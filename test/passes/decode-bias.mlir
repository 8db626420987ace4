// A bias of attention that is a parameter: the axis of the positions comes to the front, where the row is taken, and goes back.
// RUN: %nnc_opt %s --passes=decode | FileCheck %s

// CHECK: func.func @decode({{.*}}%[[BIAS:arg[0-9]+]]: tensor<2x3x6x6xf32> {nn.name = "bias"
// CHECK: %[[FRONT:.*]] = "nn.transpose"(%[[BIAS]]) {{.*}}perm = array<i64: 2, 0, 1, 3>} {{.*}} -> tensor<6x2x3x6xf32>
// CHECK: %[[ROW:.*]] = "nn.gather"(%[[FRONT]], %{{.*}}) {{.*}} -> tensor<1x2x3x6xf32>
// CHECK: %[[BACK:.*]] = "nn.transpose"(%[[ROW]]) {{.*}}perm = array<i64: 1, 2, 0, 3>} {{.*}} -> tensor<2x3x1x6xf32>
// CHECK: "nn.attention_5"({{.*}}%[[BACK]]
module attributes {nn.model = "m"} {
  func.func @predict(%tokens: tensor<2x6xi32> {nn.limit = 9 : i64, nn.name = "tokens", nn.role = "input"}, %w: tensor<9x12xf32> {nn.name = "w", nn.role = "param"}, %bias: tensor<2x3x6x6xf32> {nn.name = "bias", nn.role = "param"}) -> (tensor<2x6x3x4xf32> {nn.name = "output.m", nn.role = "output"}) {
    %x = "nn.gather"(%w, %tokens) : (tensor<9x12xf32>, tensor<2x6xi32>) -> tensor<2x6x12xf32>
    %q = "nn.reshape"(%x) : (tensor<2x6x12xf32>) -> tensor<2x6x3x4xf32>
    %o:2 = "nn.attention_4"(%q, %q, %q, %bias) {scale = 0.5 : f64, causal = true, layout = "bthd"} : (tensor<2x6x3x4xf32>, tensor<2x6x3x4xf32>, tensor<2x6x3x4xf32>, tensor<2x3x6x6xf32>) -> (tensor<2x6x3x4xf32>, tensor<2x3x6xf32>)
    return %o#0 : tensor<2x6x3x4xf32>
  }
}
