// What the whole step promises, each by a function of its own.
// RUN: split-file %s %t
// RUN: %nnc_opt %t/updates.mlir --passes=autodiff,simplify,recompute,fuse,schedule,inplace | FileCheck %t/updates.mlir
// RUN: %nnc_opt %t/clip.mlir --passes=autodiff,simplify,recompute,fuse,schedule | FileCheck %t/clip.mlir
// RUN: %nnc_opt %t/outputs.mlir --passes=autodiff,simplify | FileCheck %t/outputs.mlir
// RUN: %nnc_opt %t/workspace.mlir --passes=fuse,schedule,inplace,plan | FileCheck %t/workspace.mlir
// RUN: %nnc %S/../e2e/Inputs/resnet_small.nn --remat=sqrt --emit=remat | FileCheck %t/statistics --implicit-check-not='phase = "update", nn.recompute'

//--- updates.mlir
// Each update follows its gradient and the product that still reads the parameter, in place, before the next gradient is made: no two of
// them are alive at a time.
// CHECK: %[[G3:.*]] = "nn.matmul_rows"
// CHECK-NEXT: "nn.tap"(%[[G3]]) {name = "grad.w3"
// CHECK-NOT: nn.matmul_rows
// CHECK: call @{{.*}}(%arg3, {{.*}}%[[G3]]{{.*}}) {nn.inplace = array<i64: 0, 0>, nn.phase = "update"}
// CHECK: %[[G2:.*]] = "nn.matmul_rows"
// CHECK-NEXT: "nn.tap"(%[[G2]]) {name = "grad.w2"
// CHECK-NOT: nn.matmul_rows
// CHECK: call @{{.*}}(%arg2, {{.*}}%[[G2]]{{.*}}) {nn.inplace = array<i64: 0, 0>, nn.phase = "update"}
// CHECK: %[[G1:.*]] = "nn.matmul_rows"
// CHECK-NEXT: "nn.tap"(%[[G1]]) {name = "grad.w1"
// CHECK-NOT: nn.matmul_rows
// CHECK: call @{{.*}}(%arg1, {{.*}}%[[G1]]{{.*}}) {nn.inplace = array<i64: 0, 0>, nn.phase = "update"}
module attributes {nn.optimizer = "sgd"} {
  func.func @update(%p: tensor<1xf32> {nn.name = "parameter"}, %g: tensor<1xf32> {nn.name = "gradient"}, %lr: tensor<f64> {nn.name = "lr"}) -> tensor<1xf32> {
    %r = "nn.cast"(%lr) : (tensor<f64>) -> tensor<f32>
    %b = "nn.broadcast"(%r) {dims = array<i64>} : (tensor<f32>) -> tensor<1xf32>
    %d = "nn.mul"(%b, %g) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
    %n = "nn.sub"(%p, %d) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
    return %n : tensor<1xf32>
  }
  func.func @train(%x: tensor<64x64xf32> {nn.role = "input", nn.name = "x"}, %w1: tensor<64x64xf32> {nn.role = "param", nn.name = "w1"},
                   %w2: tensor<64x64xf32> {nn.role = "param", nn.name = "w2"}, %w3: tensor<64x64xf32> {nn.role = "param", nn.name = "w3"})
      -> (tensor<f32> {nn.role = "loss", nn.name = "loss"}) {
    %a = "nn.matmul"(%x, %w1) {nn.phase = "forward"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %b = "nn.matmul"(%a, %w2) {nn.phase = "forward"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %c = "nn.matmul"(%b, %w3) {nn.phase = "forward"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %s = "nn.reduce_sum"(%c) {axes = array<i64: 0, 1>, nn.phase = "forward"} : (tensor<64x64xf32>) -> tensor<f32>
    return %s : tensor<f32>
  }
}

//--- clip.mlir
// A global norm needs all gradients before the first update.
// CHECK: %[[G2:.*]] = "nn.matmul_rows"
// CHECK: %[[G1:.*]] = "nn.matmul_rows"
// CHECK: nn.phase = "update"
// CHECK-NOT: nn.matmul_rows
module attributes {nn.optimizer = "sgd", nn.clip_norm = 1.0 : f64} {
  func.func @update(%p: tensor<1xf32> {nn.name = "parameter"}, %g: tensor<1xf32> {nn.name = "gradient"}, %lr: tensor<f64> {nn.name = "lr"}) -> tensor<1xf32> {
    %r = "nn.cast"(%lr) : (tensor<f64>) -> tensor<f32>
    %b = "nn.broadcast"(%r) {dims = array<i64>} : (tensor<f32>) -> tensor<1xf32>
    %d = "nn.mul"(%b, %g) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
    %n = "nn.sub"(%p, %d) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
    return %n : tensor<1xf32>
  }
  func.func @train(%x: tensor<64x64xf32> {nn.role = "input", nn.name = "x"}, %w1: tensor<64x64xf32> {nn.role = "param", nn.name = "w1"},
                   %w2: tensor<64x64xf32> {nn.role = "param", nn.name = "w2"}) -> (tensor<f32> {nn.role = "loss", nn.name = "loss"}) {
    %a = "nn.matmul"(%x, %w1) {nn.phase = "forward"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %b = "nn.matmul"(%a, %w2) {nn.phase = "forward"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %s = "nn.reduce_sum"(%b) {axes = array<i64: 0, 1>, nn.phase = "forward"} : (tensor<64x64xf32>) -> tensor<f32>
    return %s : tensor<f32>
  }
}

//--- outputs.mlir
// Gradients that can be told from results read results: no operand of these ops is read after the forward pass, so that each result may
// be written over it.
// CHECK: %[[RELU:.*]] = "nn.relu"(%[[X0:.*]]) {nn.phase = "forward"}
// CHECK: %[[TANH:.*]] = "nn.tanh"(%[[RELU]]) {nn.phase = "forward"}
// CHECK: %[[SIGMOID:.*]] = "nn.sigmoid"(%[[TANH]]) {nn.phase = "forward"}
// CHECK: %[[EXP:.*]] = "nn.exp"(%[[SIGMOID]]) {nn.phase = "forward"}
// CHECK: %[[SQRT:.*]] = "nn.sqrt"(%[[EXP]]) {nn.phase = "forward"}
// CHECK: %[[RSQRT:.*]] = "nn.rsqrt"(%[[SQRT]]) {nn.phase = "forward"}
// CHECK: %[[RECIP:.*]] = "nn.recip"(%[[RSQRT]]) {nn.phase = "forward"}
// CHECK-NOT: %[[X0]]{{[,)]}}
// CHECK: "nn.mul"(%[[RECIP]], %[[RECIP]]) {nn.phase = "backward"}
// CHECK-NOT: %[[X0]]{{[,)]}}
// CHECK: "nn.mul"(%[[RSQRT]], %[[RSQRT]]) {nn.phase = "backward"}
// CHECK-NOT: %[[X0]]{{[,)]}}
// CHECK: "nn.div"(%{{.*}}, %[[SQRT]]) {nn.phase = "backward"}
// CHECK-NOT: %[[X0]]{{[,)]}}
// CHECK: "nn.mul"(%{{.*}}, %[[EXP]]) {nn.phase = "backward"}
// CHECK-NOT: %[[X0]]{{[,)]}}
// CHECK: "nn.sub"(%{{.*}}, %[[SIGMOID]]) {nn.phase = "backward"}
// CHECK-NOT: %[[X0]]{{[,)]}}
// CHECK: "nn.mul"(%[[TANH]], %[[TANH]]) {nn.phase = "backward"}
// CHECK-NOT: %[[X0]]{{[,)]}}
// CHECK: "nn.compare"(%[[RELU]], %{{.*}}) {nn.phase = "backward", predicate = "le"}
// CHECK-NOT: %[[X0]]{{[,)]}}
// CHECK: return
module attributes {nn.optimizer = "sgd"} {
  func.func @update(%p: tensor<1xf32> {nn.name = "parameter"}, %g: tensor<1xf32> {nn.name = "gradient"}, %lr: tensor<f64> {nn.name = "lr"}) -> tensor<1xf32> {
    %r = "nn.cast"(%lr) : (tensor<f64>) -> tensor<f32>
    %b = "nn.broadcast"(%r) {dims = array<i64>} : (tensor<f32>) -> tensor<1xf32>
    %d = "nn.mul"(%b, %g) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
    %n = "nn.sub"(%p, %d) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
    return %n : tensor<1xf32>
  }
  func.func @train(%x: tensor<64x64xf32> {nn.role = "input", nn.name = "x"}, %w: tensor<64x64xf32> {nn.role = "param", nn.name = "w"})
      -> (tensor<f32> {nn.role = "loss", nn.name = "loss"}) {
    %x0 = "nn.matmul"(%x, %w) {nn.phase = "forward"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %a = "nn.relu"(%x0) {nn.phase = "forward"} : (tensor<64x64xf32>) -> tensor<64x64xf32>
    %b = "nn.tanh"(%a) {nn.phase = "forward"} : (tensor<64x64xf32>) -> tensor<64x64xf32>
    %c = "nn.sigmoid"(%b) {nn.phase = "forward"} : (tensor<64x64xf32>) -> tensor<64x64xf32>
    %d = "nn.exp"(%c) {nn.phase = "forward"} : (tensor<64x64xf32>) -> tensor<64x64xf32>
    %e = "nn.sqrt"(%d) {nn.phase = "forward"} : (tensor<64x64xf32>) -> tensor<64x64xf32>
    %f = "nn.rsqrt"(%e) {nn.phase = "forward"} : (tensor<64x64xf32>) -> tensor<64x64xf32>
    %h = "nn.recip"(%f) {nn.phase = "forward"} : (tensor<64x64xf32>) -> tensor<64x64xf32>
    %s = "nn.reduce_sum"(%h) {axes = array<i64: 0, 1>, nn.phase = "forward"} : (tensor<64x64xf32>) -> tensor<f32>
    return %s : tensor<f32>
  }
}

//--- workspace.mlir
// A library op's scratch memory has a place in the arena beside what is alive while it runs: the input at 0, the result, then scratch.
// CHECK: "nn.conv2d"{{.*}}nn.offset = array<i64: [[RESULT:[0-9]+]]>{{.*}}nn.workspace = [[SCRATCH:[0-9]+]] : i64, nn.workspace_bytes = [[BYTES:[1-9][0-9]*]] : i64
func.func @eval(%x: tensor<4x32x32x16xf32> {nn.role = "input"}, %w: tensor<16x16x3x3xf32> {nn.role = "param", nn.name = "w"}) -> tensor<4x32x32x16xf32> {
  %y = "nn.conv2d"(%x, %w) {strides = array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>, layout = "nhwc"} : (tensor<4x32x32x16xf32>, tensor<16x16x3x3xf32>) -> tensor<4x32x32x16xf32>
  return %y : tensor<4x32x32x16xf32>
}

//--- statistics
// Steps run again, but never one that updates running statistics (--implicit-check-not above); the kernel that makes them is called once per
// normalisation, in the forward pass.
// CHECK: func.func @train
// CHECK: nn.recompute =
