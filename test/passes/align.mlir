// Scores get columns that are no classes, so that their rows begin at multiples of 16 bytes, where only a loss reads them.
// RUN: %nnc_opt %s --passes=align{bytes=16} | FileCheck %s
// RUN: %nnc_opt %s --passes=align | FileCheck %s --check-prefix=NONE --implicit-check-not=nn.pad
// RUN: %nnc_opt %s --passes=align --target=cuda --gpu-arch=sm_90 | FileCheck %s --check-prefix=CUDA
// RUN: %nnc_opt %s --passes=align{bytes=16},autodiff,decompose,simplify | FileCheck %s --check-prefix=STEP
// NONE-LABEL: func.func @train
// CUDA-LABEL: func.func @train
// CUDA: "nn.pad"

// Whole lines of 128 bytes where they are few columns more; the tap shows the classes.
// CHECK-LABEL: func.func @train
// CHECK: %[[W:[0-9]+]] = "nn.cast"(%arg1)
// CHECK: %[[P:[0-9]+]] = "nn.pad"(%[[W]]) {high = array<i64: 23, 0>
// CHECK: %[[Y:[0-9]+]] = "nn.matmul"(%arg0, %[[P]]) {{.*}} -> tensor<8x1024xbf16>
// CHECK: "nn.tap"(%[[Y]]) {columns = 1001 : i64, name = "output.m"
// CHECK: %[[S:[0-9]+]] = "nn.cast"(%[[Y]])
// CHECK: "nn.cross_entropy"(%[[S]], %arg2) {classes = 1001 : i64
// The gradient of the weights is made in f32, with the rows of zeros, which are left out without a copy.
// STEP-LABEL: func.func @train
// STEP: "nn.iota"() {axis = 1 : i64, nn.phase = "forward"} : () -> tensor<8x1024xi32>
// STEP: "nn.reduce_max"({{.*}} : (tensor<8x1024xf32>)
// STEP: "nn.matmul_rows"({{.*}} -> tensor<1024x8xf32>
// STEP: "nn.slice"({{.*}} -> tensor<1001x8xf32>
// STEP-NOT: tensor<8x1001x
module attributes {nn.optimizer = "sgd", nn.groups = [{lr = 1.0e-1 : f64, beta1 = 0.0 : f64, beta2 = 0.0 : f64, eps = 0.0 : f64, weight_decay = 0.0 : f64, momentum = 0.0 : f64, nesterov = false, frozen = false}]} {
  func.func @update(%p: tensor<1xf32> {nn.name = "parameter"}, %g: tensor<1xf32> {nn.name = "gradient"}, %lr: tensor<f64> {nn.name = "lr"}) -> tensor<1xf32> {
    %r = "nn.cast"(%lr) : (tensor<f64>) -> tensor<f32>
    %b = "nn.broadcast"(%r) {dims = array<i64>} : (tensor<f32>) -> tensor<1xf32>
    %d = "nn.mul"(%b, %g) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
    %n = "nn.sub"(%p, %d) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
    return %n : tensor<1xf32>
  }
func.func @train(%x: tensor<8x8xbf16> {nn.role = "input", nn.name = "x"}, %w: tensor<1001x8xf32> {nn.role = "param", nn.name = "w", nn.init = "zeros", nn.group = 0 : i64}, %labels: tensor<8xi32> {nn.role = "input", nn.name = "label"}) -> (tensor<f32> {nn.role = "loss", nn.name = "loss"}) {
  %n = "nn.cast"(%w) {nn.phase = "forward"} : (tensor<1001x8xf32>) -> tensor<1001x8xbf16>
  %y = "nn.matmul"(%x, %n) {transpose_a = false, transpose_b = true, nn.phase = "forward"} : (tensor<8x8xbf16>, tensor<1001x8xbf16>) -> tensor<8x1001xbf16>
  "nn.tap"(%y) {name = "output.m", nn.phase = "forward"} : (tensor<8x1001xbf16>) -> ()
  %s = "nn.cast"(%y) {nn.phase = "forward"} : (tensor<8x1001xbf16>) -> tensor<8x1001xf32>
  %c:2 = "nn.cross_entropy"(%s, %labels) {nn.phase = "forward"} : (tensor<8x1001xf32>, tensor<8xi32>) -> (tensor<8xf32>, tensor<8xf32>)
  %l = "nn.reduce_sum"(%c#0) {axes = array<i64: 0>, nn.phase = "forward"} : (tensor<8xf32>) -> tensor<f32>
  return %l : tensor<f32>
}

// A bias; the weights' columns. 117 columns of four bytes: 120 are whole multiples of 16 bytes, 128 would be too many more.
// CHECK-LABEL: func.func @eval
// CHECK: "nn.pad"(%arg1) {high = array<i64: 0, 3>
// CHECK: "nn.pad"(%arg2) {high = array<i64: 3>
// CHECK: "nn.cross_entropy"({{.*}} {classes = 117 : i64} : (tensor<8x120xf32>
func.func @eval(%x: tensor<8x8xf32>, %w: tensor<8x117xf32>, %b: tensor<117xf32>, %labels: tensor<8xi32>) -> tensor<8xf32> {
  %y = "nn.matmul"(%x, %w) {transpose_a = false, transpose_b = false} : (tensor<8x8xf32>, tensor<8x117xf32>) -> tensor<8x117xf32>
  %bb = "nn.broadcast"(%b) {dims = array<i64: 1>} : (tensor<117xf32>) -> tensor<8x117xf32>
  %z = "nn.add"(%y, %bb) : (tensor<8x117xf32>, tensor<8x117xf32>) -> tensor<8x117xf32>
  %c:2 = "nn.cross_entropy"(%z, %labels) : (tensor<8x117xf32>, tensor<8xi32>) -> (tensor<8xf32>, tensor<8xf32>)
  return %c#0 : tensor<8xf32>
}

// Others read the scores, too; ten columns would become twelve; 128 are what they should be; 8 rows of a product 16 deep are less than a copy of its weights.
// CHECK-LABEL: func.func @predict
// CHECK-NOT: nn.pad
func.func @predict(%x: tensor<8x8xf32>, %w: tensor<8x117xf32>, %u: tensor<8x10xf32>, %v: tensor<8x128xf32>, %few: tensor<8x16xf32>, %deep: tensor<16x117xf32>, %labels: tensor<8xi32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8x117xf32>) {
  %y = "nn.matmul"(%x, %w) {transpose_a = false, transpose_b = false} : (tensor<8x8xf32>, tensor<8x117xf32>) -> tensor<8x117xf32>
  %c:2 = "nn.cross_entropy"(%y, %labels) : (tensor<8x117xf32>, tensor<8xi32>) -> (tensor<8xf32>, tensor<8xf32>)
  %ten = "nn.matmul"(%x, %u) {transpose_a = false, transpose_b = false} : (tensor<8x8xf32>, tensor<8x10xf32>) -> tensor<8x10xf32>
  %d:2 = "nn.cross_entropy"(%ten, %labels) : (tensor<8x10xf32>, tensor<8xi32>) -> (tensor<8xf32>, tensor<8xf32>)
  %even = "nn.matmul"(%x, %v) {transpose_a = false, transpose_b = false} : (tensor<8x8xf32>, tensor<8x128xf32>) -> tensor<8x128xf32>
  %e:2 = "nn.cross_entropy"(%even, %labels) : (tensor<8x128xf32>, tensor<8xi32>) -> (tensor<8xf32>, tensor<8xf32>)
  %f = "nn.matmul"(%few, %deep) {transpose_a = false, transpose_b = false} : (tensor<8x16xf32>, tensor<16x117xf32>) -> tensor<8x117xf32>
  %g:2 = "nn.cross_entropy"(%f, %labels) : (tensor<8x117xf32>, tensor<8xi32>) -> (tensor<8xf32>, tensor<8xf32>)
  return %c#0, %d#0, %e#0, %g#0, %y : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8x117xf32>
}

// What is no bias: a map of the scores, a number for each row, one for each score.
// CHECK-LABEL: func.func @others
// CHECK-NOT: nn.pad
func.func @others(%x: tensor<8x8xf32>, %w: tensor<8x117xf32>, %square: tensor<117x8xf32>, %row: tensor<117xf32>, %all: tensor<8x117xf32>, %labels: tensor<8xi32>, %more: tensor<117xi32>) -> (tensor<8xf32>, tensor<117xf32>, tensor<8xf32>) {
  %y = "nn.matmul"(%x, %w) {transpose_a = false, transpose_b = false} : (tensor<8x8xf32>, tensor<8x117xf32>) -> tensor<8x117xf32>
  %map = "nn.relu"(%y) : (tensor<8x117xf32>) -> tensor<8x117xf32>
  %c:2 = "nn.cross_entropy"(%map, %labels) : (tensor<8x117xf32>, tensor<8xi32>) -> (tensor<8xf32>, tensor<8xf32>)
  %z = "nn.matmul"(%square, %w) {transpose_a = false, transpose_b = false} : (tensor<117x8xf32>, tensor<8x117xf32>) -> tensor<117x117xf32>
  %rows = "nn.broadcast"(%row) {dims = array<i64: 0>} : (tensor<117xf32>) -> tensor<117x117xf32>
  %moved = "nn.add"(%z, %rows) : (tensor<117x117xf32>, tensor<117x117xf32>) -> tensor<117x117xf32>
  %d:2 = "nn.cross_entropy"(%moved, %more) : (tensor<117x117xf32>, tensor<117xi32>) -> (tensor<117xf32>, tensor<117xf32>)
  %v = "nn.matmul"(%x, %w) {transpose_a = false, transpose_b = false} : (tensor<8x8xf32>, tensor<8x117xf32>) -> tensor<8x117xf32>
  %sum = "nn.add"(%v, %all) : (tensor<8x117xf32>, tensor<8x117xf32>) -> tensor<8x117xf32>
  %e:2 = "nn.cross_entropy"(%sum, %labels) : (tensor<8x117xf32>, tensor<8xi32>) -> (tensor<8xf32>, tensor<8xf32>)
  return %c#0, %d#0, %e#0 : tensor<8xf32>, tensor<117xf32>, tensor<8xf32>
}

// A tap behind the loss.
// CHECK-LABEL: func.func @late
// CHECK: "nn.matmul"({{.*}} -> tensor<8x120xf32>
// CHECK: "nn.cross_entropy"({{.*}} {classes = 117 : i64}
// CHECK: "nn.tap"({{.*}}) {columns = 117 : i64, name = "output.late"} : (tensor<8x120xf32>)
func.func @late(%x: tensor<8x8xf32>, %w: tensor<8x117xf32>, %labels: tensor<8xi32>) -> tensor<8xf32> {
  %y = "nn.matmul"(%x, %w) {transpose_a = false, transpose_b = false} : (tensor<8x8xf32>, tensor<8x117xf32>) -> tensor<8x117xf32>
  %c:2 = "nn.cross_entropy"(%y, %labels) : (tensor<8x117xf32>, tensor<8xi32>) -> (tensor<8xf32>, tensor<8xf32>)
  "nn.tap"(%y) {name = "output.late"} : (tensor<8x117xf32>) -> ()
  return %c#0 : tensor<8xf32>
}
}
