// A cast of what stays the same through all steps of a loop leaves it where products alone read it; what other ops read as well stays an argument. The gradient's loop still knows whose it is.
// RUN: %nnc_opt %s --passes=hoist | FileCheck %s
// RUN: %nnc_opt %s --passes='hoist,simplify,fuse,scan,schedule,inplace,plan,check' | FileCheck %s --check-prefix=ONCE

// CHECK: func.func @predict
// CHECK-DAG: %[[U:.*]] = "nn.cast"(%arg2) {nn.phase = "forward"} : (tensor<8x8xf32>) -> tensor<8x8xbf16>
// CHECK-DAG: %[[W:.*]] = "nn.cast"(%arg1) {nn.phase = "forward"} : (tensor<8x8xf32>) -> tensor<8x8xbf16>
// CHECK: call @loop(%arg0, %{{.*}}, %arg2, %arg3, %[[W]], %[[U]]) {nn.forward = "other", nn.phase = "forward", nn.scan}
// CHECK: func.func @loop_body(%[[X:.*]]: tensor<1x8xbf16>, %[[H:.*]]: tensor<1x8xbf16>, %[[WIDE:.*]]: tensor<8x8xf32>, %[[B:.*]]: tensor<1x8xf32>, %[[IN:.*]]: tensor<8x8xbf16>, %[[TWICE:.*]]: tensor<8x8xbf16>)
// CHECK: "nn.matmul"(%[[H]], %[[IN]])
// CHECK: "nn.matmul"({{.*}}, %[[TWICE]])
// CHECK: "nn.cast"(%[[B]])
// CHECK: "nn.reduce_sum"(%[[WIDE]])
// ONCE-COUNT-1: call @loop(
func.func @predict(%x: tensor<100x1x8xbf16> {nn.name = "x", nn.role = "input"}, %w: tensor<8x8xf32> {nn.name = "w", nn.role = "param", nn.init = "zeros"}, %u: tensor<8x8xf32> {nn.name = "u", nn.role = "param", nn.init = "zeros"}, %b: tensor<1x8xf32> {nn.name = "b", nn.role = "param", nn.init = "zeros"}) -> (tensor<101x1x8xbf16> {nn.name = "y", nn.role = "output"}) {
  %zero = "nn.constant"() {value = 0.0 : f64} : () -> tensor<1x8xbf16>
  %h = func.call @loop(%x, %zero, %w, %u, %b) {nn.scan, nn.phase = "forward", nn.forward = "other"} : (tensor<100x1x8xbf16>, tensor<1x8xbf16>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<1x8xf32>) -> tensor<101x1x8xbf16>
  return %h : tensor<101x1x8xbf16>
}

func.func private @loop(tensor<100x1x8xbf16>, tensor<1x8xbf16>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<1x8xf32>) -> tensor<101x1x8xbf16>
  attributes {nn.kernel, nn.kind = "scan", nn.label = "scan", nn.body = "loop_body", nn.length = 100 : i64, nn.reverse = true, nn.counts = array<i64: 1, 1, 0, 3, 0>}
func.func @loop_body(%x: tensor<1x8xbf16>, %h: tensor<1x8xbf16>, %w: tensor<8x8xf32>, %u: tensor<8x8xf32>, %b: tensor<1x8xf32>) -> tensor<1x8xbf16> attributes {nn.scan_body} {
  %c = "nn.cast"(%w) {nn.phase = "forward"} : (tensor<8x8xf32>) -> tensor<8x8xbf16>
  %p = "nn.matmul"(%h, %c) {transpose_a = false, transpose_b = false} : (tensor<1x8xbf16>, tensor<8x8xbf16>) -> tensor<1x8xbf16>
  %d = "nn.cast"(%u) {nn.phase = "forward"} : (tensor<8x8xf32>) -> tensor<8x8xbf16>
  %q = "nn.matmul"(%p, %d) {transpose_a = false, transpose_b = false} : (tensor<1x8xbf16>, tensor<8x8xbf16>) -> tensor<1x8xbf16>
  %e = "nn.cast"(%b) {nn.phase = "forward"} : (tensor<1x8xf32>) -> tensor<1x8xbf16>
  %s = "nn.add"(%q, %e) : (tensor<1x8xbf16>, tensor<1x8xbf16>) -> tensor<1x8xbf16>
  %r = "nn.reduce_sum"(%u) {axes = array<i64: 0>} : (tensor<8x8xf32>) -> tensor<8xf32>
  %f = "nn.cast"(%r) : (tensor<8xf32>) -> tensor<8xbf16>
  %g = "nn.reshape"(%f) : (tensor<8xbf16>) -> tensor<1x8xbf16>
  %t = "nn.add"(%s, %g) : (tensor<1x8xbf16>, tensor<1x8xbf16>) -> tensor<1x8xbf16>
  %o = "nn.add"(%t, %x) : (tensor<1x8xbf16>, tensor<1x8xbf16>) -> tensor<1x8xbf16>
  return %o : tensor<1x8xbf16>
}

// Two loops of one step, the second of which is the rest of the first: both are called with the cast, and the rest stays one. From a loop within a loop the cast leaves both.
// CHECK: func.func @eval
// CHECK: %[[A:.*]] = "nn.cast"(%arg1)
// CHECK: call @first(%arg0, %{{.*}}, %[[A]]) {nn.phase = "forward", nn.scan} : (tensor<6x1x8xbf16>, tensor<1x8xbf16>, tensor<8x8xbf16>)
// CHECK: %[[B:.*]] = "nn.cast"(%arg1)
// CHECK: call @rest(%{{.*}}, %{{.*}}, %[[B]]) {nn.phase = "forward", nn.rest, nn.scan} : (tensor<1x1x8xbf16>, tensor<1x8xbf16>, tensor<8x8xbf16>)
// CHECK: %[[C:.*]] = "nn.cast"(%arg1)
// CHECK: call @outer(%{{.*}}, %{{.*}}, %[[C]])
// CHECK: func.func @step_body({{.*}}, %[[S:.*]]: tensor<8x8xbf16>)
// CHECK-NEXT: "nn.matmul"(%arg1, %[[S]])
// CHECK: func.func @outer_body({{.*}}, %[[O:.*]]: tensor<8x8xbf16>)
// CHECK-NEXT: call @inner(%arg0, %arg1, %[[O]])
// CHECK: func.func private @loop({{.*}}) -> tensor<101x1x8xbf16> attributes {nn.body = "loop_body", nn.counts = array<i64: 1, 1, 0, 4, 0>, {{.*}}nn.length = 100 : i64, nn.reverse = true}
func.func @eval(%x: tensor<6x1x8xbf16> {nn.name = "x", nn.role = "input"}, %w: tensor<8x8xf32> {nn.name = "w", nn.role = "param", nn.init = "zeros"}, %z: tensor<1x1x8xbf16> {nn.name = "z", nn.role = "input"}, %v: tensor<3x2x1x8xbf16> {nn.name = "v", nn.role = "input"}) -> (tensor<2x1x8xbf16> {nn.name = "y", nn.role = "output"}, tensor<4x1x8xbf16> {nn.name = "u", nn.role = "output"}) {
  %zero = "nn.constant"() {value = 0.0 : f64} : () -> tensor<1x8xbf16>
  %a = func.call @first(%x, %zero, %w) {nn.scan, nn.phase = "forward"} : (tensor<6x1x8xbf16>, tensor<1x8xbf16>, tensor<8x8xf32>) -> tensor<7x1x8xbf16>
  %l = "nn.slice"(%a) {starts = array<i64: 6, 0, 0>, sizes = array<i64: 1, 1, 8>, strides = array<i64: 1, 1, 1>} : (tensor<7x1x8xbf16>) -> tensor<1x1x8xbf16>
  %h = "nn.reshape"(%l) : (tensor<1x1x8xbf16>) -> tensor<1x8xbf16>
  %b = func.call @rest(%z, %h, %w) {nn.scan, nn.rest, nn.phase = "forward"} : (tensor<1x1x8xbf16>, tensor<1x8xbf16>, tensor<8x8xf32>) -> tensor<2x1x8xbf16>
  %u = func.call @outer(%v, %zero, %w) {nn.scan, nn.phase = "forward"} : (tensor<3x2x1x8xbf16>, tensor<1x8xbf16>, tensor<8x8xf32>) -> tensor<4x1x8xbf16>
  return %b, %u : tensor<2x1x8xbf16>, tensor<4x1x8xbf16>
}
func.func private @first(tensor<6x1x8xbf16>, tensor<1x8xbf16>, tensor<8x8xf32>) -> tensor<7x1x8xbf16>
  attributes {nn.kernel, nn.kind = "scan", nn.label = "scan", nn.body = "step_body", nn.length = 6 : i64, nn.counts = array<i64: 1, 1, 0, 1, 0>}
func.func private @rest(tensor<1x1x8xbf16>, tensor<1x8xbf16>, tensor<8x8xf32>) -> tensor<2x1x8xbf16>
  attributes {nn.kernel, nn.kind = "scan", nn.label = "scan", nn.body = "step_body", nn.length = 1 : i64, nn.counts = array<i64: 1, 1, 0, 1, 0>}
func.func @step_body(%x: tensor<1x8xbf16>, %h: tensor<1x8xbf16>, %w: tensor<8x8xf32>) -> tensor<1x8xbf16> attributes {nn.scan_body} {
  %c = "nn.cast"(%w) {nn.phase = "forward"} : (tensor<8x8xf32>) -> tensor<8x8xbf16>
  %p = "nn.matmul"(%h, %c) {transpose_a = false, transpose_b = false} : (tensor<1x8xbf16>, tensor<8x8xbf16>) -> tensor<1x8xbf16>
  %t = "nn.add"(%p, %x) : (tensor<1x8xbf16>, tensor<1x8xbf16>) -> tensor<1x8xbf16>
  return %t : tensor<1x8xbf16>
}
func.func private @outer(tensor<3x2x1x8xbf16>, tensor<1x8xbf16>, tensor<8x8xf32>) -> tensor<4x1x8xbf16>
  attributes {nn.kernel, nn.kind = "scan", nn.label = "scan", nn.body = "outer_body", nn.length = 3 : i64, nn.counts = array<i64: 1, 1, 0, 1, 0>}
func.func @outer_body(%x: tensor<2x1x8xbf16>, %h: tensor<1x8xbf16>, %w: tensor<8x8xf32>) -> tensor<1x8xbf16> attributes {nn.scan_body} {
  %s = func.call @inner(%x, %h, %w) {nn.scan, nn.phase = "forward"} : (tensor<2x1x8xbf16>, tensor<1x8xbf16>, tensor<8x8xf32>) -> tensor<3x1x8xbf16>
  %l = "nn.slice"(%s) {starts = array<i64: 2, 0, 0>, sizes = array<i64: 1, 1, 8>, strides = array<i64: 1, 1, 1>} : (tensor<3x1x8xbf16>) -> tensor<1x1x8xbf16>
  %o = "nn.reshape"(%l) : (tensor<1x1x8xbf16>) -> tensor<1x8xbf16>
  return %o : tensor<1x8xbf16>
}
func.func private @inner(tensor<2x1x8xbf16>, tensor<1x8xbf16>, tensor<8x8xf32>) -> tensor<3x1x8xbf16>
  attributes {nn.kernel, nn.kind = "scan", nn.label = "scan", nn.body = "inner_body", nn.length = 2 : i64, nn.counts = array<i64: 1, 1, 0, 1, 0>}
func.func @inner_body(%x: tensor<1x8xbf16>, %h: tensor<1x8xbf16>, %w: tensor<8x8xf32>) -> tensor<1x8xbf16> attributes {nn.scan_body} {
  %c = "nn.cast"(%w) {nn.phase = "forward"} : (tensor<8x8xf32>) -> tensor<8x8xbf16>
  %p = "nn.matmul"(%h, %c) {transpose_a = false, transpose_b = false} : (tensor<1x8xbf16>, tensor<8x8xbf16>) -> tensor<1x8xbf16>
  %t = "nn.add"(%p, %x) : (tensor<1x8xbf16>, tensor<1x8xbf16>) -> tensor<1x8xbf16>
  return %t : tensor<1x8xbf16>
}
