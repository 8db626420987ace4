// Shape errors in a module name the op, both types and the place; every one of them is reported, not only the first.
// RUN: split-file %s %t
// RUN: not %nnc_opt %t/shapes.mlir 2>&1 | FileCheck %t/shapes.mlir --implicit-check-not=error:
// RUN: not %nnc_opt %t/repeated.mlir 2>&1 | FileCheck %t/repeated.mlir --implicit-check-not=error:
// RUN: not %nnc_opt %t/counts.mlir 2>&1 | FileCheck %t/counts.mlir
// RUN: not %nnc_opt %t/attribute.mlir 2>&1 | FileCheck %t/attribute.mlir
// RUN: not %nnc_opt %t/unknown.mlir 2>&1 | FileCheck %t/unknown.mlir
// RUN: not %nnc_opt %t/numbers.mlir 2>&1 | FileCheck %t/numbers.mlir
// RUN: not %nnc_opt %t/loop.mlir 2>&1 | FileCheck %t/loop.mlir
// RUN: for f in tied tied-type ranks; do not %nnc_opt %t/$f.mlir 2>&1 | FileCheck %t/$f.mlir || exit 1; done

//--- shapes.mlir
func.func @f(%a: tensor<2x3xf32>, %b: tensor<3x2xf32>, %c: tensor<2x3xf64>, %image: tensor<1x3x8x8xf32>, %w: tensor<4x2x3x3xf32>) {
  // CHECK: shapes.mlir:[[@LINE+1]]:{{[0-9]+}}: error: add: shapes differ: f32[2, 3] and f32[3, 2]
  %0 = "nn.add"(%a, %b) : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x3xf32>
  // CHECK: shapes.mlir:[[@LINE+1]]:{{[0-9]+}}: error: mul: operands differ in element type: f32[2, 3] and f64[2, 3]
  %1 = "nn.mul"(%a, %c) : (tensor<2x3xf32>, tensor<2x3xf64>) -> tensor<2x3xf32>
  // CHECK: shapes.mlir:[[@LINE+1]]:{{[0-9]+}}: error: matmul: inner dimensions differ: lhs f32[2, 3] has 3, rhs f32[2, 3] has 2
  %2 = "nn.matmul"(%a, %a) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK: shapes.mlir:[[@LINE+1]]:{{[0-9]+}}: error: exp: result 0 is f32[3, 2], but the operands give f32[2, 3]
  %3 = "nn.exp"(%a) : (tensor<2x3xf32>) -> tensor<3x2xf32>
  // CHECK: shapes.mlir:[[@LINE+1]]:{{[0-9]+}}: error: conv2d: image f32[1, 3, 8, 8] has 3 channels in 1 groups, weight f32[4, 2, 3, 3] expects 2 in each group
  %4 = "nn.conv2d"(%image, %w) {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>} : (tensor<1x3x8x8xf32>, tensor<4x2x3x3xf32>) -> tensor<1x4x6x6xf32>
  // CHECK: shapes.mlir:[[@LINE+1]]:{{[0-9]+}}: error: reshape: f32[2, 3] has 6 elements, f32[7] has 7
  %5 = "nn.reshape"(%a) : (tensor<2x3xf32>) -> tensor<7xf32>
  return
}

//--- repeated.mlir
// An op like one before it is known to be right only where types and attributes are the same; a mistake made twice is reported twice.
func.func @f(%a: tensor<2x3xf32>, %b: tensor<3x2xf32>) {
  %0 = "nn.transpose"(%a) {perm = array<i64: 1, 0>} : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %1 = "nn.transpose"(%a) {perm = array<i64: 1, 0>} : (tensor<2x3xf32>) -> tensor<3x2xf32>
  // CHECK: repeated.mlir:[[@LINE+1]]:{{[0-9]+}}: error: transpose: result 0 is f32[3, 2], but the operands give f32[2, 3]
  %2 = "nn.transpose"(%a) {perm = array<i64: 0, 1>} : (tensor<2x3xf32>) -> tensor<3x2xf32>
  // CHECK: repeated.mlir:[[@LINE+1]]:{{[0-9]+}}: error: transpose: result 0 is f32[3, 2], but the operands give f32[2, 3]
  %3 = "nn.transpose"(%b) {perm = array<i64: 1, 0>} : (tensor<3x2xf32>) -> tensor<3x2xf32>
  // CHECK: repeated.mlir:[[@LINE+1]]:{{[0-9]+}}: error: transpose: result 0 is f32[3, 2], but the operands give f32[2, 3]
  %4 = "nn.transpose"(%a) {perm = array<i64: 0, 1>} : (tensor<2x3xf32>) -> tensor<3x2xf32>
  return
}

//--- counts.mlir
func.func @f(%a: tensor<2x3xf32>) {
  // CHECK: counts.mlir:[[@LINE+1]]:{{[0-9]+}}: error: {{.*}}operand
  %0 = "nn.add"(%a) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return
}

//--- attribute.mlir
func.func @f(%a: tensor<2x3xf32>) {
  // CHECK: attribute.mlir:[[@LINE+1]]:{{[0-9]+}}: error: {{.*}}"axes"
  %0 = "nn.reduce_sum"(%a) : (tensor<2x3xf32>) -> tensor<2xf32>
  return
}

//--- unknown.mlir
func.func @f(%a: tensor<2x3xf32>) {
  // CHECK: unknown.mlir:[[@LINE+1]]:{{[0-9]+}}: error: {{.*}}nn.sine
  %0 = "nn.sine"(%a) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return
}

//--- numbers.mlir
// A number of a result that no operation can have is refused before room is made for it.
func.func @f() {
  // CHECK: numbers.mlir:[[@LINE+1]]:19: error: no operation has more than 65536 results
  %3 = "nn.exp"(%3#1000000000) : (tensor<2xf32>) -> tensor<2xf32>
}

//--- tied.mlir
// CHECK: tied.mlir:[[@LINE+1]]:{{[0-9]+}}: error: result 1 is tied to argument 2, which the function does not have
func.func @f(%a: tensor<2xf32>, %b: tensor<3xf32>) -> (tensor<3xf32> {nn.tied = 1 : i64}, tensor<2xf32> {nn.tied = 2 : i64}) {
  return %b, %a : tensor<3xf32>, tensor<2xf32>
}

//--- tied-type.mlir
// CHECK: tied-type.mlir:[[@LINE+1]]:{{[0-9]+}}: error: result 0 is tied to argument 1, which is of another type
func.func @f(%a: tensor<2xf32>, %b: tensor<3xf32>) -> (tensor<2xf32> {nn.tied = 1 : i64}) {
  return %a : tensor<2xf32>
}

//--- ranks.mlir
// CHECK: ranks.mlir:[[@LINE+1]]:1: error: expected 1 to 4096 ranks, found 9223372036854775807
module attributes {nn.ranks = 9223372036854775807 : i64} {
}

//--- loop.mlir
// CHECK: loop.mlir:[[@LINE+2]]:{{[0-9]+}}: error: operand 2 of a loop of 6 steps is f32[8], its step takes bf16[8]
func.func @f(%x: tensor<6x8xbf16>, %h: tensor<8xbf16>, %w: tensor<8xf32>) -> tensor<7x8xbf16> {
  %y = func.call @loop(%x, %h, %w) {nn.scan} : (tensor<6x8xbf16>, tensor<8xbf16>, tensor<8xf32>) -> tensor<7x8xbf16>
  return %y : tensor<7x8xbf16>
}
func.func private @loop(tensor<6x8xbf16>, tensor<8xbf16>, tensor<8xf32>) -> tensor<7x8xbf16>
  attributes {nn.kernel, nn.kind = "scan", nn.label = "scan", nn.body = "loop_body", nn.length = 6 : i64, nn.counts = array<i64: 1, 1, 0, 1, 0>}
func.func @loop_body(%x: tensor<8xbf16>, %h: tensor<8xbf16>, %w: tensor<8xbf16>) -> tensor<8xbf16> attributes {nn.scan_body} {
  %y = "nn.add"(%x, %w) : (tensor<8xbf16>, tensor<8xbf16>) -> tensor<8xbf16>
  return %y : tensor<8xbf16>
}
