// Parameters in parts: the average of one is a part, too, and is updated as one; a function that does not read a parameter gathers none of it; one that is read in f32 as well travels in f32.
// RUN: %nnc_opt %s --passes=autodiff,distribute,simplify | FileCheck %s
// CHECK: func.func @train({{.*}}tensor<32xf32> {nn.name = "w", nn.role = "param", nn.shape = array<i64: 5, 8>}{{.*}}tensor<32xf32> {{{.*}}nn.name = "w.ema", nn.role = "state", nn.shape = array<i64: 5, 8>}
// CHECK-COUNT-1: "nn.all_gather_1"
// CHECK-NOT: "nn.all_gather_1"
// CHECK: return %{{.*}} : tensor<f32>, tensor<32xf32>, tensor<32xf32>
// CHECK: func.func @eval({{.*}}tensor<32xf32> {nn.name = "w", nn.role = "param", nn.shape = array<i64: 5, 8>}
// CHECK-NOT: nn.all_gather
// CHECK: func.func @predict({{.*}}tensor<32xf32> {nn.name = "w"
// CHECK-NEXT: %[[W:.*]] = "nn.all_gather_1"(%arg0) {{.*}} : (tensor<32xf32>) -> tensor<5x8xf32>
// CHECK-NEXT: "nn.cast"(%[[W]])
module attributes {nn.optimizer = "sgd", nn.ema = 0.9 : f64, nn.shard = "parameters", nn.ranks = 2 : i64} {
  func.func @update(%p: tensor<1xf32> {nn.name = "parameter"}, %g: tensor<1xf32> {nn.name = "gradient"}, %lr: tensor<f64> {nn.name = "lr"}) -> tensor<1xf32> {
    %r = "nn.cast"(%lr) : (tensor<f64>) -> tensor<f32>
    %b = "nn.broadcast"(%r) {dims = array<i64>} : (tensor<f32>) -> tensor<1xf32>
    %d = "nn.mul"(%b, %g) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
    %n = "nn.sub"(%p, %d) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
    return %n : tensor<1xf32>
  }
  func.func @train(%x: tensor<4x5xf32> {nn.role = "input", nn.name = "x"}, %w: tensor<5x8xf32> {nn.role = "param", nn.name = "w"})
      -> (tensor<f32> {nn.role = "loss", nn.name = "loss"}) {
    %h = "nn.matmul"(%x, %w) {transpose_a = false, transpose_b = false} : (tensor<4x5xf32>, tensor<5x8xf32>) -> tensor<4x8xf32>
    %0 = "nn.exp"(%h) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %s = "nn.reduce_sum"(%0) {axes = array<i64: 0, 1>} : (tensor<4x8xf32>) -> tensor<f32>
    return %s : tensor<f32>
  }
  func.func @eval(%x: tensor<4x5xf32> {nn.role = "input", nn.name = "x"}, %w: tensor<5x8xf32> {nn.role = "param", nn.name = "w"})
      -> (tensor<f32> {nn.role = "loss", nn.name = "loss"}) {
    %s = "nn.reduce_sum"(%x) {axes = array<i64: 0, 1>} : (tensor<4x5xf32>) -> tensor<f32>
    return %s : tensor<f32>
  }
  func.func @predict(%w: tensor<5x8xf32> {nn.role = "param", nn.name = "w"})
      -> (tensor<5x8xbf16> {nn.role = "output", nn.name = "y"}, tensor<5x8xf32> {nn.role = "output", nn.name = "z"}) {
    %y = "nn.cast"(%w) : (tensor<5x8xf32>) -> tensor<5x8xbf16>
    %z = "nn.exp"(%w) : (tensor<5x8xf32>) -> tensor<5x8xf32>
    return %y, %z : tensor<5x8xbf16>, tensor<5x8xf32>
  }
}
