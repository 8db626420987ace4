// What a loop goes over along its second axis is transposed for it: the transpose moves up to what is smaller, the tokens of an embedding or the input of a linear layer, and vanishes
// between two loops. Where a tensor has other readers, or the layer makes fewer columns than it has, it stays.
// RUN: %nnc_opt %s --passes='simplify' | FileCheck %s

// CHECK-LABEL: func.func @predict
// CHECK: %[[TOKENS:.*]] = "nn.transpose"(%arg0) {{.*}}: (tensor<4x6xi32>) -> tensor<6x4xi32>
// CHECK: %[[ROWS:.*]] = "nn.gather"(%{{.*}}, %[[TOKENS]]) {{.*}} -> tensor<6x4x8xf32>
// CHECK: %[[PRODUCT:.*]] = "nn.matmul"(%[[ROWS]], %{{.*}}) {{.*}} -> tensor<6x4x16xf32>
// CHECK: %[[SUM:.*]] = "nn.add"(%[[PRODUCT]], %{{.*}}) {{.*}}: (tensor<6x4x16xf32>, tensor<6x4x16xf32>)
// CHECK: %[[FIRST:.*]]:2 = call @loop(%[[SUM]], {{.*}}
// CHECK: %[[NEXT:.*]] = "nn.matmul"(%[[FIRST]]#1, %{{.*}}) {{.*}}: (tensor<6x4x16xf32>, tensor<16x16xf32>) -> tensor<6x4x16xf32>
// CHECK: call @loop(%[[NEXT]],
// CHECK: %[[NARROW:.*]] = "nn.matmul"({{.*}}) {{.*}}: (tensor<4x6x64xf32>, tensor<16x64xf32>) -> tensor<4x6x16xf32>
// CHECK: %[[TURNED:.*]] = "nn.transpose"(%[[NARROW]])
// CHECK: call @loop(%[[TURNED]],
func.func @predict(%tokens: tensor<4x6xi32> {nn.name = "tokens", nn.role = "input"}, %wide: tensor<4x6x64xf32> {nn.name = "wide", nn.role = "input"}, %table: tensor<100x8xf32> {nn.name = "table", nn.role = "param", nn.init = "zeros"},
    %w: tensor<16x8xf32> {nn.name = "w", nn.role = "param", nn.init = "zeros"}, %bias: tensor<16xf32> {nn.name = "bias", nn.role = "param", nn.init = "zeros"}, %v: tensor<16x16xf32> {nn.name = "v", nn.role = "param", nn.init = "zeros"},
    %u: tensor<16x64xf32> {nn.name = "u", nn.role = "param", nn.init = "zeros"}) -> (tensor<4x16xf32> {nn.name = "a", nn.role = "output"}, tensor<4x16xf32> {nn.name = "b", nn.role = "output"}) {
  %zero = "nn.constant"() {value = 0.0 : f64} : () -> tensor<4x16xf32>
  %rows = "nn.gather"(%table, %tokens) : (tensor<100x8xf32>, tensor<4x6xi32>) -> tensor<4x6x8xf32>
  %product = "nn.matmul"(%rows, %w) {transpose_a = false, transpose_b = true} : (tensor<4x6x8xf32>, tensor<16x8xf32>) -> tensor<4x6x16xf32>
  %along = "nn.broadcast"(%bias) {dims = array<i64: 2>} : (tensor<16xf32>) -> tensor<4x6x16xf32>
  %sum = "nn.add"(%product, %along) : (tensor<4x6x16xf32>, tensor<4x6x16xf32>) -> tensor<4x6x16xf32>
  %x = "nn.transpose"(%sum) {perm = array<i64: 1, 0, 2>} : (tensor<4x6x16xf32>) -> tensor<6x4x16xf32>
  %first:2 = func.call @loop(%x, %zero) {nn.scan, nn.phase = "forward"} : (tensor<6x4x16xf32>, tensor<4x16xf32>) -> (tensor<4x16xf32>, tensor<6x4x16xf32>)
  %y = "nn.transpose"(%first#1) {perm = array<i64: 1, 0, 2>} : (tensor<6x4x16xf32>) -> tensor<4x6x16xf32>
  %next = "nn.matmul"(%y, %v) {transpose_a = false, transpose_b = true} : (tensor<4x6x16xf32>, tensor<16x16xf32>) -> tensor<4x6x16xf32>
  %z = "nn.transpose"(%next) {perm = array<i64: 1, 0, 2>} : (tensor<4x6x16xf32>) -> tensor<6x4x16xf32>
  %second:2 = func.call @loop(%z, %zero) {nn.scan, nn.phase = "forward"} : (tensor<6x4x16xf32>, tensor<4x16xf32>) -> (tensor<4x16xf32>, tensor<6x4x16xf32>)
  %narrow = "nn.matmul"(%wide, %u) {transpose_a = false, transpose_b = true} : (tensor<4x6x64xf32>, tensor<16x64xf32>) -> tensor<4x6x16xf32>
  %turned = "nn.transpose"(%narrow) {perm = array<i64: 1, 0, 2>} : (tensor<4x6x16xf32>) -> tensor<6x4x16xf32>
  %third:2 = func.call @loop(%turned, %zero) {nn.scan, nn.phase = "forward"} : (tensor<6x4x16xf32>, tensor<4x16xf32>) -> (tensor<4x16xf32>, tensor<6x4x16xf32>)
  return %second#0, %third#0 : tensor<4x16xf32>, tensor<4x16xf32>
}

func.func private @loop(tensor<6x4x16xf32>, tensor<4x16xf32>) -> (tensor<4x16xf32>, tensor<6x4x16xf32>)
  attributes {nn.kernel, nn.kind = "scan", nn.label = "scan", nn.body = "loop_body", nn.length = 6 : i64, nn.counts = array<i64: 1, 0, 1, 0, 1>}
func.func @loop_body(%x: tensor<4x16xf32>, %h: tensor<4x16xf32>) -> (tensor<4x16xf32> {nn.tied = 1 : i64}, tensor<4x16xf32>) attributes {nn.scan_body} {
  %s = "nn.add"(%x, %h) : (tensor<4x16xf32>, tensor<4x16xf32>) -> tensor<4x16xf32>
  return %s, %s : tensor<4x16xf32>, tensor<4x16xf32>
}

// Fewer columns than there were are no reason to transpose what a loop has written: both transposes go.
// CHECK-LABEL: func.func @narrows
// CHECK: %[[A:.*]]:2 = call @loop(%arg0,
// CHECK-NEXT: %[[P:.*]] = "nn.matmul"(%[[A]]#1, %arg1)
// CHECK-NEXT: call @small(%[[P]],
func.func @narrows(%x: tensor<6x4x16xf32> {nn.name = "x", nn.role = "input"}, %w: tensor<2x16xf32> {nn.name = "narrows.w", nn.role = "param", nn.init = "zeros"}) -> (tensor<4x2xf32> {nn.name = "c", nn.role = "output"}) {
  %zero = "nn.constant"() {value = 0.0 : f64} : () -> tensor<4x16xf32>
  %none = "nn.constant"() {value = 0.0 : f64} : () -> tensor<4x2xf32>
  %first:2 = func.call @loop(%x, %zero) {nn.scan, nn.phase = "forward"} : (tensor<6x4x16xf32>, tensor<4x16xf32>) -> (tensor<4x16xf32>, tensor<6x4x16xf32>)
  %y = "nn.transpose"(%first#1) {perm = array<i64: 1, 0, 2>} : (tensor<6x4x16xf32>) -> tensor<4x6x16xf32>
  %p = "nn.matmul"(%y, %w) {transpose_a = false, transpose_b = true} : (tensor<4x6x16xf32>, tensor<2x16xf32>) -> tensor<4x6x2xf32>
  %z = "nn.transpose"(%p) {perm = array<i64: 1, 0, 2>} : (tensor<4x6x2xf32>) -> tensor<6x4x2xf32>
  %second:2 = func.call @small(%z, %none) {nn.scan, nn.phase = "forward"} : (tensor<6x4x2xf32>, tensor<4x2xf32>) -> (tensor<4x2xf32>, tensor<6x4x2xf32>)
  return %second#0 : tensor<4x2xf32>
}

func.func private @small(tensor<6x4x2xf32>, tensor<4x2xf32>) -> (tensor<4x2xf32>, tensor<6x4x2xf32>)
  attributes {nn.kernel, nn.kind = "scan", nn.label = "scan", nn.body = "small_body", nn.length = 6 : i64, nn.counts = array<i64: 1, 0, 1, 0, 1>}
func.func @small_body(%x: tensor<4x2xf32>, %h: tensor<4x2xf32>) -> (tensor<4x2xf32> {nn.tied = 1 : i64}, tensor<4x2xf32>) attributes {nn.scan_body} {
  %s = "nn.add"(%x, %h) : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x2xf32>
  return %s, %s : tensor<4x2xf32>, tensor<4x2xf32>
}
