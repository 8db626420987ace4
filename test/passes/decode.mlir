// Of a causal model a function of one position: its axis has one element, keys and values lie in caches.
// RUN: %nnc_opt %s --passes=decode | FileCheck %s
// RUN: sed 's/causal = true/causal = false/' %s | %nnc_opt - --passes=decode | FileCheck %s --check-prefix=BEHIND --implicit-check-not='func.func @decode'

// CHECK: module attributes {nn.model = "m"}
// BEHIND: nn.uncached = "attention sees the positions behind its own: causal=true is not given"
// BEHIND-SAME: nn.uncached_at = #loc
// CHECK: func.func @predict
// CHECK-SAME: -> (tensor<2x6x8xf32> {nn.name = "output.m", nn.role = "output"}, tensor<12x8xf32> {nn.name = "cache.0", nn.role = "cache"}, tensor<12x8xf32> {nn.name = "cache.1", nn.role = "cache"})
// CHECK: func.func @decode(%[[TOKENS:.*]]: tensor<2x1xi32> {nn.limit = 9 : i64, nn.name = "tokens", nn.role = "input"}, %[[W:.*]]: tensor<9x8xf32>
// CHECK-SAME: %[[P:arg[0-9]+]]: tensor<1xi32> {nn.name = "position", nn.role = "input", nn.whole = true}, %[[K:arg[0-9]+]]: tensor<12x8xf32> {nn.name = "cache.0", nn.role = "cache"}, %[[V:arg[0-9]+]]: tensor<12x8xf32> {nn.name = "cache.1", nn.role = "cache"})
// CHECK-SAME: {nn.role = "update", nn.tied = [[#]] : i64}, tensor<12x8xf32> {nn.role = "update", nn.tied = [[#]] : i64})

// The table's row, the number of the position, the tokens' own row.
// CHECK-DAG: %[[X:.*]] = "nn.gather"(%[[W]], %[[TOKENS]]) {{.*}} -> tensor<2x1x8xf32>
// CHECK-DAG: "nn.gather"(%arg2, %[[P]]) {{.*}} -> tensor<1x8xf32>
// CHECK-DAG: "nn.cast"(%[[P]]) {{.*}} -> tensor<1xf32>

// Its row of the caches: record times 6 and the position. Keys up to it, no more than 4, are seen.
// CHECK-DAG: %[[NEWK:.*]] = "nn.scatter_add_to"(%{{.*}}, %{{.*}}, %[[K]]) {{.*}} (tensor<2x8xf32>, tensor<2xi32>, tensor<12x8xf32>) -> tensor<12x8xf32>
// CHECK-DAG: %[[NEWV:.*]] = "nn.scatter_add_to"(%{{.*}}, %{{.*}}, %[[V]])
// CHECK-DAG: %[[ALL:.*]] = "nn.reshape"(%[[NEWK]]) {{.*}} -> tensor<2x6x2x4xf32>
// CHECK-DAG: "nn.compare"(%{{.*}}, %{{.*}}) {nn.phase = "forward", predicate = "le"} : (tensor<6xi32>, tensor<6xi32>) -> tensor<6xi1>
// CHECK-DAG: "nn.compare"(%{{.*}}, %{{.*}}) {nn.phase = "forward", predicate = "gt"}
// CHECK: "nn.attention_4"(%{{.*}}, %[[ALL]], %{{.*}}, %{{.*}}) {layout = "bthd", nn.phase = "forward", scale = 5.000000e-01 : f64, softcap = 2.000000e+00 : f64} : (tensor<2x1x2x4xf32>, tensor<2x6x2x4xf32>, tensor<2x6x2x4xf32>, tensor<2x6xi1>)
// CHECK: return %{{.*}}, %[[NEWK]], %[[NEWV]] : tensor<2x1x8xf32>
module attributes {nn.model = "m"} {
  func.func @predict(%tokens: tensor<2x6xi32> {nn.limit = 9 : i64, nn.name = "tokens", nn.role = "input"}, %w: tensor<9x8xf32> {nn.name = "w", nn.role = "param"}, %place: tensor<6x8xf32> {nn.name = "place", nn.role = "param"}) -> (tensor<2x6x8xf32> {nn.name = "output.m", nn.role = "output"}) {
    %x = "nn.gather"(%w, %tokens) : (tensor<9x8xf32>, tensor<2x6xi32>) -> tensor<2x6x8xf32>
    %p = "nn.broadcast"(%place) {dims = array<i64: 1, 2>} : (tensor<6x8xf32>) -> tensor<2x6x8xf32>
    %i = "nn.iota"() {axis = 0 : i64} : () -> tensor<6xf32>
    %j = "nn.broadcast"(%i) {dims = array<i64: 1>} : (tensor<6xf32>) -> tensor<2x6x8xf32>
    %y = "nn.add"(%x, %p) : (tensor<2x6x8xf32>, tensor<2x6x8xf32>) -> tensor<2x6x8xf32>
    %z = "nn.mul"(%y, %j) : (tensor<2x6x8xf32>, tensor<2x6x8xf32>) -> tensor<2x6x8xf32>
    %q = "nn.reshape"(%z) : (tensor<2x6x8xf32>) -> tensor<2x6x2x4xf32>
    %k = "nn.reshape"(%y) : (tensor<2x6x8xf32>) -> tensor<2x6x2x4xf32>
    %v = "nn.reshape"(%x) : (tensor<2x6x8xf32>) -> tensor<2x6x2x4xf32>
    %o:2 = "nn.attention_3"(%q, %k, %v) {scale = 0.5 : f64, causal = true, layout = "bthd", window = 4 : i64, softcap = 2.0 : f64} : (tensor<2x6x2x4xf32>, tensor<2x6x2x4xf32>, tensor<2x6x2x4xf32>) -> (tensor<2x6x2x4xf32>, tensor<2x2x6xf32>)
    %r = "nn.reshape"(%o#0) : (tensor<2x6x2x4xf32>) -> tensor<2x6x8xf32>
    return %r : tensor<2x6x8xf32>
  }
}
