// The pass `check` accepts what plan makes, and stops with status 70 when a plan is broken on purpose, each time in another way.
// RUN: %nnc_opt %s --passes=fuse,schedule,inplace,plan,check -o %t.mlir && FileCheck %s < %t.mlir
// RUN: %nnc_opt %t.mlir --passes=check | FileCheck %s
// CHECK: nn.arena = 16384 : i64
// CHECK: nn.matmul{{.*}}nn.offset = array<i64: 4096>
// CHECK: call @kernel_0({{.*}}nn.offset = array<i64: 12288>
// CHECK: nn.matmul{{.*}}nn.offset = array<i64: 8192>
// CHECK: call @kernel_1(%arg1, {{.*}}) {nn.inplace = array<i64: 0, 0>, nn.offset = array<i64: 0>

// RUN: sed 's/i64: 12288/i64: 4096/' %t.mlir > %t.over.mlir && not diff -q %t.mlir %t.over.mlir
// RUN: (%nnc_opt %t.over.mlir --passes=check > %t.log 2>&1; test $? -eq 70) && FileCheck %s --check-prefix=OVER < %t.log
// OVER: internal error: memory plan: @train: step 1: result 0 lies over operand 0

// RUN: sed 's/nn.offset = array<i64: 8192>/nn.offset = array<i64: 10240>/' %t.mlir > %t.partly.mlir && not diff -q %t.mlir %t.partly.mlir
// RUN: (%nnc_opt %t.partly.mlir --passes=check > %t.log 2>&1; test $? -eq 70) && FileCheck %s --check-prefix=PARTLY < %t.log
// PARTLY: internal error: memory plan: @train: step 2: result 0 lies over operand 1

// RUN: sed 's/i64: 12288/i64: 0/' %t.mlir > %t.param.mlir && not diff -q %t.mlir %t.param.mlir
// RUN: (%nnc_opt %t.param.mlir --passes=check > %t.log 2>&1; test $? -eq 70) && FileCheck %s --check-prefix=PARAM < %t.log
// PARAM: internal error: memory plan: @train: step 3: operand 0 is not at offset 0

// RUN: sed 's/i64: 12288/i64: 99968/' %t.mlir > %t.outside.mlir && not diff -q %t.mlir %t.outside.mlir
// RUN: (%nnc_opt %t.outside.mlir --passes=check > %t.log 2>&1; test $? -eq 70) && FileCheck %s --check-prefix=OUTSIDE < %t.log
// OUTSIDE: internal error: memory plan: @train: bytes 99968 to 104064 are outside the arena

// RUN: sed 's/nn.inplace = array<i64: 0, 0>, nn.offset = array<i64: 0>/nn.offset = array<i64: 4096>/' %t.mlir > %t.update.mlir && not diff -q %t.mlir %t.update.mlir
// RUN: (%nnc_opt %t.update.mlir --passes=check > %t.log 2>&1; test $? -eq 70) && FileCheck %s --check-prefix=UPDATE < %t.log
// UPDATE: internal error: memory plan: @train: result 1 is neither in the place of argument 1 nor copied there

// RUN: sed 's/nn.inplace = array<i64: 0, 0>, nn.offset = array<i64: 0>/nn.offset = array<i64: 8192>/' %t.mlir > %t.result.mlir && not diff -q %t.mlir %t.result.mlir
// RUN: (%nnc_opt %t.result.mlir --passes=check > %t.log 2>&1; test $? -eq 70) && FileCheck %s --check-prefix=RESULT < %t.log
// RESULT: internal error: memory plan: @train: step 3: result 0 lies over operand 1

// RUN: sed 's/nn.arena = 16384 : i64, nn.persistent/nn.arena = 16384 : i64, nn.budget = 1000 : i64, nn.persistent/' %t.mlir > %t.budget.mlir && not diff -q %t.mlir %t.budget.mlir
// RUN: (%nnc_opt %t.budget.mlir --passes=check > %t.log 2>&1; test $? -eq 70) && FileCheck %s --check-prefix=BUDGET < %t.log
// BUDGET: internal error: memory plan: an arena of 16384 bytes under a budget of 1000
func.func @train(%x: tensor<32x32xf32> {nn.role = "input", nn.name = "x"}, %p: tensor<32x32xf32> {nn.role = "param", nn.name = "p"})
    -> (tensor<32x32xf32> {nn.role = "output", nn.name = "y"}, tensor<32x32xf32> {nn.role = "update", nn.tied = 1 : i64}) {
  %m = "nn.matmul"(%x, %p) {transpose_a = false, transpose_b = false} : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  %e = "nn.exp"(%m) : (tensor<32x32xf32>) -> tensor<32x32xf32>
  %y = "nn.matmul"(%m, %e) {transpose_a = false, transpose_b = false} : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  %np = "nn.sub"(%p, %y) {nn.phase = "update"} : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  return %y, %np : tensor<32x32xf32>, tensor<32x32xf32>
}
