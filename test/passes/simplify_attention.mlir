// Attention whose operands are transposed for it, whatever is computed in between, and whose result is transposed back reads and writes tokens before heads.
// RUN: %nnc_opt %s --passes=simplify | FileCheck %s
// RUN: awk 'BEGIN {T = "tensor<2x4x16x8xf32>"; S = "tensor<2x16x4x8xf32>"; t = "{perm = array<i64: 0, 2, 1, 3>} : ("; print "func.func @deep(%q: " S ") -> " S " {\n%0 = \"nn.transpose\"(%q) " t S ") -> " T; for (i = 0; i < 30000; i++) print "%" i + 1 " = \"nn.sin\"(%" i ") : (" T ") -> " T; print "%y, %l = \"nn.attention_3\"(%30000, %0, %0) {causal = true, dropout = 0.0 : f64, layout = \"bhtd\", scale = 0.5 : f64} : (" T ", " T ", " T ") -> (" T ", tensor<2x4x16xf32>)\n%o = \"nn.transpose\"(%y) " t T ") -> " S "\nreturn %o : " S "\n}"}' > %t.mlir && %nnc_opt %t.mlir --passes=simplify | grep -c 'layout = "bhtd"'

// A rotation of the queries: the halves of each head, turned around along an axis of their own, times a table by token; keys with fewer heads are scaled and cut.
// CHECK-LABEL: func.func @rotated(
// CHECK-SAME: %[[Q:.*]]: tensor<2x16x4x8xf32>, %[[K:.*]]: tensor<2x16x2x8xf32>, %[[V:.*]]: tensor<2x16x2x8xf32>, %[[TABLE:.*]]: tensor<16x2x4xf32>, %[[SCALE:.*]]: tensor<8xf32>)
// CHECK-NOT: nn.transpose
// CHECK: %[[PAIRS:.*]] = "nn.reshape"(%[[Q]]) : (tensor<2x16x4x8xf32>) -> tensor<2x16x4x2x4xf32>
// CHECK: "nn.slice"(%[[PAIRS]]) {sizes = array<i64: 2, 16, 4, 2, 4>, starts = array<i64: 0, 0, 0, 1, 0>, strides = array<i64: 1, 1, 1, -1, 1>}
// CHECK: "nn.broadcast"(%[[TABLE]]) {dims = array<i64: 1, 3, 4>} : (tensor<16x2x4xf32>) -> tensor<2x16x4x2x4xf32>
// CHECK: "nn.broadcast"(%[[SCALE]]) {dims = array<i64: 3>} : (tensor<8xf32>) -> tensor<2x16x2x8xf32>
// CHECK: "nn.attention_3"({{.*}}, {{.*}}, %[[V]]) {causal = true, dropout = 0.000000e+00 : f64, layout = "bthd", scale = 5.000000e-01 : f64, window = 4 : i64}
// CHECK-NOT: nn.transpose
// CHECK: return
func.func @rotated(%q: tensor<2x16x4x8xf32>, %k: tensor<2x16x2x8xf32>, %v: tensor<2x16x2x8xf32>, %table: tensor<16x2x4xf32>, %scale: tensor<8xf32>) -> tensor<2x16x4x8xf32> {
  %tq = "nn.transpose"(%q) {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x16x4x8xf32>) -> tensor<2x4x16x8xf32>
  %tk = "nn.transpose"(%k) {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x16x2x8xf32>) -> tensor<2x2x16x8xf32>
  %tv = "nn.transpose"(%v) {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x16x2x8xf32>) -> tensor<2x2x16x8xf32>
  %pairs = "nn.reshape"(%tq) : (tensor<2x4x16x8xf32>) -> tensor<2x4x16x2x4xf32>
  %turned = "nn.slice"(%pairs) {sizes = array<i64: 2, 4, 16, 2, 4>, starts = array<i64: 0, 0, 0, 1, 0>, strides = array<i64: 1, 1, 1, -1, 1>} : (tensor<2x4x16x2x4xf32>) -> tensor<2x4x16x2x4xf32>
  %b = "nn.broadcast"(%table) {dims = array<i64: 2, 3, 4>} : (tensor<16x2x4xf32>) -> tensor<2x4x16x2x4xf32>
  %m = "nn.mul"(%turned, %b) : (tensor<2x4x16x2x4xf32>, tensor<2x4x16x2x4xf32>) -> tensor<2x4x16x2x4xf32>
  %r = "nn.add"(%pairs, %m) : (tensor<2x4x16x2x4xf32>, tensor<2x4x16x2x4xf32>) -> tensor<2x4x16x2x4xf32>
  %rq = "nn.reshape"(%r) : (tensor<2x4x16x2x4xf32>) -> tensor<2x4x16x8xf32>
  %s = "nn.broadcast"(%scale) {dims = array<i64: 3>} : (tensor<8xf32>) -> tensor<2x2x16x8xf32>
  %rk = "nn.mul"(%tk, %s) : (tensor<2x2x16x8xf32>, tensor<2x2x16x8xf32>) -> tensor<2x2x16x8xf32>
  %y, %lse = "nn.attention_3"(%rq, %rk, %tv) {causal = true, dropout = 0.0 : f64, layout = "bhtd", scale = 0.5 : f64, window = 4 : i64} : (tensor<2x4x16x8xf32>, tensor<2x2x16x8xf32>, tensor<2x2x16x8xf32>) -> (tensor<2x4x16x8xf32>, tensor<2x4x16xf32>)
  %out = "nn.transpose"(%y) {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x4x16x8xf32>) -> tensor<2x16x4x8xf32>
  return %out : tensor<2x16x4x8xf32>
}

// A mask by key stays as it is; halves are cut and joined along the last axis.
// CHECK-LABEL: func.func @masked
// CHECK-NOT: nn.transpose
// CHECK: "nn.concat"({{.*}}) {axis = 3 : i64} : (tensor<2x16x4x4xf32>, tensor<2x16x4x4xf32>) -> tensor<2x16x4x8xf32>
// CHECK: "nn.attention_4"({{.*}}, %arg1, %arg1, %arg2) {{.*}}layout = "bthd"
func.func @masked(%q: tensor<2x16x4x8xf32>, %k: tensor<2x16x4x8xf32>, %mask: tensor<2x16xi1>) -> tensor<2x16x4x8xf32> {
  %tq = "nn.transpose"(%q) {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x16x4x8xf32>) -> tensor<2x4x16x8xf32>
  %tk = "nn.transpose"(%k) {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x16x4x8xf32>) -> tensor<2x4x16x8xf32>
  %a = "nn.slice"(%tq) {sizes = array<i64: 2, 4, 16, 4>, starts = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1, 1, 1>} : (tensor<2x4x16x8xf32>) -> tensor<2x4x16x4xf32>
  %b = "nn.slice"(%tq) {sizes = array<i64: 2, 4, 16, 4>, starts = array<i64: 0, 0, 0, 4>, strides = array<i64: 1, 1, 1, 1>} : (tensor<2x4x16x8xf32>) -> tensor<2x4x16x4xf32>
  %n = "nn.neg"(%b) : (tensor<2x4x16x4xf32>) -> tensor<2x4x16x4xf32>
  %c = "nn.concat"(%n, %a) {axis = 3 : i64} : (tensor<2x4x16x4xf32>, tensor<2x4x16x4xf32>) -> tensor<2x4x16x8xf32>
  %y, %lse = "nn.attention_4"(%c, %tk, %tk, %mask) {causal = false, dropout = 0.0 : f64, layout = "bhtd", scale = 0.5 : f64} : (tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>, tensor<2x16xi1>) -> (tensor<2x4x16x8xf32>, tensor<2x4x16xf32>)
  %out = "nn.transpose"(%y) {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x4x16x8xf32>) -> tensor<2x16x4x8xf32>
  return %out : tensor<2x16x4x8xf32>
}

// Not where values come with heads first, something else reads what is computed in between, or the result is read as it is; nor where an op between mixes the axes.
// CHECK-LABEL: func.func @stays
// CHECK-COUNT-4: layout = "bhtd"
// CHECK: return
func.func @stays(%q: tensor<2x16x4x8xf32>, %v: tensor<2x4x16x8xf32>) -> (tensor<2x16x4x8xf32>, tensor<2x16x4x8xf32>, tensor<2x4x16x8xf32>, tensor<2x16x4x8xf32>, tensor<2x4x16x8xf32>, tensor<2x16x4x8xf32>) {
  %tq = "nn.transpose"(%q) {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x16x4x8xf32>) -> tensor<2x4x16x8xf32>
  %e = "nn.exp"(%tq) : (tensor<2x4x16x8xf32>) -> tensor<2x4x16x8xf32>
  %y0, %l0 = "nn.attention_3"(%tq, %tq, %v) {causal = true, dropout = 0.0 : f64, layout = "bhtd", scale = 0.5 : f64} : (tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>) -> (tensor<2x4x16x8xf32>, tensor<2x4x16xf32>)
  %o0 = "nn.transpose"(%y0) {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x4x16x8xf32>) -> tensor<2x16x4x8xf32>
  %y1, %l1 = "nn.attention_3"(%e, %tq, %tq) {causal = true, dropout = 0.0 : f64, layout = "bhtd", scale = 0.5 : f64} : (tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>) -> (tensor<2x4x16x8xf32>, tensor<2x4x16xf32>)
  %o1 = "nn.transpose"(%y1) {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x4x16x8xf32>) -> tensor<2x16x4x8xf32>
  %y2, %l2 = "nn.attention_3"(%tq, %tq, %tq) {causal = false, dropout = 0.0 : f64, layout = "bhtd", scale = 0.5 : f64} : (tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>) -> (tensor<2x4x16x8xf32>, tensor<2x4x16xf32>)
  %o2 = "nn.transpose"(%y2) {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x4x16x8xf32>) -> tensor<2x16x4x8xf32>
  %w = "nn.softmax"(%tq) {axis = 3 : i64} : (tensor<2x4x16x8xf32>) -> tensor<2x4x16x8xf32>
  %y3, %l3 = "nn.attention_3"(%w, %tq, %tq) {causal = true, dropout = 0.0 : f64, layout = "bhtd", scale = 0.25 : f64} : (tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>) -> (tensor<2x4x16x8xf32>, tensor<2x4x16xf32>)
  %o3 = "nn.transpose"(%y3) {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x4x16x8xf32>) -> tensor<2x16x4x8xf32>
  return %o0, %o1, %e, %o2, %y2, %o3 : tensor<2x16x4x8xf32>, tensor<2x16x4x8xf32>, tensor<2x4x16x8xf32>, tensor<2x16x4x8xf32>, tensor<2x4x16x8xf32>, tensor<2x16x4x8xf32>
}

// Indices, choices and repetitions go along with the axes; what is repeated along both in their order does not, nor is a long chain looked through (above).
// CHECK-LABEL: func.func @axes
// CHECK-SAME: %[[H:.*]]: tensor<4xf32>
// CHECK: "nn.broadcast"(%[[H]]) {dims = array<i64: 2>} : (tensor<4xf32>) -> tensor<2x16x4x8xf32>
// CHECK: "nn.iota"() {axis = 2 : i64} : () -> tensor<2x16x4x8xf32>
// CHECK: "nn.slice"({{.*}}) {sizes = array<i64: 2, 8, 2, 8>, starts = array<i64: 0, 4, 1, 0>, strides = array<i64: 1, 1, 1, 1>}
// CHECK: "nn.concat"({{.*}}) {axis = 1 : i64} : (tensor<2x8x2x8xf32>, tensor<2x8x2x8xf32>) -> tensor<2x16x2x8xf32>
// CHECK: layout = "bthd", scale = 5.000000e-01 : f64, softcap = 3.000000e+00 : f64
// CHECK: layout = "bhtd"
// CHECK: return
func.func @axes(%h: tensor<4xf32>, %q: tensor<2x16x4x8xf32>, %t: tensor<4x16xf32>) -> (tensor<2x16x4x8xf32>, tensor<2x16x4x8xf32>) {
  %tq = "nn.transpose"(%q) {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x16x4x8xf32>) -> tensor<2x4x16x8xf32>
  %hb = "nn.broadcast"(%h) {dims = array<i64: 1>} : (tensor<4xf32>) -> tensor<2x4x16x8xf32>
  %m = "nn.mul"(%tq, %hb) : (tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>) -> tensor<2x4x16x8xf32>
  %i = "nn.iota"() {axis = 1 : i64} : () -> tensor<2x4x16x8xf32>
  %z = "nn.constant"() {value = 0.5 : f64} : () -> tensor<2x4x16x8xf32>
  %less = "nn.compare"(%m, %i) {predicate = "lt"} : (tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>) -> tensor<2x4x16x8xi1>
  %s = "nn.select"(%less, %m, %z) : (tensor<2x4x16x8xi1>, tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>) -> tensor<2x4x16x8xf32>
  %part = "nn.slice"(%tq) {sizes = array<i64: 2, 2, 8, 8>, starts = array<i64: 0, 1, 4, 0>, strides = array<i64: 1, 1, 1, 1>} : (tensor<2x4x16x8xf32>) -> tensor<2x2x8x8xf32>
  %k = "nn.concat"(%part, %part) {axis = 2 : i64} : (tensor<2x2x8x8xf32>, tensor<2x2x8x8xf32>) -> tensor<2x2x16x8xf32>
  %y, %l = "nn.attention_3"(%s, %k, %k) {causal = true, dropout = 0.0 : f64, layout = "bhtd", scale = 0.5 : f64, softcap = 3.0 : f64} : (tensor<2x4x16x8xf32>, tensor<2x2x16x8xf32>, tensor<2x2x16x8xf32>) -> (tensor<2x4x16x8xf32>, tensor<2x4x16xf32>)
  %o = "nn.transpose"(%y) {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x4x16x8xf32>) -> tensor<2x16x4x8xf32>
  %tb = "nn.broadcast"(%t) {dims = array<i64: 1, 2>} : (tensor<4x16xf32>) -> tensor<2x4x16x8xf32>
  %n = "nn.mul"(%tq, %tb) : (tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>) -> tensor<2x4x16x8xf32>
  %y2, %l2 = "nn.attention_3"(%n, %tq, %tq) {causal = true, dropout = 0.0 : f64, layout = "bhtd", scale = 0.5 : f64} : (tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>) -> (tensor<2x4x16x8xf32>, tensor<2x4x16xf32>)
  %o2 = "nn.transpose"(%y2) {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x4x16x8xf32>) -> tensor<2x16x4x8xf32>
  return %o, %o2 : tensor<2x16x4x8xf32>, tensor<2x16x4x8xf32>
}

// A bias and the key of the draws stay as they are; what is moved keeps its phase.
// CHECK-LABEL: func.func @dropped
// CHECK: %[[N:.*]] = "nn.neg"(%arg0) {nn.phase = "forward"} : (tensor<2x16x4x8xf32>) -> tensor<2x16x4x8xf32>
// CHECK: "nn.attention_5"(%[[N]], %arg0, %arg0, %arg1, %arg2) {causal = false, dropout = 1.000000e-01 : f64, layout = "bthd", nn.phase = "forward", scale = 5.000000e-01 : f64}
func.func @dropped(%q: tensor<2x16x4x8xf32>, %bias: tensor<1x4x16x16xf32>, %key: tensor<4xi32>) -> tensor<2x16x4x8xf32> {
  %tq = "nn.transpose"(%q) {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x16x4x8xf32>) -> tensor<2x4x16x8xf32>
  %n = "nn.neg"(%tq) {nn.phase = "forward"} : (tensor<2x4x16x8xf32>) -> tensor<2x4x16x8xf32>
  %y, %l = "nn.attention_5"(%n, %tq, %tq, %bias, %key) {causal = false, dropout = 0.1 : f64, layout = "bhtd", nn.phase = "forward", scale = 0.5 : f64} : (tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>, tensor<1x4x16x16xf32>, tensor<4xi32>) -> (tensor<2x4x16x8xf32>, tensor<2x4x16xf32>)
  %o = "nn.transpose"(%y) {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x4x16x8xf32>) -> tensor<2x16x4x8xf32>
  return %o : tensor<2x16x4x8xf32>
}
