// Where remat has placed a function's buffers, plan keeps to it, gaps included; where what is written cannot be, it looks for offsets itself.
// RUN: %nnc_opt %s --passes='inplace,plan,check' | FileCheck %s
// RUN: sed 's/1024>} : (tensor<16x16xf32>, tensor/4096>} : (tensor<16x16xf32>, tensor/' %s | %nnc_opt --passes='inplace,plan,check' - | FileCheck %s --check-prefix=OVERLAP
// RUN: sed 's/nn.placed = array<i64: 0, 2048>/nn.placed = array<i64: 2048>/' %s | %nnc_opt --passes='inplace,plan,check' - | FileCheck %s --check-prefix=OVERLAP

// CHECK: func.func @predict
// CHECK-SAME: nn.offset = 0 : i64
// CHECK-SAME: nn.arena = 8256 : i64
// CHECK-NOT: nn.placed
// CHECK: "nn.matmul"{{.*}}nn.offset = array<i64: 4096>
// CHECK: "nn.matmul"{{.*}}nn.offset = array<i64: 1024>
// CHECK: "nn.matmul"{{.*}}nn.offset = array<i64: 8192>

// OVERLAP: func.func @predict
// OVERLAP-SAME: nn.arena = 3072 : i64
func.func @predict(%x: tensor<16x16xf32> {nn.name = "x", nn.role = "input"}, %z: tensor<16x16xf32> {nn.name = "z", nn.role = "input"}) -> (tensor<1x16xf32> {nn.name = "y", nn.role = "output"}) attributes {nn.placed = array<i64: 0, 2048>} {
  %0 = "nn.matmul"(%x, %x) {transpose_a = false, transpose_b = false, nn.offset = array<i64: 4096>} : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
  %1 = "nn.matmul"(%0, %x) {transpose_a = false, transpose_b = false, nn.offset = array<i64: 1024>} : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
  %2 = "nn.slice"(%1) {starts = array<i64: 0, 0>, sizes = array<i64: 1, 16>, strides = array<i64: 1, 1>} : (tensor<16x16xf32>) -> tensor<1x16xf32>
  %3 = "nn.matmul"(%2, %0) {transpose_a = false, transpose_b = false, nn.offset = array<i64: 8192>} : (tensor<1x16xf32>, tensor<16x16xf32>) -> tensor<1x16xf32>
  return %3 : tensor<1x16xf32>
}
