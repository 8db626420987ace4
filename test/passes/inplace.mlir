// Which results take over an operand's buffer.
// RUN: %nnc_opt %s --passes=fuse,inplace | FileCheck %s

// The product is read here only and at the index that is written. %x is read again later: its buffer is not free.
// CHECK-LABEL: func.func @chain
// CHECK: %[[A:.*]] = "nn.matmul"
// CHECK-NEXT: %[[B:.*]] = call @kernel_{{[0-9]+}}(%[[A]]) {nn.inplace = array<i64: 0, 0>, nn.phase = "forward"}
// CHECK-NEXT: %[[C:.*]] = "nn.matmul"(%[[B]], %[[B]])
// CHECK-NEXT: call @kernel_{{[0-9]+}}(%arg0, %[[C]]) {nn.inplace = array<i64: 0, 1>, nn.phase = "forward"}
// CHECK-NEXT: "nn.matmul"
func.func @chain(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %a = "nn.matmul"(%x, %x) {transpose_a = false, transpose_b = false} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %b = "nn.relu"(%a) : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %c = "nn.matmul"(%b, %b) {transpose_a = false, transpose_b = false} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %d = "nn.add"(%x, %c) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %e = "nn.matmul"(%d, %x) {transpose_a = false, transpose_b = false} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %e : tensor<64x64xf32>
}

// A transposed load reads elements after they would be overwritten; so does a broadcast; another element size does not fit.
// CHECK-LABEL: func.func @unsafe
// CHECK-NOT: nn.inplace
// CHECK: return
func.func @unsafe(%x: tensor<64x64xf32>, %v: tensor<64xf32>) -> (tensor<64x64xf32>, tensor<64x64xf64>, tensor<64xf32>) {
  %p = "nn.matmul"(%x, %x) {transpose_a = false, transpose_b = false} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %t = "nn.transpose"(%p) {perm = array<i64: 1, 0>} : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %y = "nn.relu"(%t) : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %q = "nn.matmul"(%x, %x) {transpose_a = false, transpose_b = true} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %z = "nn.cast"(%q) : (tensor<64x64xf32>) -> tensor<64x64xf64>
  %c = "nn.concat"(%v, %v) {axis = 0 : i64} : (tensor<64xf32>, tensor<64xf32>) -> tensor<128xf32>
  %s = "nn.slice"(%c) {starts = array<i64: 0>, sizes = array<i64: 64>, strides = array<i64: 1>} : (tensor<128xf32>) -> tensor<64xf32>
  %w = "nn.relu"(%s) : (tensor<64xf32>) -> tensor<64xf32>
  return %y, %z, %w : tensor<64x64xf32>, tensor<64x64xf64>, tensor<64xf32>
}

// A row kernel may write over what it reads; softmax reads its row three times, each element at its own place.
// CHECK-LABEL: func.func @softmax
// CHECK: call @kernel_{{[0-9]+}}(%{{.*}}) {nn.inplace = array<i64: 0, 0>, nn.phase = "forward"}
func.func @softmax(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %a = "nn.matmul"(%x, %x) {transpose_a = false, transpose_b = false} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %m = "nn.reduce_max"(%a) {axes = array<i64: 1>} : (tensor<64x64xf32>) -> tensor<64xf32>
  %mb = "nn.broadcast"(%m) {dims = array<i64: 0>} : (tensor<64xf32>) -> tensor<64x64xf32>
  %s = "nn.sub"(%a, %mb) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %s : tensor<64x64xf32>
}

// An update takes its argument's buffer, unless somebody reads the argument afterwards: then it is copied at the end.
// CHECK-LABEL: func.func @updates
// CHECK-SAME: tensor<64x64xf32> {nn.role = "update", nn.tied = 0 : i64}
// CHECK-SAME: tensor<64x64xf32> {nn.copy_back = true, nn.role = "update", nn.tied = 1 : i64}
// CHECK: call @kernel_{{[0-9]+}}(%arg0, %arg2) {nn.inplace = array<i64: 0, 0>, nn.phase = "update"}
// CHECK-NEXT: call @kernel_{{[0-9]+}}(%arg1, %arg2) {nn.phase = "update"}
func.func @updates(%p: tensor<64x64xf32> {nn.role = "param", nn.name = "p"}, %q: tensor<64x64xf32> {nn.role = "param", nn.name = "q"}, %g: tensor<64x64xf32>)
    -> (tensor<64x64xf32> {nn.role = "update", nn.tied = 0 : i64}, tensor<64x64xf32> {nn.role = "update", nn.tied = 1 : i64}, tensor<64x64xf32>) {
  %np = "nn.sub"(%p, %g) {nn.phase = "update"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %nq = "nn.sub"(%q, %g) {nn.phase = "update"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %r = "nn.matmul"(%q, %g) {transpose_a = false, transpose_b = false} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %np, %nq, %r : tensor<64x64xf32>, tensor<64x64xf32>, tensor<64x64xf32>
}

// The old value of an argument is returned beside the update: it may not be overwritten, whichever comes first.
// CHECK-LABEL: func.func @old_value
// CHECK-SAME: tensor<64x64xf32> {nn.copy_back = true, nn.role = "update", nn.tied = 0 : i64}
// CHECK: call @kernel_{{[0-9]+}}(%arg0, %arg1) {nn.inplace = array<i64: 0, 1>, nn.phase = "update"}
func.func @old_value(%p: tensor<64x64xf32> {nn.role = "param", nn.name = "p"}, %g: tensor<64x64xf32>)
    -> (tensor<64x64xf32> {nn.role = "update", nn.tied = 0 : i64}, tensor<64x64xf32> {nn.role = "output", nn.name = "old"}) {
  %np = "nn.sub"(%p, %g) {nn.phase = "update"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %np, %p : tensor<64x64xf32>, tensor<64x64xf32>
}

// A sum takes one pass over the domain, in which a result may take the place of what is summed; moments take a second pass, which needs
// the operand as it was.
// CHECK-LABEL: func.func @passes
// CHECK-COUNT-2: "nn.matmul"
// CHECK-NEXT: %[[A:.*]]:2 = call @kernel_{{[0-9]+}}({{.*}}) {nn.inplace = array<i64: 0, 0>, nn.phase = "forward"}
// CHECK-COUNT-2: "nn.matmul"
// CHECK-NEXT: %[[B:.*]]:3 = call @kernel_{{[0-9]+}}({{.*}}) {nn.phase = "forward"}
// CHECK-NEXT: return %[[A]]#0, %[[A]]#1, %[[B]]#0, %[[B]]#1, %[[B]]#2
func.func @passes(%x: tensor<64x64xf32>) -> (tensor<64x64xf32>, tensor<64xf32>, tensor<64x64xf32>, tensor<64xf32>, tensor<64xf32>) {
  %a = "nn.matmul"(%x, %x) {transpose_a = true, transpose_b = false} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %b = "nn.matmul"(%x, %x) {transpose_a = true, transpose_b = true} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %ab = "nn.mul"(%a, %b) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %s = "nn.reduce_sum"(%ab) {axes = array<i64: 0>} : (tensor<64x64xf32>) -> tensor<64xf32>
  %c = "nn.matmul"(%x, %x) {transpose_a = false, transpose_b = false} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %d = "nn.matmul"(%x, %x) {transpose_a = false, transpose_b = true} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %cd = "nn.mul"(%c, %d) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %m:2 = "nn.moments"(%cd) {axes = array<i64: 0>} : (tensor<64x64xf32>) -> (tensor<64xf32>, tensor<64xf32>)
  return %ab, %s, %cd, %m#0, %m#1 : tensor<64x64xf32>, tensor<64xf32>, tensor<64x64xf32>, tensor<64xf32>, tensor<64xf32>
}

// A product is added in place to an operand that is none of its factors.
// CHECK-LABEL: func.func @sums
// CHECK: %[[S:.*]] = "nn.matmul"
// CHECK-NEXT: %[[T:.*]] = "nn.matmul_rows_to"(%arg0, %arg0, %[[S]]) {nn.inplace = array<i64: 0, 2>
// CHECK-NEXT: %[[U:.*]] = "nn.matmul_rows_to"(%[[T]], %arg0, %[[T]]) {nn.phase
// CHECK-NEXT: "nn.matmul_rows_to"(%arg0, %[[U]], %[[U]]) {nn.phase
func.func @sums(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %s = "nn.matmul"(%x, %x) {transpose_a = false, transpose_b = false} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %t = "nn.matmul_rows_to"(%x, %x, %s) {nn.phase = "forward"} : (tensor<64x64xf32>, tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %u = "nn.matmul_rows_to"(%t, %x, %t) {nn.phase = "forward"} : (tensor<64x64xf32>, tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %v = "nn.matmul_rows_to"(%x, %u, %u) {nn.phase = "forward"} : (tensor<64x64xf32>, tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %v : tensor<64x64xf32>
}

// Two results of one kernel, each over an operand of its own.
// CHECK-LABEL: func.func @two_results
// CHECK: call @kernel_{{[0-9]+}}(%0, %1) {nn.inplace = array<i64: 0, 0, 1, 1>, nn.phase = "forward"}
func.func @two_results(%x: tensor<64x64xf32>) -> (tensor<64x64xf32>, tensor<64x64xf32>) {
  %p = "nn.matmul"(%x, %x) {transpose_a = false, transpose_b = false} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %q = "nn.matmul"(%x, %x) {transpose_a = false, transpose_b = true} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %y = "nn.add"(%p, %q) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %z = "nn.mul"(%y, %q) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %y, %z : tensor<64x64xf32>, tensor<64x64xf32>
}
