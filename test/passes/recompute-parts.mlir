// A kept value that is an operand of a concatenation which is kept as well is read where it lies in that, if backward ops read it element by element alone.
// RUN: %nnc_opt %s --passes=recompute | FileCheck %s
// RUN: %nnc_opt %s --passes=recompute,simplify | FileCheck %s
// RUN: %nnc_opt %s --passes='recompute{mode=none}' | FileCheck %s --check-prefix=NONE
// RUN: %nnc_opt %s --passes=recompute,fuse | FileCheck %s --check-prefix=FUSED
// NONE-NOT: nn.recompute

// Of several concatenations the last; each is read through one slice by all its readers, and two kernels that read it take no copy from each other.
// CHECK-LABEL: func.func @chain
// CHECK-SAME: nn.checkpoint_kept = 20480 : i64, nn.checkpoint_saved = 24576 : i64
// CHECK: %[[F:.*]] = "nn.matmul"
// CHECK: %[[G:.*]] = "nn.matmul"
// CHECK: %[[C1:.*]] = "nn.concat"(%[[F]], %[[G]])
// CHECK: %[[C2:.*]] = "nn.concat"(%[[C1]], %arg2)
// CHECK: "nn.mul"(%[[C2]], %arg3)
// CHECK: %[[S1:.*]] = "nn.slice"(%[[C2]]) {nn.phase = "backward", nn.recompute = "concat.{{[0-9]+}}", sizes = array<i64: 256, 16>, starts = array<i64: 0, 0>, {{.*}}} :
// CHECK: "nn.mul"(%[[S1]], %arg4)
// CHECK: "nn.sub"(%[[S1]], %{{.*}})
// CHECK: %[[SG:.*]] = "nn.slice"(%[[C2]]) {nn.phase = "backward", nn.recompute = "matmul.{{[0-9]+}}", sizes = array<i64: 256, 8>, starts = array<i64: 0, 8>, {{.*}}} :
// CHECK: "nn.mul"(%[[SG]], %arg5)
// FUSED-LABEL: func.func @chain
// FUSED: %[[C2:.*]] = call @kernel_{{[0-9]+}}({{.*}}) {nn.phase = "forward"} : (tensor<256x16xf32>, tensor<256x4xf32>) -> tensor<256x20xf32>
// FUSED-NOT: -> (tensor<256x16xf32>, tensor<256x16xf32>
// FUSED: call @kernel_{{[0-9]+}}(%[[C2]], %arg4) {nn.phase = "backward"}
// FUSED: call @kernel_{{[0-9]+}}(%[[C2]], %arg5)
// FUSED: return
func.func @chain(%x: tensor<256x8xf32>, %w: tensor<8x8xf32>, %y: tensor<256x4xf32>, %d2: tensor<256x20xf32>, %d1: tensor<256x16xf32>, %d0: tensor<256x8xf32>)
    -> (tensor<256x20xf32>, tensor<256x16xf32>, tensor<256x8xf32>) {
  %f = "nn.matmul"(%x, %w) {nn.phase = "forward", transpose_a = false, transpose_b = false} : (tensor<256x8xf32>, tensor<8x8xf32>) -> tensor<256x8xf32>
  %g = "nn.matmul"(%f, %w) {nn.phase = "forward", transpose_a = false, transpose_b = false} : (tensor<256x8xf32>, tensor<8x8xf32>) -> tensor<256x8xf32>
  %c1 = "nn.concat"(%f, %g) {axis = 1 : i64, nn.phase = "forward"} : (tensor<256x8xf32>, tensor<256x8xf32>) -> tensor<256x16xf32>
  %c2 = "nn.concat"(%c1, %y) {axis = 1 : i64, nn.phase = "forward"} : (tensor<256x16xf32>, tensor<256x4xf32>) -> tensor<256x20xf32>
  %r2 = "nn.mul"(%c2, %d2) {nn.phase = "backward"} : (tensor<256x20xf32>, tensor<256x20xf32>) -> tensor<256x20xf32>
  %r1 = "nn.mul"(%c1, %d1) {nn.phase = "backward"} : (tensor<256x16xf32>, tensor<256x16xf32>) -> tensor<256x16xf32>
  %b1 = "nn.optimization_barrier"(%r1) {nn.phase = "backward"} : (tensor<256x16xf32>) -> tensor<256x16xf32>
  %s1 = "nn.sub"(%c1, %b1) {nn.phase = "backward"} : (tensor<256x16xf32>, tensor<256x16xf32>) -> tensor<256x16xf32>
  %r0 = "nn.mul"(%g, %d0) {nn.phase = "backward"} : (tensor<256x8xf32>, tensor<256x8xf32>) -> tensor<256x8xf32>
  return %r2, %s1, %r0 : tensor<256x20xf32>, tensor<256x16xf32>, tensor<256x8xf32>
}

// Its parts, those that are read, take less than the whole, which would live as long as the last of them.
// CHECK-LABEL: func.func @little
// CHECK-NOT: nn.recompute
// CHECK: return
func.func @little(%x: tensor<256x8xf32>, %w: tensor<8x8xf32>, %d2: tensor<256x16xf32>, %d1: tensor<256x8xf32>)
    -> (tensor<256x16xf32>, tensor<256x8xf32>) {
  %f = "nn.matmul"(%x, %w) {nn.phase = "forward", transpose_a = false, transpose_b = false} : (tensor<256x8xf32>, tensor<8x8xf32>) -> tensor<256x8xf32>
  %g = "nn.matmul"(%f, %w) {nn.phase = "forward", transpose_a = false, transpose_b = false} : (tensor<256x8xf32>, tensor<8x8xf32>) -> tensor<256x8xf32>
  %c = "nn.concat"(%f, %g) {axis = 1 : i64, nn.phase = "forward"} : (tensor<256x8xf32>, tensor<256x8xf32>) -> tensor<256x16xf32>
  %r2 = "nn.mul"(%c, %d2) {nn.phase = "backward"} : (tensor<256x16xf32>, tensor<256x16xf32>) -> tensor<256x16xf32>
  %r1 = "nn.mul"(%f, %d1) {nn.phase = "backward"} : (tensor<256x8xf32>, tensor<256x8xf32>) -> tensor<256x8xf32>
  return %r2, %r1 : tensor<256x16xf32>, tensor<256x8xf32>
}

// Backward ops do not read the concatenation: it is not kept for its parts.
// CHECK-LABEL: func.func @whole_unread
// CHECK-NOT: nn.recompute
// CHECK: return
func.func @whole_unread(%x: tensor<256x8xf32>, %w: tensor<8x8xf32>, %d2: tensor<256x16xf32>, %d1: tensor<256x8xf32>)
    -> (tensor<256x16xf32>, tensor<256x8xf32>, tensor<256x8xf32>) {
  %f = "nn.matmul"(%x, %w) {nn.phase = "forward", transpose_a = false, transpose_b = false} : (tensor<256x8xf32>, tensor<8x8xf32>) -> tensor<256x8xf32>
  %g = "nn.matmul"(%f, %w) {nn.phase = "forward", transpose_a = false, transpose_b = false} : (tensor<256x8xf32>, tensor<8x8xf32>) -> tensor<256x8xf32>
  %c = "nn.concat"(%f, %g) {axis = 1 : i64, nn.phase = "forward"} : (tensor<256x8xf32>, tensor<256x8xf32>) -> tensor<256x16xf32>
  %r1 = "nn.mul"(%f, %d1) {nn.phase = "backward"} : (tensor<256x8xf32>, tensor<256x8xf32>) -> tensor<256x8xf32>
  %r0 = "nn.mul"(%g, %d1) {nn.phase = "backward"} : (tensor<256x8xf32>, tensor<256x8xf32>) -> tensor<256x8xf32>
  return %c, %r1, %r0 : tensor<256x16xf32>, tensor<256x8xf32>, tensor<256x8xf32>
}

// A library op reads one part: it must be in memory as it is. The other one alone is too little.
// CHECK-LABEL: func.func @library
// CHECK-NOT: nn.recompute
// CHECK: return
func.func @library(%x: tensor<256x8xf32>, %w: tensor<8x8xf32>, %d2: tensor<256x16xf32>, %d1: tensor<256x8xf32>)
    -> (tensor<256x16xf32>, tensor<256x8xf32>, tensor<256x8xf32>, tensor<8x8xf32>) {
  %f = "nn.matmul"(%x, %w) {nn.phase = "forward", transpose_a = false, transpose_b = false} : (tensor<256x8xf32>, tensor<8x8xf32>) -> tensor<256x8xf32>
  %g = "nn.matmul"(%f, %w) {nn.phase = "forward", transpose_a = false, transpose_b = false} : (tensor<256x8xf32>, tensor<8x8xf32>) -> tensor<256x8xf32>
  %c = "nn.concat"(%f, %g) {axis = 1 : i64, nn.phase = "forward"} : (tensor<256x8xf32>, tensor<256x8xf32>) -> tensor<256x16xf32>
  %r2 = "nn.mul"(%c, %d2) {nn.phase = "backward"} : (tensor<256x16xf32>, tensor<256x16xf32>) -> tensor<256x16xf32>
  %r1 = "nn.mul"(%f, %d1) {nn.phase = "backward"} : (tensor<256x8xf32>, tensor<256x8xf32>) -> tensor<256x8xf32>
  %r0 = "nn.mul"(%g, %d1) {nn.phase = "backward"} : (tensor<256x8xf32>, tensor<256x8xf32>) -> tensor<256x8xf32>
  %m = "nn.matmul_rows"(%g, %d1) {nn.phase = "backward"} : (tensor<256x8xf32>, tensor<256x8xf32>) -> tensor<8x8xf32>
  return %r2, %r1, %r0, %m : tensor<256x16xf32>, tensor<256x8xf32>, tensor<256x8xf32>, tensor<8x8xf32>
}

// Both parts, which together are as large as the whole.
// CHECK-LABEL: func.func @both
// CHECK: %[[C:.*]] = "nn.concat"
// CHECK: "nn.slice"(%[[C]]) {{.*}}starts = array<i64: 0, 0>
// CHECK: "nn.slice"(%[[C]]) {{.*}}starts = array<i64: 0, 8>
func.func @both(%x: tensor<256x8xf32>, %w: tensor<8x8xf32>, %d2: tensor<256x16xf32>, %d1: tensor<256x8xf32>)
    -> (tensor<256x16xf32>, tensor<256x8xf32>, tensor<256x8xf32>) {
  %f = "nn.matmul"(%x, %w) {nn.phase = "forward", transpose_a = false, transpose_b = false} : (tensor<256x8xf32>, tensor<8x8xf32>) -> tensor<256x8xf32>
  %g = "nn.matmul"(%f, %w) {nn.phase = "forward", transpose_a = false, transpose_b = false} : (tensor<256x8xf32>, tensor<8x8xf32>) -> tensor<256x8xf32>
  %c = "nn.concat"(%f, %g) {axis = 1 : i64, nn.phase = "forward"} : (tensor<256x8xf32>, tensor<256x8xf32>) -> tensor<256x16xf32>
  %r2 = "nn.mul"(%c, %d2) {nn.phase = "backward"} : (tensor<256x16xf32>, tensor<256x16xf32>) -> tensor<256x16xf32>
  %r1 = "nn.mul"(%f, %d1) {nn.phase = "backward"} : (tensor<256x8xf32>, tensor<256x8xf32>) -> tensor<256x8xf32>
  %r0 = "nn.mul"(%g, %d1) {nn.phase = "backward"} : (tensor<256x8xf32>, tensor<256x8xf32>) -> tensor<256x8xf32>
  return %r2, %r1, %r0 : tensor<256x16xf32>, tensor<256x8xf32>, tensor<256x8xf32>
}

// Joined once more along another axis: the concatenation is a part of that, its own parts are none of either.
// CHECK-LABEL: func.func @other_axis
// CHECK: %[[F:.*]] = "nn.matmul"
// CHECK: %[[L:.*]] = "nn.concat"({{.*}}) {axis = 0
// CHECK: %[[C:.*]] = "nn.slice"(%[[L]]) {{.*}}starts = array<i64: 0, 0>
// CHECK: %[[H:.*]] = "nn.slice"(%[[L]]) {{.*}}starts = array<i64: 256, 0>
// CHECK: "nn.sub"(%[[C]], %[[H]])
// CHECK-NEXT: "nn.mul"(%[[F]], %arg3)
func.func @other_axis(%x: tensor<256x8xf32>, %w: tensor<8x8xf32>, %d2: tensor<256x16xf32>, %d1: tensor<256x8xf32>, %d3: tensor<512x16xf32>)
    -> (tensor<512x16xf32>, tensor<256x16xf32>, tensor<256x8xf32>) {
  %f = "nn.matmul"(%x, %w) {nn.phase = "forward", transpose_a = false, transpose_b = false} : (tensor<256x8xf32>, tensor<8x8xf32>) -> tensor<256x8xf32>
  %g = "nn.matmul"(%f, %w) {nn.phase = "forward", transpose_a = false, transpose_b = false} : (tensor<256x8xf32>, tensor<8x8xf32>) -> tensor<256x8xf32>
  %c = "nn.concat"(%f, %g) {axis = 1 : i64, nn.phase = "forward"} : (tensor<256x8xf32>, tensor<256x8xf32>) -> tensor<256x16xf32>
  %h = "nn.concat"(%g, %f) {axis = 1 : i64, nn.phase = "forward"} : (tensor<256x8xf32>, tensor<256x8xf32>) -> tensor<256x16xf32>
  %l = "nn.concat"(%c, %h) {axis = 0 : i64, nn.phase = "forward"} : (tensor<256x16xf32>, tensor<256x16xf32>) -> tensor<512x16xf32>
  %r3 = "nn.mul"(%l, %d3) {nn.phase = "backward"} : (tensor<512x16xf32>, tensor<512x16xf32>) -> tensor<512x16xf32>
  %r2 = "nn.sub"(%c, %h) {nn.phase = "backward"} : (tensor<256x16xf32>, tensor<256x16xf32>) -> tensor<256x16xf32>
  %r1 = "nn.mul"(%f, %d1) {nn.phase = "backward"} : (tensor<256x8xf32>, tensor<256x8xf32>) -> tensor<256x8xf32>
  return %r3, %r2, %r1 : tensor<512x16xf32>, tensor<256x16xf32>, tensor<256x8xf32>
}

// A chain of five sines of a part is computed again in the second kernel that needs it, as it would be of a value of its own: the part is in memory for the last reader anyway, and nothing can be written over it.
// FUSED-LABEL: func.func @inlined
// FUSED: %[[C:.*]] = call @{{.*}} {nn.phase = "forward"}
// FUSED: call @kernel_{{[0-9]+}}(%[[C]], %arg3) {{.*}} -> tensor<256x8xf32>
// FUSED-NEXT: "nn.matmul"
// FUSED-NEXT: call @kernel_{{[0-9]+}}({{.*}}%[[C]]) {{.*}} -> tensor<256x8xf32>
// FUSED: return
func.func @inlined(%x: tensor<256x8xf32>, %w: tensor<8x8xf32>, %d2: tensor<256x16xf32>, %d0: tensor<256x8xf32>, %d1: tensor<256x8xf32>) -> (tensor<256x16xf32>, tensor<256x8xf32>, tensor<256x8xf32>, tensor<256x8xf32>) {
  %f = "nn.matmul"(%x, %w) {nn.phase = "forward", transpose_a = false, transpose_b = false} : (tensor<256x8xf32>, tensor<8x8xf32>) -> tensor<256x8xf32>
  %g = "nn.matmul"(%f, %w) {nn.phase = "forward", transpose_a = false, transpose_b = false} : (tensor<256x8xf32>, tensor<8x8xf32>) -> tensor<256x8xf32>
  %c = "nn.concat"(%f, %g) {axis = 1 : i64, nn.phase = "forward"} : (tensor<256x8xf32>, tensor<256x8xf32>) -> tensor<256x16xf32>
  %r2 = "nn.mul"(%c, %d2) {nn.phase = "backward"} : (tensor<256x16xf32>, tensor<256x16xf32>) -> tensor<256x16xf32>
  %u0 = "nn.sin"(%f) {nn.phase = "backward"} : (tensor<256x8xf32>) -> tensor<256x8xf32>
  %u1 = "nn.sin"(%u0) {nn.phase = "backward"} : (tensor<256x8xf32>) -> tensor<256x8xf32>
  %u2 = "nn.sin"(%u1) {nn.phase = "backward"} : (tensor<256x8xf32>) -> tensor<256x8xf32>
  %u3 = "nn.sin"(%u2) {nn.phase = "backward"} : (tensor<256x8xf32>) -> tensor<256x8xf32>
  %u4 = "nn.sin"(%u3) {nn.phase = "backward"} : (tensor<256x8xf32>) -> tensor<256x8xf32>
  %a = "nn.mul"(%u4, %d0) {nn.phase = "backward"} : (tensor<256x8xf32>, tensor<256x8xf32>) -> tensor<256x8xf32>
  %m = "nn.matmul"(%a, %w) {nn.phase = "backward", transpose_a = false, transpose_b = false} : (tensor<256x8xf32>, tensor<8x8xf32>) -> tensor<256x8xf32>
  %b = "nn.mul"(%m, %u4) {nn.phase = "backward"} : (tensor<256x8xf32>, tensor<256x8xf32>) -> tensor<256x8xf32>
  %m2 = "nn.matmul"(%b, %w) {nn.phase = "backward", transpose_a = false, transpose_b = false} : (tensor<256x8xf32>, tensor<8x8xf32>) -> tensor<256x8xf32>
  %z = "nn.mul"(%m2, %f) {nn.phase = "backward"} : (tensor<256x8xf32>, tensor<256x8xf32>) -> tensor<256x8xf32>
  %y = "nn.mul"(%g, %d1) {nn.phase = "backward"} : (tensor<256x8xf32>, tensor<256x8xf32>) -> tensor<256x8xf32>
  return %r2, %b, %z, %y : tensor<256x16xf32>, tensor<256x8xf32>, tensor<256x8xf32>, tensor<256x8xf32>
}

// One operand alone is the concatenation itself.
// CHECK-LABEL: func.func @one
// CHECK-NOT: nn.recompute
// CHECK: return
func.func @one(%x: tensor<256x8xf32>, %w: tensor<8x8xf32>, %d: tensor<256x8xf32>) -> (tensor<256x8xf32>, tensor<256x8xf32>) {
  %f = "nn.matmul"(%x, %w) {nn.phase = "forward", transpose_a = false, transpose_b = false} : (tensor<256x8xf32>, tensor<8x8xf32>) -> tensor<256x8xf32>
  %c = "nn.concat_1"(%f) {axis = 1 : i64, nn.phase = "forward"} : (tensor<256x8xf32>) -> tensor<256x8xf32>
  %r = "nn.mul"(%c, %d) {nn.phase = "backward"} : (tensor<256x8xf32>, tensor<256x8xf32>) -> tensor<256x8xf32>
  %s = "nn.sub"(%f, %d) {nn.phase = "backward"} : (tensor<256x8xf32>, tensor<256x8xf32>) -> tensor<256x8xf32>
  return %r, %s : tensor<256x8xf32>, tensor<256x8xf32>
}
