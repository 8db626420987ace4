// Two arenas: a parameter whose home is far away, and a value that is copied there and comes back in part. Their addresses begin at 2^60 =
// 1152921504606846976, in whole blocks of 4096 bytes, homes first. The update is stored in the home, behind who reads the old one.
// RUN: %nnc_opt %s --passes=fuse,inplace,plan,check -o %t.mlir && FileCheck %s < %t.mlir
// RUN: %nnc_opt %t.mlir --passes=plan,check | diff %t.mlir -

// What `check` finds: what else than copies on the lanes out and in touches far values, blocks that are shared, what lies outside, a home that is
// not the function's, an update that does not go home.
// RUN: sh %S/Inputs/far.sh %nnc_opt %t.mlir 's/lane = "in", nn.offset = array<i64: 0>}/lane = "comm", nn.offset = array<i64: 0>}/' | FileCheck %s --check-prefix=READER
// READER: step 0: operand 0 lies far away, which only a copy on the lane in reads
// RUN: sh %S/Inputs/far.sh %nnc_opt %t.mlir 's/i64: 1152921504606851072/i64: 8192/' | FileCheck %s --check-prefix=NEAR
// NEAR: an alias is not where its operand is
// RUN: sh %S/Inputs/far.sh %nnc_opt %t.mlir 's/(%5) {nn.lane = "out", nn.offset = array<i64: 1152921504606846976>/(%5) {nn.lane = "out", nn.offset = array<i64: 4096>/' | FileCheck %s --check-prefix=INSIDE
// INSIDE: step 5: result 0 lies in the arena, which a copy on the lane out does not write
// RUN: sh %S/Inputs/far.sh %nnc_opt %t.mlir 's/1152921504606851072/1152921504606846976/; s/1152921504606852096/1152921504606848000/' | FileCheck %s --check-prefix=OVER
// OVER: step 6: operand 0 is not at offset
// RUN: sh %S/Inputs/far.sh %nnc_opt %t.mlir 's/1152921504606851072/1152921504606849024/; s/1152921504606852096/1152921504606850048/' | FileCheck %s --check-prefix=BLOCK
// BLOCK: far byte 2048 begins no block
// RUN: sh %S/Inputs/far.sh %nnc_opt %t.mlir 's/1152921504606851072/1152921504606855168/; s/1152921504606852096/1152921504606856192/' | FileCheck %s --check-prefix=OUTSIDE
// OUTSIDE: bytes 8192 to 12288 are outside the far arena
// RUN: sh %S/Inputs/far.sh %nnc_opt %t.mlir 's/nn.far = true, //' | FileCheck %s --check-prefix=HOME
// HOME: argument 1 is not where its home is
// RUN: sh %S/Inputs/far.sh %nnc_opt %t.mlir 's/nn.waits = array<i64: 6>, //' | FileCheck %s --check-prefix=RACE
// RACE: step 7 on lane compute reads operand 0 in bytes 0 to 2048, which step 6 on lane in writes, without a wait in between
// RUN: sh %S/Inputs/far.sh %nnc_opt %t.mlir 's/return %8, %6/return %8, %2/' | FileCheck %s --check-prefix=ELSEWHERE
// ELSEWHERE: result 1 is not stored in the far bytes of argument 1

// CHECK: module attributes {nn.arena = 12288 : i64, nn.far_arena = 8192 : i64, nn.far_persistent = 4096 : i64, nn.persistent = 0 : i64}
// CHECK: nn.far = true, nn.name = "p", nn.offset = 1152921504606846976
func.func @train(%x: tensor<32x32xf32> {nn.role = "input", nn.name = "x"}, %p: tensor<32x32xf32> {nn.role = "param", nn.name = "p", nn.far = true})
    -> (tensor<16x32xf32> {nn.role = "output", nn.name = "y"}, tensor<32x32xf32> {nn.role = "update", nn.name = "p", nn.tied = 1 : i64}) {
  // CHECK: nn.copy{{.*}}nn.lane = "in", nn.offset = array<i64: 0>
  %q = "nn.copy"(%p) {nn.lane = "in"} : (tensor<32x32xf32>) -> tensor<32x32xf32>
  // CHECK: nn.matmul{{.*}}nn.waits = array<i64: 0>
  %a = "nn.matmul"(%x, %q) {transpose_a = false, transpose_b = false} : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  // CHECK: nn.copy{{.*}}nn.lane = "out", nn.offset = array<i64: 1152921504606851072>, nn.waits = array<i64: 1>
  %f = "nn.copy"(%a) {nn.lane = "out"} : (tensor<32x32xf32>) -> tensor<32x32xf32>
  %b = "nn.matmul"(%a, %q) {transpose_a = false, transpose_b = false} : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  // CHECK: nn.slice{{.*}}nn.offset = array<i64: 1152921504606852096>
  %part = "nn.slice"(%f) {starts = array<i64: 8, 0>, strides = array<i64: 1, 1>, sizes = array<i64: 16, 32>} : (tensor<32x32xf32>) -> tensor<16x32xf32>
  %n = "nn.matmul"(%b, %q) {transpose_a = false, transpose_b = false} : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  // CHECK: nn.copy{{.*}}nn.lane = "out", nn.offset = array<i64: 1152921504606846976>, nn.waits = array<i64: 4>
  %new = "nn.copy"(%n) {nn.lane = "out"} : (tensor<32x32xf32>) -> tensor<32x32xf32>
  // CHECK: nn.copy{{.*}}nn.lane = "in", nn.offset = array<i64: 0>, nn.waits = array<i64: 4>
  %near = "nn.copy"(%part) {nn.lane = "in"} : (tensor<16x32xf32>) -> tensor<16x32xf32>
  // CHECK: nn.matmul{{.*}}nn.waits = array<i64: 6>
  %y = "nn.matmul"(%near, %b) {transpose_a = false, transpose_b = false} : (tensor<16x32xf32>, tensor<32x32xf32>) -> tensor<16x32xf32>
  return %y, %new : tensor<16x32xf32>, tensor<32x32xf32>
}
