// What frees more than it allocates comes from anywhere: the product that is the last to read %g does not wait for the forty before it.
// RUN: %nnc_opt %s --passes=schedule | FileCheck %s
// CHECK-LABEL: func.func @late
// CHECK-NEXT: "nn.matmul"(%arg0, %arg1)
// CHECK-NEXT: %[[B:.*]] = "nn.matmul"(%arg2, %arg0)
// CHECK-COUNT-39: "nn.matmul"(%{{[0-9]+}}, %arg1)
// CHECK-NEXT: return %{{.*}}, %[[B]]
func.func @late(%g: tensor<256x32xf32> {nn.role = "input"}, %w: tensor<32x32xf32> {nn.role = "param", nn.name = "w"}, %ones: tensor<1x256xf32> {nn.role = "param", nn.name = "ones"}) -> (tensor<256x32xf32>, tensor<1x32xf32>) {
  %c0 = "nn.matmul"(%g, %w) {transpose_a = false, transpose_b = false, nn.phase = "backward"} : (tensor<256x32xf32>, tensor<32x32xf32>) -> tensor<256x32xf32>
  %c1 = "nn.matmul"(%c0, %w) {transpose_a = false, transpose_b = false, nn.phase = "backward"} : (tensor<256x32xf32>, tensor<32x32xf32>) -> tensor<256x32xf32>
  %c2 = "nn.matmul"(%c1, %w) {transpose_a = false, transpose_b = false, nn.phase = "backward"} : (tensor<256x32xf32>, tensor<32x32xf32>) -> tensor<256x32xf32>
  %c3 = "nn.matmul"(%c2, %w) {transpose_a = false, transpose_b = false, nn.phase = "backward"} : (tensor<256x32xf32>, tensor<32x32xf32>) -> tensor<256x32xf32>
  %c4 = "nn.matmul"(%c3, %w) {transpose_a = false, transpose_b = false, nn.phase = "backward"} : (tensor<256x32xf32>, tensor<32x32xf32>) -> tensor<256x32xf32>
  %c5 = "nn.matmul"(%c4, %w) {transpose_a = false, transpose_b = false, nn.phase = "backward"} : (tensor<256x32xf32>, tensor<32x32xf32>) -> tensor<256x32xf32>
  %c6 = "nn.matmul"(%c5, %w) {transpose_a = false, transpose_b = false, nn.phase = "backward"} : (tensor<256x32xf32>, tensor<32x32xf32>) -> tensor<256x32xf32>
  %c7 = "nn.matmul"(%c6, %w) {transpose_a = false, transpose_b = false, nn.phase = "backward"} : (tensor<256x32xf32>, tensor<32x32xf32>) -> tensor<256x32xf32>
  %c8 = "nn.matmul"(%c7, %w) {transpose_a = false, transpose_b = false, nn.phase = "backward"} : (tensor<256x32xf32>, tensor<32x32xf32>) -> tensor<256x32xf32>
  %c9 = "nn.matmul"(%c8, %w) {transpose_a = false, transpose_b = false, nn.phase = "backward"} : (tensor<256x32xf32>, tensor<32x32xf32>) -> tensor<256x32xf32>
  %c10 = "nn.matmul"(%c9, %w) {transpose_a = false, transpose_b = false, nn.phase = "backward"} : (tensor<256x32xf32>, tensor<32x32xf32>) -> tensor<256x32xf32>
  %c11 = "nn.matmul"(%c10, %w) {transpose_a = false, transpose_b = false, nn.phase = "backward"} : (tensor<256x32xf32>, tensor<32x32xf32>) -> tensor<256x32xf32>
  %c12 = "nn.matmul"(%c11, %w) {transpose_a = false, transpose_b = false, nn.phase = "backward"} : (tensor<256x32xf32>, tensor<32x32xf32>) -> tensor<256x32xf32>
  %c13 = "nn.matmul"(%c12, %w) {transpose_a = false, transpose_b = false, nn.phase = "backward"} : (tensor<256x32xf32>, tensor<32x32xf32>) -> tensor<256x32xf32>
  %c14 = "nn.matmul"(%c13, %w) {transpose_a = false, transpose_b = false, nn.phase = "backward"} : (tensor<256x32xf32>, tensor<32x32xf32>) -> tensor<256x32xf32>
  %c15 = "nn.matmul"(%c14, %w) {transpose_a = false, transpose_b = false, nn.phase = "backward"} : (tensor<256x32xf32>, tensor<32x32xf32>) -> tensor<256x32xf32>
  %c16 = "nn.matmul"(%c15, %w) {transpose_a = false, transpose_b = false, nn.phase = "backward"} : (tensor<256x32xf32>, tensor<32x32xf32>) -> tensor<256x32xf32>
  %c17 = "nn.matmul"(%c16, %w) {transpose_a = false, transpose_b = false, nn.phase = "backward"} : (tensor<256x32xf32>, tensor<32x32xf32>) -> tensor<256x32xf32>
  %c18 = "nn.matmul"(%c17, %w) {transpose_a = false, transpose_b = false, nn.phase = "backward"} : (tensor<256x32xf32>, tensor<32x32xf32>) -> tensor<256x32xf32>
  %c19 = "nn.matmul"(%c18, %w) {transpose_a = false, transpose_b = false, nn.phase = "backward"} : (tensor<256x32xf32>, tensor<32x32xf32>) -> tensor<256x32xf32>
  %c20 = "nn.matmul"(%c19, %w) {transpose_a = false, transpose_b = false, nn.phase = "backward"} : (tensor<256x32xf32>, tensor<32x32xf32>) -> tensor<256x32xf32>
  %c21 = "nn.matmul"(%c20, %w) {transpose_a = false, transpose_b = false, nn.phase = "backward"} : (tensor<256x32xf32>, tensor<32x32xf32>) -> tensor<256x32xf32>
  %c22 = "nn.matmul"(%c21, %w) {transpose_a = false, transpose_b = false, nn.phase = "backward"} : (tensor<256x32xf32>, tensor<32x32xf32>) -> tensor<256x32xf32>
  %c23 = "nn.matmul"(%c22, %w) {transpose_a = false, transpose_b = false, nn.phase = "backward"} : (tensor<256x32xf32>, tensor<32x32xf32>) -> tensor<256x32xf32>
  %c24 = "nn.matmul"(%c23, %w) {transpose_a = false, transpose_b = false, nn.phase = "backward"} : (tensor<256x32xf32>, tensor<32x32xf32>) -> tensor<256x32xf32>
  %c25 = "nn.matmul"(%c24, %w) {transpose_a = false, transpose_b = false, nn.phase = "backward"} : (tensor<256x32xf32>, tensor<32x32xf32>) -> tensor<256x32xf32>
  %c26 = "nn.matmul"(%c25, %w) {transpose_a = false, transpose_b = false, nn.phase = "backward"} : (tensor<256x32xf32>, tensor<32x32xf32>) -> tensor<256x32xf32>
  %c27 = "nn.matmul"(%c26, %w) {transpose_a = false, transpose_b = false, nn.phase = "backward"} : (tensor<256x32xf32>, tensor<32x32xf32>) -> tensor<256x32xf32>
  %c28 = "nn.matmul"(%c27, %w) {transpose_a = false, transpose_b = false, nn.phase = "backward"} : (tensor<256x32xf32>, tensor<32x32xf32>) -> tensor<256x32xf32>
  %c29 = "nn.matmul"(%c28, %w) {transpose_a = false, transpose_b = false, nn.phase = "backward"} : (tensor<256x32xf32>, tensor<32x32xf32>) -> tensor<256x32xf32>
  %c30 = "nn.matmul"(%c29, %w) {transpose_a = false, transpose_b = false, nn.phase = "backward"} : (tensor<256x32xf32>, tensor<32x32xf32>) -> tensor<256x32xf32>
  %c31 = "nn.matmul"(%c30, %w) {transpose_a = false, transpose_b = false, nn.phase = "backward"} : (tensor<256x32xf32>, tensor<32x32xf32>) -> tensor<256x32xf32>
  %c32 = "nn.matmul"(%c31, %w) {transpose_a = false, transpose_b = false, nn.phase = "backward"} : (tensor<256x32xf32>, tensor<32x32xf32>) -> tensor<256x32xf32>
  %c33 = "nn.matmul"(%c32, %w) {transpose_a = false, transpose_b = false, nn.phase = "backward"} : (tensor<256x32xf32>, tensor<32x32xf32>) -> tensor<256x32xf32>
  %c34 = "nn.matmul"(%c33, %w) {transpose_a = false, transpose_b = false, nn.phase = "backward"} : (tensor<256x32xf32>, tensor<32x32xf32>) -> tensor<256x32xf32>
  %c35 = "nn.matmul"(%c34, %w) {transpose_a = false, transpose_b = false, nn.phase = "backward"} : (tensor<256x32xf32>, tensor<32x32xf32>) -> tensor<256x32xf32>
  %c36 = "nn.matmul"(%c35, %w) {transpose_a = false, transpose_b = false, nn.phase = "backward"} : (tensor<256x32xf32>, tensor<32x32xf32>) -> tensor<256x32xf32>
  %c37 = "nn.matmul"(%c36, %w) {transpose_a = false, transpose_b = false, nn.phase = "backward"} : (tensor<256x32xf32>, tensor<32x32xf32>) -> tensor<256x32xf32>
  %c38 = "nn.matmul"(%c37, %w) {transpose_a = false, transpose_b = false, nn.phase = "backward"} : (tensor<256x32xf32>, tensor<32x32xf32>) -> tensor<256x32xf32>
  %c39 = "nn.matmul"(%c38, %w) {transpose_a = false, transpose_b = false, nn.phase = "backward"} : (tensor<256x32xf32>, tensor<32x32xf32>) -> tensor<256x32xf32>
  %b = "nn.matmul"(%ones, %g) {transpose_a = false, transpose_b = false, nn.phase = "backward"} : (tensor<1x256xf32>, tensor<256x32xf32>) -> tensor<1x32xf32>
  return %c39, %b : tensor<256x32xf32>, tensor<1x32xf32>
}
