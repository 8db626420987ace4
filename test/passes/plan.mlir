// Offsets, aliases, tied results, the arena; and the budget that cannot be met.
// RUN: %nnc_opt %s --passes=fuse,schedule,inplace,plan | FileCheck %s
// RUN: %nnc_opt %s --passes='fuse,schedule,inplace,plan{budget=5952}' | FileCheck %s
// RUN: not %nnc_opt %s --passes='fuse,schedule,inplace,plan{budget=5951}' 2>&1 | FileCheck %s --check-prefix=OVER

// OVER: memory budget 5951 cannot be met without recomputation: the smallest budget found is 5.81 KiB (5952 bytes)

// The parameters of both functions, by name, come first: p (64 x 4 bytes), q (10 x 4, rounded up to 64).
// CHECK: module attributes {nn.arena = 5952 : i64, {{(nn.budget = 5952 : i64, )?}}nn.persistent = 320 : i64}

// CHECK-LABEL: func.func @train
// CHECK-SAME: %arg0: tensor<1024xf32> {nn.name = "x", nn.offset = [[#X:]] : i64, nn.role = "input"}
// CHECK-SAME: %arg1: tensor<64xf32> {nn.name = "p", nn.offset = 0 : i64, nn.role = "param"}
// CHECK-SAME: %arg2: tensor<10xf32> {nn.name = "q", nn.offset = 256 : i64, nn.role = "param"}
// CHECK-SAME: nn.arena = 5952 : i64
// CHECK-SAME: nn.live = 5952 : i64
func.func @train(%x: tensor<1024xf32> {nn.role = "input", nn.name = "x"}, %p: tensor<64xf32> {nn.role = "param", nn.name = "p"}, %q: tensor<10xf32> {nn.role = "param", nn.name = "q"})
    -> (tensor<128xf32> {nn.role = "output", nn.name = "y"}, tensor<64xf32> {nn.role = "update", nn.tied = 1 : i64}, tensor<10xf32> {nn.role = "update", nn.tied = 2 : i64}) {
  // The exponential takes over the input's buffer, which nobody reads again.
  // CHECK: call @kernel_{{[0-9]+}}(%arg0) {nn.inplace = array<i64: 0, 0>, nn.offset = array<i64: [[#X]]>
  %a = "nn.exp"(%x) : (tensor<1024xf32>) -> tensor<1024xf32>
  // A reshape is its operand, and a part is an offset into it.
  // CHECK: "nn.reshape"({{.*}}) {nn.offset = array<i64: [[#X]]>}
  %r = "nn.reshape"(%a) : (tensor<1024xf32>) -> tensor<8x128xf32>
  // CHECK: "nn.slice"({{.*}}) {nn.offset = array<i64: [[#X+512]]>
  %s = "nn.slice"(%r) {starts = array<i64: 1, 0>, sizes = array<i64: 1, 128>, strides = array<i64: 1, 1>} : (tensor<8x128xf32>) -> tensor<1x128xf32>
  %t = "nn.reshape"(%s) : (tensor<1x128xf32>) -> tensor<128xf32>
  %y = "nn.neg"(%t) : (tensor<128xf32>) -> tensor<128xf32>
  %u = "nn.concat"(%t, %y) {axis = 0 : i64} : (tensor<128xf32>, tensor<128xf32>) -> tensor<256xf32>
  %v = "nn.slice"(%u) {starts = array<i64: 0>, sizes = array<i64: 64>, strides = array<i64: 1>} : (tensor<256xf32>) -> tensor<64xf32>
  // Updates lie where their arguments lie.
  // CHECK: call @kernel_{{[0-9]+}}(%arg1, {{.*}}) {nn.inplace = array<i64: 0, 0>, nn.offset = array<i64: 0>, nn.phase = "update"}
  %np = "nn.sub"(%p, %v) {nn.phase = "update"} : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  return %y, %np, %q : tensor<128xf32>, tensor<64xf32>, tensor<10xf32>
}

// CHECK-LABEL: func.func @eval
// CHECK-SAME: nn.name = "q", nn.offset = 256 : i64
// CHECK-SAME: nn.name = "p", nn.offset = 0 : i64
func.func @eval(%q: tensor<10xf32> {nn.role = "param", nn.name = "q"}, %p: tensor<64xf32> {nn.role = "param", nn.name = "p"}) -> (tensor<64xf32> {nn.role = "output", nn.name = "y"}) {
  %y = "nn.exp"(%p) : (tensor<64xf32>) -> tensor<64xf32>
  return %y : tensor<64xf32>
}
