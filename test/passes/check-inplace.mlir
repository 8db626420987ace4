// The judge's own rule for results over operands: each way to go wrong, planted in a plan in which every result has a place of its own.
// `planted NAME PAIRS OFFSETS` edits the call of @NAME: nn.inplace and nn.offset. Matrices are 256 bytes, rows 64.
// RUN: %nnc_opt %s --passes=check > /dev/null
// RUN: planted() { sed -E "/call @$1[(]/s/nn.offset = array<i64: [0-9, ]+>/$2nn.offset = array<i64: $3>/" %s > %t.mlir && ! cmp -s %s %t.mlir; }
// RUN: accepted() { planted "$1" "nn.inplace = array<i64: $2>, " "$3" && %nnc_opt %t.mlir --passes=check > /dev/null; }
// RUN: refused() { planted "$1" "$2" "$3" && { %nnc_opt %t.mlir --passes=check > /dev/null 2> %t.log; test $? -eq 70; } && grep -q "memory plan: @predict: step [0-9]*: $4$" %t.log; }

// Maps: at the index that is written, whatever else is read; not where elements are taken from elsewhere or have another size.
// RUN: accepted map '0, 0' 2304
// RUN: accepted map '0, 1' 2560
// RUN: refused map '' 2304 'result 0 lies over operand 0: the attribute inplace does not say so'
// RUN: refused map 'nn.inplace = array<i64: 0, 0>, ' 2432 'result 0 lies over operand 0: it begins elsewhere'
// RUN: refused map 'nn.inplace = array<i64: 0, 1>, ' 2304 'result 0 lies over operand 0: the attribute inplace does not say so'
// RUN: accepted across '0, 1' 2560
// RUN: refused across 'nn.inplace = array<i64: 0, 0>, ' 2304 'result 0 lies over operand 0: it is read at other indices'
// RUN: refused twice 'nn.inplace = array<i64: 0, 0>, ' '2304, 512' 'result 0 lies over operand 0: it is read at other indices'
// RUN: refused wider 'nn.inplace = array<i64: 0, 0>, ' 2304 'result 0 lies over operand 0: elements of another size'
// RUN: refused repeated 'nn.inplace = array<i64: 0, 0>, ' 4096 'result 0 lies over operand 0: another shape'

// Rows: the whole row is read before it is written; what is read of a row's own value is not, where it is spread over the row.
// RUN: accepted softmax '0, 0' 2304
// RUN: refused centered 'nn.inplace = array<i64: 0, 0>, ' '2304, 512' 'result 0 lies over operand 0: it is read at other indices'
// RUN: refused askew 'nn.inplace = array<i64: 0, 0>, ' 2304 'result 0 lies over operand 0: it is read at other indices'
// RUN: accepted row_sums '0, 1' 4096
// RUN: refused spread 'nn.inplace = array<i64: 0, 1>, ' 4096 'result 0 lies over operand 1: it is read at other indices'

// Columns: one pass in which the domain is read and written; not what is reduced before it is written, or in two passes.
// RUN: accepted sums '0, 0' '2304, 512'
// RUN: refused moments 'nn.inplace = array<i64: 0, 0>, ' '2304, 512, 768' 'result 0 lies over operand 0: it is read in two passes'
// RUN: refused shifted 'nn.inplace = array<i64: 0, 0>, ' '2304, 512' 'result 0 lies over operand 0: it is reduced first'

// Moves: rows added to a table that is nothing else of the move.
// RUN: accepted scattered '0, 2' 2560
// RUN: refused scattered 'nn.inplace = array<i64: 0, 0>, ' 2304 'result 0 lies over operand 0: it is moved'
// RUN: refused own_rows 'nn.inplace = array<i64: 0, 0>, ' 2304 'result 0 lies over operand 0: it is moved'
// RUN: refused gathered 'nn.inplace = array<i64: 0, 0>, ' 2304 'result 0 lies over operand 0: it is moved'

// Loops: the last value of a tied carry over its first.
// RUN: accepted loop '0, 1' '2560, 768'
// RUN: accepted loop '1, 2' '512, 2816'
// RUN: refused loop 'nn.inplace = array<i64: 1, 1>, ' '512, 2560' 'result 1 lies over operand 1: a loop reads it while it writes'
// RUN: refused loop 'nn.inplace = array<i64: 0, 3>, ' '0, 512' 'result 0 lies over operand 3: a loop reads it while it writes'

// Library ops: what a product is added to, and no factor.
// RUN: sed 's/nn.case, nn.offset = array<i64: 512>/nn.inplace = array<i64: 0, 2>, nn.offset = array<i64: 2816>/' %s > %t.mlir && ! cmp -s %s %t.mlir && %nnc_opt %t.mlir --passes=check > /dev/null
// RUN: for i in 0 1; do sed "s/nn.case, nn.offset = array<i64: 512>/nn.inplace = array<i64: 0, $i>, nn.offset = array<i64: $((2304 + 256 * i))>/" %s > %t.mlir && ! cmp -s %s %t.mlir && { %nnc_opt %t.mlir --passes=check 2> %t.log; test $? -eq 70; } && grep -q "result 0 lies over operand $i: a library op reads it while it writes" %t.log || exit 1; done
// RUN: sed 's/nn.case, nn.offset = array<i64: 512>/nn.offset = array<i64: 512>, nn.workspace = 2300 : i64, nn.workspace_bytes = 64 : i64/' %s > %t.mlir && ! cmp -s %s %t.mlir && { %nnc_opt %t.mlir --passes=check 2> %t.log; test $? -eq 70; } && grep -q "the workspace lies over operand 0" %t.log

// A result over an argument that lives on, after its last reader.
// RUN: planted map '' 256 && { %nnc_opt %t.mlir --passes=check 2> %t.log; test $? -eq 70; } && grep -q "@predict: argument 1 is overwritten" %t.log
module attributes {nn.arena = 8192 : i64, nn.persistent = 256 : i64} {
func.func @predict(%x: tensor<8x8xf32> {nn.role = "input", nn.name = "x", nn.offset = 0 : i64},
                   %p: tensor<8x8xf32> {nn.role = "param", nn.name = "p", nn.offset = 256 : i64},
                   %i: tensor<8xi32> {nn.role = "input", nn.name = "i", nn.offset = 1024 : i64}) {
  %v0 = "nn.matmul"(%x, %p) {transpose_a = false, transpose_b = false, nn.offset = array<i64: 4608>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %v1 = "nn.matmul"(%x, %x) {transpose_a = false, transpose_b = false, nn.offset = array<i64: 2304>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %v2 = "nn.matmul"(%x, %x) {transpose_a = false, transpose_b = false, nn.offset = array<i64: 2560>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %v3 = call @map(%v1, %v2) {nn.offset = array<i64: 512>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %v4 = "nn.matmul"(%x, %x) {transpose_a = false, transpose_b = false, nn.offset = array<i64: 2304>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %v5 = "nn.matmul"(%x, %x) {transpose_a = false, transpose_b = false, nn.offset = array<i64: 2560>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %v6 = call @across(%v4, %v5) {nn.offset = array<i64: 512>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %v7 = "nn.matmul"(%x, %x) {transpose_a = false, transpose_b = false, nn.offset = array<i64: 2304>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %v8:2 = call @twice(%v7) {nn.offset = array<i64: 512, 768>} : (tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>)
  %v9 = "nn.matmul"(%x, %x) {transpose_a = false, transpose_b = false, nn.offset = array<i64: 2304>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %v10 = call @wider(%v9) {nn.offset = array<i64: 512>} : (tensor<8x8xf32>) -> tensor<8x8xf64>
  %v11 = call @rows(%x) {nn.offset = array<i64: 4096>} : (tensor<8x8xf32>) -> tensor<8xf32>
  %v12 = call @repeated(%v11) {nn.offset = array<i64: 512>} : (tensor<8xf32>) -> tensor<8x8xf32>
  %v13 = "nn.matmul"(%x, %x) {transpose_a = false, transpose_b = false, nn.offset = array<i64: 2304>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %v14 = call @softmax(%v13) {nn.offset = array<i64: 512>} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %v15 = "nn.matmul"(%x, %x) {transpose_a = false, transpose_b = false, nn.offset = array<i64: 2304>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %v16:2 = call @centered(%v15) {nn.offset = array<i64: 768, 512>} : (tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8xf32>)
  %v17 = "nn.matmul"(%x, %x) {transpose_a = false, transpose_b = false, nn.offset = array<i64: 2304>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %v18 = call @rows(%x) {nn.offset = array<i64: 4096>} : (tensor<8x8xf32>) -> tensor<8xf32>
  %v19 = call @row_sums(%v17, %v18) {nn.offset = array<i64: 512>} : (tensor<8x8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %v20 = "nn.matmul"(%x, %x) {transpose_a = false, transpose_b = false, nn.offset = array<i64: 2304>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %v21 = call @rows(%x) {nn.offset = array<i64: 4096>} : (tensor<8x8xf32>) -> tensor<8xf32>
  %v22 = call @spread(%v20, %v21) {nn.offset = array<i64: 512>} : (tensor<8x8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %v23 = "nn.matmul"(%x, %x) {transpose_a = false, transpose_b = false, nn.offset = array<i64: 2304>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %v24:2 = call @sums(%v23) {nn.offset = array<i64: 768, 512>} : (tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8xf32>)
  %v25 = "nn.matmul"(%x, %x) {transpose_a = false, transpose_b = false, nn.offset = array<i64: 2304>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %v26:3 = call @moments(%v25) {nn.offset = array<i64: 1280, 512, 768>} : (tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8xf32>, tensor<8xf32>)
  %v27 = "nn.matmul"(%x, %x) {transpose_a = false, transpose_b = false, nn.offset = array<i64: 2304>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %v28:2 = call @shifted(%v27) {nn.offset = array<i64: 768, 512>} : (tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8xf32>)
  %v29 = "nn.matmul"(%x, %x) {transpose_a = false, transpose_b = false, nn.offset = array<i64: 2304>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %v30 = "nn.matmul"(%x, %x) {transpose_a = false, transpose_b = false, nn.offset = array<i64: 2560>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %v31 = call @scattered(%v29, %i, %v30) {nn.offset = array<i64: 512>} : (tensor<8x8xf32>, tensor<8xi32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %v32 = "nn.matmul"(%x, %x) {transpose_a = false, transpose_b = false, nn.offset = array<i64: 2304>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %v33 = call @own_rows(%v32, %i) {nn.offset = array<i64: 512>} : (tensor<8x8xf32>, tensor<8xi32>) -> tensor<8x8xf32>
  %v34 = "nn.matmul"(%x, %x) {transpose_a = false, transpose_b = false, nn.offset = array<i64: 2304>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %v35 = call @gathered(%v34, %i) {nn.offset = array<i64: 512>} : (tensor<8x8xf32>, tensor<8xi32>) -> tensor<8x8xf32>
  %v36 = "nn.matmul"(%x, %x) {transpose_a = false, transpose_b = false, nn.offset = array<i64: 2304>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %v37 = "nn.matmul"(%x, %x) {transpose_a = false, transpose_b = false, nn.offset = array<i64: 2560>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %v38 = "nn.matmul"(%x, %x) {transpose_a = false, transpose_b = false, nn.offset = array<i64: 2816>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %v39:2 = call @loop(%v36, %v37, %v38, %x) {nn.scan, nn.offset = array<i64: 512, 768>} : (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>)
  %v40 = "nn.matmul"(%x, %x) {transpose_a = false, transpose_b = false, nn.offset = array<i64: 2304>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %v41 = "nn.matmul"(%x, %x) {transpose_a = false, transpose_b = false, nn.offset = array<i64: 2560>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %v42 = "nn.matmul"(%x, %x) {transpose_a = false, transpose_b = false, nn.offset = array<i64: 2816>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %to = "nn.matmul_rows_to"(%v40, %v41, %v42) {nn.case, nn.offset = array<i64: 512>} : (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %v43 = "nn.matmul"(%x, %x) {transpose_a = false, transpose_b = false, nn.offset = array<i64: 2304>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %v44 = call @askew(%v43) {nn.offset = array<i64: 512>} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}
func.func private @rows(%a0: tensor<8x8xf32>) -> tensor<8xf32> attributes {nn.kernel, nn.kind = "row", nn.domain = array<i64: 8, 8>, nn.axes = array<i64: 1>} {
  %r = "nn.reduce_sum"(%a0) {axes = array<i64: 1>} : (tensor<8x8xf32>) -> tensor<8xf32>
  return %r : tensor<8xf32>
}
func.func private @map(%a0: tensor<8x8xf32>, %a1: tensor<8x8xf32>) -> tensor<8x8xf32> attributes {nn.kernel, nn.kind = "map", nn.domain = array<i64: 8, 8>} {
  %r = "nn.add"(%a0, %a1) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %r : tensor<8x8xf32>
}
func.func private @across(%a0: tensor<8x8xf32>, %a1: tensor<8x8xf32>) -> tensor<8x8xf32> attributes {nn.kernel, nn.kind = "map", nn.domain = array<i64: 8, 8>} {
  %t = "nn.transpose"(%a0) {perm = array<i64: 1, 0>} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %r = "nn.add"(%t, %a1) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %r : tensor<8x8xf32>
}
func.func private @twice(%a0: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>) attributes {nn.kernel, nn.kind = "map", nn.domain = array<i64: 8, 8>} {
  %r = "nn.neg"(%a0) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %t = "nn.transpose"(%a0) {perm = array<i64: 1, 0>} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %r, %t : tensor<8x8xf32>, tensor<8x8xf32>
}
func.func private @wider(%a0: tensor<8x8xf32>) -> tensor<8x8xf64> attributes {nn.kernel, nn.kind = "map", nn.domain = array<i64: 8, 8>} {
  %r = "nn.cast"(%a0) : (tensor<8x8xf32>) -> tensor<8x8xf64>
  return %r : tensor<8x8xf64>
}
func.func private @repeated(%a0: tensor<8xf32>) -> tensor<8x8xf32> attributes {nn.kernel, nn.kind = "map", nn.domain = array<i64: 8, 8>} {
  %r = "nn.broadcast"(%a0) {dims = array<i64: 0>} : (tensor<8xf32>) -> tensor<8x8xf32>
  return %r : tensor<8x8xf32>
}
func.func private @softmax(%a0: tensor<8x8xf32>) -> tensor<8x8xf32> attributes {nn.kernel, nn.kind = "row", nn.domain = array<i64: 8, 8>, nn.axes = array<i64: 1>} {
  %m = "nn.reduce_max"(%a0) {axes = array<i64: 1>} : (tensor<8x8xf32>) -> tensor<8xf32>
  %b = "nn.broadcast"(%m) {dims = array<i64: 0>} : (tensor<8xf32>) -> tensor<8x8xf32>
  %r = "nn.sub"(%a0, %b) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %r : tensor<8x8xf32>
}
func.func private @centered(%a0: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8xf32>) attributes {nn.kernel, nn.kind = "row", nn.domain = array<i64: 8, 8>, nn.axes = array<i64: 1>} {
  %m = "nn.reduce_max"(%a0) {axes = array<i64: 1>} : (tensor<8x8xf32>) -> tensor<8xf32>
  %b = "nn.broadcast"(%m) {dims = array<i64: 1>} : (tensor<8xf32>) -> tensor<8x8xf32>
  %r = "nn.sub"(%a0, %b) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %r, %m : tensor<8x8xf32>, tensor<8xf32>
}
func.func private @askew(%a0: tensor<8x8xf32>) -> tensor<8x8xf32> attributes {nn.kernel, nn.kind = "row", nn.domain = array<i64: 8, 8>, nn.axes = array<i64: 1>} {
  %m = "nn.reduce_max"(%a0) {axes = array<i64: 0>} : (tensor<8x8xf32>) -> tensor<8xf32>
  %b = "nn.broadcast"(%m) {dims = array<i64: 0>} : (tensor<8xf32>) -> tensor<8x8xf32>
  %r = "nn.sub"(%a0, %b) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %r : tensor<8x8xf32>
}
func.func private @row_sums(%a0: tensor<8x8xf32>, %a1: tensor<8xf32>) -> tensor<8xf32> attributes {nn.kernel, nn.kind = "row", nn.domain = array<i64: 8, 8>, nn.axes = array<i64: 1>} {
  %m = "nn.reduce_sum"(%a0) {axes = array<i64: 1>} : (tensor<8x8xf32>) -> tensor<8xf32>
  %r = "nn.add"(%m, %a1) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %r : tensor<8xf32>
}
func.func private @spread(%a0: tensor<8x8xf32>, %a1: tensor<8xf32>) -> tensor<8xf32> attributes {nn.kernel, nn.kind = "row", nn.domain = array<i64: 8, 8>, nn.axes = array<i64: 1>} {
  %b = "nn.broadcast"(%a1) {dims = array<i64: 0>} : (tensor<8xf32>) -> tensor<8x8xf32>
  %c = "nn.mul"(%a0, %b) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %r = "nn.reduce_sum"(%c) {axes = array<i64: 1>} : (tensor<8x8xf32>) -> tensor<8xf32>
  return %r : tensor<8xf32>
}
func.func private @sums(%a0: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8xf32>) attributes {nn.kernel, nn.kind = "column", nn.domain = array<i64: 8, 8>, nn.axes = array<i64: 0>} {
  %r = "nn.neg"(%a0) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %m = "nn.reduce_sum"(%a0) {axes = array<i64: 0>} : (tensor<8x8xf32>) -> tensor<8xf32>
  return %r, %m : tensor<8x8xf32>, tensor<8xf32>
}
func.func private @moments(%a0: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8xf32>, tensor<8xf32>) attributes {nn.kernel, nn.kind = "column", nn.domain = array<i64: 8, 8>, nn.axes = array<i64: 0>} {
  %r = "nn.neg"(%a0) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %m:2 = "nn.moments"(%a0) {axes = array<i64: 0>} : (tensor<8x8xf32>) -> (tensor<8xf32>, tensor<8xf32>)
  return %r, %m#0, %m#1 : tensor<8x8xf32>, tensor<8xf32>, tensor<8xf32>
}
func.func private @shifted(%a0: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8xf32>) attributes {nn.kernel, nn.kind = "column", nn.domain = array<i64: 8, 8>, nn.axes = array<i64: 0>} {
  %m = "nn.reduce_max"(%a0) {axes = array<i64: 0>} : (tensor<8x8xf32>) -> tensor<8xf32>
  %b = "nn.broadcast"(%m) {dims = array<i64: 1>} : (tensor<8xf32>) -> tensor<8x8xf32>
  %r = "nn.sub"(%a0, %b) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %r, %m : tensor<8x8xf32>, tensor<8xf32>
}
func.func private @scattered(%a0: tensor<8x8xf32>, %a1: tensor<8xi32>, %a2: tensor<8x8xf32>) -> tensor<8x8xf32> attributes {nn.kernel, nn.kind = "move", nn.domain = array<i64: 8, 8>} {
  %r = "nn.scatter_add_to"(%a0, %a1, %a2) : (tensor<8x8xf32>, tensor<8xi32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %r : tensor<8x8xf32>
}
func.func private @own_rows(%a0: tensor<8x8xf32>, %a1: tensor<8xi32>) -> tensor<8x8xf32> attributes {nn.kernel, nn.kind = "move", nn.domain = array<i64: 8, 8>} {
  %r = "nn.scatter_add_to"(%a0, %a1, %a0) : (tensor<8x8xf32>, tensor<8xi32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %r : tensor<8x8xf32>
}
func.func private @gathered(%a0: tensor<8x8xf32>, %a1: tensor<8xi32>) -> tensor<8x8xf32> attributes {nn.kernel, nn.kind = "move", nn.domain = array<i64: 8, 8>} {
  %r = "nn.gather"(%a0, %a1) : (tensor<8x8xf32>, tensor<8xi32>) -> tensor<8x8xf32>
  return %r : tensor<8x8xf32>
}
func.func private @loop(tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>) attributes {nn.kernel, nn.kind = "scan", nn.label = "scan", nn.body = "step", nn.length = 8 : i64, nn.counts = array<i64: 1, 0, 2, 1, 0>}
func.func @step(%s: tensor<8xf32> {nn.offset = 0 : i64}, %a: tensor<8x8xf32> {nn.offset = 256 : i64}, %b: tensor<8x8xf32> {nn.offset = 512 : i64}, %w: tensor<8x8xf32> {nn.offset = 768 : i64}) -> (tensor<8x8xf32> {nn.tied = 1 : i64}, tensor<8x8xf32> {nn.tied = 2 : i64}) attributes {nn.scan_body, nn.bound = 1024 : i64} {
  return %a, %b : tensor<8x8xf32>, tensor<8x8xf32>
}
}
