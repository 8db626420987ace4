// The step made of a forward function: gradients, taps, phases, signature, each optimizer, accumulation, clipping, frozen groups, errors.
// RUN: split-file %s %t
// RUN: %nnc_opt %t/sgd.mlir --passes=autodiff,simplify | FileCheck %t/sgd.mlir
// RUN: %nnc_opt %t/shared.mlir --passes=autodiff,simplify | FileCheck %t/shared.mlir
// RUN: %nnc_opt %t/narrow.mlir --passes=autodiff,simplify | FileCheck %t/narrow.mlir
// RUN: %nnc_opt %t/apart.mlir --passes=autodiff,simplify | FileCheck %t/apart.mlir
// RUN: %nnc_opt %t/stopped.mlir --passes=autodiff,decompose,simplify | FileCheck %t/stopped.mlir
// RUN: %nnc_opt %t/momentum.mlir --passes=autodiff,simplify | FileCheck %t/momentum.mlir
// RUN: %nnc_opt %t/momentum-of-a-group.mlir --passes=autodiff,simplify | FileCheck %t/momentum-of-a-group.mlir
// RUN: %nnc_opt %t/adam.mlir --passes=autodiff,simplify | FileCheck %t/adam.mlir
// RUN: %nnc_opt %t/accumulate.mlir --passes=autodiff,simplify | FileCheck %t/accumulate.mlir
// RUN: %nnc_opt %t/clip.mlir --passes=autodiff,simplify | FileCheck %t/clip.mlir
// RUN: %nnc_opt %t/frozen.mlir --passes=autodiff,simplify | FileCheck %t/frozen.mlir
// RUN: %nnc_opt %t/predict.mlir --passes=autodiff | FileCheck %t/predict.mlir
// RUN: not %nnc_opt %t/twice.mlir --passes=autodiff,autodiff 2>&1 | FileCheck %t/twice.mlir
// Behind a pass that refuses something no other runs.
// RUN: not %nnc_opt %t/vector.mlir --passes=autodiff,simplify --print-ir-after=all 2>&1 | FileCheck %t/vector.mlir --implicit-check-not='IR after simplify'
// RUN: not %nnc_opt %t/no_gradient.mlir --passes=autodiff 2>&1 | FileCheck %t/no_gradient.mlir
// RUN: not %nnc_opt %t/other_type.mlir --passes=autodiff 2>&1 | FileCheck %t/other_type.mlir --implicit-check-not=error:
// RUN: not %nnc_opt %t/no_path.mlir --passes=autodiff 2>&1 | FileCheck %t/no_path.mlir
// RUN: not %nnc_opt %t/no_loss.mlir --passes=autodiff 2>&1 | FileCheck %t/no_loss.mlir
// RUN: not %nnc_opt %t/unknown.mlir --passes=autodiff 2>&1 | FileCheck %t/unknown.mlir
// RUN: not %nnc_opt %t/group.mlir --passes=autodiff 2>&1 | FileCheck %t/group.mlir

//--- sgd.mlir
// loss = sum((w x)²): dw = 2 (w x) x, written as the sum of both factors' shares. The unused state of another op gets no gradient.
// CHECK: func.func @train(%arg0: tensor<4xf32> {nn.name = "x", nn.role = "input"}, %arg1: tensor<4xf32> {nn.group = 0 : i64, nn.name = "w", nn.role = "param"}, %arg2: tensor<3xf64> {nn.name = "hyper", nn.role = "hyper"})
// CHECK-SAME: -> (tensor<f32> {nn.name = "loss", nn.role = "loss"}, tensor<4xf32> {nn.name = "w", nn.role = "update", nn.tied = 1 : i64})
// CHECK: %[[Y:.*]] = "nn.mul"(%arg1, %arg0) {nn.phase = "forward"}
// CHECK: %[[LOSS:.*]] = "nn.reduce_sum"
// CHECK: %[[H:.*]] = "nn.slice"(%arg2) {nn.phase = "update", sizes = array<i64: 1>, starts = array<i64: 0>
// CHECK: %[[LR:.*]] = "nn.reshape"(%[[H]]) {nn.phase = "update"}
// CHECK: %[[DY:.*]] = "nn.add"(%[[Y]], %[[Y]]) {nn.phase = "backward"}
// CHECK: %[[DW:.*]] = "nn.mul"(%[[DY]], %arg0) {nn.phase = "backward"}
// CHECK: "nn.tap"(%[[DW]]) {name = "grad.w", nn.phase = "backward"}
// CHECK: %[[LR32:.*]] = "nn.cast"(%[[LR]]) {nn.phase = "update"} : (tensor<f64>) -> tensor<f32>
// CHECK: %[[RATE:.*]] = "nn.broadcast"(%[[LR32]])
// CHECK: %[[STEP:.*]] = "nn.mul"(%[[RATE]], %[[DW]]) {nn.phase = "update"}
// CHECK: %[[NEW:.*]] = "nn.sub"(%arg1, %[[STEP]]) {nn.phase = "update"}
// CHECK: return %[[LOSS]], %[[NEW]]
module attributes {nn.optimizer = "sgd"} {
  func.func @update(%p: tensor<1xf32> {nn.name = "parameter"}, %g: tensor<1xf32> {nn.name = "gradient"}, %lr: tensor<f64> {nn.name = "lr"}) -> tensor<1xf32> {
    %r = "nn.cast"(%lr) : (tensor<f64>) -> tensor<f32>
    %b = "nn.broadcast"(%r) {dims = array<i64>} : (tensor<f32>) -> tensor<1xf32>
    %d = "nn.mul"(%b, %g) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
    %n = "nn.sub"(%p, %d) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
    return %n : tensor<1xf32>
  }
  func.func @train(%x: tensor<4xf32> {nn.role = "input", nn.name = "x"}, %w: tensor<4xf32> {nn.role = "param", nn.name = "w", nn.group = 0 : i64})
      -> (tensor<f32> {nn.role = "loss", nn.name = "loss"}) {
    %y = "nn.mul"(%w, %x) {nn.phase = "forward"} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %q = "nn.mul"(%y, %y) {nn.phase = "forward"} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %s = "nn.reduce_sum"(%q) {axes = array<i64: 0>, nn.phase = "forward"} : (tensor<4xf32>) -> tensor<f32>
    return %s : tensor<f32>
  }
}

//--- shared.mlir
// A parameter used twice (tied weights): both shares are added; its update stands after the last op that reads it.
// CHECK-LABEL: func.func @train
// CHECK: %[[D2:.*]] = "nn.matmul_rows"(
// CHECK: %[[G:.*]] = "nn.matmul_rows_to"({{.*}}, %[[D2]]) {nn.phase = "backward"}
// CHECK: "nn.tap"(%[[G]]) {name = "grad.w"
// CHECK-NOT: "nn.matmul"(%{{.*}}, %arg1)
// CHECK: "nn.sub"(%arg1
module attributes {nn.optimizer = "sgd"} {
  func.func @update(%p: tensor<1xf64> {nn.name = "parameter"}, %g: tensor<1xf64> {nn.name = "gradient"}, %lr: tensor<f64> {nn.name = "lr"}) -> tensor<1xf64> {
    %b = "nn.broadcast"(%lr) {dims = array<i64>} : (tensor<f64>) -> tensor<1xf64>
    %d = "nn.mul"(%b, %g) : (tensor<1xf64>, tensor<1xf64>) -> tensor<1xf64>
    %n = "nn.sub"(%p, %d) : (tensor<1xf64>, tensor<1xf64>) -> tensor<1xf64>
    return %n : tensor<1xf64>
  }
  func.func @train(%x: tensor<2x3xf64> {nn.role = "input", nn.name = "x"}, %w: tensor<3x3xf64> {nn.role = "param", nn.name = "w"})
      -> (tensor<f64> {nn.role = "loss", nn.name = "loss"}) {
    %a = "nn.matmul"(%x, %w) : (tensor<2x3xf64>, tensor<3x3xf64>) -> tensor<2x3xf64>
    %b = "nn.matmul"(%a, %w) : (tensor<2x3xf64>, tensor<3x3xf64>) -> tensor<2x3xf64>
    %s = "nn.reduce_sum"(%b) {axes = array<i64: 0, 1>} : (tensor<2x3xf64>) -> tensor<f64>
    return %s : tensor<f64>
  }
}

//--- narrow.mlir
// Parameters in f32 that are used in bf16: products give f32 gradients, sums over rows and over two uses are f32; nothing is rounded to bf16 on the way.
// CHECK-LABEL: func.func @train
// CHECK: %[[W:.*]] = "nn.cast"(%arg1) {{.*}} -> tensor<3x3xbf16>
// CHECK: %[[D2:.*]] = "nn.matmul_rows"({{.*}}) {nn.phase = "backward"} : (tensor<2x3xbf16>, tensor<2x3xbf16>) -> tensor<3x3xf32>
// CHECK: "nn.cast"({{.*}}) {nn.phase = "backward"} : (tensor<2x3xbf16>) -> tensor<2x3xf32>
// CHECK-NEXT: %[[DB:.*]] = "nn.reduce_sum"({{.*}}) {axes = array<i64: 0>, nn.phase = "backward"} : (tensor<2x3xf32>) -> tensor<3xf32>
// CHECK-NEXT: "nn.tap"(%[[DB]]) {name = "grad.b"
// CHECK: %[[D1:.*]] = "nn.matmul_rows"({{.*}}) {nn.phase = "backward"} : (tensor<2x3xbf16>, tensor<2x3xbf16>) -> tensor<3x3xf32>
// CHECK: %[[T:.*]] = "nn.transpose"(%[[D1]])
// CHECK: %[[G:.*]] = "nn.add"(%[[D2]], %[[T]]) {nn.phase = "backward"} : (tensor<3x3xf32>
// CHECK: "nn.tap"(%[[G]]) {name = "grad.w"
module attributes {nn.optimizer = "sgd"} {
  func.func @update(%p: tensor<1xf32> {nn.name = "parameter"}, %g: tensor<1xf32> {nn.name = "gradient"}, %lr: tensor<f64> {nn.name = "lr"}) -> tensor<1xf32> {
    %r = "nn.cast"(%lr) : (tensor<f64>) -> tensor<f32>
    %b = "nn.broadcast"(%r) {dims = array<i64>} : (tensor<f32>) -> tensor<1xf32>
    %d = "nn.mul"(%b, %g) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
    %n = "nn.sub"(%p, %d) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
    return %n : tensor<1xf32>
  }
  func.func @train(%x: tensor<2x3xbf16> {nn.role = "input", nn.name = "x"}, %w: tensor<3x3xf32> {nn.role = "param", nn.name = "w"}, %b: tensor<3xf32> {nn.role = "param", nn.name = "b"})
      -> (tensor<f32> {nn.role = "loss", nn.name = "loss"}) {
    %n = "nn.cast"(%w) : (tensor<3x3xf32>) -> tensor<3x3xbf16>
    %t = "nn.transpose"(%n) {perm = array<i64: 1, 0>} : (tensor<3x3xbf16>) -> tensor<3x3xbf16>
    %m = "nn.cast"(%b) : (tensor<3xf32>) -> tensor<3xbf16>
    %a = "nn.matmul"(%x, %t) : (tensor<2x3xbf16>, tensor<3x3xbf16>) -> tensor<2x3xbf16>
    %r = "nn.broadcast"(%m) {dims = array<i64: 1>} : (tensor<3xbf16>) -> tensor<2x3xbf16>
    %c = "nn.add"(%a, %r) : (tensor<2x3xbf16>, tensor<2x3xbf16>) -> tensor<2x3xbf16>
    %d = "nn.matmul"(%c, %n) : (tensor<2x3xbf16>, tensor<3x3xbf16>) -> tensor<2x3xbf16>
    %f = "nn.cast"(%d) : (tensor<2x3xbf16>) -> tensor<2x3xf32>
    %s = "nn.reduce_sum"(%f) {axes = array<i64: 0, 1>} : (tensor<2x3xf32>) -> tensor<f32>
    return %s : tensor<f32>
  }
}

//--- apart.mlir
// No masters: a parameter in f64 that is used in bf16, and a value in f32 that is computed. Their gradients are formed in bf16.
// CHECK-LABEL: func.func @train
// CHECK: "nn.matmul_rows"({{.*}}) {nn.phase = "backward"} : (tensor<2x3xbf16>, tensor<2x3xbf16>) -> tensor<3x3xbf16>
// CHECK: "nn.matmul_rows"({{.*}}) {nn.phase = "backward"} : (tensor<2x3xbf16>, tensor<2x3xbf16>) -> tensor<3x3xbf16>
module attributes {nn.optimizer = "sgd"} {
  func.func @update(%p: tensor<1xf64> {nn.name = "parameter"}, %g: tensor<1xf64> {nn.name = "gradient"}, %lr: tensor<f64> {nn.name = "lr"}) -> tensor<1xf64> {
    %b = "nn.broadcast"(%lr) {dims = array<i64>} : (tensor<f64>) -> tensor<1xf64>
    %d = "nn.mul"(%b, %g) : (tensor<1xf64>, tensor<1xf64>) -> tensor<1xf64>
    %n = "nn.sub"(%p, %d) : (tensor<1xf64>, tensor<1xf64>) -> tensor<1xf64>
    return %n : tensor<1xf64>
  }
  func.func @train(%x: tensor<2x3xbf16> {nn.role = "input", nn.name = "x"}, %w: tensor<3x3xf64> {nn.role = "param", nn.name = "w"}, %v: tensor<3x3xf64> {nn.role = "param", nn.name = "v"})
      -> (tensor<f32> {nn.role = "loss", nn.name = "loss"}) {
    %n = "nn.cast"(%w) : (tensor<3x3xf64>) -> tensor<3x3xbf16>
    %k = "nn.cast"(%v) : (tensor<3x3xf64>) -> tensor<3x3xf32>
    %e = "nn.tanh"(%k) : (tensor<3x3xf32>) -> tensor<3x3xf32>
    %m = "nn.cast"(%e) : (tensor<3x3xf32>) -> tensor<3x3xbf16>
    %c = "nn.matmul"(%x, %n) : (tensor<2x3xbf16>, tensor<3x3xbf16>) -> tensor<2x3xbf16>
    %d = "nn.matmul"(%c, %m) : (tensor<2x3xbf16>, tensor<3x3xbf16>) -> tensor<2x3xbf16>
    %f = "nn.cast"(%d) : (tensor<2x3xbf16>) -> tensor<2x3xf32>
    %s = "nn.reduce_sum"(%f) {axes = array<i64: 0, 1>} : (tensor<2x3xf32>) -> tensor<f32>
    return %s : tensor<f32>
  }
}

//--- stopped.mlir
// loss = sum(x w · stop(x w)): the gradient goes through the first factor only, and the mark is gone.
// CHECK-LABEL: func.func @train
// CHECK-NOT: stop_gradient
// CHECK: %[[Y:.*]] = "nn.mul"(%arg0, %arg1)
// CHECK: %[[G:.*]] = "nn.mul"(%[[Y]], %arg0) {nn.phase = "backward"}
// CHECK: "nn.tap"(%[[G]]) {name = "grad.w"
// CHECK-NOT: stop_gradient
module attributes {nn.optimizer = "sgd"} {
  func.func @update(%p: tensor<1xf32> {nn.name = "parameter"}, %g: tensor<1xf32> {nn.name = "gradient"}, %lr: tensor<f64> {nn.name = "lr"}) -> tensor<1xf32> {
    %r = "nn.cast"(%lr) : (tensor<f64>) -> tensor<f32>
    %b = "nn.broadcast"(%r) {dims = array<i64>} : (tensor<f32>) -> tensor<1xf32>
    %d = "nn.mul"(%b, %g) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
    %n = "nn.sub"(%p, %d) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
    return %n : tensor<1xf32>
  }
  func.func @train(%x: tensor<4xf32> {nn.role = "input", nn.name = "x"}, %w: tensor<4xf32> {nn.role = "param", nn.name = "w"})
      -> (tensor<f32> {nn.role = "loss", nn.name = "loss"}) {
    %y = "nn.mul"(%x, %w) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %k = "nn.stop_gradient"(%y) : (tensor<4xf32>) -> tensor<4xf32>
    %q = "nn.mul"(%y, %k) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %s = "nn.reduce_sum"(%q) {axes = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
    return %s : tensor<f32>
  }
}

//--- momentum.mlir
// Nesterov: v = 0.9 v + (g + 0.1 w); w -= lr ((g + 0.1 w) + 0.9 v).
// CHECK: %arg3: tensor<4xf32> {nn.group = 0 : i64, nn.init = "zeros", nn.name = "w.momentum", nn.role = "opt"}
// CHECK: tensor<4xf32> {nn.name = "w", nn.role = "update", nn.tied = 1 : i64}, tensor<4xf32> {nn.name = "w.momentum", nn.role = "update", nn.tied = 3 : i64}
// CHECK: "nn.tap"(%[[G:.*]]) {name = "grad.w"
// CHECK: %[[TENTH:.*]] = "nn.constant"() {nn.phase = "update", value = 1.000000e-01 : f64}
// CHECK: %[[WD:.*]] = "nn.mul"(%arg1, %[[TENTH]])
// CHECK: %[[D:.*]] = "nn.add"(%[[G]], %[[WD]])
// CHECK: %[[NINE:.*]] = "nn.constant"() {nn.phase = "update", value = 9.000000e-01 : f64}
// CHECK: %[[OLD:.*]] = "nn.mul"(%arg3, %[[NINE]])
// CHECK: %[[V:.*]] = "nn.add"(%[[OLD]], %[[D]])
// CHECK: %[[MV:.*]] = "nn.mul"(%[[V]], %[[NINE]])
// CHECK: %[[DIR:.*]] = "nn.add"(%[[D]], %[[MV]])
// CHECK: %[[STEP:.*]] = "nn.mul"(%{{.*}}, %[[DIR]])
// CHECK: %[[NEW:.*]] = "nn.sub"(%arg1, %[[STEP]])
// CHECK: return %{{.*}}, %[[NEW]], %[[V]]
module attributes {nn.optimizer = "momentum", nn.groups = [{lr = 0.1 : f64}]} {
  func.func @update(%p: tensor<1xf32> {nn.name = "parameter"}, %g: tensor<1xf32> {nn.name = "gradient"}, %lr: tensor<f64> {nn.name = "lr"},
      %m: tensor<1xf32> {nn.name = "momentum", nn.role = "state", nn.init = "zeros"}) -> (tensor<1xf32>, tensor<1xf32> {nn.role = "update", nn.tied = 3 : i64}) {
    %wd = "nn.constant"() {value = 1.0e-1 : f64} : () -> tensor<1xf32>
    %shrink = "nn.mul"(%p, %wd) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
    %g2 = "nn.add"(%g, %shrink) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
    %mu = "nn.constant"() {value = 9.0e-1 : f64} : () -> tensor<1xf32>
    %old = "nn.mul"(%m, %mu) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
    %v = "nn.add"(%old, %g2) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
    %ahead = "nn.mul"(%v, %mu) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
    %direction = "nn.add"(%g2, %ahead) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
    %r = "nn.cast"(%lr) : (tensor<f64>) -> tensor<f32>
    %b = "nn.broadcast"(%r) {dims = array<i64>} : (tensor<f32>) -> tensor<1xf32>
    %d = "nn.mul"(%b, %direction) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
    %n = "nn.sub"(%p, %d) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
    return %n, %v : tensor<1xf32>, tensor<1xf32>
  }
  func.func @train(%x: tensor<4xf32> {nn.role = "input", nn.name = "x"}, %w: tensor<4xf32> {nn.role = "param", nn.name = "w", nn.group = 0 : i64})
      -> (tensor<f32> {nn.role = "loss", nn.name = "loss"}) {
    %y = "nn.mul"(%w, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %s = "nn.reduce_sum"(%y) {axes = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
    return %s : tensor<f32>
  }
}

//--- momentum-of-a-group.mlir
// One group has a momentum, the others have none.
// CHECK-NOT: "v.momentum"
// CHECK: nn.name = "w.momentum", nn.role = "opt"
// CHECK-NOT: "v.momentum"
// CHECK: %[[NINE:.*]] = "nn.constant"() {nn.phase = "update", value = 9.000000e-01 : f64}
// CHECK: "nn.mul"(%{{.*}}, %[[NINE]])
module attributes {nn.optimizer = "sgd", nn.groups = [{lr = 0.1 : f64}, {lr = 0.1 : f64}]} {
  func.func @update(%p: tensor<1xf32> {nn.name = "parameter"}, %g: tensor<1xf32> {nn.name = "gradient"}, %lr: tensor<f64> {nn.name = "lr"}) -> tensor<1xf32> {
    %r = "nn.cast"(%lr) : (tensor<f64>) -> tensor<f32>
    %b = "nn.broadcast"(%r) {dims = array<i64>} : (tensor<f32>) -> tensor<1xf32>
    %d = "nn.mul"(%b, %g) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
    %n = "nn.sub"(%p, %d) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
    return %n : tensor<1xf32>
  }
  func.func @update_2(%p: tensor<1xf32> {nn.name = "parameter"}, %g: tensor<1xf32> {nn.name = "gradient"}, %lr: tensor<f64> {nn.name = "lr"},
      %m: tensor<1xf32> {nn.name = "momentum", nn.role = "state", nn.init = "zeros"}) -> (tensor<1xf32>, tensor<1xf32> {nn.role = "update", nn.tied = 3 : i64}) {
    %mu = "nn.constant"() {value = 9.0e-1 : f64} : () -> tensor<1xf32>
    %old = "nn.mul"(%m, %mu) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
    %v = "nn.add"(%old, %g) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
    %r = "nn.cast"(%lr) : (tensor<f64>) -> tensor<f32>
    %b = "nn.broadcast"(%r) {dims = array<i64>} : (tensor<f32>) -> tensor<1xf32>
    %d = "nn.mul"(%b, %v) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
    %n = "nn.sub"(%p, %d) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
    return %n, %v : tensor<1xf32>, tensor<1xf32>
  }
  func.func @train(%x: tensor<4xf32> {nn.role = "input", nn.name = "x"}, %v: tensor<4xf32> {nn.role = "param", nn.name = "v", nn.group = 0 : i64},
                   %w: tensor<4xf32> {nn.role = "param", nn.name = "w", nn.group = 1 : i64, nn.update = "update_2"}) -> (tensor<f32> {nn.role = "loss", nn.name = "loss"}) {
    %y = "nn.mul"(%w, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %z = "nn.mul"(%y, %v) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %s = "nn.reduce_sum"(%z) {axes = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
    return %s : tensor<f32>
  }
}

//--- adam.mlir
// 1 - beta^step of the second group's betas is a number of `hyper`; what lr and it make is formed in f64, once.
// CHECK: %arg2: tensor<6xf64> {nn.name = "hyper"
// CHECK: nn.name = "w.exp_avg", nn.role = "opt"}, %arg4: tensor<4xf32> {nn.group = 1 : i64, nn.init = "zeros", nn.name = "w.exp_avg_sq"
// CHECK-DAG: "nn.slice"(%arg2) {nn.phase = "update", sizes = array<i64: 1>, starts = array<i64: 3>
// CHECK-DAG: "nn.slice"(%arg2) {nn.phase = "update", sizes = array<i64: 1>, starts = array<i64: 4>
// CHECK-DAG: "nn.slice"(%arg2) {nn.phase = "update", sizes = array<i64: 1>, starts = array<i64: 5>
// CHECK-DAG: %[[RATE:.*]] = "nn.div"{{.*}} : (tensor<f64>, tensor<f64>) -> tensor<f64>
// CHECK-DAG: %[[CORRECTION:.*]] = "nn.rsqrt"{{.*}} : (tensor<f64>) -> tensor<f64>
// CHECK: "nn.tap"(%[[G:.*]]) {name = "grad.w"
// CHECK-NOT: nn.pow
// CHECK: %[[DD:.*]] = "nn.mul"(%[[G]], %[[G]])
// CHECK: %[[V:.*]] = "nn.add"(%arg4, %[[DD]])
// CHECK: "nn.sqrt"(%[[V]])
// CHECK: "nn.sub"(%arg1,
module attributes {nn.optimizer = "adam", nn.groups = [{lr = 0.1 : f64}, {lr = 0.01 : f64, beta1 = 0.8 : f64, beta2 = 0.99 : f64}]} {
  func.func @update(%p: tensor<1xf32> {nn.name = "parameter"}, %g: tensor<1xf32> {nn.name = "gradient"}, %lr: tensor<f64> {nn.name = "lr"}, %step: tensor<f64> {nn.name = "step"},
      %m: tensor<1xf32> {nn.name = "exp_avg", nn.role = "state", nn.init = "zeros"}, %v: tensor<1xf32> {nn.name = "exp_avg_sq", nn.role = "state", nn.init = "zeros"})
      -> (tensor<1xf32>, tensor<1xf32> {nn.role = "update", nn.tied = 4 : i64}, tensor<1xf32> {nn.role = "update", nn.tied = 5 : i64}) {
    %one = "nn.constant"() {value = 1.0 : f64} : () -> tensor<f64>
    %b1 = "nn.constant"() {value = 8.0e-1 : f64} : () -> tensor<f64>
    %p1 = "nn.pow"(%b1, %step) : (tensor<f64>, tensor<f64>) -> tensor<f64>
    %c1 = "nn.sub"(%one, %p1) : (tensor<f64>, tensor<f64>) -> tensor<f64>
    %b2 = "nn.constant"() {value = 9.9e-1 : f64} : () -> tensor<f64>
    %p2 = "nn.pow"(%b2, %step) : (tensor<f64>, tensor<f64>) -> tensor<f64>
    %c2 = "nn.sub"(%one, %p2) : (tensor<f64>, tensor<f64>) -> tensor<f64>
    %m1 = "nn.add"(%m, %g) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
    %gg = "nn.mul"(%g, %g) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
    %v1 = "nn.add"(%v, %gg) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
    %q = "nn.sqrt"(%v1) : (tensor<1xf32>) -> tensor<1xf32>
    %i = "nn.rsqrt"(%c2) : (tensor<f64>) -> tensor<f64>
    %ic = "nn.cast"(%i) : (tensor<f64>) -> tensor<f32>
    %ib = "nn.broadcast"(%ic) {dims = array<i64>} : (tensor<f32>) -> tensor<1xf32>
    %root = "nn.mul"(%q, %ib) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
    %ratio = "nn.div"(%m1, %root) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
    %rate = "nn.div"(%lr, %c1) : (tensor<f64>, tensor<f64>) -> tensor<f64>
    %rc = "nn.cast"(%rate) : (tensor<f64>) -> tensor<f32>
    %rb = "nn.broadcast"(%rc) {dims = array<i64>} : (tensor<f32>) -> tensor<1xf32>
    %d = "nn.mul"(%rb, %ratio) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
    %n = "nn.sub"(%p, %d) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
    return %n, %m1, %v1 : tensor<1xf32>, tensor<1xf32>, tensor<1xf32>
  }
  func.func @train(%x: tensor<4xf32> {nn.role = "input", nn.name = "x"}, %w: tensor<4xf32> {nn.role = "param", nn.name = "w", nn.group = 1 : i64})
      -> (tensor<f32> {nn.role = "loss", nn.name = "loss"}) {
    %y = "nn.mul"(%w, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %s = "nn.reduce_sum"(%y) {axes = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
    return %s : tensor<f32>
  }
}

//--- accumulate.mlir
// Each of the four micro-batches adds its share, a number of the call; @train, the last one, uses the sum and clears the accumulator. Gradients are in memory before they are added.
// CHECK-LABEL: func.func @train
// CHECK-SAME: %arg2: tensor<4xf64> {nn.name = "hyper", nn.role = "hyper"}
// CHECK-SAME: nn.name = "w.grad_accum", nn.role = "accum"
// CHECK-SAME: nn.tied = 1 : i64}, tensor<4xf32> {nn.name = "w.grad_accum", nn.role = "update", nn.tied = 3 : i64}
// CHECK: %[[LAST:.*]] = "nn.slice"(%arg2) {nn.phase = "backward", sizes = array<i64: 1>, starts = array<i64: 3>
// CHECK: %[[SHARE:.*]] = "nn.reshape"(%[[LAST]])
// CHECK: %[[Q:.*]] = "nn.cast"(%[[SHARE]]) {nn.phase = "backward"} : (tensor<f64>) -> tensor<f32>
// CHECK: %[[QS:.*]] = "nn.broadcast"(%[[Q]])
// CHECK: %[[G:.*]] = "nn.mul"(%[[QS]], %{{.*}}) {nn.phase = "backward"}
// CHECK: %[[R:.*]] = "nn.optimization_barrier"(%[[G]]) {nn.phase = "update"}
// CHECK: %[[SUM:.*]] = "nn.add"(%arg3, %[[R]]) {nn.phase = "update"}
// CHECK: "nn.tap"(%[[SUM]]) {name = "grad.w"
// CHECK: %[[ZERO:.*]] = "nn.constant"() {nn.phase = "update", value = 0.000000e+00 : f64}
// CHECK: return %{{.*}}, %{{.*}}, %[[ZERO]]
// CHECK-LABEL: func.func @accumulate
// CHECK-SAME: %arg3: tensor<4xf32> {nn.group = 0 : i64, nn.init = "zeros", nn.name = "w.grad_accum", nn.role = "accum"}
// CHECK-SAME: -> (tensor<f32> {nn.name = "loss", nn.role = "loss"}, tensor<4xf32> {nn.name = "w.grad_accum", nn.role = "update", nn.tied = 3 : i64})
// CHECK-NOT: "nn.tap"{{.*}}"grad.
// CHECK: %[[A:.*]] = "nn.add"(%arg3, %{{.*}}) {nn.phase = "update"}
// CHECK: return %{{.*}}, %[[A]]
module attributes {nn.optimizer = "sgd", nn.accumulate = 4 : i64} {
  func.func @update(%p: tensor<1xf32> {nn.name = "parameter"}, %g: tensor<1xf32> {nn.name = "gradient"}, %lr: tensor<f64> {nn.name = "lr"}) -> tensor<1xf32> {
    %r = "nn.cast"(%lr) : (tensor<f64>) -> tensor<f32>
    %b = "nn.broadcast"(%r) {dims = array<i64>} : (tensor<f32>) -> tensor<1xf32>
    %d = "nn.mul"(%b, %g) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
    %n = "nn.sub"(%p, %d) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
    return %n : tensor<1xf32>
  }
  func.func @train(%x: tensor<4xf32> {nn.role = "input", nn.name = "x"}, %w: tensor<4xf32> {nn.role = "param", nn.name = "w", nn.group = 0 : i64})
      -> (tensor<f32> {nn.role = "loss", nn.name = "loss"}) {
    %y = "nn.mul"(%w, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    "nn.tap"(%y) {name = "output.y"} : (tensor<4xf32>) -> ()
    %s = "nn.reduce_sum"(%y) {axes = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
    return %s : tensor<f32>
  }
}

//--- clip.mlir
// One norm over both gradients; the taps show them before clipping.
// CHECK: "nn.tap"(%[[GW:.*]]) {name = "grad.w"
// CHECK: "nn.tap"(%[[GV:.*]]) {name = "grad.v"
// CHECK-DAG: %[[W2:.*]] = "nn.mul"(%[[GW]], %[[GW]]) {nn.phase = "backward"}
// CHECK-DAG: %[[V2:.*]] = "nn.mul"(%[[GV]], %[[GV]]) {nn.phase = "backward"}
// CHECK-DAG: %[[WS:.*]] = "nn.reduce_sum"(%[[W2]]) {axes = array<i64: 0, 1>
// CHECK-DAG: %[[VS:.*]] = "nn.reduce_sum"(%[[V2]]) {axes = array<i64: 0>
// CHECK: %[[SS:.*]] = "nn.add"(%[[WS]], %[[VS]])
// CHECK: %[[NORM:.*]] = "nn.sqrt"(%[[SS]])
// CHECK: %[[SAFE:.*]] = "nn.add"(%[[NORM]],
// CHECK: %[[RATIO:.*]] = "nn.div"(%{{.*}}, %[[SAFE]])
// CHECK: %[[FACTOR:.*]] = "nn.min"(%[[RATIO]],
// CHECK: %[[FW:.*]] = "nn.broadcast"(%[[FACTOR]]) {{.*}} -> tensor<2x3xf32>
// CHECK: "nn.mul"(%[[GW]], %[[FW]]) {nn.phase = "backward"}
// CHECK: "nn.sub"(%arg1,
// CHECK: %[[FV:.*]] = "nn.broadcast"(%[[FACTOR]]) {{.*}} -> tensor<3xf32>
// CHECK: "nn.mul"(%[[GV]], %[[FV]]) {nn.phase = "backward"}
// CHECK: "nn.sub"(%arg2,
module attributes {nn.optimizer = "sgd", nn.clip_norm = 5.0 : f64} {
  func.func @update(%p: tensor<1xf32> {nn.name = "parameter"}, %g: tensor<1xf32> {nn.name = "gradient"}, %lr: tensor<f64> {nn.name = "lr"}) -> tensor<1xf32> {
    %r = "nn.cast"(%lr) : (tensor<f64>) -> tensor<f32>
    %b = "nn.broadcast"(%r) {dims = array<i64>} : (tensor<f32>) -> tensor<1xf32>
    %d = "nn.mul"(%b, %g) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
    %n = "nn.sub"(%p, %d) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
    return %n : tensor<1xf32>
  }
  func.func @train(%x: tensor<2x3xf32> {nn.role = "input", nn.name = "x"}, %w: tensor<2x3xf32> {nn.role = "param", nn.name = "w"}, %v: tensor<3xf32> {nn.role = "param", nn.name = "v"})
      -> (tensor<f32> {nn.role = "loss", nn.name = "loss"}) {
    %b = "nn.broadcast"(%v) {dims = array<i64: 1>} : (tensor<3xf32>) -> tensor<2x3xf32>
    %a = "nn.mul"(%w, %x) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
    %y = "nn.mul"(%a, %b) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
    %s = "nn.reduce_sum"(%y) {axes = array<i64: 0, 1>} : (tensor<2x3xf32>) -> tensor<f32>
    return %s : tensor<f32>
  }
}

//--- frozen.mlir
// A parameter of a frozen group, one that the loss does not reach, and what lies behind a comparison get no gradient and no update.
// CHECK-LABEL: func.func @train
// CHECK-NOT: w_frozen.exp_avg
// CHECK-NOT: w_unused.exp_avg
// CHECK: {nn.name = "w", nn.role = "update"
// CHECK-NOT: nn.role = "update"
// CHECK-NOT: grad.w_
// CHECK: "nn.tap"({{.*}}) {name = "grad.w"
// CHECK-NOT: grad.w_
module attributes {nn.optimizer = "sgd", nn.groups = [{lr = 0.1 : f64}, {lr = 0.1 : f64, frozen = true}]} {
  func.func @update(%p: tensor<1xf32> {nn.name = "parameter"}, %g: tensor<1xf32> {nn.name = "gradient"}, %lr: tensor<f64> {nn.name = "lr"}) -> tensor<1xf32> {
    %r = "nn.cast"(%lr) : (tensor<f64>) -> tensor<f32>
    %b = "nn.broadcast"(%r) {dims = array<i64>} : (tensor<f32>) -> tensor<1xf32>
    %d = "nn.mul"(%b, %g) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
    %n = "nn.sub"(%p, %d) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
    return %n : tensor<1xf32>
  }
  func.func @train(%f: tensor<4xf32> {nn.role = "param", nn.name = "w_frozen", nn.group = 1 : i64}, %u: tensor<4xf32> {nn.role = "param", nn.name = "w_unused", nn.group = 0 : i64},
                   %w: tensor<4xf32> {nn.role = "param", nn.name = "w", nn.group = 0 : i64}) -> (tensor<f32> {nn.role = "loss", nn.name = "loss"}, tensor<f32> {nn.role = "metric", nn.name = "m"}) {
    %y = "nn.mul"(%w, %f) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %c = "nn.compare"(%u, %f) {predicate = "lt"} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
    %z = "nn.select"(%c, %y, %f) : (tensor<4xi1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %s = "nn.reduce_sum"(%z) {axes = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
    %m = "nn.reduce_sum"(%u) {axes = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
    return %s, %m : tensor<f32>, tensor<f32>
  }
}

//--- predict.mlir
// Without an optimizer there is nothing to do.
// CHECK-NOT: hyper
// CHECK-NOT: backward
module {
  func.func @train(%x: tensor<f32> {nn.role = "param", nn.name = "x"}) -> (tensor<f32> {nn.role = "loss", nn.name = "loss"}) {
    return %x : tensor<f32>
  }
}

//--- twice.mlir
// CHECK: twice.mlir:11:{{[0-9]+}}: error: autodiff has already run
module attributes {nn.optimizer = "sgd"} {
  func.func @update(%p: tensor<1xf32> {nn.name = "parameter"}, %g: tensor<1xf32> {nn.name = "gradient"}, %lr: tensor<f64> {nn.name = "lr"}) -> tensor<1xf32> {
    %r = "nn.cast"(%lr) : (tensor<f64>) -> tensor<f32>
    %b = "nn.broadcast"(%r) {dims = array<i64>} : (tensor<f32>) -> tensor<1xf32>
    %d = "nn.mul"(%b, %g) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
    %n = "nn.sub"(%p, %d) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
    return %n : tensor<1xf32>
  }
  // line 3
  func.func @train(%x: tensor<f32> {nn.role = "param", nn.name = "x"}) -> (tensor<f32> {nn.role = "loss", nn.name = "loss"}) {
    %y = "nn.mul"(%x, %x) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    return %y : tensor<f32>
  }
}

//--- vector.mlir
// CHECK: error: the loss must be a floating-point scalar, found f32[4]
module attributes {nn.optimizer = "sgd"} {
  func.func @update(%p: tensor<1xf32> {nn.name = "parameter"}, %g: tensor<1xf32> {nn.name = "gradient"}, %lr: tensor<f64> {nn.name = "lr"}) -> tensor<1xf32> {
    %r = "nn.cast"(%lr) : (tensor<f64>) -> tensor<f32>
    %b = "nn.broadcast"(%r) {dims = array<i64>} : (tensor<f32>) -> tensor<1xf32>
    %d = "nn.mul"(%b, %g) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
    %n = "nn.sub"(%p, %d) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
    return %n : tensor<1xf32>
  }
  func.func @train(%x: tensor<4xf32> {nn.role = "param", nn.name = "x"}) -> (tensor<4xf32> {nn.role = "loss", nn.name = "loss"}) {
    %y = "nn.mul"(%x, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    return %y : tensor<4xf32>
  }
}

//--- no_path.mlir
// CHECK: error: the loss does not depend on any parameter that is trained
module attributes {nn.optimizer = "sgd"} {
  func.func @update(%p: tensor<1xf32> {nn.name = "parameter"}, %g: tensor<1xf32> {nn.name = "gradient"}, %lr: tensor<f64> {nn.name = "lr"}) -> tensor<1xf32> {
    %r = "nn.cast"(%lr) : (tensor<f64>) -> tensor<f32>
    %b = "nn.broadcast"(%r) {dims = array<i64>} : (tensor<f32>) -> tensor<1xf32>
    %d = "nn.mul"(%b, %g) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
    %n = "nn.sub"(%p, %d) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
    return %n : tensor<1xf32>
  }
  func.func @train(%x: tensor<f32> {nn.role = "param", nn.name = "x"}) -> (tensor<f32> {nn.role = "loss", nn.name = "loss"}) {
    %y = "nn.floor"(%x) : (tensor<f32>) -> tensor<f32>
    return %y : tensor<f32>
  }
}

//--- no_loss.mlir
// CHECK: error: @train has no result with nn.role = "loss"
module attributes {nn.optimizer = "sgd"} {
  func.func @update(%p: tensor<1xf32> {nn.name = "parameter"}, %g: tensor<1xf32> {nn.name = "gradient"}, %lr: tensor<f64> {nn.name = "lr"}) -> tensor<1xf32> {
    %r = "nn.cast"(%lr) : (tensor<f64>) -> tensor<f32>
    %b = "nn.broadcast"(%r) {dims = array<i64>} : (tensor<f32>) -> tensor<1xf32>
    %d = "nn.mul"(%b, %g) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
    %n = "nn.sub"(%p, %d) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
    return %n : tensor<1xf32>
  }
  func.func @train(%x: tensor<f32> {nn.role = "param", nn.name = "x"}) -> (tensor<f32> {nn.role = "metric", nn.name = "loss"}) {
    %y = "nn.mul"(%x, %x) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    return %y : tensor<f32>
  }
}

//--- unknown.mlir
// CHECK: error: parameters are updated by @update, which the module does not have
module attributes {nn.optimizer = "lion"} {
  func.func @train(%x: tensor<f32> {nn.role = "param", nn.name = "x"}) -> (tensor<f32> {nn.role = "loss", nn.name = "loss"}) {
    %y = "nn.mul"(%x, %x) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    return %y : tensor<f32>
  }
}

//--- group.mlir
// CHECK: error: argument 0 is in parameter group 3, but nn.groups has 1
module attributes {nn.optimizer = "sgd"} {
  func.func @update(%p: tensor<1xf32> {nn.name = "parameter"}, %g: tensor<1xf32> {nn.name = "gradient"}, %lr: tensor<f64> {nn.name = "lr"}) -> tensor<1xf32> {
    %r = "nn.cast"(%lr) : (tensor<f64>) -> tensor<f32>
    %b = "nn.broadcast"(%r) {dims = array<i64>} : (tensor<f32>) -> tensor<1xf32>
    %d = "nn.mul"(%b, %g) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
    %n = "nn.sub"(%p, %d) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
    return %n : tensor<1xf32>
  }
  func.func @train(%x: tensor<f32> {nn.role = "param", nn.name = "x", nn.group = 3 : i64}) -> (tensor<f32> {nn.role = "loss", nn.name = "loss"}) {
    %y = "nn.mul"(%x, %x) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    return %y : tensor<f32>
  }
}

//--- no_gradient.mlir
// CHECK: error: an update needs arguments 'parameter' and 'gradient'
module attributes {nn.optimizer = "sgd"} {
  func.func @update(%p: tensor<1xf32> {nn.name = "parameter"}, %lr: tensor<f64> {nn.name = "lr"}) -> tensor<1xf32> {
    return %p : tensor<1xf32>
  }
  func.func @train(%x: tensor<4xf32> {nn.role = "input", nn.name = "x"}, %w: tensor<4xf32> {nn.role = "param", nn.name = "w"}) -> (tensor<f32> {nn.role = "loss", nn.name = "loss"}) {
    %y = "nn.mul"(%x, %w) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %s = "nn.reduce_sum"(%y) {axes = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
    return %s : tensor<f32>
  }
}

//--- other_type.mlir
// CHECK: error: an update of f32[1] cannot be one of f64[4]
module attributes {nn.optimizer = "sgd"} {
  func.func @update(%p: tensor<1xf32> {nn.name = "parameter"}, %g: tensor<1xf32> {nn.name = "gradient"}, %lr: tensor<f64> {nn.name = "lr"}) -> tensor<1xf32> {
    return %p : tensor<1xf32>
  }
  func.func @train(%x: tensor<4xf64> {nn.role = "input", nn.name = "x"}, %w: tensor<4xf64> {nn.role = "param", nn.name = "w"}) -> (tensor<f64> {nn.role = "loss", nn.name = "loss"}) {
    %y = "nn.mul"(%x, %w) : (tensor<4xf64>, tensor<4xf64>) -> tensor<4xf64>
    %s = "nn.reduce_sum"(%y) {axes = array<i64: 0>} : (tensor<4xf64>) -> tensor<f64>
    return %s : tensor<f64>
  }
}
