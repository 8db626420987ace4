// Updates move up to their gradients, but never before the last reader of what they overwrite.
// RUN: %nnc_opt %s --passes=fuse,schedule | FileCheck %s

// Two linear layers; the frontend put the updates last. w1's gradient comes first, but its update waits for the product that reads w1.
// CHECK-LABEL: func.func @train
// CHECK: %[[H:.*]] = "nn.matmul"(%arg0, %arg1)
// CHECK-NEXT: "nn.tap"(%[[H]])
// CHECK-NEXT: %[[Y:.*]] = "nn.matmul"(%[[H]], %arg2)
// CHECK-DAG: %[[DW1:.*]] = "nn.matmul"(%[[H]], %[[Y]])
// CHECK-DAG: %[[DH:.*]] = "nn.matmul"(%[[Y]], %arg2)
// CHECK-NEXT: %[[N1:.*]] = call @kernel_0(%arg2, %[[DW1]])
// CHECK-NEXT: %[[DW0:.*]] = "nn.matmul"(%arg0, %[[DH]])
// CHECK-NEXT: %[[N0:.*]] = call @kernel_0(%arg1, %[[DW0]])
// CHECK-NEXT: return %[[N0]], %[[N1]]
func.func @train(%x: tensor<256x32xf32> {nn.role = "input"}, %w0: tensor<32x32xf32> {nn.role = "param", nn.name = "w0"}, %w1: tensor<32x32xf32> {nn.role = "param", nn.name = "w1"})
    -> (tensor<32x32xf32> {nn.role = "update", nn.tied = 1 : i64}, tensor<32x32xf32> {nn.role = "update", nn.tied = 2 : i64}) {
  %h = "nn.matmul"(%x, %w0) {transpose_a = false, transpose_b = false, nn.phase = "forward"} : (tensor<256x32xf32>, tensor<32x32xf32>) -> tensor<256x32xf32>
  %y = "nn.matmul"(%h, %w1) {transpose_a = false, transpose_b = false, nn.phase = "forward"} : (tensor<256x32xf32>, tensor<32x32xf32>) -> tensor<256x32xf32>
  "nn.tap"(%h) {name = "h", nn.phase = "forward"} : (tensor<256x32xf32>) -> ()
  %dw1 = "nn.matmul"(%h, %y) {transpose_a = true, transpose_b = false, nn.phase = "backward"} : (tensor<256x32xf32>, tensor<256x32xf32>) -> tensor<32x32xf32>
  %dh = "nn.matmul"(%y, %w1) {transpose_a = false, transpose_b = true, nn.phase = "backward"} : (tensor<256x32xf32>, tensor<32x32xf32>) -> tensor<256x32xf32>
  %dw0 = "nn.matmul"(%x, %dh) {transpose_a = true, transpose_b = false, nn.phase = "backward"} : (tensor<256x32xf32>, tensor<256x32xf32>) -> tensor<32x32xf32>
  %n0 = "nn.sub"(%w0, %dw0) {nn.phase = "update"} : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  %n1 = "nn.sub"(%w1, %dw1) {nn.phase = "update"} : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  return %n0, %n1 : tensor<32x32xf32>, tensor<32x32xf32>
}

// Among backward steps the one that frees most beyond what it allocates goes first: the small product before the large one.
// CHECK-LABEL: func.func @greedy
// CHECK-NEXT: %[[B:.*]] = "nn.matmul"(%arg1, %arg0)
// CHECK-NEXT: %[[A:.*]] = "nn.matmul"(%arg0, %arg0)
// CHECK-NEXT: %[[S:.*]] = "nn.matmul"(%[[A]], %arg1)
// CHECK-NEXT: return %[[B]], %[[S]]
func.func @greedy(%x: tensor<64x64xf32>, %v: tensor<64x1xf32>) -> (tensor<1x64xf32>, tensor<64x1xf32>) {
  %a = "nn.matmul"(%x, %x) {transpose_a = false, transpose_b = false, nn.phase = "backward"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %b = "nn.matmul"(%v, %x) {transpose_a = true, transpose_b = false, nn.phase = "backward"} : (tensor<64x1xf32>, tensor<64x64xf32>) -> tensor<1x64xf32>
  %s = "nn.matmul"(%a, %v) {transpose_a = false, transpose_b = false, nn.phase = "backward"} : (tensor<64x64xf32>, tensor<64x1xf32>) -> tensor<64x1xf32>
  return %b, %s : tensor<1x64xf32>, tensor<64x1xf32>
}

// A gradient's norm follows what makes the gradient, which a cache still holds, although it frees nothing.
// CHECK-LABEL: func.func @norms
// CHECK-NEXT: %[[A:.*]] = "nn.matmul"(%arg0, %arg0)
// CHECK-NEXT: %[[NA:.*]] = call @{{.*}}(%[[A]])
// CHECK-NEXT: %[[B:.*]] = "nn.matmul"(%arg1, %arg1)
// CHECK-NEXT: %[[NB:.*]] = call @{{.*}}(%[[B]])
// CHECK-NEXT: %[[C:.*]] = "nn.matmul"(%arg2, %arg2)
// CHECK-NEXT: return %[[A]], %[[B]], %[[NA]], %[[NB]], %[[C]]
func.func @norms(%x: tensor<64x64xf32>, %y: tensor<64x64xf32>, %z: tensor<256x256xf32>) -> (tensor<64x64xf32>, tensor<64x64xf32>, tensor<f32>, tensor<f32>, tensor<256x256xf32>) {
  %a = "nn.matmul"(%x, %x) {transpose_a = false, transpose_b = false, nn.phase = "backward"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %b = "nn.matmul"(%y, %y) {transpose_a = false, transpose_b = false, nn.phase = "backward"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %c = "nn.matmul"(%z, %z) {transpose_a = false, transpose_b = false, nn.phase = "backward"} : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
  %na = "nn.reduce_sum"(%a) {axes = array<i64: 0, 1>, nn.phase = "backward"} : (tensor<64x64xf32>) -> tensor<f32>
  %nb = "nn.reduce_sum"(%b) {axes = array<i64: 0, 1>, nn.phase = "backward"} : (tensor<64x64xf32>) -> tensor<f32>
  return %a, %b, %na, %nb, %c : tensor<64x64xf32>, tensor<64x64xf32>, tensor<f32>, tensor<f32>, tensor<256x256xf32>
}

// So it is with the first argument: its gradient is complete before the product that reads it, and the update waits all the same.
// CHECK-LABEL: func.func @first_argument
// CHECK: "nn.matmul"(%arg1, %arg1)
// CHECK: %[[D:.*]] = "nn.matmul"(%{{.*}}, %arg0)
// CHECK: call @kernel_{{[0-9]+}}(%arg0,
func.func @first_argument(%w: tensor<32x32xf32> {nn.role = "param", nn.name = "w"}, %x: tensor<256x32xf32> {nn.role = "input"})
    -> (tensor<256x32xf32> {nn.role = "output"}, tensor<32x32xf32> {nn.role = "update", nn.tied = 0 : i64}) {
  %dw = "nn.matmul"(%x, %x) {transpose_a = true, transpose_b = false, nn.phase = "backward"} : (tensor<256x32xf32>, tensor<256x32xf32>) -> tensor<32x32xf32>
  %dx = "nn.matmul"(%x, %w) {transpose_a = false, transpose_b = true, nn.phase = "backward"} : (tensor<256x32xf32>, tensor<32x32xf32>) -> tensor<256x32xf32>
  %n = "nn.sub"(%w, %dw) {nn.phase = "update"} : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  return %dx, %n : tensor<256x32xf32>, tensor<32x32xf32>
}
