// Rows 0, 1, 2, ... of a table are where they are, and so is the gradient of all of its rows.
// RUN: %nnc_opt %s --passes=fuse | FileCheck %s

// CHECK-LABEL: func.func @all
// CHECK-NEXT: call @[[ADD:kernel_[0-9]+]](%arg0, %arg1)
// CHECK-NEXT: return %{{.*}}, %arg1
func.func @all(%table: tensor<8x4xf32>, %x: tensor<8x4xf32>) -> (tensor<8x4xf32>, tensor<8x4xf32>) {
  %i = "nn.iota"() {axis = 0 : i64} : () -> tensor<8xi32>
  %t = "nn.gather"(%table, %i) : (tensor<8x4xf32>, tensor<8xi32>) -> tensor<8x4xf32>
  %y = "nn.add"(%t, %x) : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  %d = "nn.scatter_add"(%x, %i) {rows = 8 : i64} : (tensor<8x4xf32>, tensor<8xi32>) -> tensor<8x4xf32>
  return %y, %d : tensor<8x4xf32>, tensor<8x4xf32>
}

// Of the first rows alone the gradient has zeros, too. Indices that are clamped to a table are no such rows, nor are those of two axes.
// CHECK-LABEL: func.func @some
// CHECK: %[[R:.*]] = "nn.slice"(%arg0)
// CHECK-NEXT: call @[[ADD]](%[[R]], %arg1)
// CHECK-NEXT: call @{{.*}} -> tensor<9x4xf32>
// CHECK-NEXT: call @{{.*}}(%arg2, {{.*}} -> tensor<8x4xf32>
// CHECK-NEXT: call @{{.*}}(%arg0, {{.*}} -> tensor<2x8x4xf32>
// CHECK-NEXT: return
func.func @some(%table: tensor<9x4xf32>, %x: tensor<8x4xf32>, %small: tensor<7x4xf32>) -> (tensor<8x4xf32>, tensor<9x4xf32>, tensor<8x4xf32>, tensor<2x8x4xf32>) {
  %i = "nn.iota"() {axis = 0 : i64} : () -> tensor<8xi32>
  %i2 = "nn.iota"() {axis = 1 : i64} : () -> tensor<2x8xi32>
  %t = "nn.gather"(%table, %i) : (tensor<9x4xf32>, tensor<8xi32>) -> tensor<8x4xf32>
  %y = "nn.add"(%t, %x) : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  %d = "nn.scatter_add"(%x, %i) {rows = 9 : i64} : (tensor<8x4xf32>, tensor<8xi32>) -> tensor<9x4xf32>
  %s = "nn.gather"(%small, %i) : (tensor<7x4xf32>, tensor<8xi32>) -> tensor<8x4xf32>
  %m = "nn.gather"(%table, %i2) : (tensor<9x4xf32>, tensor<2x8xi32>) -> tensor<2x8x4xf32>
  return %y, %d, %s, %m : tensor<8x4xf32>, tensor<9x4xf32>, tensor<8x4xf32>, tensor<2x8x4xf32>
}

// What is returned stays a value of its own: the table may be overwritten.
// CHECK-LABEL: func.func @shown
// CHECK: %[[T:.*]] = call @kernel_{{[0-9]+}}(%arg0, {{.*}} -> tensor<8x4xf32>
// CHECK: return %{{.*}}, %[[T]]
func.func @shown(%table: tensor<8x4xf32> {nn.role = "param", nn.name = "table"}, %x: tensor<8x4xf32>) -> (tensor<8x4xf32> {nn.role = "update", nn.tied = 0 : i64}, tensor<8x4xf32> {nn.role = "output", nn.name = "t"}) {
  %i = "nn.iota"() {axis = 0 : i64} : () -> tensor<8xi32>
  %t = "nn.gather"(%table, %i) : (tensor<8x4xf32>, tensor<8xi32>) -> tensor<8x4xf32>
  %new = "nn.sub"(%table, %x) {nn.phase = "update"} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  return %new, %t : tensor<8x4xf32>, tensor<8x4xf32>
}
