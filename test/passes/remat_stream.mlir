// What is at home far away in @train is so in @eval, which is streamed through: each home is fetched before the step that reads it, once for neighbours,
// and again where other steps lie between; an update is stored where it is made, and its new value is fetched from there.
// RUN: %nnc_opt %s --cpu=x86-64-v3 --passes='fuse,remat{budget=48KiB far=any effort=0.02},inplace,plan,check' | FileCheck %s
// What is near in @train is not fetched, and where nothing is far @eval stays as it is.
// RUN: %nnc_opt %s --cpu=x86-64-v3 --passes='fuse,remat{budget=64KiB far=any effort=0.02},inplace,plan,check' | FileCheck %s --check-prefix=SOME
// RUN: %nnc_opt %s --cpu=x86-64-v3 --passes='fuse,remat{budget=80KiB far=any effort=0.02},inplace,plan,check' | FileCheck %s --check-prefix=NEAR
// A function that reads none of the homes is left as it was.
// RUN: %nnc_opt %s --cpu=x86-64-v3 --passes='fuse,remat{budget=48KiB far=any effort=0.02}' | FileCheck %s --check-prefix=APART
// APART: func.func @predict(%arg0: tensor<64x64xf32> {nn.name = "x", nn.role = "input"}) -> (tensor<64x64xf32> {nn.name = "z", nn.role = "output"}) {{[{]$}}
// APART-NOT: nn.placed
// APART: func.func @train
func.func @predict(%x: tensor<64x64xf32> {nn.role = "input", nn.name = "x"}) -> (tensor<64x64xf32> {nn.role = "output", nn.name = "z"}) {
  %z = "nn.matmul"(%x, %x) {transpose_a = false, transpose_b = false} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %z : tensor<64x64xf32>
}
func.func @train(%x: tensor<64x64xf32> {nn.role = "input", nn.name = "x"}, %p: tensor<64x64xf32> {nn.role = "param", nn.name = "p"},
                 %q: tensor<64x64xf32> {nn.role = "param", nn.name = "q"}, %s: tensor<64x64xf32> {nn.role = "state", nn.name = "s"})
    -> (tensor<64x64xf32> {nn.role = "update", nn.tied = 1 : i64}, tensor<64x64xf32> {nn.role = "update", nn.tied = 2 : i64}, tensor<64x64xf32> {nn.role = "update", nn.tied = 3 : i64}) {
  %a = "nn.matmul"(%x, %p) {transpose_a = false, transpose_b = false} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %b = "nn.matmul"(%a, %q) {transpose_a = false, transpose_b = false} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %c = "nn.matmul"(%b, %s) {transpose_a = false, transpose_b = false} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %n1 = "nn.sub"(%p, %c) {nn.phase = "update"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %n2 = "nn.sub"(%q, %c) {nn.phase = "update"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %n3 = "nn.add"(%s, %c) {nn.phase = "update"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %n1, %n2, %n3 : tensor<64x64xf32>, tensor<64x64xf32>, tensor<64x64xf32>
}
// CHECK-LABEL: func.func @eval
// CHECK-SAME: {nn.far = true, nn.name = "p"{{.*}}{nn.far = true, nn.name = "q"{{.*}}{nn.far = true, nn.name = "s"
// CHECK: %[[P:.*]] = "nn.copy"(%arg1) {nn.lane = "in"
// CHECK-NEXT: %[[A:.*]] = "nn.matmul"(%arg0, %[[P]]) {{.*}}nn.waits
// CHECK-NEXT: %[[B:.*]] = "nn.matmul"(%[[A]], %[[P]])
// CHECK-NEXT: %[[Q:.*]] = "nn.copy"(%arg2) {nn.lane = "in"{{.*}}nn.waits
// CHECK-NEXT: %[[C:.*]] = "nn.matmul"(%[[B]], %[[Q]]) {{.*}}nn.waits
// CHECK-NEXT: %[[S:.*]] = "nn.copy"(%arg3) {nn.lane = "in"{{.*}}nn.waits
// CHECK-NEXT: %[[N:.*]] = call @kernel_{{[0-9]+}}(%[[S]], %[[C]]) {nn.inplace = array<i64: 0, 0>{{.*}}nn.waits
// CHECK-NEXT: %[[STORED:.*]] = "nn.copy"(%[[N]]) {nn.lane = "out"{{.*}}nn.waits
// CHECK-NEXT: %[[PAGAIN:.*]] = "nn.copy"(%arg1) {nn.lane = "in"
// CHECK-NEXT: %[[D:.*]] = "nn.matmul"(%[[C]], %[[PAGAIN]]) {{.*}}nn.waits
// CHECK-NEXT: %[[NEW:.*]] = "nn.copy"(%[[STORED]]) {nn.lane = "in"{{.*}}nn.waits
// CHECK-NEXT: %[[Y:.*]] = "nn.matmul"(%[[D]], %[[NEW]]) {{.*}}nn.waits
// CHECK-NEXT: return %[[Y]], %[[STORED]]

// SOME-LABEL: func.func @eval
// SOME: "nn.matmul"(%arg0, %arg1)
// SOME-NOT: "nn.copy"(%arg1)
// SOME: "nn.copy"(%arg2) {nn.lane = "in"
// SOME-NOT: "nn.copy"(%arg1)
// SOME: return

// NEAR-NOT: nn.copy
// NEAR: return %{{.*}}, %{{.*}} : tensor<64x64xf32>, tensor<64x64xf32>{{$}}
// NEAR-NOT: nn.copy
func.func @eval(%x: tensor<64x64xf32> {nn.role = "input", nn.name = "x"}, %p: tensor<64x64xf32> {nn.role = "param", nn.name = "p"},
                %q: tensor<64x64xf32> {nn.role = "param", nn.name = "q"}, %s: tensor<64x64xf32> {nn.role = "state", nn.name = "s"})
    -> (tensor<64x64xf32> {nn.role = "output", nn.name = "y"}, tensor<64x64xf32> {nn.role = "update", nn.tied = 3 : i64}) {
  %a = "nn.matmul"(%x, %p) {transpose_a = false, transpose_b = false} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %b = "nn.matmul"(%a, %p) {transpose_a = false, transpose_b = false} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %c = "nn.matmul"(%b, %q) {transpose_a = false, transpose_b = false} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %n = "nn.add"(%s, %c) {nn.phase = "update"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %d = "nn.matmul"(%c, %p) {transpose_a = false, transpose_b = false} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %y = "nn.matmul"(%d, %n) {transpose_a = false, transpose_b = false} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %y, %n : tensor<64x64xf32>, tensor<64x64xf32>
}
