// Updates wait for each other where the gradients that live longer for it raise no peak.
// RUN: %nnc_opt %s --passes='fuse,schedule,gather{mode=always}' | FileCheck %s
// RUN: %nnc_opt %s --passes='fuse,schedule,gather' | FileCheck %s --check-prefix=HOST
// RUN: %nnc_opt %s --passes='fuse,gather{mode=always}' | FileCheck %s --check-prefix=VIEW

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

// Copies of parameters are made at the start, next to each other, where what lives until they are read raises no peak; a value that is made of others stays.
// CHECK-LABEL: func.func @copies
// CHECK-NEXT: %[[C0:.*]] = call @kernel_{{[0-9]+}}(%arg1) {{.*}} -> tensor<32x32xbf16>
// CHECK-NEXT: %[[C1:.*]] = call @kernel_{{[0-9]+}}(%arg2) {{.*}} -> tensor<32x64xbf16>
// CHECK-NEXT: %[[H:.*]] = "nn.matmul"(%arg0, %[[C0]])
// CHECK: "nn.matmul"(%{{.*}}, %[[C1]])
// HOST-LABEL: func.func @copies
// HOST-NEXT: call
// HOST-NEXT: "nn.matmul"
func.func @copies(%x: tensor<256x32xbf16> {nn.role = "input"}, %w0: tensor<32x32xf32> {nn.role = "param", nn.name = "copies.w0"}, %w1: tensor<32x64xf32> {nn.role = "param", nn.name = "copies.w1"})
    -> (tensor<256x64xbf16> {nn.role = "output", nn.name = "y"}) {
  %c0 = "nn.cast"(%w0) {nn.phase = "forward"} : (tensor<32x32xf32>) -> tensor<32x32xbf16>
  %h = "nn.matmul"(%x, %c0) {transpose_a = false, transpose_b = false, nn.phase = "forward"} : (tensor<256x32xbf16>, tensor<32x32xbf16>) -> tensor<256x32xbf16>
  %r = "nn.relu"(%h) {nn.phase = "forward"} : (tensor<256x32xbf16>) -> tensor<256x32xbf16>
  %c1 = "nn.cast"(%w1) {nn.phase = "forward"} : (tensor<32x64xf32>) -> tensor<32x64xbf16>
  %y = "nn.matmul"(%r, %c1) {transpose_a = false, transpose_b = false, nn.phase = "forward"} : (tensor<256x32xbf16>, tensor<32x64xbf16>) -> tensor<256x64xbf16>
  return %y : tensor<256x64xbf16>
}

// What is made of nothing is no copy, and stays where it is read.
// CHECK-LABEL: func.func @made_of_nothing
// CHECK-NEXT: call @kernel_{{[0-9]+}}(%arg1)
// CHECK-NEXT: call @kernel_{{[0-9]+}}(%arg2)
// CHECK-NEXT: "nn.matmul"
// CHECK: "nn.matmul"
// CHECK-NEXT: %[[S:.*]] = call @kernel_{{[0-9]+}}()
// CHECK-NEXT: "nn.matmul"(%{{.*}}, %[[S]])
func.func @made_of_nothing(%x: tensor<256x32xbf16> {nn.role = "input"}, %w0: tensor<32x32xf32> {nn.role = "param", nn.name = "made_of_nothing.w0"}, %w1: tensor<32x32xf32> {nn.role = "param", nn.name = "made_of_nothing.w1"})
    -> (tensor<256x64xbf16> {nn.role = "output", nn.name = "y"}) {
  %c0 = "nn.cast"(%w0) {nn.phase = "forward"} : (tensor<32x32xf32>) -> tensor<32x32xbf16>
  %h = "nn.matmul"(%x, %c0) {transpose_a = false, transpose_b = false, nn.phase = "forward"} : (tensor<256x32xbf16>, tensor<32x32xbf16>) -> tensor<256x32xbf16>
  %c1 = "nn.cast"(%w1) {nn.phase = "forward"} : (tensor<32x32xf32>) -> tensor<32x32xbf16>
  %z = "nn.matmul"(%h, %c1) {transpose_a = false, transpose_b = false, nn.phase = "forward"} : (tensor<256x32xbf16>, tensor<32x32xbf16>) -> tensor<256x32xbf16>
  %i = "nn.iota"() {axis = 0 : i64, nn.phase = "forward"} : () -> tensor<32x64xf32>
  %s = "nn.cast"(%i) {nn.phase = "forward"} : (tensor<32x64xf32>) -> tensor<32x64xbf16>
  %y = "nn.matmul"(%z, %s) {transpose_a = false, transpose_b = false, nn.phase = "forward"} : (tensor<256x32xbf16>, tensor<32x64xbf16>) -> tensor<256x64xbf16>
  return %y : tensor<256x64xbf16>
}

// Both copies read a view of one view, which moves with the first of them.
// CHECK-LABEL: func.func @copies_of_views
// CHECK-NEXT: %[[V:.*]] = "nn.reshape"(%arg2)
// CHECK-NEXT: %[[V0:.*]] = "nn.slice"(%[[V]]) {{.*}}starts = array<i64: 0, 0>
// CHECK-NEXT: call @kernel_{{[0-9]+}}(%[[V0]])
// CHECK-NEXT: %[[V1:.*]] = "nn.slice"(%[[V]]) {{.*}}starts = array<i64: 32, 0>
// CHECK-NEXT: call @kernel_{{[0-9]+}}(%[[V1]])
// CHECK: "nn.matmul"
func.func @copies_of_views(%x: tensor<256x32xbf16> {nn.role = "input"}, %x2: tensor<32x64xbf16> {nn.role = "input"}, %w: tensor<2x32x32xf32> {nn.role = "param", nn.name = "copies_of_views.w"}) -> (tensor<256x64xbf16> {nn.role = "output", nn.name = "y"}) {
  %v = "nn.reshape"(%w) {nn.phase = "forward"} : (tensor<2x32x32xf32>) -> tensor<64x32xf32>
  %v0 = "nn.slice"(%v) {starts = array<i64: 0, 0>, sizes = array<i64: 32, 32>, strides = array<i64: 1, 1>, nn.phase = "forward"} : (tensor<64x32xf32>) -> tensor<32x32xf32>
  %c0 = "nn.cast"(%v0) {nn.phase = "forward"} : (tensor<32x32xf32>) -> tensor<32x32xbf16>
  %h = "nn.matmul"(%x, %c0) {transpose_a = false, transpose_b = false, nn.phase = "forward"} : (tensor<256x32xbf16>, tensor<32x32xbf16>) -> tensor<256x32xbf16>
  %r = "nn.relu"(%h) {nn.phase = "forward"} : (tensor<256x32xbf16>) -> tensor<256x32xbf16>
  %v1 = "nn.slice"(%v) {starts = array<i64: 32, 0>, sizes = array<i64: 32, 32>, strides = array<i64: 1, 1>, nn.phase = "forward"} : (tensor<64x32xf32>) -> tensor<32x32xf32>
  %c1 = "nn.cast"(%v1) {nn.phase = "forward"} : (tensor<32x32xf32>) -> tensor<32x32xbf16>
  %z = "nn.matmul"(%r, %c1) {transpose_a = false, transpose_b = false, nn.phase = "forward"} : (tensor<256x32xbf16>, tensor<32x32xbf16>) -> tensor<256x32xbf16>
  %y = "nn.matmul"(%z, %x2) {transpose_a = false, transpose_b = false, nn.phase = "forward"} : (tensor<256x32xbf16>, tensor<32x64xbf16>) -> tensor<256x64xbf16>
  return %y : tensor<256x64xbf16>
}

// Two copies at once would be the peak: each is made where it is read.
// CHECK-LABEL: func.func @copies_tight
// CHECK: call @kernel_{{[0-9]+}}(%arg1)
// CHECK: "nn.matmul"
// CHECK: call @kernel_{{[0-9]+}}(%arg2)
// CHECK: "nn.matmul"
func.func @copies_tight(%x: tensor<4x512xbf16> {nn.role = "input"}, %w0: tensor<512x512xf32> {nn.role = "param", nn.name = "copies_tight.w0"}, %w1: tensor<512x512xf32> {nn.role = "param", nn.name = "copies_tight.w1"})
    -> (tensor<4x512xbf16> {nn.role = "output", nn.name = "y"}) {
  %c0 = "nn.cast"(%w0) {nn.phase = "forward"} : (tensor<512x512xf32>) -> tensor<512x512xbf16>
  %h = "nn.matmul"(%x, %c0) {transpose_a = false, transpose_b = false, nn.phase = "forward"} : (tensor<4x512xbf16>, tensor<512x512xbf16>) -> tensor<4x512xbf16>
  %r = "nn.relu"(%h) {nn.phase = "forward"} : (tensor<4x512xbf16>) -> tensor<4x512xbf16>
  %c1 = "nn.cast"(%w1) {nn.phase = "forward"} : (tensor<512x512xf32>) -> tensor<512x512xbf16>
  %y = "nn.matmul"(%r, %c1) {transpose_a = false, transpose_b = false, nn.phase = "forward"} : (tensor<4x512xbf16>, tensor<512x512xbf16>) -> tensor<4x512xbf16>
  return %y : tensor<4x512xbf16>
}

// From the start on the copies would raise the peak, which is the large value; behind it there is room for all of them at once.
// CHECK-LABEL: func.func @copies_behind
// CHECK-NEXT: %[[V:.*]] = "nn.reshape"(%arg4)
// CHECK: %[[S:.*]] = call @kernel_{{[0-9]+}}(%{{.*}}) {{.*}} -> tensor<256xf32>
// CHECK-NEXT: %[[C1:.*]] = call @kernel_{{[0-9]+}}(%arg2)
// CHECK-NEXT: %[[C2:.*]] = call @kernel_{{[0-9]+}}(%arg3)
// CHECK-NEXT: %[[C3:.*]] = call @kernel_{{[0-9]+}}(%[[V]])
// CHECK-NEXT: "nn.matmul"(%arg0, %[[C1]])
// CHECK: "nn.matmul"(%{{.*}}, %[[C2]])
// CHECK: "nn.matmul"(%{{.*}}, %[[C3]])
// VIEW-LABEL: func.func @copies_behind
// VIEW: %[[V:.*]] = "nn.reshape"(%arg4)
// VIEW-NEXT: call @kernel_{{[0-9]+}}(%[[V]])
// VIEW-NEXT: "nn.matmul"(%arg0
// HOST-LABEL: func.func @copies_behind
// HOST: call @kernel_{{[0-9]+}}(%arg2)
// HOST-NEXT: "nn.matmul"
// HOST-NEXT: call @kernel_{{[0-9]+}}(%arg3)
// HOST-NEXT: "nn.matmul"
func.func @copies_behind(%x: tensor<256x32xbf16> {nn.role = "input"}, %big: tensor<32x4096xbf16> {nn.role = "input"}, %w1: tensor<32x32xf32> {nn.role = "param", nn.name = "copies_behind.w1"}, %w2: tensor<32x32xf32> {nn.role = "param", nn.name = "copies_behind.w2"}, %w3: tensor<4x8x32xf32> {nn.role = "param", nn.name = "copies_behind.w3"})
    -> (tensor<256xf32> {nn.role = "output", nn.name = "s"}, tensor<256x32xbf16> {nn.role = "output", nn.name = "y"}) {
  %large = "nn.matmul"(%x, %big) {transpose_a = false, transpose_b = false, nn.phase = "forward"} : (tensor<256x32xbf16>, tensor<32x4096xbf16>) -> tensor<256x4096xbf16>
  %wide = "nn.cast"(%large) {nn.phase = "forward"} : (tensor<256x4096xbf16>) -> tensor<256x4096xf32>
  %s = "nn.reduce_sum"(%wide) {axes = array<i64: 1>, nn.phase = "forward"} : (tensor<256x4096xf32>) -> tensor<256xf32>
  %c1 = "nn.cast"(%w1) {nn.phase = "forward"} : (tensor<32x32xf32>) -> tensor<32x32xbf16>
  %h1 = "nn.matmul"(%x, %c1) {transpose_a = false, transpose_b = false, nn.phase = "forward"} : (tensor<256x32xbf16>, tensor<32x32xbf16>) -> tensor<256x32xbf16>
  %c2 = "nn.cast"(%w2) {nn.phase = "forward"} : (tensor<32x32xf32>) -> tensor<32x32xbf16>
  %h2 = "nn.matmul"(%h1, %c2) {transpose_a = false, transpose_b = false, nn.phase = "forward"} : (tensor<256x32xbf16>, tensor<32x32xbf16>) -> tensor<256x32xbf16>
  %v = "nn.reshape"(%w3) {nn.phase = "forward"} : (tensor<4x8x32xf32>) -> tensor<32x32xf32>
  %c3 = "nn.cast"(%v) {nn.phase = "forward"} : (tensor<32x32xf32>) -> tensor<32x32xbf16>
  %y = "nn.matmul"(%h2, %c3) {transpose_a = false, transpose_b = false, nn.phase = "forward"} : (tensor<256x32xbf16>, tensor<32x32xbf16>) -> tensor<256x32xbf16>
  return %s, %y : tensor<256xf32>, tensor<256x32xbf16>
}
