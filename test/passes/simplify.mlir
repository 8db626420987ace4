// Folding, algebra, views, common subexpressions, dead code.
// RUN: %nnc_opt %s --passes=simplify | FileCheck %s
// Running it twice changes nothing more.
// RUN: %nnc_opt %s --passes=simplify -o %t.once && %nnc_opt %t.once --passes=simplify | diff %t.once -

// Equal ops merge whatever their phase, the earlier one wins; so do commuted operands; differing attributes keep ops apart.
// CHECK-LABEL: func.func @merge
// CHECK-NEXT: %[[E:.*]] = "nn.exp"(%arg0) {nn.phase = "forward"}
// CHECK-NEXT: %[[S:.*]] = "nn.add"(%arg0, %[[E]]) {nn.phase = "forward"}
// CHECK-NEXT: %[[R0:.*]] = "nn.reduce_sum"(%[[S]]) {axes = array<i64: 0>
// CHECK-NEXT: %[[R1:.*]] = "nn.reduce_sum"(%[[S]]) {axes = array<i64: 1>
// CHECK-NEXT: return %[[E]], %[[S]], %[[S]], %[[R0]], %[[R1]]
func.func @merge(%x: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %e = "nn.exp"(%x) {nn.phase = "forward"} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %s = "nn.add"(%x, %e) {nn.phase = "forward"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %f = "nn.exp"(%x) {nn.phase = "backward"} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %t = "nn.add"(%f, %x) {nn.phase = "backward"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %r0 = "nn.reduce_sum"(%t) {axes = array<i64: 0>, nn.phase = "backward"} : (tensor<4x4xf32>) -> tensor<4xf32>
  %r1 = "nn.reduce_sum"(%t) {axes = array<i64: 1>, nn.phase = "backward"} : (tensor<4x4xf32>) -> tensor<4xf32>
  return %f, %s, %t, %r0, %r1 : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4xf32>, tensor<4xf32>
}

// A quotient by 0 is left to run.
// CHECK-LABEL: func.func @by_zero
// CHECK: "nn.div"
// CHECK-NEXT: return
func.func @by_zero() -> tensor<4xf32> {
  %x = "nn.constant"() {value = 3.0 : f64} : () -> tensor<4xf32>
  %z = "nn.constant"() {value = 0.0 : f64} : () -> tensor<4xf32>
  %q = "nn.div"(%x, %z) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %q : tensor<4xf32>
}

// Draws with the same key row are the same draw, with another row they are not.
// CHECK-LABEL: func.func @draws
// CHECK-NEXT: %[[A:.*]] = "nn.random_uniform"(%arg0)
// CHECK-NEXT: %[[B:.*]] = "nn.random_uniform"(%arg1)
// CHECK-NEXT: return %[[A]], %[[A]], %[[B]]
func.func @draws(%k: tensor<4xi32>, %l: tensor<4xi32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) {
  %a = "nn.random_uniform"(%k) : (tensor<4xi32>) -> tensor<8xf32>
  %b = "nn.random_uniform"(%k) : (tensor<4xi32>) -> tensor<8xf32>
  %c = "nn.random_uniform"(%l) : (tensor<4xi32>) -> tensor<8xf32>
  return %a, %b, %c : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}

// Marks stay and keep what they mark; the rest that nothing uses goes.
// CHECK-LABEL: func.func @dead
// CHECK-NEXT: %[[E:.*]] = "nn.exp"
// CHECK-NEXT: "nn.tap"(%[[E]]) {name = "e"}
// CHECK-NEXT: "nn.checkpoint"(%arg0)
// CHECK-NEXT: return %arg0
func.func @dead(%x: tensor<4xf32>) -> tensor<4xf32> {
  %e = "nn.exp"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %l = "nn.log"(%e) : (tensor<4xf32>) -> tensor<4xf32>
  %m = "nn.neg"(%l) : (tensor<4xf32>) -> tensor<4xf32>
  "nn.tap"(%e) {name = "e"} : (tensor<4xf32>) -> ()
  "nn.checkpoint"(%x) : (tensor<4xf32>) -> ()
  return %x : tensor<4xf32>
}

// CHECK-NOT: @uncalled
// CHECK-NOT: @only_from_uncalled
// CHECK-LABEL: func.func private @called
func.func private @uncalled(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = func.call @only_from_uncalled(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
func.func private @only_from_uncalled(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
func.func private @called(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
func.func @caller(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = func.call @called(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// Constants fold in the element type: 1/3 in f32 is not 1/3 in f64; what cannot be said exactly is left to run.
// CHECK-LABEL: func.func @constants
// CHECK-DAG: %[[F:.*]] = "nn.constant"() {value = 0.3333333432674{{[0-9]*}} : f64} : () -> tensor<2xf32>
// CHECK-DAG: %[[D:.*]] = "nn.constant"() {value = 0.33333333333333331 : f64} : () -> tensor<f64>
// CHECK-DAG: %[[I:.*]] = "nn.constant"() {value = -2.000000e+00 : f64} : () -> tensor<i32>
// CHECK-DAG: %[[C:.*]] = "nn.constant"() {value = 1.000000e+00 : f64} : () -> tensor<i1>
// CHECK-DAG: %[[O:.*]] = "nn.mul"
// CHECK: return %[[F]], %[[D]], %[[I]], %[[C]], %[[O]]
func.func @constants() -> (tensor<2xf32>, tensor<f64>, tensor<i32>, tensor<i1>, tensor<i32>) {
  %one = "nn.constant"() {value = 1.0 : f64} : () -> tensor<f32>
  %three = "nn.constant"() {value = 3.0 : f64} : () -> tensor<f32>
  %q = "nn.div"(%one, %three) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %f = "nn.broadcast"(%q) {dims = array<i64>} : (tensor<f32>) -> tensor<2xf32>
  %d1 = "nn.cast"(%one) : (tensor<f32>) -> tensor<f64>
  %d3 = "nn.cast"(%three) : (tensor<f32>) -> tensor<f64>
  %d = "nn.div"(%d1, %d3) : (tensor<f64>, tensor<f64>) -> tensor<f64>
  %m7 = "nn.constant"() {value = -7.0 : f64} : () -> tensor<i32>
  %i4 = "nn.constant"() {value = 4.0 : f64} : () -> tensor<i32>
  %i = "nn.div"(%m7, %i4) : (tensor<i32>, tensor<i32>) -> tensor<i32>
  %c = "nn.compare"(%m7, %i4) {predicate = "lt"} : (tensor<i32>, tensor<i32>) -> tensor<i1>
  %big = "nn.constant"() {value = 2000000000.0 : f64} : () -> tensor<i32>
  %o = "nn.mul"(%big, %i4) : (tensor<i32>, tensor<i32>) -> tensor<i32>
  return %f, %d, %i, %c, %o : tensor<2xf32>, tensor<f64>, tensor<i32>, tensor<i1>, tensor<i32>
}

// They fold as what their type holds: of 0.1 in bf16 seven digits less, of 16777217 in f32 the even number before it;
// of integers all, and they have one zero.
// CHECK-LABEL: func.func @held
// CHECK-DAG: %[[W:.*]] = "nn.constant"() {value = 0.10009765625 : f64} : () -> tensor<f32>
// CHECK-DAG: %[[L:.*]] = "nn.constant"() {value = 0.000000e+00 : f64} : () -> tensor<i1>
// CHECK-DAG: %[[S:.*]] = "nn.constant"() {value = 0.30078125 : f64} : () -> tensor<bf16>
// CHECK-DAG: %[[I:.*]] = "nn.constant"() {value = 0x4170000000000000 : f64} : () -> tensor<i32>
// CHECK-DAG: %[[B:.*]] = "nn.constant"() {value = 2.305843009213694E+18 : f64} : () -> tensor<f64>
// CHECK-DAG: %[[E:.*]] = "nn.constant"() {value = 1.000000e+00 : f64} : () -> tensor<i1>
// CHECK-DAG: %[[U:.*]] = "nn.constant"() {value = 2.550000e+02 : f64} : () -> tensor<i32>
// CHECK-DAG: %[[Z:.*]] = "nn.constant"() {value = 0.000000e+00 : f64} : () -> tensor<f32>
// CHECK: return %[[W]], %[[L]], %[[S]], %[[I]], %[[B]], %[[E]], %[[U]], %[[Z]], %arg0
func.func @held(%x: tensor<4xf32>) -> (tensor<f32>, tensor<i1>, tensor<bf16>, tensor<i32>, tensor<f64>, tensor<i1>, tensor<i32>, tensor<f32>, tensor<4xf32>) {
  %tenth = "nn.constant"() {value = 0.1 : f64} : () -> tensor<bf16>
  %near = "nn.constant"() {value = 0.10001 : f64} : () -> tensor<bf16>
  %w = "nn.cast"(%tenth) : (tensor<bf16>) -> tensor<f32>
  %l = "nn.compare"(%tenth, %near) {predicate = "lt"} : (tensor<bf16>, tensor<bf16>) -> tensor<i1>
  %three = "nn.broadcast"(%tenth) {dims = array<i64>} : (tensor<bf16>) -> tensor<3xbf16>
  %s = "nn.reduce_sum"(%three) {axes = array<i64: 0>} : (tensor<3xbf16>) -> tensor<bf16>
  %odd = "nn.constant"() {value = 16777217.0 : f64} : () -> tensor<f32>
  %i = "nn.cast"(%odd) : (tensor<f32>) -> tensor<i32>
  %large = "nn.constant"() {value = 2305843009213693952.0 : f64} : () -> tensor<i64>
  %b = "nn.cast"(%large) : (tensor<i64>) -> tensor<f64>
  %e = "nn.compare"(%large, %large) {predicate = "eq"} : (tensor<i64>, tensor<i64>) -> tensor<i1>
  %most = "nn.constant"() {value = 255.0 : f64} : () -> tensor<ui8>
  %u = "nn.cast"(%most) : (tensor<ui8>) -> tensor<i32>
  %none = "nn.constant"() {value = 0.0 : f64} : () -> tensor<i32>
  %minus = "nn.neg"(%none) : (tensor<i32>) -> tensor<i32>
  %z = "nn.cast"(%minus) : (tensor<i32>) -> tensor<f32>
  %one = "nn.constant"() {value = 1.00000000001 : f64} : () -> tensor<4xf32>
  %n = "nn.mul"(%x, %one) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %w, %l, %s, %i, %b, %e, %u, %z, %n : tensor<f32>, tensor<i1>, tensor<bf16>, tensor<i32>, tensor<f64>, tensor<i1>, tensor<i32>, tensor<f32>, tensor<4xf32>
}

// x+0, 1*x, x/1, x-0, pow(x, 1), --x, x + -y, 0 - x.
// CHECK-LABEL: func.func @neutral
// CHECK-NEXT: %[[S:.*]] = "nn.sub"(%arg0, %arg1)
// CHECK-NEXT: %[[N:.*]] = "nn.neg"(%arg0)
// CHECK-NEXT: return %arg0, %[[S]], %[[N]]
func.func @neutral(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %zero = "nn.constant"() {value = 0.0 : f64} : () -> tensor<4xf32>
  %one = "nn.constant"() {value = 1.0 : f64} : () -> tensor<4xf32>
  %0 = "nn.add"(%zero, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %1 = "nn.mul"(%one, %0) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %2 = "nn.div"(%1, %one) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %3 = "nn.sub"(%2, %zero) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %4 = "nn.pow"(%3, %one) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %5 = "nn.neg"(%4) : (tensor<4xf32>) -> tensor<4xf32>
  %6 = "nn.neg"(%5) : (tensor<4xf32>) -> tensor<4xf32>
  %7 = "nn.neg"(%y) : (tensor<4xf32>) -> tensor<4xf32>
  %8 = "nn.add"(%6, %7) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %9 = "nn.sub"(%zero, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %6, %8, %9 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// 0*x is 0 for integers only: a float may be infinite or NaN, and then x-x is not 0 either.
// CHECK-LABEL: func.func @zero_times
// CHECK-DAG: %[[Z:.*]] = "nn.constant"() {value = 0.000000e+00 : f64} : () -> tensor<4xi32>
// CHECK-DAG: %[[M:.*]] = "nn.mul"(%arg0
// CHECK-DAG: %[[S:.*]] = "nn.sub"(%arg0, %arg0)
// CHECK: return %[[M]], %[[S]], %[[Z]]
func.func @zero_times(%x: tensor<4xf32>, %i: tensor<4xi32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xi32>) {
  %zf = "nn.constant"() {value = 0.0 : f64} : () -> tensor<4xf32>
  %zi = "nn.constant"() {value = 0.0 : f64} : () -> tensor<4xi32>
  %f = "nn.mul"(%x, %zf) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s = "nn.sub"(%x, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %i0 = "nn.mul"(%zi, %i) : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi32>
  return %f, %s, %i0 : tensor<4xf32>, tensor<4xf32>, tensor<4xi32>
}

// (x*3)*5 is x*15; dividing by 4 is multiplying by 1/4, dividing by 255 stays; a square is a product.
// CHECK-LABEL: func.func @factors
// CHECK-DAG: %[[C15:.*]] = "nn.constant"() {value = 1.500000e+01 : f64}
// CHECK-DAG: %[[C4:.*]] = "nn.constant"() {value = 2.500000e-01 : f64}
// CHECK-DAG: %[[C255:.*]] = "nn.constant"() {value = 2.550000e+02 : f64}
// CHECK-DAG: %[[A:.*]] = "nn.mul"(%arg0, %[[C15]])
// CHECK-DAG: %[[B:.*]] = "nn.mul"(%arg0, %[[C4]])
// CHECK-DAG: %[[C:.*]] = "nn.div"(%arg0, %[[C255]])
// CHECK-DAG: %[[D:.*]] = "nn.mul"(%arg0, %arg0)
// CHECK: return %[[A]], %[[B]], %[[C]], %[[D]]
func.func @factors(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %c2 = "nn.constant"() {value = 2.0 : f64} : () -> tensor<4xf32>
  %c3 = "nn.constant"() {value = 3.0 : f64} : () -> tensor<4xf32>
  %c5 = "nn.constant"() {value = 5.0 : f64} : () -> tensor<4xf32>
  %c4 = "nn.constant"() {value = 4.0 : f64} : () -> tensor<4xf32>
  %c255 = "nn.constant"() {value = 255.0 : f64} : () -> tensor<4xf32>
  %x3 = "nn.mul"(%x, %c3) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %a = "nn.mul"(%c5, %x3) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %b = "nn.div"(%x, %c4) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %c = "nn.div"(%x, %c255) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %d = "nn.pow"(%x, %c2) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %a, %b, %c, %d : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// A cast to a wider type and back is nothing; to a narrower one it rounds.
// CHECK-LABEL: func.func @casts
// CHECK-NEXT: %[[N:.*]] = "nn.cast"(%arg1) : (tensor<4xf64>) -> tensor<4xf32>
// CHECK-NEXT: %[[W:.*]] = "nn.cast"(%[[N]]) : (tensor<4xf32>) -> tensor<4xf64>
// CHECK-NEXT: return %arg0, %[[W]]
func.func @casts(%x: tensor<4xf32>, %d: tensor<4xf64>) -> (tensor<4xf32>, tensor<4xf64>) {
  %0 = "nn.cast"(%x) : (tensor<4xf32>) -> tensor<4xf64>
  %1 = "nn.cast"(%0) : (tensor<4xf64>) -> tensor<4xf32>
  %2 = "nn.cast"(%d) : (tensor<4xf64>) -> tensor<4xf32>
  %3 = "nn.cast"(%2) : (tensor<4xf32>) -> tensor<4xf64>
  return %1, %3 : tensor<4xf32>, tensor<4xf64>
}

// What another type does not hold exactly is not skipped: i32 through f32, i64 through f64, bf16 through f16.
// CHECK-LABEL: func.func @inexact_casts
// CHECK-NEXT: %[[I:.*]] = "nn.cast"(%arg0) : (tensor<4xi32>) -> tensor<4xf32>
// CHECK-NEXT: %[[ID:.*]] = "nn.cast"(%[[I]]) : (tensor<4xf32>) -> tensor<4xf64>
// CHECK-NEXT: %[[L:.*]] = "nn.cast"(%arg1) : (tensor<4xi64>) -> tensor<4xf64>
// CHECK-NEXT: %[[LL:.*]] = "nn.cast"(%[[L]]) : (tensor<4xf64>) -> tensor<4xi64>
// CHECK-NEXT: %[[B:.*]] = "nn.cast"(%arg2) : (tensor<4xbf16>) -> tensor<4xf16>
// CHECK-NEXT: %[[BF:.*]] = "nn.cast"(%[[B]]) : (tensor<4xf16>) -> tensor<4xf32>
// CHECK-NEXT: return %[[ID]], %[[LL]], %[[BF]]
func.func @inexact_casts(%i: tensor<4xi32>, %l: tensor<4xi64>, %b: tensor<4xbf16>) -> (tensor<4xf64>, tensor<4xi64>, tensor<4xf32>) {
  %0 = "nn.cast"(%i) : (tensor<4xi32>) -> tensor<4xf32>
  %1 = "nn.cast"(%0) : (tensor<4xf32>) -> tensor<4xf64>
  %2 = "nn.cast"(%l) : (tensor<4xi64>) -> tensor<4xf64>
  %3 = "nn.cast"(%2) : (tensor<4xf64>) -> tensor<4xi64>
  %4 = "nn.cast"(%b) : (tensor<4xbf16>) -> tensor<4xf16>
  %5 = "nn.cast"(%4) : (tensor<4xf16>) -> tensor<4xf32>
  return %1, %3, %5 : tensor<4xf64>, tensor<4xi64>, tensor<4xf32>
}

// Transposes compose and cancel; one that moves only axes of size 1 is a reshape.
// CHECK-LABEL: func.func @transposes
// CHECK-NEXT: %[[T:.*]] = "nn.transpose"(%arg0) {perm = array<i64: 2, 0, 1>}
// CHECK-NEXT: %[[R:.*]] = "nn.reshape"(%arg1) : (tensor<2x1x5x6xf32>) -> tensor<2x5x6x1xf32>
// CHECK-NEXT: return %arg0, %[[T]], %[[R]]
func.func @transposes(%x: tensor<2x3x4xf32>, %image: tensor<2x1x5x6xf32>) -> (tensor<2x3x4xf32>, tensor<4x2x3xf32>, tensor<2x5x6x1xf32>) {
  %0 = "nn.transpose"(%x) {perm = array<i64: 1, 2, 0>} : (tensor<2x3x4xf32>) -> tensor<3x4x2xf32>
  %1 = "nn.transpose"(%0) {perm = array<i64: 1, 2, 0>} : (tensor<3x4x2xf32>) -> tensor<4x2x3xf32>
  %2 = "nn.transpose"(%1) {perm = array<i64: 1, 2, 0>} : (tensor<4x2x3xf32>) -> tensor<2x3x4xf32>
  %3 = "nn.transpose"(%image) {perm = array<i64: 0, 2, 3, 1>} : (tensor<2x1x5x6xf32>) -> tensor<2x5x6x1xf32>
  return %2, %1, %3 : tensor<2x3x4xf32>, tensor<4x2x3xf32>, tensor<2x5x6x1xf32>
}

// Chains of one view are one view; a reshape that only adds axes of size 1 disappears in the broadcast after it; what a broadcast
// repeats is transposed before it.
// CHECK-LABEL: func.func @views
// CHECK-NEXT: %[[A:.*]] = "nn.broadcast"(%arg0) {dims = array<i64: 0>} : (tensor<3xf32>) -> tensor<3x4xf32>
// CHECK-NEXT: %[[B:.*]] = "nn.broadcast"(%arg0) {dims = array<i64: 1>} : (tensor<3xf32>) -> tensor<2x3x4xf32>
// CHECK-NEXT: %[[C:.*]] = "nn.broadcast"(%arg0) {dims = array<i64: 1>} : (tensor<3xf32>) -> tensor<4x3xf32>
// CHECK-NEXT: %[[D:.*]] = "nn.slice"(%arg1) {sizes = array<i64: 2>, starts = array<i64: 5>, strides = array<i64: 6>}
// CHECK-NEXT: return %[[A]], %[[B]], %[[C]], %[[D]]
func.func @views(%x: tensor<3xf32>, %y: tensor<20xf32>) -> (tensor<3x4xf32>, tensor<2x3x4xf32>, tensor<4x3xf32>, tensor<2xf32>) {
  %0 = "nn.reshape"(%x) : (tensor<3xf32>) -> tensor<1x3xf32>
  %1 = "nn.reshape"(%0) : (tensor<1x3xf32>) -> tensor<3x1xf32>
  %2 = "nn.broadcast"(%1) {dims = array<i64: 0, 1>} : (tensor<3x1xf32>) -> tensor<3x4xf32>
  %3 = "nn.broadcast"(%2) {dims = array<i64: 1, 2>} : (tensor<3x4xf32>) -> tensor<2x3x4xf32>
  %4 = "nn.transpose"(%2) {perm = array<i64: 1, 0>} : (tensor<3x4xf32>) -> tensor<4x3xf32>
  %5 = "nn.slice"(%y) {starts = array<i64: 2>, sizes = array<i64: 6>, strides = array<i64: 3>} : (tensor<20xf32>) -> tensor<6xf32>
  %6 = "nn.slice"(%5) {starts = array<i64: 1>, sizes = array<i64: 2>, strides = array<i64: 2>} : (tensor<6xf32>) -> tensor<2xf32>
  return %2, %3, %4, %6 : tensor<3x4xf32>, tensor<2x3x4xf32>, tensor<4x3xf32>, tensor<2xf32>
}

// A full slice, a slice of one part of a concatenation, padding by nothing, a sum over axes of size 1, a sum of a constant.
// CHECK-LABEL: func.func @moves
// CHECK-NEXT: %[[C:.*]] = "nn.constant"() {value = 1.200000e+01 : f64} : () -> tensor<f32>
// CHECK-NEXT: %[[S:.*]] = "nn.slice"(%arg1) {sizes = array<i64: 2>, starts = array<i64: 1>
// CHECK-NEXT: %[[R:.*]] = "nn.reshape"(%arg0) : (tensor<4x1xf32>) -> tensor<4xf32>
// CHECK-NEXT: return %arg0, %[[S]], %[[R]], %[[C]]
func.func @moves(%x: tensor<4x1xf32>, %y: tensor<3xf32>) -> (tensor<4x1xf32>, tensor<2xf32>, tensor<4xf32>, tensor<f32>) {
  %c = "nn.constant"() {value = 2.0 : f64} : () -> tensor<6xf32>
  %sum = "nn.reduce_sum"(%c) {axes = array<i64: 0>} : (tensor<6xf32>) -> tensor<f32>
  %0 = "nn.slice"(%x) {starts = array<i64: 0, 0>, sizes = array<i64: 4, 1>, strides = array<i64: 1, 1>} : (tensor<4x1xf32>) -> tensor<4x1xf32>
  %1 = "nn.pad"(%0) {low = array<i64: 0, 0>, high = array<i64: 0, 0>, interior = array<i64: 0, 5>, value = 0.0 : f64} : (tensor<4x1xf32>) -> tensor<4x1xf32>
  %2 = "nn.concat"(%y, %y) {axis = 0 : i64} : (tensor<3xf32>, tensor<3xf32>) -> tensor<6xf32>
  %3 = "nn.slice"(%2) {starts = array<i64: 4>, sizes = array<i64: 2>, strides = array<i64: 1>} : (tensor<6xf32>) -> tensor<2xf32>
  %4 = "nn.reduce_sum"(%x) {axes = array<i64: 1>} : (tensor<4x1xf32>) -> tensor<4xf32>
  return %1, %3, %4, %sum : tensor<4x1xf32>, tensor<2xf32>, tensor<4xf32>, tensor<f32>
}

// A slice that begins or ends where a part does is one of that part; one that takes an element of the next is not.
// CHECK-LABEL: func.func @parts
// CHECK-DAG: %[[C:.*]] = "nn.concat"(%arg0, %arg1)
// CHECK-DAG: %[[A:.*]] = "nn.slice"(%arg0) {sizes = array<i64: 2>, starts = array<i64: 1>
// CHECK-DAG: %[[B:.*]] = "nn.slice"(%arg1) {sizes = array<i64: 2>, starts = array<i64: 0>
// CHECK-DAG: %[[E:.*]] = "nn.slice"(%arg1) {sizes = array<i64: 3>, starts = array<i64: 1>
// CHECK-DAG: %[[D:.*]] = "nn.slice"(%[[C]]) {sizes = array<i64: 2>, starts = array<i64: 2>
// CHECK: return %[[A]], %[[B]], %[[E]], %[[D]]
func.func @parts(%x: tensor<3xf32>, %y: tensor<4xf32>) -> (tensor<2xf32>, tensor<2xf32>, tensor<3xf32>, tensor<2xf32>) {
  %c = "nn.concat"(%x, %y) {axis = 0 : i64} : (tensor<3xf32>, tensor<4xf32>) -> tensor<7xf32>
  %0 = "nn.slice"(%c) {starts = array<i64: 1>, sizes = array<i64: 2>, strides = array<i64: 1>} : (tensor<7xf32>) -> tensor<2xf32>
  %1 = "nn.slice"(%c) {starts = array<i64: 3>, sizes = array<i64: 2>, strides = array<i64: 1>} : (tensor<7xf32>) -> tensor<2xf32>
  %2 = "nn.slice"(%c) {starts = array<i64: 4>, sizes = array<i64: 3>, strides = array<i64: 1>} : (tensor<7xf32>) -> tensor<3xf32>
  %3 = "nn.slice"(%c) {starts = array<i64: 2>, sizes = array<i64: 2>, strides = array<i64: 1>} : (tensor<7xf32>) -> tensor<2xf32>
  return %0, %1, %2, %3 : tensor<2xf32>, tensor<2xf32>, tensor<3xf32>, tensor<2xf32>
}

// Neighbours among zeros that are added are concatenated, in whatever order they come; a gap between them leaves the sum.
// CHECK-LABEL: func.func @sums_of_pads
// CHECK-NEXT: %[[LOW:.*]] = "nn.pad"(%arg0)
// CHECK-NEXT: %[[HIGH:.*]] = "nn.pad"(%arg2)
// CHECK-NEXT: %[[ALL:.*]] = "nn.concat_3"(%arg0, %arg1, %arg2) {axis = 1 : i64}
// CHECK-NEXT: %[[TWO:.*]] = "nn.concat"(%arg1, %arg2) {axis = 1 : i64}
// CHECK-NEXT: %[[PAD:.*]] = "nn.pad"(%[[TWO]]) {high = array<i64: 0, 0>, interior = array<i64: 0, 0>, low = array<i64: 0, 2>
// CHECK-NEXT: %[[SUM:.*]] = "nn.add"(%[[LOW]], %[[HIGH]])
// CHECK-NEXT: return %[[ALL]], %[[PAD]], %[[SUM]]
func.func @sums_of_pads(%x: tensor<4x2xf32>, %y: tensor<4x3xf32>, %z: tensor<4x1xf32>) -> (tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>) {
  %0 = "nn.pad"(%x) {low = array<i64: 0, 0>, high = array<i64: 0, 4>, interior = array<i64: 0, 0>, value = 0.0 : f64} : (tensor<4x2xf32>) -> tensor<4x6xf32>
  %1 = "nn.pad"(%y) {low = array<i64: 0, 2>, high = array<i64: 0, 1>, interior = array<i64: 0, 0>, value = 0.0 : f64} : (tensor<4x3xf32>) -> tensor<4x6xf32>
  %2 = "nn.pad"(%z) {low = array<i64: 0, 5>, high = array<i64: 0, 0>, interior = array<i64: 0, 0>, value = 0.0 : f64} : (tensor<4x1xf32>) -> tensor<4x6xf32>
  %3 = "nn.add"(%2, %1) : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
  %all = "nn.add"(%3, %0) : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
  %4 = "nn.pad"(%y) {low = array<i64: 0, 2>, high = array<i64: 0, 1>, interior = array<i64: 0, 0>, value = 0.0 : f64} : (tensor<4x3xf32>) -> tensor<4x6xf32>
  %5 = "nn.pad"(%z) {low = array<i64: 0, 5>, high = array<i64: 0, 0>, interior = array<i64: 0, 0>, value = 0.0 : f64} : (tensor<4x1xf32>) -> tensor<4x6xf32>
  %two = "nn.add"(%4, %5) : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
  %6 = "nn.pad"(%x) {low = array<i64: 0, 0>, high = array<i64: 0, 4>, interior = array<i64: 0, 0>, value = 0.0 : f64} : (tensor<4x2xf32>) -> tensor<4x6xf32>
  %7 = "nn.pad"(%z) {low = array<i64: 0, 5>, high = array<i64: 0, 0>, interior = array<i64: 0, 0>, value = 0.0 : f64} : (tensor<4x1xf32>) -> tensor<4x6xf32>
  %gap = "nn.add"(%6, %7) : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
  return %all, %two, %gap : tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>
}

// Zeros between the elements, too, leave it.
// CHECK-LABEL: func.func @sums_of_spread_pads
// CHECK-NEXT: %[[UP:.*]] = "nn.pad"(%arg0)
// CHECK-NEXT: %[[DOWN:.*]] = "nn.pad"(%arg1)
// CHECK-NEXT: %[[SUM:.*]] = "nn.add"(%[[UP]], %[[DOWN]])
// CHECK-NEXT: return %[[SUM]]
func.func @sums_of_spread_pads(%x: tensor<2x2xf32>, %y: tensor<3x2xf32>) -> tensor<5x3xf32> {
  %0 = "nn.pad"(%x) {low = array<i64: 0, 0>, high = array<i64: 3, 0>, interior = array<i64: 0, 1>, value = 0.0 : f64} : (tensor<2x2xf32>) -> tensor<5x3xf32>
  %1 = "nn.pad"(%y) {low = array<i64: 2, 0>, high = array<i64: 0, 0>, interior = array<i64: 0, 1>, value = 0.0 : f64} : (tensor<3x2xf32>) -> tensor<5x3xf32>
  %2 = "nn.add"(%0, %1) : (tensor<5x3xf32>, tensor<5x3xf32>) -> tensor<5x3xf32>
  return %2 : tensor<5x3xf32>
}

// The gradients of queries, keys and values that were slices of one tensor are written side by side: with fewer heads of keys; in the other layout with rows of all tokens; and head by head.
// CHECK-LABEL: func.func @packed_gradients
// CHECK-NEXT: %[[G:.*]] = "nn.attention_grad_packed_6"(%arg0, %arg1, %arg2, %arg3, %arg4, %arg5) {layout = "bthd", scale = 5.000000e-01 : f64} : {{.*}} -> tensor<2x5x24xf32>
// CHECK-NEXT: return %[[G]]
func.func @packed_gradients(%q: tensor<2x5x4x4xf32>, %k: tensor<2x5x1x4xf32>, %v: tensor<2x5x1x4xf32>, %o: tensor<2x5x4x4xf32>, %lse: tensor<2x4x5xf32>, %do: tensor<2x5x4x4xf32>) -> tensor<2x5x24xf32> {
  %g:3 = "nn.attention_grad_6"(%q, %k, %v, %o, %lse, %do) {scale = 0.5 : f64, layout = "bthd"} : (tensor<2x5x4x4xf32>, tensor<2x5x1x4xf32>, tensor<2x5x1x4xf32>, tensor<2x5x4x4xf32>, tensor<2x4x5xf32>, tensor<2x5x4x4xf32>) -> (tensor<2x5x4x4xf32>, tensor<2x5x1x4xf32>, tensor<2x5x1x4xf32>)
  %dq = "nn.reshape"(%g#0) : (tensor<2x5x4x4xf32>) -> tensor<2x5x16xf32>
  %dk = "nn.reshape"(%g#1) : (tensor<2x5x1x4xf32>) -> tensor<2x5x4xf32>
  %dv = "nn.reshape"(%g#2) : (tensor<2x5x1x4xf32>) -> tensor<2x5x4xf32>
  %0 = "nn.pad"(%dv) {low = array<i64: 0, 0, 20>, high = array<i64: 0, 0, 0>, interior = array<i64: 0, 0, 0>, value = 0.0 : f64} : (tensor<2x5x4xf32>) -> tensor<2x5x24xf32>
  %1 = "nn.pad"(%dk) {low = array<i64: 0, 0, 16>, high = array<i64: 0, 0, 4>, interior = array<i64: 0, 0, 0>, value = 0.0 : f64} : (tensor<2x5x4xf32>) -> tensor<2x5x24xf32>
  %2 = "nn.add"(%0, %1) : (tensor<2x5x24xf32>, tensor<2x5x24xf32>) -> tensor<2x5x24xf32>
  %3 = "nn.pad"(%dq) {low = array<i64: 0, 0, 0>, high = array<i64: 0, 0, 8>, interior = array<i64: 0, 0, 0>, value = 0.0 : f64} : (tensor<2x5x16xf32>) -> tensor<2x5x24xf32>
  %4 = "nn.add"(%2, %3) : (tensor<2x5x24xf32>, tensor<2x5x24xf32>) -> tensor<2x5x24xf32>
  return %4 : tensor<2x5x24xf32>
}

// CHECK-LABEL: func.func @packed_rows
// CHECK-NEXT: %[[G:.*]] = "nn.attention_grad_packed_6"(%arg0, %arg1, %arg2, %arg3, %arg4, %arg5) {layout = "bhtd", scale = 5.000000e-01 : f64} : {{.*}} -> tensor<2x5x24xf32>
// CHECK-NEXT: %[[R:.*]] = "nn.reshape"(%[[G]]) : (tensor<2x5x24xf32>) -> tensor<10x24xf32>
// CHECK-NEXT: return %[[R]]
func.func @packed_rows(%q: tensor<2x2x5x4xf32>, %k: tensor<2x2x5x4xf32>, %v: tensor<2x2x5x4xf32>, %o: tensor<2x2x5x4xf32>, %lse: tensor<2x2x5xf32>, %do: tensor<2x2x5x4xf32>) -> tensor<10x24xf32> {
  %g:3 = "nn.attention_grad_6"(%q, %k, %v, %o, %lse, %do) {scale = 0.5 : f64, layout = "bhtd"} : (tensor<2x2x5x4xf32>, tensor<2x2x5x4xf32>, tensor<2x2x5x4xf32>, tensor<2x2x5x4xf32>, tensor<2x2x5xf32>, tensor<2x2x5x4xf32>) -> (tensor<2x2x5x4xf32>, tensor<2x2x5x4xf32>, tensor<2x2x5x4xf32>)
  %t0 = "nn.transpose"(%g#0) {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x2x5x4xf32>) -> tensor<2x5x2x4xf32>
  %dq = "nn.reshape"(%t0) : (tensor<2x5x2x4xf32>) -> tensor<10x8xf32>
  %t1 = "nn.transpose"(%g#1) {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x2x5x4xf32>) -> tensor<2x5x2x4xf32>
  %dk = "nn.reshape"(%t1) : (tensor<2x5x2x4xf32>) -> tensor<10x8xf32>
  %t2 = "nn.transpose"(%g#2) {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x2x5x4xf32>) -> tensor<2x5x2x4xf32>
  %dv = "nn.reshape"(%t2) : (tensor<2x5x2x4xf32>) -> tensor<10x8xf32>
  %0 = "nn.concat_3"(%dq, %dk, %dv) {axis = 1 : i64} : (tensor<10x8xf32>, tensor<10x8xf32>, tensor<10x8xf32>) -> tensor<10x24xf32>
  return %0 : tensor<10x24xf32>
}

// CHECK-LABEL: func.func @packed_heads
// CHECK-NEXT: %[[G:.*]] = "nn.attention_grad_packed_6"(%arg0, %arg1, %arg2, %arg3, %arg4, %arg5) {layout = "bthd", scale = 5.000000e-01 : f64} : {{.*}} -> tensor<2x5x24xf32>
// CHECK-NEXT: %[[R:.*]] = "nn.reshape"(%[[G]]) : (tensor<2x5x24xf32>) -> tensor<2x5x6x4xf32>
// CHECK-NEXT: return %[[R]]
func.func @packed_heads(%q: tensor<2x5x2x4xf32>, %k: tensor<2x5x2x4xf32>, %v: tensor<2x5x2x4xf32>, %o: tensor<2x5x2x4xf32>, %lse: tensor<2x2x5xf32>, %do: tensor<2x5x2x4xf32>) -> tensor<2x5x6x4xf32> {
  %g:3 = "nn.attention_grad_6"(%q, %k, %v, %o, %lse, %do) {scale = 0.5 : f64, layout = "bthd"} : (tensor<2x5x2x4xf32>, tensor<2x5x2x4xf32>, tensor<2x5x2x4xf32>, tensor<2x5x2x4xf32>, tensor<2x2x5xf32>, tensor<2x5x2x4xf32>) -> (tensor<2x5x2x4xf32>, tensor<2x5x2x4xf32>, tensor<2x5x2x4xf32>)
  %0 = "nn.concat_3"(%g#0, %g#1, %g#2) {axis = 2 : i64} : (tensor<2x5x2x4xf32>, tensor<2x5x2x4xf32>, tensor<2x5x2x4xf32>) -> tensor<2x5x6x4xf32>
  return %0 : tensor<2x5x6x4xf32>
}

// Not in another order, not where something else reads one of them, not with heads that lie along the tokens, not through what a rotation by position does first.
// CHECK-LABEL: func.func @gradients_apart
// CHECK-COUNT-4: "nn.attention_grad_6"
// CHECK-NOT: "nn.attention_grad_packed_6"
// CHECK: return
func.func @gradients_apart(%q: tensor<2x5x1x8xf32>, %k: tensor<2x5x1x8xf32>, %v: tensor<2x5x1x8xf32>, %o: tensor<2x5x1x8xf32>, %lse: tensor<2x1x5xf32>, %do: tensor<2x5x1x8xf32>, %p: tensor<2x2x5x4xf32>, %lse2: tensor<2x2x5xf32>) -> (tensor<2x5x24xf32>, tensor<2x5x24xf32>, tensor<2x5x24xf32>, tensor<2x5x24xf32>, tensor<2x5x1x8xf32>) {
  %a:3 = "nn.attention_grad_6"(%q, %k, %v, %o, %lse, %do) {scale = 1.0 : f64, layout = "bthd"} : (tensor<2x5x1x8xf32>, tensor<2x5x1x8xf32>, tensor<2x5x1x8xf32>, tensor<2x5x1x8xf32>, tensor<2x1x5xf32>, tensor<2x5x1x8xf32>) -> (tensor<2x5x1x8xf32>, tensor<2x5x1x8xf32>, tensor<2x5x1x8xf32>)
  %a0 = "nn.reshape"(%a#0) : (tensor<2x5x1x8xf32>) -> tensor<2x5x8xf32>
  %a1 = "nn.reshape"(%a#1) : (tensor<2x5x1x8xf32>) -> tensor<2x5x8xf32>
  %a2 = "nn.reshape"(%a#2) : (tensor<2x5x1x8xf32>) -> tensor<2x5x8xf32>
  %0 = "nn.concat_3"(%a1, %a0, %a2) {axis = 2 : i64} : (tensor<2x5x8xf32>, tensor<2x5x8xf32>, tensor<2x5x8xf32>) -> tensor<2x5x24xf32>
  %b:3 = "nn.attention_grad_6"(%q, %k, %v, %o, %lse, %do) {scale = 2.0 : f64, layout = "bthd"} : (tensor<2x5x1x8xf32>, tensor<2x5x1x8xf32>, tensor<2x5x1x8xf32>, tensor<2x5x1x8xf32>, tensor<2x1x5xf32>, tensor<2x5x1x8xf32>) -> (tensor<2x5x1x8xf32>, tensor<2x5x1x8xf32>, tensor<2x5x1x8xf32>)
  %b0 = "nn.reshape"(%b#0) : (tensor<2x5x1x8xf32>) -> tensor<2x5x8xf32>
  %b1 = "nn.reshape"(%b#1) : (tensor<2x5x1x8xf32>) -> tensor<2x5x8xf32>
  %b2 = "nn.reshape"(%b#2) : (tensor<2x5x1x8xf32>) -> tensor<2x5x8xf32>
  %1 = "nn.concat_3"(%b0, %b1, %b2) {axis = 2 : i64} : (tensor<2x5x8xf32>, tensor<2x5x8xf32>, tensor<2x5x8xf32>) -> tensor<2x5x24xf32>
  %c:3 = "nn.attention_grad_6"(%p, %p, %p, %p, %lse2, %p) {scale = 3.0 : f64, layout = "bhtd"} : (tensor<2x2x5x4xf32>, tensor<2x2x5x4xf32>, tensor<2x2x5x4xf32>, tensor<2x2x5x4xf32>, tensor<2x2x5xf32>, tensor<2x2x5x4xf32>) -> (tensor<2x2x5x4xf32>, tensor<2x2x5x4xf32>, tensor<2x2x5x4xf32>)
  %c0 = "nn.reshape"(%c#0) : (tensor<2x2x5x4xf32>) -> tensor<2x5x8xf32>
  %c1 = "nn.reshape"(%c#1) : (tensor<2x2x5x4xf32>) -> tensor<2x5x8xf32>
  %c2 = "nn.reshape"(%c#2) : (tensor<2x2x5x4xf32>) -> tensor<2x5x8xf32>
  %2 = "nn.concat_3"(%c0, %c1, %c2) {axis = 2 : i64} : (tensor<2x5x8xf32>, tensor<2x5x8xf32>, tensor<2x5x8xf32>) -> tensor<2x5x24xf32>
  %e:3 = "nn.attention_grad_6"(%q, %k, %v, %o, %lse, %do) {scale = 4.0 : f64, layout = "bthd"} : (tensor<2x5x1x8xf32>, tensor<2x5x1x8xf32>, tensor<2x5x1x8xf32>, tensor<2x5x1x8xf32>, tensor<2x1x5xf32>, tensor<2x5x1x8xf32>) -> (tensor<2x5x1x8xf32>, tensor<2x5x1x8xf32>, tensor<2x5x1x8xf32>)
  %s = "nn.sin"(%e#0) : (tensor<2x5x1x8xf32>) -> tensor<2x5x1x8xf32>
  %e0 = "nn.reshape"(%s) : (tensor<2x5x1x8xf32>) -> tensor<2x5x8xf32>
  %e1 = "nn.reshape"(%e#1) : (tensor<2x5x1x8xf32>) -> tensor<2x5x8xf32>
  %e2 = "nn.reshape"(%e#2) : (tensor<2x5x1x8xf32>) -> tensor<2x5x8xf32>
  %3 = "nn.concat_3"(%e0, %e1, %e2) {axis = 2 : i64} : (tensor<2x5x8xf32>, tensor<2x5x8xf32>, tensor<2x5x8xf32>) -> tensor<2x5x24xf32>
  return %0, %1, %2, %3, %b#1 : tensor<2x5x24xf32>, tensor<2x5x24xf32>, tensor<2x5x24xf32>, tensor<2x5x24xf32>, tensor<2x5x1x8xf32>
}

// Products read transposed operands in place.
// CHECK-LABEL: func.func @products
// CHECK-NEXT: %[[A:.*]] = "nn.matmul"(%arg0, %arg1) {transpose_a = true, transpose_b = true}
// CHECK-NEXT: return %[[A]]
func.func @products(%x: tensor<3x2xf32>, %y: tensor<4x3xf32>) -> tensor<2x4xf32> {
  %xt = "nn.transpose"(%x) {perm = array<i64: 1, 0>} : (tensor<3x2xf32>) -> tensor<2x3xf32>
  %yt = "nn.transpose"(%y) {perm = array<i64: 1, 0>} : (tensor<4x3xf32>) -> tensor<3x4xf32>
  %z = "nn.matmul"(%xt, %yt) : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  return %z : tensor<2x4xf32>
}

// A condition known at compile time, one that is negated, and logic with constants.
// CHECK-LABEL: func.func @selects
// CHECK-NEXT: %[[S:.*]] = "nn.select"(%arg0, %arg2, %arg1)
// CHECK-NEXT: return %arg1, %[[S]], %arg0
func.func @selects(%c: tensor<4xi1>, %x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xi1>) {
  %true = "nn.constant"() {value = 1.0 : f64} : () -> tensor<4xi1>
  %0 = "nn.select"(%true, %x, %y) : (tensor<4xi1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %n = "nn.not"(%c) : (tensor<4xi1>) -> tensor<4xi1>
  %1 = "nn.select"(%n, %x, %y) : (tensor<4xi1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %2 = "nn.and"(%true, %c) : (tensor<4xi1>, tensor<4xi1>) -> tensor<4xi1>
  return %0, %1, %2 : tensor<4xf32>, tensor<4xf32>, tensor<4xi1>
}

// A ReLU moves behind the max-pooling that alone reads it.
// CHECK-LABEL: func.func @pool_of_relu
// CHECK: %[[POOLED:.*]]:2 = "nn.maxpool2d"(%arg0)
// CHECK: %[[Y:.*]] = "nn.relu"(%[[POOLED]]#0)
// CHECK: return %[[Y]]
func.func @pool_of_relu(%x: tensor<2x4x8x8xf32>) -> tensor<2x4x4x4xf32> {
  %0 = "nn.relu"(%x) : (tensor<2x4x8x8xf32>) -> tensor<2x4x8x8xf32>
  %1:2 = "nn.maxpool2d"(%0) {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, padding = array<i64: 0, 0, 0, 0>, layout = "nchw"} : (tensor<2x4x8x8xf32>) -> (tensor<2x4x4x4xf32>, tensor<2x4x4x4xui8>)
  return %1#0 : tensor<2x4x4x4xf32>
}

// Not where the ReLU has another reader.
// CHECK-LABEL: func.func @relu_read_twice
// CHECK: "nn.relu"
// CHECK: "nn.maxpool2d"
func.func @relu_read_twice(%x: tensor<2x4x8x8xf32>) -> (tensor<2x4x4x4xf32>, tensor<2x4x8x8xf32>) {
  %0 = "nn.relu"(%x) : (tensor<2x4x8x8xf32>) -> tensor<2x4x8x8xf32>
  %1:2 = "nn.maxpool2d"(%0) {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, padding = array<i64: 0, 0, 0, 0>, layout = "nchw"} : (tensor<2x4x8x8xf32>) -> (tensor<2x4x4x4xf32>, tensor<2x4x4x4xui8>)
  return %1#0, %0 : tensor<2x4x4x4xf32>, tensor<2x4x8x8xf32>
}

// Two gradients of a weight: one product adds to the other. Not to what others read, to what is no such product, or in a narrow type.
// CHECK-LABEL: func.func @summed
// CHECK: %[[A:.*]] = "nn.matmul_rows"(%arg0, %arg1) {{.*}} -> tensor<3x5xf32>
// CHECK: %[[TO:.*]] = "nn.matmul_rows_to"(%arg1, %arg0, {{.*}}) : (tensor<4x5xf32>, tensor<4x3xf32>, tensor<5x3xf32>) -> tensor<5x3xf32>
// CHECK: %[[OTHER:.*]] = "nn.add"(%[[A]], %arg2)
// CHECK: %[[NARROW:.*]] = "nn.add"({{.*}} -> tensor<3x3xbf16>
// CHECK: return %[[TO]], %[[OTHER]], %[[A]], %[[NARROW]]
func.func @summed(%x: tensor<4x3xf32>, %y: tensor<4x5xf32>, %table: tensor<3x5xf32>, %n: tensor<4x3xbf16>) -> (tensor<5x3xf32>, tensor<3x5xf32>, tensor<3x5xf32>, tensor<3x3xbf16>) {
  %0 = "nn.matmul_rows"(%x, %y) : (tensor<4x3xf32>, tensor<4x5xf32>) -> tensor<3x5xf32>
  %e = "nn.exp"(%y) : (tensor<4x5xf32>) -> tensor<4x5xf32>
  %1 = "nn.matmul_rows"(%e, %x) : (tensor<4x5xf32>, tensor<4x3xf32>) -> tensor<5x3xf32>
  %2 = "nn.matmul_rows"(%y, %x) : (tensor<4x5xf32>, tensor<4x3xf32>) -> tensor<5x3xf32>
  %3 = "nn.add"(%1, %2) : (tensor<5x3xf32>, tensor<5x3xf32>) -> tensor<5x3xf32>
  %4 = "nn.add"(%0, %table) : (tensor<3x5xf32>, tensor<3x5xf32>) -> tensor<3x5xf32>
  %m = "nn.neg"(%n) : (tensor<4x3xbf16>) -> tensor<4x3xbf16>
  %5 = "nn.matmul_rows"(%n, %n) : (tensor<4x3xbf16>, tensor<4x3xbf16>) -> tensor<3x3xbf16>
  %6 = "nn.matmul_rows"(%m, %n) : (tensor<4x3xbf16>, tensor<4x3xbf16>) -> tensor<3x3xbf16>
  %7 = "nn.add"(%5, %6) : (tensor<3x3xbf16>, tensor<3x3xbf16>) -> tensor<3x3xbf16>
  return %3, %4, %0, %7 : tensor<5x3xf32>, tensor<3x5xf32>, tensor<3x5xf32>, tensor<3x3xbf16>
}

// Rows scattered into zeros and added to a table are added to the table itself; not where the scattered table has another reader.
// CHECK-LABEL: func.func @scattered
// CHECK: %[[TO:.*]] = "nn.scatter_add_to"(%arg0, %arg1, %arg2)
// CHECK: %[[ALONE:.*]] = "nn.scatter_add"(%arg0, %arg1)
// CHECK: %[[SUM:.*]] = "nn.add"(%arg2, %[[ALONE]])
// CHECK: return %[[TO]], %[[SUM]], %[[ALONE]]
func.func @scattered(%rows: tensor<4x3xf32>, %at: tensor<4xi32>, %table: tensor<5x3xf32>) -> (tensor<5x3xf32>, tensor<5x3xf32>, tensor<5x3xf32>) {
  %0 = "nn.scatter_add"(%rows, %at) {rows = 5 : i64} : (tensor<4x3xf32>, tensor<4xi32>) -> tensor<5x3xf32>
  %1 = "nn.add"(%0, %table) : (tensor<5x3xf32>, tensor<5x3xf32>) -> tensor<5x3xf32>
  %2 = "nn.neg"(%rows) : (tensor<4x3xf32>) -> tensor<4x3xf32>
  %3 = "nn.neg"(%2) : (tensor<4x3xf32>) -> tensor<4x3xf32>
  %4 = "nn.scatter_add"(%3, %at) {rows = 5 : i64, keep} : (tensor<4x3xf32>, tensor<4xi32>) -> tensor<5x3xf32>
  %5 = "nn.add"(%table, %4) : (tensor<5x3xf32>, tensor<5x3xf32>) -> tensor<5x3xf32>
  return %1, %5, %4 : tensor<5x3xf32>, tensor<5x3xf32>, tensor<5x3xf32>
}

// Parts are cast before they are joined where the cast makes them smaller and nobody else reads the whole.
// CHECK-LABEL: func.func @cast_of_concat
// CHECK-DAG: %[[A:.*]] = "nn.cast"(%arg0) : (tensor<2x3xf32>) -> tensor<2x3xbf16>
// CHECK-DAG: %[[B:.*]] = "nn.cast"(%arg1) : (tensor<2x5xf32>) -> tensor<2x5xbf16>
// CHECK: %[[Y:.*]] = "nn.concat"(%[[A]], %[[B]]) {{.*}} -> tensor<2x8xbf16>
// CHECK: %[[W:.*]] = "nn.concat"(%[[A]], %[[A]]) {{.*}} -> tensor<2x6xbf16>
// CHECK-NEXT: %[[Z:.*]] = "nn.cast"(%[[W]]) : (tensor<2x6xbf16>) -> tensor<2x6xf32>
// CHECK: return %[[Y]], %[[Z]]
func.func @cast_of_concat(%a: tensor<2x3xf32>, %b: tensor<2x5xf32>) -> (tensor<2x8xbf16>, tensor<2x6xf32>) {
  %0 = "nn.concat"(%a, %b) {axis = 1 : i64} : (tensor<2x3xf32>, tensor<2x5xf32>) -> tensor<2x8xf32>
  %1 = "nn.cast"(%0) : (tensor<2x8xf32>) -> tensor<2x8xbf16>
  %2 = "nn.cast"(%a) : (tensor<2x3xf32>) -> tensor<2x3xbf16>
  %3 = "nn.concat"(%2, %2) {axis = 1 : i64} : (tensor<2x3xbf16>, tensor<2x3xbf16>) -> tensor<2x6xbf16>
  %4 = "nn.cast"(%3) : (tensor<2x6xbf16>) -> tensor<2x6xf32>
  return %1, %4 : tensor<2x8xbf16>, tensor<2x6xf32>
}

// Another shape is taken in the narrower of two types: what is computed is cast where it is computed, what is read is cast where it is read. A few numbers are not.
// CHECK-LABEL: func.func @shapes_of_casts
// CHECK: %[[N:.*]] = "nn.exp"(%arg0)
// CHECK: %[[C:.*]] = "nn.cast"(%[[N]]) : (tensor<8x6xf32>) -> tensor<8x6xbf16>
// CHECK: %[[R:.*]] = "nn.reshape"(%[[C]]) : (tensor<8x6xbf16>) -> tensor<8x2x3xbf16>
// CHECK: %[[S:.*]] = "nn.reshape"(%arg1) : (tensor<48xbf16>) -> tensor<8x6xbf16>
// CHECK: %[[W:.*]] = "nn.cast"(%[[S]]) : (tensor<8x6xbf16>) -> tensor<8x6xf32>
// CHECK: %[[E:.*]] = "nn.exp"(%[[W]])
// CHECK: %[[F:.*]] = "nn.reshape"(%arg2) : (tensor<4xf32>) -> tensor<2x2xf32>
// CHECK: %[[FEW:.*]] = "nn.cast"(%[[F]])
// CHECK: return %[[R]], %[[E]], %[[FEW]]
func.func @shapes_of_casts(%a: tensor<8x6xf32>, %b: tensor<48xbf16>, %few: tensor<4xf32>) -> (tensor<8x2x3xbf16>, tensor<8x6xf32>, tensor<2x2xbf16>) {
  %n = "nn.exp"(%a) : (tensor<8x6xf32>) -> tensor<8x6xf32>
  %0 = "nn.reshape"(%n) : (tensor<8x6xf32>) -> tensor<8x2x3xf32>
  %1 = "nn.cast"(%0) : (tensor<8x2x3xf32>) -> tensor<8x2x3xbf16>
  %2 = "nn.cast"(%b) : (tensor<48xbf16>) -> tensor<48xf32>
  %3 = "nn.reshape"(%2) : (tensor<48xf32>) -> tensor<8x6xf32>
  %4 = "nn.exp"(%3) : (tensor<8x6xf32>) -> tensor<8x6xf32>
  %5 = "nn.reshape"(%few) : (tensor<4xf32>) -> tensor<2x2xf32>
  %6 = "nn.cast"(%5) : (tensor<2x2xf32>) -> tensor<2x2xbf16>
  return %1, %4, %6 : tensor<8x2x3xbf16>, tensor<8x6xf32>, tensor<2x2xbf16>
}

// What `recompute` made stays what it is.
// CHECK-LABEL: func.func @shapes_of_clones
// CHECK: "nn.cast"(%arg0) {nn.recompute = "cast.0"}
// CHECK: "nn.cast"(%{{.*}}) {nn.recompute = "cast.1"} : (tensor<8x6xf32>) -> tensor<8x6xbf16>
func.func @shapes_of_clones(%b: tensor<48xbf16>) -> tensor<8x6xbf16> {
  %0 = "nn.cast"(%b) {nn.recompute = "cast.0"} : (tensor<48xbf16>) -> tensor<48xf32>
  %1 = "nn.reshape"(%0) : (tensor<48xf32>) -> tensor<8x6xf32>
  %2 = "nn.exp"(%1) : (tensor<8x6xf32>) -> tensor<8x6xf32>
  %3 = "nn.cast"(%2) {nn.recompute = "cast.1"} : (tensor<8x6xf32>) -> tensor<8x6xbf16>
  return %3 : tensor<8x6xbf16>
}
