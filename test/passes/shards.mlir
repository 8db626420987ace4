// What ranks keep a part of (nn.shard): its state, its part of the sums, its part of the parameters.
// RUN: sed 's/WHAT/optimizer/' %s > %t.o.mlir && %nnc_opt %t.o.mlir --passes=autodiff,distribute,simplify -o %t.o.out && FileCheck %s --check-prefix=OPT < %t.o.out
// RUN: sed 's/WHAT/gradients/' %s > %t.g.mlir && %nnc_opt %t.g.mlir --passes=autodiff,distribute,simplify | FileCheck %s --check-prefix=GRAD
// RUN: sed 's/WHAT/parameters/' %s > %t.p.mlir && %nnc_opt %t.p.mlir --passes=autodiff,distribute,simplify | FileCheck %s --check-prefix=PARAM
// RUN: sed 's/WHAT/gradients/; s/module attributes {/module attributes {nn.accumulate = 2 : i64, nn.clip_norm = 1.0 : f64, /' %s > %t.a.mlir && %nnc_opt %t.a.mlir --passes=autodiff,distribute,simplify | FileCheck %s --check-prefix=ADDS

// 40 elements on 2 ranks: 20, in whole lines 32. The parameter is whole, its state and its update are a part.
// OPT: func.func @train({{.*}}tensor<5x8xf32> {nn.name = "w", nn.role = "param"}{{.*}}tensor<32xf32> {{{.*}}nn.name = "w.momentum", nn.role = "opt", nn.shape = array<i64: 5, 8>}
// OPT: %[[SUM:.*]] = "nn.all_reduce_1"(%{{.*}}) {nn.lane = "comm"
// OPT: "nn.rank_part"(%{{.*}}) {{.*}}ranks = 2 : i64} : (tensor<5x8xf32>) -> tensor<32xf32>
// OPT: %[[NEW:.*]] = "nn.all_gather_1"(%{{.*}}) {nn.lane = "comm", nn.phase = "update", ranks = 2 : i64} : (tensor<32xf32>) -> tensor<5x8xf32>
// OPT: return %{{.*}}, %[[NEW]], %{{.*}} : tensor<f32>, tensor<5x8xf32>, tensor<32xf32>

// GRAD-NOT: nn.all_reduce
// GRAD: "nn.reduce_scatter_1"(%{{.*}}) {nn.lane = "comm", nn.phase = "update", ranks = 2 : i64} : (tensor<5x8xf32>) -> tensor<32xf32>
// GRAD: "nn.all_gather_1"{{.*}} -> tensor<5x8xf32>

// PARAM: func.func @train({{.*}}tensor<32xf32> {nn.name = "w", nn.role = "param", nn.shape = array<i64: 5, 8>}
// PARAM: %[[W:.*]] = "nn.all_gather_1"(%arg1) {nn.lane = "comm", nn.phase = "forward", ranks = 2 : i64} : (tensor<32xf32>) -> tensor<5x8xf32>
// PARAM: "nn.matmul"(%{{.*}}, %[[W]])
// PARAM-NOT: nn.rank_part
// PARAM: return %{{.*}} : tensor<f32>, tensor<32xf32>, tensor<32xf32>
// PARAM: func.func @eval({{.*}}tensor<32xf32> {nn.name = "w"
// PARAM: "nn.all_gather_1"(%arg1)
// What is read in bf16 alone travels in bf16.
// PARAM: func.func @predict(
// PARAM: %[[NARROW:.*]] = "nn.all_gather_1"(%arg0) {{.*}} : (tensor<32xf32>) -> tensor<5x8xbf16>
// PARAM-NEXT: return %[[NARROW]]

// A gradient that is clipped: its squares are summed line by line, 40 elements in 3 lines of 16, alone, so that it is dropped before the others are there.
// RUN: sed 's/WHAT/optimizer/; s/module attributes {/module attributes {nn.clip_norm = 1.0 : f64, /' %s > %t.c.mlir && %nnc_opt %t.c.mlir --passes=autodiff,distribute,simplify | FileCheck %s --check-prefix=CLIP
// CLIP: "nn.all_reduce_1"
// CLIP: %[[LINES:.*]] = "nn.reduce_sum"(%{{.*}}) {axes = array<i64: 1>, nn.phase = "backward"} : (tensor<3x16xf32>) -> tensor<3xf32>
// CLIP-NEXT: %[[STORED:.*]] = "nn.optimization_barrier"(%[[LINES]])
// CLIP-NEXT: %[[SQUARES:.*]] = "nn.reduce_sum"(%[[STORED]]) {axes = array<i64: 0>, nn.phase = "backward"} : (tensor<3xf32>) -> tensor<f32>
// CLIP-NEXT: "nn.optimization_barrier"(%[[SQUARES]])

// Sums of micro-batches are parts; of each the sums of its own 2 lines are gathered, of which the fourth holds nothing.
// ADDS-LABEL: func.func @train
// ADDS: %[[PART:.*]] = "nn.reduce_scatter"(%{{.*}}, %{{.*}}) {adds = true
// ADDS-NEXT: %[[OWN:.*]] = "nn.reshape"(%[[PART]]) {{.*}} -> tensor<2x16xf32>
// ADDS: %[[LINES:.*]] = "nn.reduce_sum"(%{{.*}}) {axes = array<i64: 1>, nn.phase = "backward"} : (tensor<2x16xf32>) -> tensor<2xf32>
// ADDS-NEXT: %[[ALL:.*]] = "nn.all_gather_1"(%[[LINES]]) {nn.lane = "comm", {{.*}}ranks = 2 : i64} : (tensor<2xf32>) -> tensor<4xf32>
// ADDS-NEXT: %[[THERE:.*]] = "nn.slice"(%[[ALL]]) {{.*}} -> tensor<3xf32>
// ADDS-NEXT: "nn.optimization_barrier"(%[[THERE]])
// ADDS-LABEL: func.func @accumulate
// ADDS: "nn.reduce_scatter"(%{{.*}}, %{{.*}}) {adds = true, nn.lane = "comm", {{.*}}ranks = 2 : i64} : (tensor<5x8xf32>, tensor<32xf32>) -> tensor<32xf32>

// What does not fit is refused.
// RUN: sed 's/ranks = 2 : i64} : (tensor<5x8xf32>)/ranks = 0 : i64} : (tensor<5x8xf32>)/' %t.o.out > %t.b.mlir; not %nnc_opt %t.b.mlir --passes=simplify 2>&1 | FileCheck %s --check-prefix=NONE
// NONE: ranks must be at least 1, found 0
// RUN: sed 's/ranks = 2 : i64} : (tensor<32xf32>) -> tensor<5x8xf32>/ranks = 3 : i64} : (tensor<32xf32>) -> tensor<5x8xf32>/' %t.o.out > %t.b.mlir; not %nnc_opt %t.b.mlir --passes=simplify 2>&1 | FileCheck %s --check-prefix=OTHER
// OTHER: parts of 32 elements in all, on 3 ranks, are not those of f32[5, 8]

module attributes {nn.optimizer = "momentum", nn.shard = "WHAT", nn.ranks = 2 : i64} {
  func.func @update(%p: tensor<1xf32> {nn.name = "parameter"}, %g: tensor<1xf32> {nn.name = "gradient"}, %lr: tensor<f64> {nn.name = "lr"},
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
  func.func @train(%x: tensor<4x5xf32> {nn.role = "input", nn.name = "x"}, %w: tensor<5x8xf32> {nn.role = "param", nn.name = "w"})
      -> (tensor<f32> {nn.role = "loss", nn.name = "loss"}) {
    %h = "nn.matmul"(%x, %w) {transpose_a = false, transpose_b = false} : (tensor<4x5xf32>, tensor<5x8xf32>) -> tensor<4x8xf32>
    %0 = "nn.exp"(%h) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %s = "nn.reduce_sum"(%0) {axes = array<i64: 0, 1>} : (tensor<4x8xf32>) -> tensor<f32>
    return %s : tensor<f32>
  }
  func.func @eval(%x: tensor<4x5xf32> {nn.role = "input", nn.name = "x"}, %w: tensor<5x8xf32> {nn.role = "param", nn.name = "w"})
      -> (tensor<f32> {nn.role = "loss", nn.name = "loss"}) {
    %h = "nn.matmul"(%x, %w) {transpose_a = false, transpose_b = false} : (tensor<4x5xf32>, tensor<5x8xf32>) -> tensor<4x8xf32>
    %s = "nn.reduce_sum"(%h) {axes = array<i64: 0, 1>} : (tensor<4x8xf32>) -> tensor<f32>
    return %s : tensor<f32>
  }
  func.func @predict(%w: tensor<5x8xf32> {nn.role = "param", nn.name = "w"}) -> (tensor<5x8xbf16> {nn.role = "output", nn.name = "y"}) {
    %y = "nn.cast"(%w) : (tensor<5x8xf32>) -> tensor<5x8xbf16>
    return %y : tensor<5x8xbf16>
  }
}
