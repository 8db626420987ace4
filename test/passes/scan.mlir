// The step of a scan is planned once, whatever the number of steps; the loop is one step with the step's buffers as its workspace.
// RUN: %nnc_opt %s --passes='simplify,fuse,scan,schedule,inplace,plan,check' | FileCheck %s
// A scan whose results nobody reads goes, and its step with it.
// RUN: %nnc_opt %s --passes='simplify' | FileCheck %s --check-prefix=DEAD

// DEAD-NOT: @unused
// CHECK: func.func @predict
// CHECK: call @loop({{.*}}) {nn.offset = array<i64: {{[0-9, ]+}}>, nn.phase = "forward", nn.scan, nn.workspace = {{[0-9]+}} : i64, nn.workspace_bytes = [[BYTES:[0-9]+]] : i64}
// CHECK: func.func @loop_body(
// CHECK-SAME: nn.arena = [[BYTES]] : i64
func.func @predict(%x: tensor<1000x8xf32> {nn.name = "x", nn.role = "input"}, %w: tensor<8x8xf32> {nn.name = "w", nn.role = "param", nn.init = "zeros"}) -> (tensor<1001x8xf32> {nn.name = "y", nn.role = "output"}) {
  %zero = "nn.constant"() {value = 0.0 : f64} : () -> tensor<8xf32>
  %h = func.call @loop(%x, %zero, %w) {nn.scan, nn.phase = "forward"} : (tensor<1000x8xf32>, tensor<8xf32>, tensor<8x8xf32>) -> tensor<1001x8xf32>
  %none = func.call @unused(%x, %zero, %w) {nn.scan, nn.phase = "forward"} : (tensor<1000x8xf32>, tensor<8xf32>, tensor<8x8xf32>) -> tensor<1001x8xf32>
  return %h : tensor<1001x8xf32>
}

func.func private @loop(tensor<1000x8xf32>, tensor<8xf32>, tensor<8x8xf32>) -> tensor<1001x8xf32>
  attributes {nn.kernel, nn.kind = "scan", nn.label = "scan", nn.body = "loop_body", nn.length = 1000 : i64, nn.counts = array<i64: 1, 1, 0, 1, 0>}
func.func @loop_body(%x: tensor<8xf32>, %h: tensor<8xf32>, %w: tensor<8x8xf32>) -> tensor<8xf32> attributes {nn.scan_body} {
  %s = "nn.add"(%x, %h) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %r = "nn.reshape"(%s) : (tensor<8xf32>) -> tensor<1x8xf32>
  %p = "nn.matmul"(%r, %w) {transpose_a = false, transpose_b = false} : (tensor<1x8xf32>, tensor<8x8xf32>) -> tensor<1x8xf32>
  %q = "nn.reshape"(%p) : (tensor<1x8xf32>) -> tensor<8xf32>
  %t = "nn.tanh"(%q) : (tensor<8xf32>) -> tensor<8xf32>
  return %t : tensor<8xf32>
}

func.func private @unused(tensor<1000x8xf32>, tensor<8xf32>, tensor<8x8xf32>) -> tensor<1001x8xf32>
  attributes {nn.kernel, nn.kind = "scan", nn.label = "scan", nn.body = "unused_body", nn.length = 1000 : i64, nn.counts = array<i64: 1, 1, 0, 1, 0>}
func.func @unused_body(%x: tensor<8xf32>, %h: tensor<8xf32>, %w: tensor<8x8xf32>) -> tensor<8xf32> attributes {nn.scan_body} {
  %s = "nn.add"(%x, %h) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %s : tensor<8xf32>
}
