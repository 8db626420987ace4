// Who may be at home far away: %p, whose update is one whole value. Not %shown, which is returned itself; not %part, whose update is a part of a
// value; not %twice, whose update is returned once more; not %other, which another function returns. Each of these may as soon as that is not so, and the
// smallest budget is less.
// RUN: %nnc_opt %s --passes='fuse,remat{budget=128KiB far=any effort=0.02},inplace,plan,check' | FileCheck %s
// RUN: not %nnc_opt %s --passes='fuse,remat{budget=1 far=any effort=0.1}' 2>&1 | FileCheck %s --check-prefix=NONE
// NONE: the smallest budget found is 128 KiB
// RUN: sed 's/return %%n1, %%shown/return %%n1, %%a/' %s > %t.shown.mlir && not %nnc_opt %t.shown.mlir --passes='fuse,remat{budget=1 far=any effort=0.1}' 2>&1 | FileCheck %s --check-prefix=ONE
// RUN: sed 's/%%wide = .*/%%n2 = "nn.sub"(%%part, %%d) {nn.phase = "update"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>/; /%%n2 = "nn.slice/d' %s > %t.part.mlir && not %nnc_opt %t.part.mlir --passes='fuse,remat{budget=1 far=any effort=0.1}' 2>&1 | FileCheck %s --check-prefix=WHOLE
// RUN: sed 's/%%n3, %%n3 :/%%n3, %%e :/' %s > %t.twice.mlir && not %nnc_opt %t.twice.mlir --passes='fuse,remat{budget=1 far=any effort=0.1}' 2>&1 | FileCheck %s --check-prefix=ONE
// RUN: sed 's/return %%a, %%other/return %%a, %%a/' %s > %t.other.mlir && not %nnc_opt %t.other.mlir --passes='fuse,remat{budget=1 far=any effort=0.1}' 2>&1 | FileCheck %s --check-prefix=ONE
// ONE: the smallest budget found is 112 KiB
// WHOLE: the smallest budget found is 96.0 KiB

// CHECK: nn.far_persistent = 16384
// CHECK: @train(%arg0: tensor<64x64xf32> {nn.name = "x", {{[^}]*}}}, %arg1: tensor<64x64xf32> {nn.far = true, nn.name = "p"
// CHECK-NOT: nn.far = true
func.func @train(%x: tensor<64x64xf32> {nn.role = "input", nn.name = "x"}, %p: tensor<64x64xf32> {nn.role = "param", nn.name = "p"},
                 %shown: tensor<64x64xf32> {nn.role = "param", nn.name = "shown"}, %part: tensor<64x64xf32> {nn.role = "param", nn.name = "part"},
                 %twice: tensor<64x64xf32> {nn.role = "param", nn.name = "twice"}, %other: tensor<64x64xf32> {nn.role = "param", nn.name = "other"})
    -> (tensor<64x64xf32> {nn.role = "update", nn.tied = 1 : i64}, tensor<64x64xf32> {nn.role = "output", nn.name = "s"},
        tensor<64x64xf32> {nn.role = "update", nn.tied = 3 : i64}, tensor<64x64xf32> {nn.role = "update", nn.tied = 4 : i64},
        tensor<64x64xf32> {nn.role = "output", nn.name = "t"}) {
  %a = "nn.matmul"(%x, %p) {transpose_a = false, transpose_b = false} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %b = "nn.matmul"(%a, %shown) {transpose_a = false, transpose_b = false} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %c = "nn.matmul"(%b, %part) {transpose_a = false, transpose_b = false} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %d = "nn.matmul"(%c, %twice) {transpose_a = false, transpose_b = false} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %e = "nn.matmul"(%d, %other) {transpose_a = false, transpose_b = false} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %n1 = "nn.sub"(%p, %e) {nn.phase = "update"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %wide = "nn.concat"(%e, %d) {axis = 0 : i64, nn.phase = "update"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<128x64xf32>
  %n2 = "nn.slice"(%wide) {starts = array<i64: 64, 0>, strides = array<i64: 1, 1>, sizes = array<i64: 64, 64>} : (tensor<128x64xf32>) -> tensor<64x64xf32>
  %n3 = "nn.sub"(%twice, %e) {nn.phase = "update"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %n1, %shown, %n2, %n3, %n3 : tensor<64x64xf32>, tensor<64x64xf32>, tensor<64x64xf32>, tensor<64x64xf32>, tensor<64x64xf32>
}
func.func @predict(%x: tensor<64x64xf32> {nn.role = "input", nn.name = "x"}, %other: tensor<64x64xf32> {nn.role = "param", nn.name = "other"}) -> (tensor<64x64xf32> {nn.role = "output", nn.name = "y"}, tensor<64x64xf32> {nn.role = "output", nn.name = "o"}) {
  %a = "nn.matmul"(%x, %other) {transpose_a = false, transpose_b = false} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %a, %other : tensor<64x64xf32>, tensor<64x64xf32>
}
