// A large window with a stride of two over an image of three channels, narrow: where tensor cores multiply, one of half the size over blocks of 2 x 2 pixels, which are the channels.
// RUN: %nnc_opt %s --target=cuda --passes=layout,simplify | FileCheck %s
// RUN: %nnc_opt %s --target=cuda --gpu-arch=sm_75 --passes=layout,simplify | FileCheck %s --check-prefix=PLAIN
// RUN: %nnc_opt %s --passes=layout,simplify | FileCheck %s --check-prefix=PLAIN

// CHECK-LABEL: func.func @stem
// CHECK: %[[C:.*]] = "nn.cast"(%arg1)
// CHECK: "nn.pad"(%{{.*}}) {high = array<i64: 0, 0, 0, 1>{{.*}} -> tensor<2x16x12x4xbf16>
// CHECK: "nn.transpose"(%{{.*}}) {{.*}}perm = array<i64: 0, 1, 3, 2, 4, 5>} : (tensor<2x8x2x6x2x4xbf16>) -> tensor<2x8x6x2x2x4xbf16>
// CHECK: "nn.pad"(%[[C]]) {high = array<i64: 0, 1, 0, 0>{{.*}}low = array<i64: 0, 0, 1, 1>{{.*}} -> tensor<32x4x8x8xbf16>
// CHECK: "nn.transpose"(%{{.*}}) {{.*}}perm = array<i64: 0, 3, 5, 1, 2, 4>
// CHECK-NEXT: %[[W:.*]] = "nn.reshape"(%{{.*}}) {{.*}} -> tensor<32x16x4x4xbf16>
// CHECK: %[[Y:.*]] = "nn.conv2d"(%{{.*}}, %[[W]]) {layout = "nhwc", padding = array<i64: 2, 1, 2, 1>, strides = array<i64: 1, 1>} : {{.*}} -> tensor<2x8x6x32xbf16>
// PLAIN-LABEL: func.func @stem
// PLAIN: "nn.conv2d"(%{{.*}}strides = array<i64: 2, 2>
func.func @stem(%image: tensor<2x3x16x12xbf16>, %w: tensor<32x3x7x7xf32>) -> tensor<2x32x8x6xbf16> {
  %0 = "nn.cast"(%w) : (tensor<32x3x7x7xf32>) -> tensor<32x3x7x7xbf16>
  %1 = "nn.conv2d"(%image, %0) {strides = array<i64: 2, 2>, padding = array<i64: 3, 3, 3, 3>} : (tensor<2x3x16x12xbf16>, tensor<32x3x7x7xbf16>) -> tensor<2x32x8x6xbf16>
  return %1 : tensor<2x32x8x6xbf16>
}

// Small windows, wide types, many channels and odd sizes stay.
// CHECK-LABEL: func.func @small
// CHECK-COUNT-4: strides = array<i64: 2, 2>
func.func @small(%image: tensor<2x3x16x12xbf16>, %wide: tensor<2x3x16x12xf32>, %many: tensor<2x8x16x12xbf16>, %odd: tensor<2x3x15x12xbf16>, %w3: tensor<32x3x3x3xbf16>, %w7: tensor<32x3x7x7xf32>, %w8: tensor<32x8x7x7xbf16>, %w: tensor<32x3x7x7xbf16>)
    -> (tensor<2x32x8x6xbf16>, tensor<2x32x8x6xf32>, tensor<2x32x8x6xbf16>, tensor<2x32x8x6xbf16>) {
  %0 = "nn.conv2d"(%image, %w3) {strides = array<i64: 2, 2>, padding = array<i64: 1, 1, 1, 1>} : (tensor<2x3x16x12xbf16>, tensor<32x3x3x3xbf16>) -> tensor<2x32x8x6xbf16>
  %1 = "nn.conv2d"(%wide, %w7) {strides = array<i64: 2, 2>, padding = array<i64: 3, 3, 3, 3>} : (tensor<2x3x16x12xf32>, tensor<32x3x7x7xf32>) -> tensor<2x32x8x6xf32>
  %2 = "nn.conv2d"(%many, %w8) {strides = array<i64: 2, 2>, padding = array<i64: 3, 3, 3, 3>} : (tensor<2x8x16x12xbf16>, tensor<32x8x7x7xbf16>) -> tensor<2x32x8x6xbf16>
  %3 = "nn.conv2d"(%odd, %w) {strides = array<i64: 2, 2>, padding = array<i64: 3, 3, 3, 3>} : (tensor<2x3x15x12xbf16>, tensor<32x3x7x7xbf16>) -> tensor<2x32x8x6xbf16>
  return %0, %1, %2, %3 : tensor<2x32x8x6xbf16>, tensor<2x32x8x6xf32>, tensor<2x32x8x6xbf16>, tensor<2x32x8x6xbf16>
}
