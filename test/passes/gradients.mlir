// grad(y, x) becomes a backward sweep of the phase forward; several of one y are one sweep, those of gradients follow from them, and attention's gradient is taken apart where a second one goes through it.
// RUN: nnc-opt %s --passes='gradients' | FileCheck %s
// RUN: nnc-opt %s --passes='gradients' | FileCheck %s --check-prefix=NONE
// NONE-NOT: nn.gradient

// CHECK-LABEL: func.func @eval(
// CHECK-SAME: %[[X:[^ ]*]]: tensor<3xf32>, %[[W:[^ ]*]]: tensor<3xf32>
// CHECK: %[[Y:.*]] = "nn.mul"(%[[X]], %[[W]])
// CHECK-NEXT: %[[ONE:.*]] = "nn.constant"() {nn.phase = "forward"
// CHECK-NEXT: %[[DX:.*]] = "nn.mul"(%[[ONE]], %[[W]]) {nn.phase = "forward"}
// CHECK-NEXT: %[[DW:.*]] = "nn.mul"(%[[ONE]], %[[X]]) {nn.phase = "forward"}
// CHECK-NEXT: %[[BOTH:.*]] = "nn.mul"(%[[DX]], %[[DW]])
// CHECK: %[[THROUGH:.*]] = "nn.mul"(%{{.*}}, %[[DX]])
// CHECK-NEXT: %[[SECOND:.*]] = "nn.mul"(%[[THROUGH]], %[[ONE]])
// CHECK-NEXT: return %[[BOTH]], %[[SECOND]]
func.func @eval(%x: tensor<3xf32>, %w: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
  %y = "nn.mul"(%x, %w) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %dx = "nn.gradient"(%y, %x) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %dw = "nn.gradient"(%y, %w) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %both = "nn.mul"(%dx, %dw) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %second = "nn.gradient"(%both, %x) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  return %both, %second : tensor<3xf32>, tensor<3xf32>
}

// CHECK-LABEL: func.func @predict(
// CHECK: "nn.attention_3"
// CHECK: "nn.attention_grad_6"
// CHECK-NOT: "nn.softmax"
// CHECK: return
func.func @predict(%q: tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf32> {
  %o:2 = "nn.attention_3"(%q, %q, %q) {scale = 0.5 : f64} : (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>) -> (tensor<1x2x3x4xf32>, tensor<1x2x3xf32>)
  %d = "nn.gradient"(%o#0, %q) : (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf32>
  return %d : tensor<1x2x3x4xf32>
}

// CHECK-LABEL: func.func @train(
// CHECK: "nn.attention_3"
// CHECK-NOT: "nn.attention_grad_6"
// CHECK: "nn.softmax"
// CHECK-NOT: "nn.attention_grad_6"
// CHECK: return
func.func @train(%q: tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf32> {
  %o:2 = "nn.attention_3"(%q, %q, %q) {scale = 0.5 : f64} : (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>) -> (tensor<1x2x3x4xf32>, tensor<1x2x3xf32>)
  %d = "nn.gradient"(%o#0, %q) : (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf32>
  %square = "nn.mul"(%d, %d) : (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf32>
  %e = "nn.gradient"(%square, %q) : (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf32>
  return %e : tensor<1x2x3x4xf32>
}
