// A parameter in parts is gathered for each stretch of steps that reads it: those of w are far from each other, those of v are one stretch. What is gathered next stands in front of the first reader of what is there.
// RUN: %nnc_opt %s --passes=fuse,schedule,fetch | FileCheck %s
// RUN: %nnc_opt %s --passes=fuse,schedule,fetch,inplace,plan,check | FileCheck %s --check-prefix=PLAN

// CHECK: %[[W1:.*]] = "nn.all_gather_1"(%arg1)
// CHECK-NEXT: %[[V:.*]] = "nn.all_gather_1"(%arg2)
// CHECK-NEXT: "nn.matmul"(%arg0, %[[W1]])
// CHECK-NEXT: %[[W2:.*]] = "nn.all_gather_1"(%arg1)
// CHECK-NEXT: "nn.matmul"(%{{.*}}, %[[V]])
// CHECK-COUNT-13: "nn.matmul"(%{{.*}}, %[[V]])
// CHECK-NOT: all_gather
// CHECK: "nn.matmul"(%{{.*}}, %[[W2]])

// The product waits for its parameter, not for the one that comes after it.
// PLAN: "nn.all_gather_1"(%arg1) {nn.lane = "comm", nn.offset
// PLAN: "nn.all_gather_1"(%arg2) {nn.lane = "comm", nn.offset
// PLAN: "nn.matmul"(%arg0, %{{.*}}) {{{.*}}nn.waits = array<i64: 0>
func.func @eval(%x: tensor<4x8xf32> {nn.role = "input", nn.name = "x"}, %wp: tensor<32xf32> {nn.role = "param", nn.name = "w", nn.shape = array<i64: 8, 8>}, %vp: tensor<32xf32> {nn.role = "param", nn.name = "v", nn.shape = array<i64: 8, 8>})
    -> (tensor<4x8xf32> {nn.role = "output", nn.name = "y"}) {
    %w = "nn.all_gather_1"(%wp) {nn.lane = "comm", ranks = 2 : i64} : (tensor<32xf32>) -> tensor<8x8xf32>
    %v = "nn.all_gather_1"(%vp) {nn.lane = "comm", ranks = 2 : i64} : (tensor<32xf32>) -> tensor<8x8xf32>
    %h = "nn.matmul"(%x, %w) {transpose_a = false, transpose_b = false} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %m0 = "nn.matmul"(%h, %v) {transpose_a = false, transpose_b = false} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %m1 = "nn.matmul"(%m0, %v) {transpose_a = false, transpose_b = false} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %m2 = "nn.matmul"(%m1, %v) {transpose_a = false, transpose_b = false} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %m3 = "nn.matmul"(%m2, %v) {transpose_a = false, transpose_b = false} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %m4 = "nn.matmul"(%m3, %v) {transpose_a = false, transpose_b = false} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %m5 = "nn.matmul"(%m4, %v) {transpose_a = false, transpose_b = false} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %m6 = "nn.matmul"(%m5, %v) {transpose_a = false, transpose_b = false} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %m7 = "nn.matmul"(%m6, %v) {transpose_a = false, transpose_b = false} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %m8 = "nn.matmul"(%m7, %v) {transpose_a = false, transpose_b = false} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %m9 = "nn.matmul"(%m8, %v) {transpose_a = false, transpose_b = false} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %m10 = "nn.matmul"(%m9, %v) {transpose_a = false, transpose_b = false} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %m11 = "nn.matmul"(%m10, %v) {transpose_a = false, transpose_b = false} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %m12 = "nn.matmul"(%m11, %v) {transpose_a = false, transpose_b = false} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %m13 = "nn.matmul"(%m12, %v) {transpose_a = false, transpose_b = false} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %y = "nn.matmul"(%m13, %w) {transpose_a = false, transpose_b = false} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    return %y : tensor<4x8xf32>
}

// Small ones travel together, up to an eighth of the largest, and what they are gathered for reads views of that; a large one travels alone.
// CHECK-LABEL: func.func @predict
// CHECK-NEXT: %[[SMALL:.*]] = "nn.all_gather"(%arg2, %arg3) {nn.lane = "comm", {{.*}}ranks = 2 : i64} : (tensor<32xf32>, tensor<32xf32>) -> tensor<128xf32>
// CHECK-NEXT: "nn.slice"(%[[SMALL]]) {{{.*}}sizes = array<i64: 64>, starts = array<i64: 0>
// CHECK: "nn.slice"(%[[SMALL]]) {{{.*}}sizes = array<i64: 64>, starts = array<i64: 64>
// CHECK: "nn.all_gather_1"(%arg1)
// CHECK-NOT: all_gather
// PLAN-LABEL: func.func @predict
func.func @predict(%x: tensor<4x64xf32> {nn.role = "input", nn.name = "z"}, %wp: tensor<2048xf32> {nn.role = "param", nn.name = "wide", nn.shape = array<i64: 64, 64>}, %ap: tensor<32xf32> {nn.role = "param", nn.name = "a", nn.shape = array<i64: 64>}, %bp: tensor<32xf32> {nn.role = "param", nn.name = "b", nn.shape = array<i64: 64>})
    -> (tensor<4x64xf32> {nn.role = "output", nn.name = "y"}) {
    %a = "nn.all_gather_1"(%ap) {nn.lane = "comm", ranks = 2 : i64} : (tensor<32xf32>) -> tensor<64xf32>
    %w = "nn.all_gather_1"(%wp) {nn.lane = "comm", ranks = 2 : i64} : (tensor<2048xf32>) -> tensor<64x64xf32>
    %b = "nn.all_gather_1"(%bp) {nn.lane = "comm", ranks = 2 : i64} : (tensor<32xf32>) -> tensor<64xf32>
    %wide_a = "nn.broadcast"(%a) {dims = array<i64: 1>} : (tensor<64xf32>) -> tensor<4x64xf32>
    %wide_b = "nn.broadcast"(%b) {dims = array<i64: 1>} : (tensor<64xf32>) -> tensor<4x64xf32>
    %h = "nn.add"(%x, %wide_a) : (tensor<4x64xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
    %m = "nn.matmul"(%h, %w) {transpose_a = false, transpose_b = false} : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
    %y = "nn.add"(%m, %wide_b) : (tensor<4x64xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
    return %y : tensor<4x64xf32>
}
