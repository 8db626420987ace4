// Values lie far away in whole blocks. Two of 5 KiB, whose bytes the 12 KiB there would hold, need 16 KiB: the plan that makes both again is the one that
// fits, and the faster one that moves them is not.
// RUN: %nnc_opt %s --cpu=x86-64-v3 --passes='fuse,remat{budget=17361152 far=16KiB effort=0.1},inplace,plan,check' | FileCheck %s
// RUN: %nnc_opt %s --cpu=x86-64-v3 --passes='fuse,remat{budget=17361152 far=12KiB effort=0.1},inplace,plan,check' | FileCheck %s --check-prefix=LESS
// CHECK: nn.far_arena = 16384
// CHECK-COUNT-5: "nn.matmul"
// CHECK-NOT: "nn.matmul"
// LESS-NOT: nn.far_arena
// LESS-COUNT-7: "nn.matmul"
// LESS-NOT: "nn.matmul"
func.func @train(%x: tensor<64x16384xf32> {nn.role = "input", nn.name = "x"}, %w1: tensor<16384x20xf32> {nn.role = "param", nn.name = "w1"}, %w2: tensor<16384x20xf32> {nn.role = "param", nn.name = "w2"}, %v: tensor<16384x64xf32> {nn.role = "input", nn.name = "v"})
    -> (tensor<64xf32> {nn.role = "output", nn.name = "s"}, tensor<16384x20xf32> {nn.role = "output", nn.name = "u1"}, tensor<16384x20xf32> {nn.role = "output", nn.name = "u2"}, tensor<64x16384xf32> {nn.role = "output", nn.name = "u3"}, tensor<64x20xf32> {nn.role = "output", nn.name = "y"}) {
  %a = "nn.matmul"(%x, %w1) {transpose_a = false, transpose_b = false, nn.phase = "forward"} : (tensor<64x16384xf32>, tensor<16384x20xf32>) -> tensor<64x20xf32>
  %b = "nn.matmul"(%x, %w2) {transpose_a = false, transpose_b = false, nn.phase = "forward"} : (tensor<64x16384xf32>, tensor<16384x20xf32>) -> tensor<64x20xf32>
  %c = "nn.matmul"(%a, %b) {transpose_a = false, transpose_b = true, nn.phase = "forward"} : (tensor<64x20xf32>, tensor<64x20xf32>) -> tensor<64x64xf32>
  %m = "nn.matmul"(%c, %x) {transpose_a = false, transpose_b = false, nn.phase = "forward"} : (tensor<64x64xf32>, tensor<64x16384xf32>) -> tensor<64x16384xf32>
  %g = "nn.matmul"(%m, %v) {transpose_a = false, transpose_b = false, nn.phase = "forward"} : (tensor<64x16384xf32>, tensor<16384x64xf32>) -> tensor<64x64xf32>
  %s = "nn.reduce_sum"(%g) {axes = array<i64: 1>, nn.phase = "forward"} : (tensor<64x64xf32>) -> tensor<64xf32>
  %y = "nn.add"(%a, %b) {nn.phase = "backward"} : (tensor<64x20xf32>, tensor<64x20xf32>) -> tensor<64x20xf32>
  return %s, %w1, %w2, %x, %y : tensor<64xf32>, tensor<16384x20xf32>, tensor<16384x20xf32>, tensor<64x16384xf32>, tensor<64x20xf32>
}
