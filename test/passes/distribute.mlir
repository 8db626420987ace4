// What the ranks of a distributed program exchange: gradients in buckets, in the order in which they are made; running statistics from rank to rank.
// RUN: rm -rf %t && split-file %s %t
// RUN: %nnc_opt %t/buckets.mlir --passes=autodiff,distribute,simplify | FileCheck %t/buckets.mlir
// RUN: %nnc_opt %t/states.mlir --passes=autodiff,distribute,simplify | FileCheck %t/states.mlir
// RUN: %nnc_opt %t/alone.mlir --passes=autodiff,simplify > %t/without.txt && %nnc_opt %t/alone.mlir --passes=autodiff,distribute,simplify | cmp - %t/without.txt
// RUN: not %nnc_opt %t/carried.mlir --passes=autodiff,distribute 2>&1 | FileCheck %t/carried.mlir
// RUN: %nnc_opt %t/scale.mlir --passes=autodiff,distribute,simplify | FileCheck %t/scale.mlir

//--- buckets.mlir
// The share of a micro-batch is the last number in hyper. The gradient of w, which is made last, and that of v are one bucket; that of the f64 u is another.
// CHECK-LABEL: func.func @train
// CHECK-SAME: tensor<4xf64> {nn.name = "hyper"
// CHECK: "nn.slice"(%{{.*}}) {{.*}}starts = array<i64: 3>
// CHECK: %[[U:.*]] = "nn.all_reduce_1"(%{{.*}}) {nn.lane = "comm", nn.phase = "update"} : (tensor<6xf64>) -> tensor<6xf64>
// CHECK: %[[B:.*]] = "nn.all_reduce"(%{{.*}}, %{{.*}}) {nn.lane = "comm", nn.phase = "update"} : (tensor<3xf32>, tensor<2x3xf32>) -> tensor<9xf32>
// CHECK-DAG: %[[V:.*]] = "nn.slice"(%[[B]]) {nn.phase = "update", sizes = array<i64: 3>, starts = array<i64: 0>
// CHECK-DAG: %[[F:.*]] = "nn.slice"(%[[B]]) {nn.phase = "update", sizes = array<i64: 6>, starts = array<i64: 3>
// CHECK-DAG: %[[W:.*]] = "nn.reshape"(%[[F]]) {nn.phase = "update"} : (tensor<6xf32>) -> tensor<2x3xf32>
// CHECK-DAG: "nn.tap"(%[[W]]) {name = "grad.w"
// CHECK-DAG: "nn.tap"(%[[V]]) {name = "grad.v"
// CHECK-NOT: nn.all_reduce
module attributes {nn.optimizer = "sgd", nn.shard = "none"} {
  func.func @update(%p: tensor<1xf32> {nn.name = "parameter"}, %g: tensor<1xf32> {nn.name = "gradient"}, %lr: tensor<f64> {nn.name = "lr"}) -> tensor<1xf32> {
    %r = "nn.cast"(%lr) : (tensor<f64>) -> tensor<f32>
    %b = "nn.broadcast"(%r) {dims = array<i64>} : (tensor<f32>) -> tensor<1xf32>
    %d = "nn.mul"(%b, %g) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
    %n = "nn.sub"(%p, %d) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
    return %n : tensor<1xf32>
  }
  func.func @update_2(%p: tensor<1xf64> {nn.name = "parameter"}, %g: tensor<1xf64> {nn.name = "gradient"}, %lr: tensor<f64> {nn.name = "lr"}) -> tensor<1xf64> {
    %b = "nn.broadcast"(%lr) {dims = array<i64>} : (tensor<f64>) -> tensor<1xf64>
    %d = "nn.mul"(%b, %g) : (tensor<1xf64>, tensor<1xf64>) -> tensor<1xf64>
    %n = "nn.sub"(%p, %d) : (tensor<1xf64>, tensor<1xf64>) -> tensor<1xf64>
    return %n : tensor<1xf64>
  }
  func.func @train(%x: tensor<2x3xf32> {nn.role = "input", nn.name = "x"}, %w: tensor<2x3xf32> {nn.role = "param", nn.name = "w"}, %v: tensor<3xf32> {nn.role = "param", nn.name = "v"}, %u: tensor<6xf64> {nn.role = "param", nn.name = "u", nn.update = "update_2"})
      -> (tensor<f32> {nn.role = "loss", nn.name = "loss"}, tensor<f64> {nn.role = "loss", nn.name = "other"}) {
    %a = "nn.mul"(%w, %x) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
    %e = "nn.exp"(%a) : (tensor<2x3xf32>) -> tensor<2x3xf32>
    %b = "nn.broadcast"(%v) {dims = array<i64: 1>} : (tensor<3xf32>) -> tensor<2x3xf32>
    %c = "nn.mul"(%e, %b) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
    %s = "nn.reduce_sum"(%c) {axes = array<i64: 0, 1>} : (tensor<2x3xf32>) -> tensor<f32>
    %q = "nn.mul"(%u, %u) : (tensor<6xf64>, tensor<6xf64>) -> tensor<6xf64>
    %t = "nn.reduce_sum"(%q) {axes = array<i64: 0>} : (tensor<6xf64>) -> tensor<f64>
    return %s, %t : tensor<f32>, tensor<f64>
  }
}

//--- states.mlir
// The state is taken over behind the last gradient, updated, and handed on; what feeds the update alone stands with it.
// CHECK-LABEL: func.func @train
// CHECK: %[[B:.*]] = "nn.all_reduce_1"
// CHECK: %[[R:.*]] = "nn.rank_receive"(%[[B]], %[[S:arg[0-9]+]]) {nn.lane = "comm", nn.phase = "update"} : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
// CHECK-DAG: %[[OLD:.*]] = "nn.mul"(%[[R]], %{{.*}}) {nn.phase = "update"}
// CHECK-DAG: %[[NEW:.*]] = "nn.mul"(%{{.*}}, %{{.*}}) {nn.phase = "update"}
// CHECK: %[[SUM:.*]] = "nn.add"(%[[OLD]], %[[NEW]]) {nn.phase = "update"}
// CHECK: %[[OUT:.*]] = "nn.rank_send_1"(%[[SUM]]) {nn.lane = "comm", nn.phase = "update"}
// CHECK: return %{{.*}}, %[[OUT]],
module attributes {nn.optimizer = "sgd", nn.shard = "none"} {
  func.func @update(%p: tensor<1xf32> {nn.name = "parameter"}, %g: tensor<1xf32> {nn.name = "gradient"}, %lr: tensor<f64> {nn.name = "lr"}) -> tensor<1xf32> {
    %r = "nn.cast"(%lr) : (tensor<f64>) -> tensor<f32>
    %b = "nn.broadcast"(%r) {dims = array<i64>} : (tensor<f32>) -> tensor<1xf32>
    %d = "nn.mul"(%b, %g) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
    %n = "nn.sub"(%p, %d) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
    return %n : tensor<1xf32>
  }
  func.func @train(%x: tensor<2x3xf32> {nn.role = "input", nn.name = "x"}, %w: tensor<3xf32> {nn.role = "param", nn.name = "w"}, %s: tensor<3xf32> {nn.role = "state", nn.name = "s"})
      -> (tensor<f32> {nn.role = "loss", nn.name = "loss"}, tensor<3xf32> {nn.role = "update", nn.name = "s", nn.tied = 2 : i64}) {
    %m = "nn.reduce_sum"(%x) {axes = array<i64: 0>} : (tensor<2x3xf32>) -> tensor<3xf32>
    %9 = "nn.constant"() {value = 9.0e-01 : f64} : () -> tensor<3xf32>
    %1 = "nn.constant"() {value = 1.0e-01 : f64} : () -> tensor<3xf32>
    %o = "nn.mul"(%s, %9) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %n = "nn.mul"(%m, %1) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %u = "nn.add"(%o, %n) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %p = "nn.mul"(%m, %w) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %l = "nn.reduce_sum"(%p) {axes = array<i64: 0>} : (tensor<3xf32>) -> tensor<f32>
    return %l, %u : tensor<f32>, tensor<3xf32>
  }
}

//--- alone.mlir
module attributes {nn.optimizer = "sgd"} {
  func.func @update(%p: tensor<1xf32> {nn.name = "parameter"}, %g: tensor<1xf32> {nn.name = "gradient"}, %lr: tensor<f64> {nn.name = "lr"}) -> tensor<1xf32> {
    %r = "nn.cast"(%lr) : (tensor<f64>) -> tensor<f32>
    %b = "nn.broadcast"(%r) {dims = array<i64>} : (tensor<f32>) -> tensor<1xf32>
    %d = "nn.mul"(%b, %g) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
    %n = "nn.sub"(%p, %d) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
    return %n : tensor<1xf32>
  }
  func.func @train(%x: tensor<4xf32> {nn.role = "input", nn.name = "x"}, %w: tensor<4xf32> {nn.role = "param", nn.name = "w"}) -> (tensor<f32> {nn.role = "loss", nn.name = "loss"}) {
    %y = "nn.mul"(%w, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %s = "nn.reduce_sum"(%y) {axes = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
    return %s : tensor<f32>
  }
}

//--- carried.mlir
// CHECK: error: --shard: states that go on with a text (continued=true) are one micro-batch's after the other's
module attributes {nn.optimizer = "sgd", nn.shard = "none"} {
  func.func @update(%p: tensor<1xf32> {nn.name = "parameter"}, %g: tensor<1xf32> {nn.name = "gradient"}, %lr: tensor<f64> {nn.name = "lr"}) -> tensor<1xf32> {
    %r = "nn.cast"(%lr) : (tensor<f64>) -> tensor<f32>
    %b = "nn.broadcast"(%r) {dims = array<i64>} : (tensor<f32>) -> tensor<1xf32>
    %d = "nn.mul"(%b, %g) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
    %n = "nn.sub"(%p, %d) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
    return %n : tensor<1xf32>
  }
  func.func @train(%x: tensor<4xf32> {nn.role = "input", nn.name = "x"}, %w: tensor<4xf32> {nn.role = "param", nn.name = "w"}, %h: tensor<4xf32> {nn.role = "state", nn.name = "h", nn.carried = true})
      -> (tensor<f32> {nn.role = "loss", nn.name = "loss"}, tensor<4xf32> {nn.role = "update", nn.name = "h", nn.tied = 2 : i64}) {
    %y = "nn.mul"(%w, %h) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %s = "nn.reduce_sum"(%y) {axes = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
    return %s, %y : tensor<f32>, tensor<4xf32>
  }
}

//--- scale.mlir
// CHECK-LABEL: func.func @train
// Where a gradient overflows the last rank alone hands the state on as it is: hyper says which it is.
// CHECK-SAME: tensor<5xf64> {nn.name = "hyper"
// CHECK: %[[R:.*]] = "nn.rank_receive"
// CHECK: %[[U:.*]] = "nn.add"(%[[R]], %arg0) {nn.phase = "update"}
// CHECK: %[[S:.*]] = "nn.select"(%{{.*}}, %[[U]], %[[R]]) {nn.phase = "update"}
// CHECK: "nn.rank_send_1"(%[[S]])
module attributes {nn.optimizer = "sgd", nn.shard = "none", nn.loss_scale = {init = 65536.0 : f64, every = 100 : i64}} {
  func.func @update(%p: tensor<1xf32> {nn.name = "parameter"}, %g: tensor<1xf32> {nn.name = "gradient"}, %lr: tensor<f64> {nn.name = "lr"}) -> tensor<1xf32> {
    %r = "nn.cast"(%lr) : (tensor<f64>) -> tensor<f32>
    %b = "nn.broadcast"(%r) {dims = array<i64>} : (tensor<f32>) -> tensor<1xf32>
    %d = "nn.mul"(%b, %g) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
    %n = "nn.sub"(%p, %d) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
    return %n : tensor<1xf32>
  }
  func.func @train(%x: tensor<4xf32> {nn.role = "input", nn.name = "x"}, %w: tensor<4xf32> {nn.role = "param", nn.name = "w"}, %h: tensor<4xf32> {nn.role = "state", nn.name = "h"})
      -> (tensor<f32> {nn.role = "loss", nn.name = "loss"}, tensor<4xf32> {nn.role = "update", nn.name = "h", nn.tied = 2 : i64}) {
    %y = "nn.mul"(%w, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %u = "nn.add"(%h, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %s = "nn.reduce_sum"(%y) {axes = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
    return %s, %u : tensor<f32>, tensor<4xf32>
  }
}
