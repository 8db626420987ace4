// What shares a kernel, and what does not.
// RUN: %nnc_opt %s --passes=fuse | FileCheck %s
// A kernel is named after its arithmetic, each op once, not after what only moves it.
// RUN: %nnc_opt %s --passes=fuse | FileCheck %s --check-prefix=NAME
// NAME: func.func private @kernel_0({{.*}} nn.label = "add+reduce_max+sub+exp+reduce_sum+recip+mul"
// NAME: func.func private @kernel_2({{.*}} nn.label = "sub"
// RUN: %nnc_opt %s --passes='fuse{mode=none}' | FileCheck %s --check-prefix=ALONE

// Softmax of a sum: a map before, two chained reductions, a map after, one row kernel.
// CHECK-LABEL: func.func @softmax
// CHECK-NEXT: call @[[SOFTMAX:kernel_[0-9]+]](%arg0, %arg1)
// CHECK-NEXT: return
// Alone: the sum, the maximum, the difference, its exponential, the sum of those, its reciprocal, the product.
// ALONE-LABEL: func.func @softmax
// ALONE-COUNT-7: call @kernel_
// ALONE-NEXT: return
func.func @softmax(%x: tensor<128x32xf32>, %g: tensor<32xf32>) -> tensor<128x32xf32> {
  %gb = "nn.broadcast"(%g) {dims = array<i64: 1>} : (tensor<32xf32>) -> tensor<128x32xf32>
  %a = "nn.add"(%x, %gb) : (tensor<128x32xf32>, tensor<128x32xf32>) -> tensor<128x32xf32>
  %m = "nn.reduce_max"(%a) {axes = array<i64: 1>} : (tensor<128x32xf32>) -> tensor<128xf32>
  %m1 = "nn.reshape"(%m) : (tensor<128xf32>) -> tensor<128x1xf32>
  %mb = "nn.broadcast"(%m1) {dims = array<i64: 0, 1>} : (tensor<128x1xf32>) -> tensor<128x32xf32>
  %s = "nn.sub"(%a, %mb) : (tensor<128x32xf32>, tensor<128x32xf32>) -> tensor<128x32xf32>
  %e = "nn.exp"(%s) : (tensor<128x32xf32>) -> tensor<128x32xf32>
  %t = "nn.reduce_sum"(%e) {axes = array<i64: 1>} : (tensor<128x32xf32>) -> tensor<128xf32>
  %r = "nn.recip"(%t) : (tensor<128xf32>) -> tensor<128xf32>
  %rb = "nn.broadcast"(%r) {dims = array<i64: 0>} : (tensor<128xf32>) -> tensor<128x32xf32>
  %y = "nn.mul"(%e, %rb) : (tensor<128x32xf32>, tensor<128x32xf32>) -> tensor<128x32xf32>
  return %y : tensor<128x32xf32>
}

// A reduced value spread along other axes than it came from cannot stay in its kernel.
// CHECK-LABEL: func.func @crossed
// CHECK-NEXT: call @kernel_[[#]](%arg0) {{.*}} -> tensor<64xf32>
// CHECK-NEXT: call @kernel_[[#]](%arg0, %0)
func.func @crossed(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %m = "nn.reduce_max"(%x) {axes = array<i64: 1>} : (tensor<64x64xf32>) -> tensor<64xf32>
  %mb = "nn.broadcast"(%m) {dims = array<i64: 1>} : (tensor<64xf32>) -> tensor<64x64xf32>
  %s = "nn.sub"(%x, %mb) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %s : tensor<64x64xf32>
}

// The add needs the product of what the relu makes: one kernel would have to run before and after it.
// CHECK-LABEL: func.func @convex
// CHECK-NEXT: call @[[RELU:kernel_[0-9]+]](%arg0)
// CHECK-NEXT: "nn.matmul"(%0, %arg1)
// CHECK-NEXT: call @kernel_[[#]](%0, %1)
// CHECK-NEXT: return
func.func @convex(%x: tensor<64x64xf32>, %w: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %r = "nn.relu"(%x) : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %m = "nn.matmul"(%r, %w) {transpose_a = false, transpose_b = false} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %y = "nn.add"(%r, %m) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %y : tensor<64x64xf32>
}

// Equal kernels are one function; a tap makes the value a result.
// CHECK-LABEL: func.func @twice
// CHECK-NEXT: %[[A:.*]] = call @[[RELU]](%arg0)
// CHECK-NEXT: %[[B:.*]] = call @[[RELU]](%arg1)
// CHECK-NEXT: "nn.tap"(%[[A]])
// CHECK-NEXT: "nn.matmul"(%[[A]], %[[B]])
func.func @twice(%x: tensor<64x64xf32>, %w: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %r = "nn.relu"(%x) : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %s = "nn.relu"(%w) {nn.phase = "forward"} : (tensor<64x64xf32>) -> tensor<64x64xf32>
  "nn.tap"(%r) {name = "r"} : (tensor<64x64xf32>) -> ()
  %m = "nn.matmul"(%r, %s) {transpose_a = false, transpose_b = false} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %m : tensor<64x64xf32>
}

// A slice, a reshape and a transpose become one strided load; contiguous parts and reshapes are aliases and stay.
// CHECK-LABEL: func.func @heads
// CHECK-NEXT: call @[[HEADS:kernel_[0-9]+]](%arg0) {{.*}} -> tensor<2x4x64x8xf32>
// CHECK-NEXT: "nn.slice"(%arg0)
// CHECK-NEXT: "nn.reshape"
// CHECK-NEXT: return
func.func @heads(%x: tensor<2x64x96xf32>) -> (tensor<2x4x64x8xf32>, tensor<6144xf32>) {
  %s = "nn.slice"(%x) {starts = array<i64: 0, 0, 32>, sizes = array<i64: 2, 64, 32>, strides = array<i64: 1, 1, 1>} : (tensor<2x64x96xf32>) -> tensor<2x64x32xf32>
  %r = "nn.reshape"(%s) : (tensor<2x64x32xf32>) -> tensor<2x64x4x8xf32>
  %t = "nn.transpose"(%r) {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x64x4x8xf32>) -> tensor<2x4x64x8xf32>
  %first = "nn.slice"(%x) {starts = array<i64: 1, 0, 0>, sizes = array<i64: 1, 64, 96>, strides = array<i64: 1, 1, 1>} : (tensor<2x64x96xf32>) -> tensor<1x64x96xf32>
  %flat = "nn.reshape"(%first) : (tensor<1x64x96xf32>) -> tensor<6144xf32>
  return %t, %flat : tensor<2x4x64x8xf32>, tensor<6144xf32>
}

// A reshape that no single stride can follow keeps its operand in memory.
// CHECK-LABEL: func.func @no_stride
// CHECK-NEXT: call @kernel_[[#]](%arg0) {{.*}} -> tensor<8x32xf32>
// CHECK-NEXT: "nn.reshape"
// CHECK-NEXT: call @kernel_[[#]]
func.func @no_stride(%x: tensor<32x8xf32>) -> tensor<16x16xf32> {
  %t = "nn.transpose"(%x) {perm = array<i64: 1, 0>} : (tensor<32x8xf32>) -> tensor<8x32xf32>
  %r = "nn.reshape"(%t) : (tensor<8x32xf32>) -> tensor<16x16xf32>
  %u = "nn.transpose"(%r) {perm = array<i64: 1, 0>} : (tensor<16x16xf32>) -> tensor<16x16xf32>
  return %u : tensor<16x16xf32>
}

// Dropout: the mask is drawn again in the backward kernel, not stored.
// CHECK-LABEL: func.func @dropout
// CHECK: %[[ROW:.*]] = "nn.reshape"
// CHECK: %[[Y:.*]] = call @[[DROP:kernel_[0-9]+]](%[[ROW]], %arg0)
// CHECK: %[[P:.*]] = "nn.matmul"(%[[Y]], %arg1)
// CHECK: call @kernel_[[#]](%[[ROW]], %[[P]]) {nn.phase = "backward"}
func.func @dropout(%x: tensor<64x64xf32>, %w: tensor<64x64xf32>, %rng: tensor<2x4xi32>) -> tensor<64x64xf32> {
  %row = "nn.slice"(%rng) {starts = array<i64: 1, 0>, sizes = array<i64: 1, 4>, strides = array<i64: 1, 1>} : (tensor<2x4xi32>) -> tensor<1x4xi32>
  %key = "nn.reshape"(%row) : (tensor<1x4xi32>) -> tensor<4xi32>
  %u = "nn.random_uniform"(%key) : (tensor<4xi32>) -> tensor<64x64xf32>
  %p = "nn.constant"() {value = 0.1 : f64} : () -> tensor<64x64xf32>
  %keep = "nn.compare"(%u, %p) {predicate = "ge"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xi1>
  %zero = "nn.constant"() {value = 0.0 : f64} : () -> tensor<64x64xf32>
  %y = "nn.select"(%keep, %x, %zero) : (tensor<64x64xi1>, tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %m = "nn.matmul"(%y, %w) {transpose_a = false, transpose_b = false} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %d = "nn.select"(%keep, %m, %zero) {nn.phase = "backward"} : (tensor<64x64xi1>, tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %d : tensor<64x64xf32>
}

// Batch normalisation backward, channels last: both sums share a column kernel, with the gradient of relu computed in it and again in
// the kernel of dx; beta's update is the column kernel's epilogue, gamma's waits for dx, which reads gamma.
// CHECK-LABEL: func.func @batchnorm_backward
// CHECK-NEXT: %[[SUMS:.*]]:2 = call @[[COLUMN:kernel_[0-9]+]](%arg0, %arg1, %arg2, %arg3, %arg5) {nn.phase = "update"}
// CHECK-SAME: -> (tensor<16xf32>, tensor<16xf32>)
// CHECK-NEXT: %[[DX:.*]] = call @[[DXK:kernel_[0-9]+]](%arg4, %arg0, %arg1, %arg2, %arg3, %[[SUMS]]#0) {nn.phase = "backward"}
// CHECK-NEXT: %[[GAMMA:.*]] = call @kernel_[[#]](%arg4, %[[SUMS]]#0) {nn.phase = "update"}
// CHECK-NEXT: return %[[DX]], %[[GAMMA]], %[[SUMS]]#1
func.func @batchnorm_backward(%y: tensor<8x8x8x16xf32>, %dy: tensor<8x8x8x16xf32>, %x: tensor<8x8x8x16xf32>, %mean: tensor<16xf32>,
                              %gamma: tensor<16xf32> {nn.role = "param"}, %beta: tensor<16xf32> {nn.role = "param"})
    -> (tensor<8x8x8x16xf32>, tensor<16xf32> {nn.role = "update", nn.tied = 4 : i64}, tensor<16xf32> {nn.role = "update", nn.tied = 5 : i64}) {
  %zero = "nn.constant"() {value = 0.0 : f64, nn.phase = "backward"} : () -> tensor<8x8x8x16xf32>
  %mask = "nn.compare"(%y, %zero) {predicate = "gt", nn.phase = "backward"} : (tensor<8x8x8x16xf32>, tensor<8x8x8x16xf32>) -> tensor<8x8x8x16xi1>
  %d = "nn.select"(%mask, %dy, %zero) {nn.phase = "backward"} : (tensor<8x8x8x16xi1>, tensor<8x8x8x16xf32>, tensor<8x8x8x16xf32>) -> tensor<8x8x8x16xf32>
  %mb = "nn.broadcast"(%mean) {dims = array<i64: 3>, nn.phase = "backward"} : (tensor<16xf32>) -> tensor<8x8x8x16xf32>
  %c = "nn.sub"(%x, %mb) {nn.phase = "backward"} : (tensor<8x8x8x16xf32>, tensor<8x8x8x16xf32>) -> tensor<8x8x8x16xf32>
  %dc = "nn.mul"(%d, %c) {nn.phase = "backward"} : (tensor<8x8x8x16xf32>, tensor<8x8x8x16xf32>) -> tensor<8x8x8x16xf32>
  %dgamma = "nn.reduce_sum"(%dc) {axes = array<i64: 0, 1, 2>, nn.phase = "backward"} : (tensor<8x8x8x16xf32>) -> tensor<16xf32>
  %dbeta = "nn.reduce_sum"(%d) {axes = array<i64: 0, 1, 2>, nn.phase = "backward"} : (tensor<8x8x8x16xf32>) -> tensor<16xf32>
  %gb = "nn.broadcast"(%gamma) {dims = array<i64: 3>, nn.phase = "backward"} : (tensor<16xf32>) -> tensor<8x8x8x16xf32>
  %sb = "nn.broadcast"(%dgamma) {dims = array<i64: 3>, nn.phase = "backward"} : (tensor<16xf32>) -> tensor<8x8x8x16xf32>
  %cs = "nn.mul"(%c, %sb) {nn.phase = "backward"} : (tensor<8x8x8x16xf32>, tensor<8x8x8x16xf32>) -> tensor<8x8x8x16xf32>
  %dx1 = "nn.sub"(%d, %cs) {nn.phase = "backward"} : (tensor<8x8x8x16xf32>, tensor<8x8x8x16xf32>) -> tensor<8x8x8x16xf32>
  %dx = "nn.mul"(%gb, %dx1) {nn.phase = "backward"} : (tensor<8x8x8x16xf32>, tensor<8x8x8x16xf32>) -> tensor<8x8x8x16xf32>
  %ng = "nn.sub"(%gamma, %dgamma) {nn.phase = "update"} : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
  %nb = "nn.sub"(%beta, %dbeta) {nn.phase = "update"} : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
  return %dx, %ng, %nb : tensor<8x8x8x16xf32>, tensor<16xf32>, tensor<16xf32>
}

// Moments over scattered axes are those of five parts, each of one run: the mean of five variances, and the variance of five means.
// RUN: %nnc_opt %s --passes=fuse | FileCheck %s --check-prefix=PARTS
// PARTS: "nn.moments"({{.*}}) {axes = array<i64: 0>} : (tensor<5x16xf32>)
// PARTS: "nn.constant"() {value = 2.000000e-01 : f64} : () -> tensor<16xf32>
func.func @scattered_moments(%x: tensor<5x16x4x4xf32>) -> (tensor<16xf32>, tensor<16xf32>) {
  %m:2 = "nn.moments"(%x) {axes = array<i64: 0, 2, 3>} : (tensor<5x16x4x4xf32>) -> (tensor<16xf32>, tensor<16xf32>)
  return %m#0, %m#1 : tensor<16xf32>, tensor<16xf32>
}

// Scattered axes are reduced in two steps: no kernel takes axes 0, 2, 3 at once.
// CHECK-LABEL: func.func @bias_gradient
// CHECK-NEXT: call @[[PLANES:kernel_[0-9]+]](%arg0) {{.*}} -> tensor<8x16xf32>
// CHECK-NEXT: call @kernel_[[#]](%0) {{.*}} -> tensor<16xf32>
func.func @bias_gradient(%d: tensor<8x16x4x4xf32>) -> tensor<16xf32> {
  %s = "nn.reduce_sum"(%d) {axes = array<i64: 0, 2, 3>} : (tensor<8x16x4x4xf32>) -> tensor<16xf32>
  return %s : tensor<16xf32>
}

// A map of two broadcasts is computed on the small shape.
// CHECK-LABEL: func.func @hoisted
// CHECK-NEXT: call @[[SMALL:kernel_[0-9]+]](%arg1, %arg2) {{.*}} -> tensor<32xf32>
// CHECK-NEXT: call @kernel_[[#]](%arg0, %0)
func.func @hoisted(%x: tensor<128x32xf32>, %a: tensor<32xf32>, %b: tensor<32xf32>) -> tensor<128x32xf32> {
  %ab = "nn.broadcast"(%a) {dims = array<i64: 1>} : (tensor<32xf32>) -> tensor<128x32xf32>
  %bb = "nn.broadcast"(%b) {dims = array<i64: 1>} : (tensor<32xf32>) -> tensor<128x32xf32>
  %s = "nn.mul"(%ab, %bb) : (tensor<128x32xf32>, tensor<128x32xf32>) -> tensor<128x32xf32>
  %y = "nn.add"(%x, %s) : (tensor<128x32xf32>, tensor<128x32xf32>) -> tensor<128x32xf32>
  return %y : tensor<128x32xf32>
}

// A move is a kernel of its own, and reads a constant from memory.
// CHECK-LABEL: func.func @move
// CHECK-NEXT: call @kernel_[[#]]() {{.*}} -> tensor<4xf32>
// CHECK-NEXT: call @[[CONCAT:kernel_[0-9]+]](%arg0, %0)
func.func @move(%x: tensor<4xf32>) -> tensor<8xf32> {
  %c = "nn.constant"() {value = 1.0 : f64} : () -> tensor<4xf32>
  %y = "nn.concat"(%x, %c) {axis = 0 : i64} : (tensor<4xf32>, tensor<4xf32>) -> tensor<8xf32>
  return %y : tensor<8xf32>
}

// A map that only slices read is computed on them: the product is read in parts, and the sum never exists.
// CHECK-LABEL: func.func @parts
// CHECK-NEXT: %[[XW:[0-9]+]] = "nn.matmul"
// CHECK-NOT: tensor<16x96xf32>) -> tensor<16x96xf32>
// CHECK: call @[[PART:kernel_[0-9]+]](%[[XW]], %{{.*}} -> tensor<16x48xf32>
// CHECK: call @kernel_[[#]](%[[XW]], %{{.*}} -> tensor<16x48xf32>
func.func @parts(%x: tensor<16x8xf32>, %w: tensor<8x96xf32>, %b: tensor<96xf32>) -> (tensor<16x48xf32>, tensor<16x48xf32>) {
  %y = "nn.matmul"(%x, %w) {transpose_a = false, transpose_b = false} : (tensor<16x8xf32>, tensor<8x96xf32>) -> tensor<16x96xf32>
  %bb = "nn.broadcast"(%b) {dims = array<i64: 1>} : (tensor<96xf32>) -> tensor<16x96xf32>
  %z = "nn.add"(%y, %bb) : (tensor<16x96xf32>, tensor<16x96xf32>) -> tensor<16x96xf32>
  %p = "nn.slice"(%z) {starts = array<i64: 0, 0>, sizes = array<i64: 16, 48>, strides = array<i64: 1, 1>} : (tensor<16x96xf32>) -> tensor<16x48xf32>
  %q = "nn.slice"(%z) {starts = array<i64: 0, 48>, sizes = array<i64: 16, 48>, strides = array<i64: 1, 1>} : (tensor<16x96xf32>) -> tensor<16x48xf32>
  return %p, %q : tensor<16x48xf32>, tensor<16x48xf32>
}

// The gradients of a normalisation's weight and bias are one kernel, though a kernel of rows casts the same product.
// CHECK-LABEL: func.func @norm_gradients
// CHECK-NEXT: %[[DY:[0-9]+]] = "nn.matmul"
// CHECK-DAG: call @kernel_[[#]](%[[DY]], %arg2) {{.*}} -> (tensor<64xf32>, tensor<64xf32>)
// CHECK-DAG: call @kernel_[[#]](%[[DY]], %arg3) {{.*}} -> tensor<128x64xf32>
// CHECK-NEXT: return
func.func @norm_gradients(%g: tensor<128x64xbf16>, %w: tensor<64x64xbf16>, %x: tensor<128x64xf32>, %scale: tensor<64xf32>) -> (tensor<64xf32>, tensor<64xf32>, tensor<128x64xf32>) {
  %narrow = "nn.matmul"(%g, %w) {transpose_a = false, transpose_b = false} : (tensor<128x64xbf16>, tensor<64x64xbf16>) -> tensor<128x64xbf16>
  %dy = "nn.cast"(%narrow) : (tensor<128x64xbf16>) -> tensor<128x64xf32>
  %sb = "nn.broadcast"(%scale) {dims = array<i64: 1>} : (tensor<64xf32>) -> tensor<128x64xf32>
  %s = "nn.mul"(%dy, %sb) : (tensor<128x64xf32>, tensor<128x64xf32>) -> tensor<128x64xf32>
  %r = "nn.reduce_sum"(%s) {axes = array<i64: 1>} : (tensor<128x64xf32>) -> tensor<128xf32>
  %rb = "nn.broadcast"(%r) {dims = array<i64: 0>} : (tensor<128xf32>) -> tensor<128x64xf32>
  %dx = "nn.sub"(%s, %rb) : (tensor<128x64xf32>, tensor<128x64xf32>) -> tensor<128x64xf32>
  %p = "nn.mul"(%dy, %x) : (tensor<128x64xf32>, tensor<128x64xf32>) -> tensor<128x64xf32>
  %dw = "nn.reduce_sum"(%p) {axes = array<i64: 0>} : (tensor<128x64xf32>) -> tensor<64xf32>
  %db = "nn.reduce_sum"(%dy) {axes = array<i64: 0>} : (tensor<128x64xf32>) -> tensor<64xf32>
  return %dw, %db, %dx : tensor<64xf32>, tensor<64xf32>, tensor<128x64xf32>
}

// Two reductions of the same rows share a pass over them, here of the first value that the function reads.
// CHECK-LABEL: func.func @siblings
// CHECK-NEXT: %[[BOTH:.*]]:2 = call @kernel_[[#]](%arg0) {{.*}} -> (tensor<64xf32>, tensor<64xf32>)
// CHECK-NEXT: return %[[BOTH]]#0, %[[BOTH]]#1
func.func @siblings(%x: tensor<64x64xf32>) -> (tensor<64xf32>, tensor<64xf32>) {
  %m = "nn.reduce_max"(%x) {axes = array<i64: 1>} : (tensor<64x64xf32>) -> tensor<64xf32>
  %s = "nn.reduce_sum"(%x) {axes = array<i64: 1>} : (tensor<64x64xf32>) -> tensor<64xf32>
  return %m, %s : tensor<64xf32>, tensor<64xf32>
}

// What two kernels need as f32 is stored as the bf16 that it was cast from.
// CHECK-LABEL: func.func @narrow
// CHECK-NEXT: call @kernel_[[#]](%arg0, %arg1, %arg2) {{.*}} -> (tensor<64x64xbf16>, tensor<64xf32>)
// CHECK-NEXT: call @[[WIDENS:kernel_[0-9]+]](%0#0, %0#1)
func.func @narrow(%x: tensor<64x64xbf16>, %y: tensor<64x64xbf16>, %z: tensor<64x64xbf16>) -> (tensor<64xf32>, tensor<64x64xf32>) {
  %p = "nn.mul"(%x, %y) : (tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<64x64xbf16>
  %e = "nn.mul"(%p, %z) : (tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<64x64xbf16>
  %f = "nn.cast"(%e) : (tensor<64x64xbf16>) -> tensor<64x64xf32>
  %r = "nn.reduce_sum"(%f) {axes = array<i64: 0>} : (tensor<64x64xf32>) -> tensor<64xf32>
  %b = "nn.broadcast"(%r) {dims = array<i64: 1>} : (tensor<64xf32>) -> tensor<64x64xf32>
  %d = "nn.sub"(%f, %b) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %r, %d : tensor<64xf32>, tensor<64x64xf32>
}

// CHECK: func.func private @[[SOFTMAX]]
// CHECK-SAME: nn.axes = array<i64: 1>, nn.domain = array<i64: 128, 32>, nn.kernel, nn.kind = "row"
// CHECK: func.func private @[[RELU]]
// CHECK-SAME: nn.domain = array<i64: 64, 64>, nn.kernel, nn.kind = "map"
// CHECK: func.func private @[[HEADS]]
// CHECK: "nn.slice"(%arg0)
// CHECK-NEXT: "nn.reshape"
// CHECK-NEXT: "nn.transpose"
// CHECK: func.func private @[[DROP]]
// CHECK: "nn.random_uniform"(%arg0)
// CHECK: func.func private @[[COLUMN]]
// CHECK-SAME: nn.axes = array<i64: 0, 1, 2>
// CHECK-SAME: nn.kind = "column"
// CHECK: func.func private @[[DXK]]
// CHECK: "nn.compare"
// CHECK: func.func private @[[PLANES]]
// CHECK-SAME: nn.axes = array<i64: 2, 3>
// CHECK-SAME: nn.kind = "row"
// CHECK: func.func private @[[SMALL]]
// CHECK-SAME: nn.domain = array<i64: 32>
// CHECK: func.func private @[[CONCAT]]
// CHECK-SAME: nn.kind = "move"
// CHECK: func.func private @[[PART]]
// CHECK: "nn.slice"(%arg0)
// CHECK: func.func private @[[WIDENS]](%arg0: tensor<64x64xbf16>, %arg1: tensor<64xf32>)
// CHECK-NEXT: "nn.cast"(%arg0)
