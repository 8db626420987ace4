// One op of every kind, roles and phases: what is printed parses to the same module, with our tool and with mlir-opt alone.
// RUN: %nnc_opt %s > %t.mlir
// RUN: FileCheck %s < %t.mlir
// RUN: %nnc_opt %t.mlir | diff - %t.mlir
// RUN: %nnc_opt --dump-irdl > %t.irdl.mlir
// RUN: mlir-opt --irdl-file=%t.irdl.mlir %t.mlir > /dev/null

// CHECK-LABEL: func.func @train
// CHECK-SAME: {nn.init = "normal(0.02)", nn.name = "w", nn.role = "param"}
// CHECK-SAME: -> (tensor<f32> {nn.name = "loss", nn.role = "loss"})
func.func @train(%image: tensor<2x4x4x3xui8> {nn.name = "image", nn.role = "input"}, %label: tensor<2xi32> {nn.role = "input"},
                 %key: tensor<4xi32> {nn.role = "rng"}, %w: tensor<5x3x3x3xf32> {nn.init = "normal(0.02)", nn.name = "w", nn.role = "param"},
                 %gamma: tensor<5xf32> {nn.role = "param"}) -> (tensor<f32> {nn.role = "loss", nn.name = "loss"}) {
  // CHECK: "nn.cast"({{.*}}) {nn.phase = "forward"} : (tensor<2x4x4x3xui8>) -> tensor<2x4x4x3xf32>
  %x = "nn.cast"(%image) {nn.phase = "forward"} : (tensor<2x4x4x3xui8>) -> tensor<2x4x4x3xf32>
  // CHECK: "nn.conv2d"({{.*}}) {dilation = array<i64: 1, 1>, groups = 1 : i64, layout = "nhwc", padding = array<i64: 1, 1, 1, 1>, strides = array<i64: 1, 1>}
  %c = "nn.conv2d"(%x, %w) {strides = array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>, dilation = array<i64: 1, 1>, groups = 1 : i64, layout = "nhwc"} : (tensor<2x4x4x3xf32>, tensor<5x3x3x3xf32>) -> tensor<2x4x4x5xf32>
  // CHECK: "nn.batchnorm"({{.*}}) {axis = 3 : i64, eps = 1.000000e-05 : f64}
  %y, %mean, %var = "nn.batchnorm"(%c, %gamma, %gamma) {eps = 1.0e-5 : f64, axis = 3 : i64} : (tensor<2x4x4x5xf32>, tensor<5xf32>, tensor<5xf32>) -> (tensor<2x4x4x5xf32>, tensor<5xf32>, tensor<5xf32>)
  %u = "nn.random_uniform"(%key) : (tensor<4xi32>) -> tensor<2x4x4x5xf32>
  %half = "nn.constant"() {value = 0.5 : f64} : () -> tensor<2x4x4x5xf32>
  // CHECK: "nn.compare"({{.*}}) {predicate = "ge"} : (tensor<2x4x4x5xf32>, tensor<2x4x4x5xf32>) -> tensor<2x4x4x5xi1>
  %keep = "nn.compare"(%u, %half) {predicate = "ge"} : (tensor<2x4x4x5xf32>, tensor<2x4x4x5xf32>) -> tensor<2x4x4x5xi1>
  %d = "nn.select"(%keep, %y, %half) : (tensor<2x4x4x5xi1>, tensor<2x4x4x5xf32>, tensor<2x4x4x5xf32>) -> tensor<2x4x4x5xf32>
  // CHECK: "nn.checkpoint"(%{{.*}}) : (tensor<2x4x4x5xf32>) -> ()
  "nn.checkpoint"(%d) : (tensor<2x4x4x5xf32>) -> ()
  // CHECK: "nn.maxpool2d"
  %p, %winner = "nn.maxpool2d"(%d) {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, padding = array<i64: 0, 0, 0, 0>, layout = "nhwc"} : (tensor<2x4x4x5xf32>) -> (tensor<2x2x2x5xf32>, tensor<2x2x2x5xui8>)
  %flat = "nn.reshape"(%p) : (tensor<2x2x2x5xf32>) -> tensor<2x20xf32>
  %part = "nn.slice"(%flat) {starts = array<i64: 0, 1>, sizes = array<i64: 2, 9>, strides = array<i64: 1, 2>} : (tensor<2x20xf32>) -> tensor<2x9xf32>
  // CHECK: "nn.concat"({{.*}}) {axis = 1 : i64} : (tensor<2x20xf32>, tensor<2x9xf32>) -> tensor<2x29xf32>
  %two = "nn.concat"(%flat, %part) {axis = 1 : i64} : (tensor<2x20xf32>, tensor<2x9xf32>) -> tensor<2x29xf32>
  // CHECK: "nn.concat_3"({{.*}}) {axis = 1 : i64} : (tensor<2x29xf32>, tensor<2x9xf32>, tensor<2x20xf32>) -> tensor<2x58xf32>
  %three = "nn.concat_3"(%two, %part, %flat) {axis = 1 : i64} : (tensor<2x29xf32>, tensor<2x9xf32>, tensor<2x20xf32>) -> tensor<2x58xf32>
  %ce, %lse = "nn.cross_entropy"(%three, %label) : (tensor<2x58xf32>, tensor<2xi32>) -> (tensor<2xf32>, tensor<2xf32>)
  // CHECK: scf.execute_region -> tensor<2xf32> no_inline
  // CHECK: {nn.recompute = "neg"}
  %again = scf.execute_region -> tensor<2xf32> no_inline {
    %n = "nn.neg"(%ce) {nn.recompute = "neg"} : (tensor<2xf32>) -> tensor<2xf32>
    scf.yield %n : tensor<2xf32>
  } {nn.recompute = "neg"}
  // CHECK: "nn.reduce_sum"({{.*}}) {axes = array<i64: 0>} : (tensor<2xf32>) -> tensor<f32>
  %loss = "nn.reduce_sum"(%again) {axes = array<i64: 0>} : (tensor<2xf32>) -> tensor<f32>
  // CHECK: "nn.tap"(%{{.*}}) {name = "output.net"} : (tensor<2x58xf32>) -> ()
  "nn.tap"(%three) {name = "output.net"} : (tensor<2x58xf32>) -> ()
  return %loss : tensor<f32>
}
