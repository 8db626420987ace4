// Which forward values are kept for the backward pass, which are computed again, and where.
// RUN: split-file %s %t
// RUN: %nnc_opt %t/norm.mlir --passes=autodiff,decompose,simplify,recompute | FileCheck %t/norm.mlir
// RUN: %nnc_opt %t/norm.mlir --passes=autodiff,decompose,simplify,recompute,simplify | FileCheck %t/norm.mlir
// RUN: %nnc_opt %t/norm.mlir --passes=autodiff,decompose,simplify,recompute,fuse | FileCheck %t/norm.mlir --check-prefix=FUSED
// RUN: %nnc_opt %t/norm.mlir --passes='autodiff,decompose,simplify,recompute{mode=kernels}' | FileCheck %t/norm.mlir --check-prefix=KERNELS
// RUN: %nnc_opt %t/norm.mlir --passes='autodiff,decompose,simplify,recompute{mode=none}' | FileCheck %t/norm.mlir --check-prefix=NONE
// RUN: %nnc_opt %t/dropout.mlir --passes=autodiff,decompose,simplify,recompute | FileCheck %t/dropout.mlir
// RUN: %nnc_opt %t/attention.mlir --passes=autodiff,decompose,simplify,recompute | FileCheck %t/attention.mlir
// RUN: %nnc_opt %t/attention.mlir --passes=autodiff,decompose,simplify,recompute,fuse | FileCheck %t/attention.mlir --check-prefix=FUSED
// RUN: %nnc_opt %t/joins.mlir --passes=autodiff,decompose,simplify,recompute | FileCheck %t/joins.mlir
// RUN: for n in 40 60; do awk -v n=$n '/^NEG$/ {for (i = 0; i < n; i++) print "%a" i + 1 " = \"nn.neg\"(%a" i ") {nn.phase = \"forward\"} : (tensor<256x32xf32>) -> tensor<256x32xf32>"; next} {gsub(/LAST/, "a" n)} 1' %t/long.mlir | %nnc_opt - --passes=autodiff,decompose,recompute > %t/long.$n || exit 1; done
// RUN: FileCheck %t/long.mlir < %t/long.40 && FileCheck %t/long.mlir --check-prefix=LONG < %t/long.60

//--- norm.mlir
// Batch normalisation and ReLU between two products. Only the first product (32 KiB) and three vectors are kept. What the weight gradient
// reads is made again for it alone; the mask of the ReLU has a copy of its own, which every kernel computes.
// CHECK: func.func @train
// CHECK-SAME: nn.checkpoint_kept = 33152 : i64, nn.checkpoint_saved = 32640 : i64
// CHECK: %[[H:.*]] = "nn.matmul"(%arg0, %arg1)
// CHECK: %[[Y:.*]] = "nn.relu"({{.*}}) {nn.phase = "forward"}
// CHECK: "nn.matmul"(%[[Y]], %arg4)
// CHECK-NOT: %[[Y]]{{[,)]}}
// CHECK: %[[AGAIN:.*]] = "nn.relu"(%[[SUM:.*]]) {nn.phase = "backward", nn.recompute = "relu.[[N:[0-9]+]]", nn.stored}
// CHECK: "nn.matmul_rows"(%[[AGAIN]],
// CHECK: %[[OWN:.*]] = "nn.relu"(%[[SUM]]) {nn.phase = "backward", nn.recompute = "relu.[[N]]"}
// CHECK: "nn.compare"(%[[OWN]],
//
// A result of the kernel that reads the product anyway, for the statistics' gradients; the library op follows it.
// FUSED: %[[H:.*]] = "nn.matmul"(%arg0, %arg1)
// FUSED: %[[K:.*]]:{{[0-9]+}} = call @kernel_{{[0-9]+}}({{.*}}%[[H]]{{.*}}) {nn.inside = "sub.{{[0-9]+}}, relu.{{[0-9]+}}", nn.phase = "update"}
// FUSED-SAME: tensor<256x32xf32>
// FUSED: "nn.matmul_rows"(%[[K]]#{{[0-9]}},
//
// KERNELS: nn.checkpoint_kept = 65920 : i64, nn.checkpoint_saved = 0 : i64
// KERNELS-NOT: nn.stored
// NONE: nn.checkpoint_kept = 65792 : i64, nn.checkpoint_saved = 0 : i64
// NONE-NOT: nn.recompute
module attributes {nn.optimizer = "sgd"} {
  func.func @update(%p: tensor<1xf32> {nn.name = "parameter"}, %g: tensor<1xf32> {nn.name = "gradient"}, %lr: tensor<f64> {nn.name = "lr"}) -> tensor<1xf32> {
    %r = "nn.cast"(%lr) : (tensor<f64>) -> tensor<f32>
    %b = "nn.broadcast"(%r) {dims = array<i64>} : (tensor<f32>) -> tensor<1xf32>
    %d = "nn.mul"(%b, %g) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
    %n = "nn.sub"(%p, %d) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
    return %n : tensor<1xf32>
  }
  func.func @train(%x: tensor<256x16xf32> {nn.role = "input", nn.name = "x"}, %w: tensor<16x32xf32> {nn.role = "param", nn.name = "w"},
                   %gamma: tensor<32xf32> {nn.role = "param", nn.name = "gamma"}, %beta: tensor<32xf32> {nn.role = "param", nn.name = "beta"},
                   %v: tensor<32x8xf32> {nn.role = "param", nn.name = "v"}) -> (tensor<f32> {nn.role = "loss", nn.name = "loss"}) {
    %h = "nn.matmul"(%x, %w) {nn.phase = "forward"} : (tensor<256x16xf32>, tensor<16x32xf32>) -> tensor<256x32xf32>
    %n, %mean, %var = "nn.batchnorm"(%h, %gamma, %beta) {axis = 1 : i64, eps = 1.0e-5 : f64, nn.phase = "forward"} : (tensor<256x32xf32>, tensor<32xf32>, tensor<32xf32>) -> (tensor<256x32xf32>, tensor<32xf32>, tensor<32xf32>)
    %y = "nn.relu"(%n) {nn.phase = "forward"} : (tensor<256x32xf32>) -> tensor<256x32xf32>
    %z = "nn.matmul"(%y, %v) {nn.phase = "forward"} : (tensor<256x32xf32>, tensor<32x8xf32>) -> tensor<256x8xf32>
    %s = "nn.reduce_sum"(%z) {axes = array<i64: 0, 1>, nn.phase = "forward"} : (tensor<256x8xf32>) -> tensor<f32>
    return %s : tensor<f32>
  }
}

//--- dropout.mlir
// tanh, then dropout. The product is kept (tanh and what it drops are made from it); of the mask nothing is kept: it is drawn again.
// CHECK: func.func @train
// CHECK-SAME: nn.checkpoint_kept = 32768 : i64
// CHECK: "nn.matmul"(%arg0, %arg2)
// CHECK: %[[DROPPED:.*]] = "nn.select"
// CHECK: "nn.matmul"(%[[DROPPED]], %arg3)
// CHECK-NOT: %[[DROPPED]]{{[,)]}}
// CHECK-DAG: "nn.tanh"({{.*}}) {nn.phase = "backward", nn.recompute = "tanh.
// CHECK-DAG: "nn.select"({{.*}}) {nn.phase = "backward", nn.recompute = "select.{{[0-9]+}}", nn.stored}
// CHECK: "nn.matmul_rows"
module attributes {nn.optimizer = "sgd"} {
  func.func @update(%p: tensor<1xf32> {nn.name = "parameter"}, %g: tensor<1xf32> {nn.name = "gradient"}, %lr: tensor<f64> {nn.name = "lr"}) -> tensor<1xf32> {
    %r = "nn.cast"(%lr) : (tensor<f64>) -> tensor<f32>
    %b = "nn.broadcast"(%r) {dims = array<i64>} : (tensor<f32>) -> tensor<1xf32>
    %d = "nn.mul"(%b, %g) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
    %n = "nn.sub"(%p, %d) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
    return %n : tensor<1xf32>
  }
  func.func @train(%x: tensor<256x16xf32> {nn.role = "input", nn.name = "x"}, %rng: tensor<1x4xi32> {nn.role = "rng", nn.name = "rng"},
                   %w: tensor<16x32xf32> {nn.role = "param", nn.name = "w"}, %v: tensor<32x8xf32> {nn.role = "param", nn.name = "v"})
      -> (tensor<f32> {nn.role = "loss", nn.name = "loss"}) {
    %h = "nn.matmul"(%x, %w) {nn.phase = "forward"} : (tensor<256x16xf32>, tensor<16x32xf32>) -> tensor<256x32xf32>
    %t = "nn.tanh"(%h) {nn.phase = "forward"} : (tensor<256x32xf32>) -> tensor<256x32xf32>
    %key = "nn.reshape"(%rng) {nn.phase = "forward"} : (tensor<1x4xi32>) -> tensor<4xi32>
    %u = "nn.random_uniform"(%key) {nn.phase = "forward"} : (tensor<4xi32>) -> tensor<256x32xf32>
    %p = "nn.constant"() {value = 0.5 : f64, nn.phase = "forward"} : () -> tensor<256x32xf32>
    %two = "nn.constant"() {value = 2.0 : f64, nn.phase = "forward"} : () -> tensor<256x32xf32>
    %zero = "nn.constant"() {value = 0.0 : f64, nn.phase = "forward"} : () -> tensor<256x32xf32>
    %keep = "nn.compare"(%u, %p) {predicate = "ge", nn.phase = "forward"} : (tensor<256x32xf32>, tensor<256x32xf32>) -> tensor<256x32xi1>
    %scaled = "nn.mul"(%t, %two) {nn.phase = "forward"} : (tensor<256x32xf32>, tensor<256x32xf32>) -> tensor<256x32xf32>
    %y = "nn.select"(%keep, %scaled, %zero) {nn.phase = "forward"} : (tensor<256x32xi1>, tensor<256x32xf32>, tensor<256x32xf32>) -> tensor<256x32xf32>
    %z = "nn.matmul"(%y, %v) {nn.phase = "forward"} : (tensor<256x32xf32>, tensor<32x8xf32>) -> tensor<256x8xf32>
    %s = "nn.reduce_sum"(%z) {axes = array<i64: 0, 1>, nn.phase = "forward"} : (tensor<256x8xf32>) -> tensor<f32>
    return %s : tensor<f32>
  }
}

//--- attention.mlir
// Attention keeps q, k, v (8 KiB each) and two numbers per row (512 bytes each), neither scores nor probabilities (32 KiB each): the product
// of q and k runs again, the exponentials in the kernel of the gradient, which also makes the probabilities that v's gradient reads.
// CHECK: func.func @train
// CHECK-SAME: nn.checkpoint_kept = 25600 : i64
// CHECK: %[[Q:.*]] = "nn.matmul"(%arg0, %arg1)
// CHECK: %[[K:.*]] = "nn.matmul"(%arg0, %arg2)
// CHECK: %[[V:.*]] = "nn.matmul"(%arg0, %arg3)
// CHECK: %[[S:.*]] = "nn.matmul"(%[[Q]], %[[K]]) {nn.phase = "forward", transpose_b = true}
// CHECK: "nn.reduce_max"(%[[S]])
// CHECK: nn.phase = "backward"
// CHECK-NOT: %[[S]]{{[,)]}}
// CHECK: %[[AGAIN:.*]] = "nn.matmul"(%[[Q]], %[[K]]) {nn.phase = "backward", nn.recompute = "matmul.{{[0-9]+}}", nn.stored, transpose_b = true}
// CHECK: "nn.exp"({{.*}}) {nn.phase = "backward", nn.recompute = "exp.
// FUSED: %[[AGAIN:.*]] = "nn.matmul"({{.*}}) {nn.phase = "backward", nn.recompute
// FUSED: %[[R:.*]]:2 = call @kernel_{{[0-9]+}}({{.*}}%[[AGAIN]]{{.*}}) {nn.inside = "mul.{{[0-9]+}}", nn.phase = "backward"}
module attributes {nn.optimizer = "sgd"} {
  func.func @update(%p: tensor<1xf32> {nn.name = "parameter"}, %g: tensor<1xf32> {nn.name = "gradient"}, %lr: tensor<f64> {nn.name = "lr"}) -> tensor<1xf32> {
    %r = "nn.cast"(%lr) : (tensor<f64>) -> tensor<f32>
    %b = "nn.broadcast"(%r) {dims = array<i64>} : (tensor<f32>) -> tensor<1xf32>
    %d = "nn.mul"(%b, %g) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
    %n = "nn.sub"(%p, %d) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
    return %n : tensor<1xf32>
  }
  func.func @train(%x: tensor<2x64x16xf32> {nn.role = "input", nn.name = "x"}, %wq: tensor<16x16xf32> {nn.role = "param", nn.name = "wq"},
                   %wk: tensor<16x16xf32> {nn.role = "param", nn.name = "wk"}, %wv: tensor<16x16xf32> {nn.role = "param", nn.name = "wv"})
      -> (tensor<f32> {nn.role = "loss", nn.name = "loss"}) {
    %q = "nn.matmul"(%x, %wq) {nn.phase = "forward"} : (tensor<2x64x16xf32>, tensor<16x16xf32>) -> tensor<2x64x16xf32>
    %k = "nn.matmul"(%x, %wk) {nn.phase = "forward"} : (tensor<2x64x16xf32>, tensor<16x16xf32>) -> tensor<2x64x16xf32>
    %v = "nn.matmul"(%x, %wv) {nn.phase = "forward"} : (tensor<2x64x16xf32>, tensor<16x16xf32>) -> tensor<2x64x16xf32>
    %s = "nn.matmul"(%q, %k) {transpose_b = true, nn.phase = "forward"} : (tensor<2x64x16xf32>, tensor<2x64x16xf32>) -> tensor<2x64x64xf32>
    %p = "nn.softmax"(%s) {nn.phase = "forward"} : (tensor<2x64x64xf32>) -> tensor<2x64x64xf32>
    %y = "nn.matmul"(%p, %v) {nn.phase = "forward"} : (tensor<2x64x64xf32>, tensor<2x64x16xf32>) -> tensor<2x64x16xf32>
    %l = "nn.reduce_sum"(%y) {axes = array<i64: 0, 1, 2>, nn.phase = "forward"} : (tensor<2x64x16xf32>) -> tensor<f32>
    return %l : tensor<f32>
  }
}

//--- joins.mlir
// x1 = relu(x + h1), x2 = relu(x1 + h2), x3 = relu(x2 + h3), where the h are kept for another reason (their squares are in the loss). To compute
// x3 from x, h1, h2 and h3 would read four values for one: x1 is made again from two, x2 is kept, x3 is made again from x2 and h3.
// CHECK: func.func @train
// CHECK: %[[X1:.*]] = "nn.relu"({{.*}}) {nn.phase = "forward"}
// CHECK: %[[X2:.*]] = "nn.relu"({{.*}}) {nn.phase = "forward"}
// CHECK: %[[X3:.*]] = "nn.relu"({{.*}}) {nn.phase = "forward"}
// CHECK: nn.phase = "backward"
// CHECK-NOT: "nn.matmul_rows"(%[[X3]],
// CHECK: "nn.add"(%[[X2]], {{.*}}) {nn.phase = "backward", nn.recompute
// CHECK: "nn.relu"({{.*}}) {nn.phase = "backward", nn.recompute = "relu.{{[0-9]+}}", nn.stored}
// CHECK-NOT: "nn.matmul_rows"(%[[X1]],
// CHECK: "nn.matmul_rows"(%[[X2]],
// CHECK-NOT: "nn.matmul_rows"(%[[X1]],
module attributes {nn.optimizer = "sgd"} {
  func.func @update(%p: tensor<1xf32> {nn.name = "parameter"}, %g: tensor<1xf32> {nn.name = "gradient"}, %lr: tensor<f64> {nn.name = "lr"}) -> tensor<1xf32> {
    %r = "nn.cast"(%lr) : (tensor<f64>) -> tensor<f32>
    %b = "nn.broadcast"(%r) {dims = array<i64>} : (tensor<f32>) -> tensor<1xf32>
    %d = "nn.mul"(%b, %g) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
    %n = "nn.sub"(%p, %d) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
    return %n : tensor<1xf32>
  }
  func.func @train(%in: tensor<256x32xf32> {nn.role = "input", nn.name = "in"}, %w0: tensor<32x32xf32> {nn.role = "param", nn.name = "w0"}, %w1: tensor<32x32xf32> {nn.role = "param", nn.name = "w1"},
                   %w2: tensor<32x32xf32> {nn.role = "param", nn.name = "w2"}, %w3: tensor<32x32xf32> {nn.role = "param", nn.name = "w3"})
      -> (tensor<f32> {nn.role = "loss", nn.name = "loss"}) {
    %x = "nn.matmul"(%in, %w0) {nn.phase = "forward"} : (tensor<256x32xf32>, tensor<32x32xf32>) -> tensor<256x32xf32>
    %h1 = "nn.matmul"(%x, %w1) {nn.phase = "forward"} : (tensor<256x32xf32>, tensor<32x32xf32>) -> tensor<256x32xf32>
    %s1 = "nn.mul"(%h1, %h1) {nn.phase = "forward"} : (tensor<256x32xf32>, tensor<256x32xf32>) -> tensor<256x32xf32>
    %a1 = "nn.add"(%x, %h1) {nn.phase = "forward"} : (tensor<256x32xf32>, tensor<256x32xf32>) -> tensor<256x32xf32>
    %x1 = "nn.relu"(%a1) {nn.phase = "forward"} : (tensor<256x32xf32>) -> tensor<256x32xf32>
    %h2 = "nn.matmul"(%x1, %w2) {nn.phase = "forward"} : (tensor<256x32xf32>, tensor<32x32xf32>) -> tensor<256x32xf32>
    %s2 = "nn.mul"(%h2, %h2) {nn.phase = "forward"} : (tensor<256x32xf32>, tensor<256x32xf32>) -> tensor<256x32xf32>
    %a2 = "nn.add"(%x1, %h2) {nn.phase = "forward"} : (tensor<256x32xf32>, tensor<256x32xf32>) -> tensor<256x32xf32>
    %x2 = "nn.relu"(%a2) {nn.phase = "forward"} : (tensor<256x32xf32>) -> tensor<256x32xf32>
    %h3 = "nn.matmul"(%x2, %w3) {nn.phase = "forward"} : (tensor<256x32xf32>, tensor<32x32xf32>) -> tensor<256x32xf32>
    %s3 = "nn.mul"(%h3, %h3) {nn.phase = "forward"} : (tensor<256x32xf32>, tensor<256x32xf32>) -> tensor<256x32xf32>
    %a3 = "nn.add"(%x2, %h3) {nn.phase = "forward"} : (tensor<256x32xf32>, tensor<256x32xf32>) -> tensor<256x32xf32>
    %x3 = "nn.relu"(%a3) {nn.phase = "forward"} : (tensor<256x32xf32>) -> tensor<256x32xf32>
    %z = "nn.matmul"(%x3, %w1) {nn.phase = "forward"} : (tensor<256x32xf32>, tensor<32x32xf32>) -> tensor<256x32xf32>
    %t1 = "nn.add"(%z, %s1) {nn.phase = "forward"} : (tensor<256x32xf32>, tensor<256x32xf32>) -> tensor<256x32xf32>
    %t2 = "nn.add"(%t1, %s2) {nn.phase = "forward"} : (tensor<256x32xf32>, tensor<256x32xf32>) -> tensor<256x32xf32>
    %t3 = "nn.add"(%t2, %s3) {nn.phase = "forward"} : (tensor<256x32xf32>, tensor<256x32xf32>) -> tensor<256x32xf32>
    %l = "nn.reduce_sum"(%t3) {axes = array<i64: 0, 1>, nn.phase = "forward"} : (tensor<256x32xf32>) -> tensor<f32>
    return %l : tensor<f32>
  }
}

//--- long.mlir
// A row that is repeated, negated again and again, and taken the tanh of. It is kept alone where that is 40 times; beyond 48 ops what comes of it.
// CHECK: nn.checkpoint_kept = 128 : i64
// LONG: nn.checkpoint_kept = 32768 : i64
module attributes {nn.optimizer = "sgd"} {
  func.func @update(%p: tensor<1xf32> {nn.name = "parameter"}, %g: tensor<1xf32> {nn.name = "gradient"}, %lr: tensor<f64> {nn.name = "lr"}) -> tensor<1xf32> {
    %r = "nn.cast"(%lr) : (tensor<f64>) -> tensor<f32>
    %b = "nn.broadcast"(%r) {dims = array<i64>} : (tensor<f32>) -> tensor<1xf32>
    %d = "nn.mul"(%b, %g) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
    %n = "nn.sub"(%p, %d) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
    return %n : tensor<1xf32>
  }
  func.func @train(%x: tensor<32xf32> {nn.role = "input", nn.name = "x"}, %w: tensor<32xf32> {nn.role = "param", nn.name = "w"},
                   %v: tensor<32x8xf32> {nn.role = "param", nn.name = "v"}) -> (tensor<f32> {nn.role = "loss", nn.name = "loss"}) {
    %h = "nn.mul"(%x, %w) {nn.phase = "forward"} : (tensor<32xf32>, tensor<32xf32>) -> tensor<32xf32>
    %a0 = "nn.broadcast"(%h) {dims = array<i64: 1>, nn.phase = "forward"} : (tensor<32xf32>) -> tensor<256x32xf32>
NEG
    %y = "nn.tanh"(%LAST) {nn.phase = "forward"} : (tensor<256x32xf32>) -> tensor<256x32xf32>
    %z = "nn.matmul"(%y, %v) {nn.phase = "forward"} : (tensor<256x32xf32>, tensor<32x8xf32>) -> tensor<256x8xf32>
    %s = "nn.reduce_sum"(%z) {axes = array<i64: 0, 1>, nn.phase = "forward"} : (tensor<256x8xf32>) -> tensor<f32>
    return %s : tensor<f32>
  }
}
