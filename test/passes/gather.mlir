// Updates wait for each other where the gradients that live longer for it raise no peak.
// RUN: %nnc_opt %s --passes='fuse,schedule,gather{mode=always}' | FileCheck %s
// RUN: %nnc_opt %s --passes='fuse,schedule,gather' | FileCheck %s --check-prefix=HOST

// Large activations: at the end there is room for both gradients. A target without such launches keeps the order of `schedule`.
// CHECK-LABEL: func.func @roomy
// CHECK: %[[DW1:.*]] = "nn.matmul"(%{{.*}}, %{{.*}}) {nn.phase = "backward", transpose_a = true
// CHECK: %[[DW0:.*]] = "nn.matmul"(%arg0, %{{.*}}) {nn.phase = "backward", transpose_a = true
// CHECK-NEXT: %[[N1:.*]] = call @kernel_{{[0-9]+}}(%arg2, %[[DW1]])
// CHECK-NEXT: %[[N0:.*]] = call @kernel_{{[0-9]+}}(%arg1, %[[DW0]])
// CHECK-NEXT: return %[[N0]], %[[N1]]
// HOST-LABEL: func.func @roomy
// HOST: call
// HOST-NEXT: "nn.matmul"
// HOST-NEXT: call
func.func @roomy(%x: tensor<256x32xf32> {nn.role = "input"}, %w0: tensor<32x32xf32> {nn.role = "param", nn.name = "roomy.w0"}, %w1: tensor<32x32xf32> {nn.role = "param", nn.name = "roomy.w1"})
    -> (tensor<32x32xf32> {nn.role = "update", nn.tied = 1 : i64}, tensor<32x32xf32> {nn.role = "update", nn.tied = 2 : i64}) {
  %h = "nn.matmul"(%x, %w0) {transpose_a = false, transpose_b = false, nn.phase = "forward"} : (tensor<256x32xf32>, tensor<32x32xf32>) -> tensor<256x32xf32>
  %y = "nn.matmul"(%h, %w1) {transpose_a = false, transpose_b = false, nn.phase = "forward"} : (tensor<256x32xf32>, tensor<32x32xf32>) -> tensor<256x32xf32>
  %dw1 = "nn.matmul"(%h, %y) {transpose_a = true, transpose_b = false, nn.phase = "backward"} : (tensor<256x32xf32>, tensor<256x32xf32>) -> tensor<32x32xf32>
  %dh = "nn.matmul"(%y, %w1) {transpose_a = false, transpose_b = true, nn.phase = "backward"} : (tensor<256x32xf32>, tensor<32x32xf32>) -> tensor<256x32xf32>
  %dw0 = "nn.matmul"(%x, %dh) {transpose_a = true, transpose_b = false, nn.phase = "backward"} : (tensor<256x32xf32>, tensor<256x32xf32>) -> tensor<32x32xf32>
  %n0 = "nn.sub"(%w0, %dw0) {nn.phase = "update"} : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  %n1 = "nn.sub"(%w1, %dw1) {nn.phase = "update"} : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  return %n0, %n1 : tensor<32x32xf32>, tensor<32x32xf32>
}

// Small activations: two gradients at once would be the peak.
// CHECK-LABEL: func.func @tight
// CHECK: %[[N1:.*]] = call @kernel_{{[0-9]+}}(%arg2
// CHECK-NEXT: "nn.matmul"
// CHECK-NEXT: %[[N0:.*]] = call @kernel_{{[0-9]+}}(%arg1
// CHECK-NEXT: return %[[N0]], %[[N1]]
func.func @tight(%x: tensor<4x512xf32> {nn.role = "input"}, %w0: tensor<512x512xf32> {nn.role = "param", nn.name = "tight.w0"}, %w1: tensor<512x512xf32> {nn.role = "param", nn.name = "tight.w1"})
    -> (tensor<512x512xf32> {nn.role = "update", nn.tied = 1 : i64}, tensor<512x512xf32> {nn.role = "update", nn.tied = 2 : i64}) {
  %h = "nn.matmul"(%x, %w0) {transpose_a = false, transpose_b = false, nn.phase = "forward"} : (tensor<4x512xf32>, tensor<512x512xf32>) -> tensor<4x512xf32>
  %y = "nn.matmul"(%h, %w1) {transpose_a = false, transpose_b = false, nn.phase = "forward"} : (tensor<4x512xf32>, tensor<512x512xf32>) -> tensor<4x512xf32>
  %dw1 = "nn.matmul"(%h, %y) {transpose_a = true, transpose_b = false, nn.phase = "backward"} : (tensor<4x512xf32>, tensor<4x512xf32>) -> tensor<512x512xf32>
  %dh = "nn.matmul"(%y, %w1) {transpose_a = false, transpose_b = true, nn.phase = "backward"} : (tensor<4x512xf32>, tensor<512x512xf32>) -> tensor<4x512xf32>
  %dw0 = "nn.matmul"(%x, %dh) {transpose_a = true, transpose_b = false, nn.phase = "backward"} : (tensor<4x512xf32>, tensor<4x512xf32>) -> tensor<512x512xf32>
  %n0 = "nn.sub"(%w0, %dw0) {nn.phase = "update"} : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
  %n1 = "nn.sub"(%w1, %dw1) {nn.phase = "update"} : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
  return %n0, %n1 : tensor<512x512xf32>, tensor<512x512xf32>
}
