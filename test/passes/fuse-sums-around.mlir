// Sums over the columns of what a kernel reads and of what it writes are one launch where launches are shared, and stay apart where they cost nothing. 
// RUN: %nnc_opt %s --target=cuda --passes=fuse | FileCheck %s
// RUN: %nnc_opt %s --passes=fuse | FileCheck %s --check-prefix=HOST

// The row kernel writes the products that one sum reads, and what the other does.
// CHECK-LABEL: func.func @pair
// CHECK: %[[DY:.*]] = "nn.matmul"
// CHECK-NEXT: %[[R:.*]] = call @[[ROW:kernel_[0-9]+]](
// CHECK-NEXT: %{{.*}}:2 = call @[[SUMS:kernel_[0-9]+]](
// CHECK-NEXT: return
// HOST-LABEL: func.func @pair
// HOST: "nn.matmul"
// HOST-COUNT-3: call @kernel_
// HOST-NEXT: return
func.func @pair(%x: tensor<256x32xf32>, %d: tensor<256x16xf32>, %w: tensor<16x32xf32>) -> (tensor<256x32xf32>, tensor<32xf32>, tensor<32xf32>) {
  %dy = "nn.matmul"(%d, %w) {nn.phase = "backward", transpose_a = false, transpose_b = false} : (tensor<256x16xf32>, tensor<16x32xf32>) -> tensor<256x32xf32>
  %t = "nn.mul"(%x, %dy) {nn.phase = "backward"} : (tensor<256x32xf32>, tensor<256x32xf32>) -> tensor<256x32xf32>
  %s = "nn.reduce_sum"(%t) {axes = array<i64: 1>, nn.phase = "backward"} : (tensor<256x32xf32>) -> tensor<256xf32>
  %sb = "nn.broadcast"(%s) {dims = array<i64: 0>, nn.phase = "backward"} : (tensor<256xf32>) -> tensor<256x32xf32>
  %r = "nn.sub"(%dy, %sb) {nn.phase = "backward"} : (tensor<256x32xf32>, tensor<256x32xf32>) -> tensor<256x32xf32>
  %dw = "nn.reduce_sum"(%t) {axes = array<i64: 0>, nn.phase = "backward"} : (tensor<256x32xf32>) -> tensor<32xf32>
  %db = "nn.reduce_sum"(%r) {axes = array<i64: 0>, nn.phase = "backward"} : (tensor<256x32xf32>) -> tensor<32xf32>
  return %r, %dw, %db : tensor<256x32xf32>, tensor<32xf32>, tensor<32xf32>
}

// Two such kernels in a row, the second of which reads what the first one wrote, too: its sum goes with those of the first.
// CHECK-LABEL: func.func @chain
// CHECK-NEXT: "nn.matmul"
// CHECK-NEXT: call @[[NEXT:kernel_[0-9]+]](
// CHECK-NEXT: call @[[SUMS]](
// CHECK-NEXT: "nn.matmul"
// CHECK-NEXT: call @[[NEXT]](
// CHECK-NEXT: call @[[SUMS]](
// CHECK-NEXT: return
func.func @chain(%x: tensor<256x32xf32>, %d: tensor<256x32xf32>, %w: tensor<32x32xf32>) -> (tensor<256x32xf32>, tensor<32xf32>, tensor<32xf32>, tensor<32xf32>, tensor<32xf32>) {
  %g0 = "nn.matmul"(%d, %w) {nn.phase = "backward", transpose_a = false, transpose_b = false} : (tensor<256x32xf32>, tensor<32x32xf32>) -> tensor<256x32xf32>
  %t0 = "nn.mul"(%x, %g0) {nn.phase = "backward"} : (tensor<256x32xf32>, tensor<256x32xf32>) -> tensor<256x32xf32>
  %s0 = "nn.reduce_sum"(%t0) {axes = array<i64: 1>, nn.phase = "backward"} : (tensor<256x32xf32>) -> tensor<256xf32>
  %b0 = "nn.broadcast"(%s0) {dims = array<i64: 0>, nn.phase = "backward"} : (tensor<256xf32>) -> tensor<256x32xf32>
  %u0 = "nn.sub"(%g0, %b0) {nn.phase = "backward"} : (tensor<256x32xf32>, tensor<256x32xf32>) -> tensor<256x32xf32>
  %r0 = "nn.add"(%u0, %d) {nn.phase = "backward"} : (tensor<256x32xf32>, tensor<256x32xf32>) -> tensor<256x32xf32>
  %w0 = "nn.reduce_sum"(%t0) {axes = array<i64: 0>, nn.phase = "backward"} : (tensor<256x32xf32>) -> tensor<32xf32>
  %d0 = "nn.reduce_sum"(%r0) {axes = array<i64: 0>, nn.phase = "backward"} : (tensor<256x32xf32>) -> tensor<32xf32>
  %g1 = "nn.matmul"(%r0, %w) {nn.phase = "backward", transpose_a = false, transpose_b = false} : (tensor<256x32xf32>, tensor<32x32xf32>) -> tensor<256x32xf32>
  %t1 = "nn.mul"(%x, %g1) {nn.phase = "backward"} : (tensor<256x32xf32>, tensor<256x32xf32>) -> tensor<256x32xf32>
  %s1 = "nn.reduce_sum"(%t1) {axes = array<i64: 1>, nn.phase = "backward"} : (tensor<256x32xf32>) -> tensor<256xf32>
  %b1 = "nn.broadcast"(%s1) {dims = array<i64: 0>, nn.phase = "backward"} : (tensor<256xf32>) -> tensor<256x32xf32>
  %u1 = "nn.sub"(%g1, %b1) {nn.phase = "backward"} : (tensor<256x32xf32>, tensor<256x32xf32>) -> tensor<256x32xf32>
  %r1 = "nn.add"(%u1, %r0) {nn.phase = "backward"} : (tensor<256x32xf32>, tensor<256x32xf32>) -> tensor<256x32xf32>
  %w1 = "nn.reduce_sum"(%t1) {axes = array<i64: 0>, nn.phase = "backward"} : (tensor<256x32xf32>) -> tensor<32xf32>
  %d1 = "nn.reduce_sum"(%r1) {axes = array<i64: 0>, nn.phase = "backward"} : (tensor<256x32xf32>) -> tensor<32xf32>
  return %r1, %w0, %d0, %w1, %d1 : tensor<256x32xf32>, tensor<32xf32>, tensor<32xf32>, tensor<32xf32>, tensor<32xf32>
}

// A kernel of another phase that reads and writes what is added up brings nothing together: one sum could be long past.
// CHECK-LABEL: func.func @phases
// CHECK: call @
// CHECK-NEXT: %{{[0-9]+}} = call @[[ONE:kernel_[0-9]+]](
// CHECK-NEXT: %{{[0-9]+}} = call @[[ONE]](
// CHECK-NEXT: return
func.func @phases(%a: tensor<256x16xf32>, %b: tensor<256x16xf32>, %w: tensor<16x32xf32>, %d: tensor<256x32xf32>) -> (tensor<256x32xf32>, tensor<32xf32>, tensor<32xf32>) {
  %x = "nn.matmul"(%a, %w) {nn.phase = "forward", transpose_a = false, transpose_b = false} : (tensor<256x16xf32>, tensor<16x32xf32>) -> tensor<256x32xf32>
  %s = "nn.reduce_sum"(%x) {axes = array<i64: 1>, nn.phase = "forward"} : (tensor<256x32xf32>) -> tensor<256xf32>
  %sb = "nn.broadcast"(%s) {dims = array<i64: 0>, nn.phase = "forward"} : (tensor<256xf32>) -> tensor<256x32xf32>
  %y = "nn.sub"(%x, %sb) {nn.phase = "forward"} : (tensor<256x32xf32>, tensor<256x32xf32>) -> tensor<256x32xf32>
  %dx = "nn.reduce_sum"(%x) {axes = array<i64: 0>, nn.phase = "backward"} : (tensor<256x32xf32>) -> tensor<32xf32>
  %dy = "nn.reduce_sum"(%y) {axes = array<i64: 0>, nn.phase = "backward"} : (tensor<256x32xf32>) -> tensor<32xf32>
  return %y, %dx, %dy : tensor<256x32xf32>, tensor<32xf32>, tensor<32xf32>
}

// CHECK: func.func private @[[ROW]]{{.*}}nn.kind = "row"
// CHECK: func.func private @[[SUMS]]{{.*}}nn.kind = "column"
