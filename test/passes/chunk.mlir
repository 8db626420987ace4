// The scores of a loss in chunks of rows, each with its gradient at once.
// RUN: %nnc_opt %s '--passes=chunk{rows=128 bytes=1K}' | FileCheck %s
// RUN: %nnc_opt %s '--passes=chunk{rows=256 bytes=1K}' | FileCheck %s --check-prefix=ONE
// RUN: %nnc_opt %s '--passes=chunk{rows=128 bytes=1M}' | FileCheck %s --check-prefix=FEW --implicit-check-not=nn.concat --implicit-check-not=nn.slice --implicit-check-not=backward
// RUN: %nnc_opt %s --passes=chunk | FileCheck %s --check-prefix=FEW --implicit-check-not=nn.concat --implicit-check-not=nn.slice --implicit-check-not=backward
// RUN: %nnc_opt %s '--passes=chunk{rows=0 bytes=1K}' | FileCheck %s --check-prefix=FEW --implicit-check-not=nn.concat --implicit-check-not=nn.slice --implicit-check-not=backward
// RUN: %nnc_opt %s '--passes=chunk{rows=128 bytes=1K}' --target=cuda --gpu-arch=sm_90 | FileCheck %s --check-prefix=CUDA
// RUN: %nnc_opt %s '--passes=chunk{rows=128 bytes=1K},autodiff,decompose,simplify,fuse,schedule,inplace' | FileCheck %s --check-prefix=STEP

// FEW-LABEL: func.func @train
// FEW: "nn.cross_entropy"({{.*}} : (tensor<4x75x64xf32>, tensor<4x75xi32>)

// 300 rows make two chunks of a multiple of 128 rows; taps show which rows of the whole they have. What follows the loss stays as it is.
// CHECK-LABEL: func.func @train
// CHECK: %[[W:[0-9]+]] = "nn.cast"(%arg1)
// CHECK: %[[X:[0-9]+]] = "nn.reshape"(%arg0) {{.*}} -> tensor<300x8xbf16>
// CHECK: %[[L:[0-9]+]] = "nn.reshape"(%arg2) {{.*}} -> tensor<300xi32>
// CHECK: %[[X0:[0-9]+]] = "nn.slice"(%[[X]]) {nn.phase = "backward", sizes = array<i64: 256, 8>, starts = array<i64: 0, 0>
// CHECK: %[[Y0:[0-9]+]] = "nn.matmul"(%[[X0]], %[[W]]) {nn.phase = "backward", {{.*}} -> tensor<256x64xbf16>
// CHECK: "nn.tap"(%[[Y0]]) {columns = 64 : i64, first = 0 : i64, name = "output.m", nn.phase = "backward", shape = array<i64: 4, 75, 64>}
// CHECK: %[[S0:[0-9]+]] = "nn.cast"(%[[Y0]])
// CHECK: %[[L0:[0-9]+]] = "nn.slice"(%[[L]]) {{.*}} sizes = array<i64: 256>
// CHECK: %[[C0:[0-9]+]]:2 = "nn.cross_entropy"(%[[S0]], %[[L0]]) {classes = 61 : i64, nn.phase = "backward"}
// CHECK: "nn.slice"(%[[X]]) {nn.phase = "backward", sizes = array<i64: 44, 8>, starts = array<i64: 256, 0>
// CHECK: "nn.tap"({{.*}} first = 256 : i64
// CHECK: %[[C1:[0-9]+]]:2 = "nn.cross_entropy"
// CHECK: "nn.concat"(%[[C0]]#0, %[[C1]]#0) {axis = 0 : i64, nn.phase = "backward"}
// CHECK-NOT: tensor<4x75x64xbf16>
// CHECK: "nn.reduce_sum"({{.*}} {axes = array<i64: 0, 1>, nn.phase = "forward"}

// One chunk: the loss is made where its gradient is, and nothing is cut.
// ONE-LABEL: func.func @train
// ONE-NOT: nn.slice
// ONE: "nn.matmul"({{.*}}nn.phase = "backward"
// ONE: "nn.tap"({{.*}}nn.phase = "backward"
// ONE: "nn.cross_entropy"({{.*}}nn.phase = "backward"

// Each chunk is read by one kernel, which leaves its gradient in its place; the gradient of the weights is added up, the second product over the first. The last rows come first.
// STEP-LABEL: func.func @train
// STEP: %[[Y1:[0-9]+]] = "nn.matmul"({{.*}} -> tensor<44x64xbf16>
// STEP: %[[K1:[0-9]+]]:2 = call @kernel_{{[0-9]+}}({{.*}}%[[Y1]]) {nn.inplace = array<i64: 1, 1>, nn.phase = "backward"} : (tensor<44xi32>, tensor<44x64xbf16>) -> (tensor<44xf32>, tensor<44x64xbf16>)
// STEP: %[[G1:[0-9]+]] = "nn.matmul_rows"(%[[K1]]#1, {{.*}} -> tensor<64x8xf32>
// STEP: %[[Y0:[0-9]+]] = "nn.matmul"({{.*}} -> tensor<256x64xbf16>
// STEP: %[[K0:[0-9]+]]:2 = call @kernel_{{[0-9]+}}({{.*}}%[[Y0]]) {nn.inplace = array<i64: 1, 1>
// STEP: "nn.matmul_rows_to"(%[[K0]]#1, {{.*}}, %[[G1]]) {nn.inplace = array<i64: 0, 2>
module attributes {nn.optimizer = "sgd", nn.groups = [{lr = 1.0e-1 : f64, beta1 = 0.0 : f64, beta2 = 0.0 : f64, eps = 0.0 : f64, weight_decay = 0.0 : f64, momentum = 0.0 : f64, nesterov = false, frozen = false}]} {
  func.func @update(%p: tensor<1xf32> {nn.name = "parameter"}, %g: tensor<1xf32> {nn.name = "gradient"}, %lr: tensor<f64> {nn.name = "lr"}) -> tensor<1xf32> {
    %r = "nn.cast"(%lr) : (tensor<f64>) -> tensor<f32>
    %b = "nn.broadcast"(%r) {dims = array<i64>} : (tensor<f32>) -> tensor<1xf32>
    %d = "nn.mul"(%b, %g) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
    %n = "nn.sub"(%p, %d) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
    return %n : tensor<1xf32>
  }
func.func @train(%x: tensor<4x75x8xbf16> {nn.role = "input", nn.name = "x"}, %w: tensor<64x8xf32> {nn.role = "param", nn.name = "w", nn.init = "zeros", nn.group = 0 : i64}, %labels: tensor<4x75xi32> {nn.role = "input", nn.name = "label"}) -> (tensor<f32> {nn.role = "loss", nn.name = "loss"}) {
  %n = "nn.cast"(%w) {nn.phase = "forward"} : (tensor<64x8xf32>) -> tensor<64x8xbf16>
  %y = "nn.matmul"(%x, %n) {transpose_a = false, transpose_b = true, nn.phase = "forward"} : (tensor<4x75x8xbf16>, tensor<64x8xbf16>) -> tensor<4x75x64xbf16>
  "nn.tap"(%y) {name = "output.m", nn.phase = "forward"} : (tensor<4x75x64xbf16>) -> ()
  %s = "nn.cast"(%y) {nn.phase = "forward"} : (tensor<4x75x64xbf16>) -> tensor<4x75x64xf32>
  %c:2 = "nn.cross_entropy"(%s, %labels) {classes = 61 : i64, nn.phase = "forward"} : (tensor<4x75x64xf32>, tensor<4x75xi32>) -> (tensor<4x75xf32>, tensor<4x75xf32>)
  %l = "nn.reduce_sum"(%c#0) {axes = array<i64: 0, 1>, nn.phase = "forward"} : (tensor<4x75xf32>) -> tensor<f32>
  return %l : tensor<f32>
}

// A bias; nothing is marked where there is no gradient.
// CHECK-LABEL: func.func @eval
// CHECK-NOT: backward
// CHECK: "nn.broadcast"(%arg2) {{.*}} -> tensor<256x64xf32>
// CHECK: "nn.broadcast"(%arg2) {{.*}} -> tensor<44x64xf32>
// CHECK: "nn.concat"({{.*}} -> tensor<300xf32>
func.func @eval(%x: tensor<300x8xf32>, %w: tensor<8x64xf32>, %b: tensor<64xf32>, %labels: tensor<300xi32>) -> tensor<300xf32> {
  %y = "nn.matmul"(%x, %w) {transpose_a = false, transpose_b = false} : (tensor<300x8xf32>, tensor<8x64xf32>) -> tensor<300x64xf32>
  %bb = "nn.broadcast"(%b) {dims = array<i64: 1>} : (tensor<64xf32>) -> tensor<300x64xf32>
  %z = "nn.add"(%y, %bb) : (tensor<300x64xf32>, tensor<300x64xf32>) -> tensor<300x64xf32>
  %c:2 = "nn.cross_entropy"(%z, %labels) : (tensor<300x64xf32>, tensor<300xi32>) -> (tensor<300xf32>, tensor<300xf32>)
  return %c#0 : tensor<300xf32>
}

// The one result of a model is fetched chunk by chunk where the target can.
// CHECK-LABEL: func.func @predict
// CHECK: return %{{.*}} : tensor<4x75x64xf32>
// CUDA-LABEL: func.func @predict
// CUDA-SAME: tensor<8x64xf32>) {
// CUDA: "nn.tap"({{.*}} {columns = 64 : i64, first = 0 : i64, name = "m", role = "output", shape = array<i64: 4, 75, 64>} : (tensor<256x64xf32>)
// CUDA: "nn.tap"({{.*}} {columns = 64 : i64, first = 256 : i64, name = "m", role = "output", shape = array<i64: 4, 75, 64>} : (tensor<44x64xf32>)
// CUDA-NEXT: return
// CUDA-NEXT: }
func.func @predict(%x: tensor<4x75x8xf32>, %w: tensor<8x64xf32>) -> (tensor<4x75x64xf32> {nn.name = "m", nn.role = "output"}) {
  %y = "nn.matmul"(%x, %w) {transpose_a = false, transpose_b = false} : (tensor<4x75x8xf32>, tensor<8x64xf32>) -> tensor<4x75x64xf32>
  return %y : tensor<4x75x64xf32>
}

// Others read the scores, too.
// CHECK-LABEL: func.func @shared
// CHECK-NOT: nn.slice
// CHECK: return
func.func @shared(%x: tensor<300x8xf32>, %w: tensor<8x64xf32>, %labels: tensor<300xi32>) -> (tensor<300xf32>, tensor<300x64xf32>) {
  %y = "nn.matmul"(%x, %w) {transpose_a = false, transpose_b = false} : (tensor<300x8xf32>, tensor<8x64xf32>) -> tensor<300x64xf32>
  %c:2 = "nn.cross_entropy"(%y, %labels) : (tensor<300x64xf32>, tensor<300xi32>) -> (tensor<300xf32>, tensor<300xf32>)
  return %c#0, %y : tensor<300xf32>, tensor<300x64xf32>
}
}
