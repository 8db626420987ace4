// Channels-last convolutions: where transposes stand, and where they do not.
// RUN: %nnc_opt %s --passes=layout,simplify | FileCheck %s

// A residual block behind an image of three channels that is cast and scaled first: one transpose, of the bytes of the image; the join of
// the branches is in the new order; the mean over height and width ends in the original order without a transpose back.
// CHECK-LABEL: func.func @residual
// CHECK-NEXT: %[[T:.*]] = "nn.transpose"(%arg0) {nn.phase = "forward", perm = array<i64: 0, 2, 3, 1>} : (tensor<2x3x8x8xui8>) -> tensor<2x8x8x3xui8>
// CHECK-NEXT: %[[C:.*]] = "nn.cast"(%[[T]])
// CHECK-NEXT: "nn.constant"() {{.*}} -> tensor<2x8x8x3xf32>
// CHECK-NEXT: %[[D:.*]] = "nn.div"(%[[C]]
// CHECK-NOT: nn.transpose
// CHECK: %[[C1:.*]] = "nn.conv2d"(%[[D]], %arg1) {layout = "nhwc", {{.*}} -> tensor<2x8x8x4xf32>
// CHECK: %[[BN:.*]]:3 = "nn.batchnorm"(%[[C1]], %arg2, %arg3) {axis = 3 : i64
// CHECK: %[[R:.*]] = "nn.relu"(%[[BN]]#0)
// CHECK: %[[C2:.*]] = "nn.conv2d"(%[[R]], %arg4) {layout = "nhwc"
// CHECK: %[[B:.*]] = "nn.broadcast"(%arg5) {dims = array<i64: 3>
// CHECK: %[[Y:.*]] = "nn.add"(%[[C2]], %[[B]])
// CHECK: %[[J:.*]] = "nn.add"(%[[Y]], %[[R]])
// CHECK: %[[S:.*]] = "nn.reduce_sum"(%[[J]]) {axes = array<i64: 1, 2>
// CHECK-NOT: nn.transpose
// CHECK: return %[[S]], %[[BN]]#1
func.func @residual(%image: tensor<2x3x8x8xui8>, %w1: tensor<4x3x3x3xf32>, %g: tensor<4xf32>, %b: tensor<4xf32>, %w2: tensor<4x4x3x3xf32>, %bias: tensor<4xf32>) -> (tensor<2x4xf32>, tensor<4xf32>) {
  %c255 = "nn.constant"() {value = 255.0 : f64, nn.phase = "forward"} : () -> tensor<2x3x8x8xf32>
  %x = "nn.cast"(%image) {nn.phase = "forward"} : (tensor<2x3x8x8xui8>) -> tensor<2x3x8x8xf32>
  %s = "nn.div"(%x, %c255) {nn.phase = "forward"} : (tensor<2x3x8x8xf32>, tensor<2x3x8x8xf32>) -> tensor<2x3x8x8xf32>
  %0 = "nn.conv2d"(%s, %w1) {strides = array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>, nn.phase = "forward"} : (tensor<2x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<2x4x8x8xf32>
  %1:3 = "nn.batchnorm"(%0, %g, %b) {eps = 1.0e-5 : f64, axis = 1 : i64, nn.phase = "forward"} : (tensor<2x4x8x8xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<2x4x8x8xf32>, tensor<4xf32>, tensor<4xf32>)
  %2 = "nn.relu"(%1#0) {nn.phase = "forward"} : (tensor<2x4x8x8xf32>) -> tensor<2x4x8x8xf32>
  %3 = "nn.conv2d"(%2, %w2) {strides = array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>, nn.phase = "forward"} : (tensor<2x4x8x8xf32>, tensor<4x4x3x3xf32>) -> tensor<2x4x8x8xf32>
  %4 = "nn.broadcast"(%bias) {dims = array<i64: 1>, nn.phase = "forward"} : (tensor<4xf32>) -> tensor<2x4x8x8xf32>
  %5 = "nn.add"(%3, %4) {nn.phase = "forward"} : (tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32>) -> tensor<2x4x8x8xf32>
  %6 = "nn.add"(%5, %2) {nn.phase = "forward"} : (tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32>) -> tensor<2x4x8x8xf32>
  %7 = "nn.reduce_sum"(%6) {axes = array<i64: 2, 3>, nn.phase = "forward"} : (tensor<2x4x8x8xf32>) -> tensor<2x4xf32>
  return %7, %1#1 : tensor<2x4xf32>, tensor<4xf32>
}

// One channel: the transpose of the image is a reshape. Flattening needs the original order: one transpose back, after the pool, whose
// winners nobody reads in the original order.
// CHECK-LABEL: func.func @grey
// CHECK-NEXT: %[[I:.*]] = "nn.reshape"(%arg0) : (tensor<2x1x8x8xf32>) -> tensor<2x8x8x1xf32>
// CHECK-NEXT: %[[C:.*]] = "nn.conv2d"(%[[I]], %arg1) {layout = "nhwc"
// CHECK-NEXT: %[[P:.*]]:2 = "nn.maxpool2d"(%[[C]]) {{.*}}layout = "nhwc"
// CHECK-NEXT: %[[A:.*]] = "nn.avgpool2d"(%[[P]]#0) {{.*}}layout = "nhwc"
// CHECK-NEXT: %[[T:.*]] = "nn.transpose"(%[[A]]) {perm = array<i64: 0, 3, 1, 2>} : (tensor<2x2x2x4xf32>) -> tensor<2x4x2x2xf32>
// CHECK-NEXT: %[[F:.*]] = "nn.reshape"(%[[T]]) : (tensor<2x4x2x2xf32>) -> tensor<2x16xf32>
// CHECK-NEXT: return %[[F]]
func.func @grey(%image: tensor<2x1x8x8xf32>, %w: tensor<4x1x3x3xf32>) -> tensor<2x16xf32> {
  %0 = "nn.conv2d"(%image, %w) {strides = array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>} : (tensor<2x1x8x8xf32>, tensor<4x1x3x3xf32>) -> tensor<2x4x8x8xf32>
  %1:2 = "nn.maxpool2d"(%0) {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, padding = array<i64: 0, 0, 0, 0>} : (tensor<2x4x8x8xf32>) -> (tensor<2x4x4x4xf32>, tensor<2x4x4x4xui8>)
  %2 = "nn.avgpool2d"(%1#0) {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, padding = array<i64: 0, 0, 0, 0>} : (tensor<2x4x4x4xf32>) -> tensor<2x4x2x2xf32>
  %3 = "nn.reshape"(%2) : (tensor<2x4x2x2xf32>) -> tensor<2x16xf32>
  return %3 : tensor<2x16xf32>
}

// The shapes that networks of convolutions go through between convolutions: a gate of channel means (squeeze and excite), statistics per
// sample and channel, parts of the channels, padding, joining along the channels, a dropout mask, a position table of full size.
// CHECK-LABEL: func.func @between
// CHECK: nn.transpose
// CHECK: %[[X:.*]] = "nn.conv2d"(
// CHECK: "nn.reduce_sum"(%[[X]]) {axes = array<i64: 1, 2>}
// CHECK: "nn.broadcast"({{.*}}) {dims = array<i64: 0, 3>} : (tensor<2x4xf32>) -> tensor<2x8x8x4xf32>
// CHECK: "nn.moments"({{.*}}) {axes = array<i64: 1, 2>}
// CHECK: "nn.slice"({{.*}}) {sizes = array<i64: 2, 4, 4, 3>, starts = array<i64: 0, 0, 0, 1>, strides = array<i64: 1, 2, 2, 1>}
// CHECK: "nn.pad"({{.*}}) {high = array<i64: 0, 0, 0, 2>, interior = array<i64: 0, 0, 0, 0>, low = array<i64: 0, 0, 0, 0>
// CHECK: "nn.concat"({{.*}}) {axis = 3 : i64}
// CHECK: "nn.random_uniform"(%arg3) : (tensor<4xi32>) -> tensor<2x4x4x8xf32>
// CHECK: "nn.transpose"(%arg4)
// CHECK: "nn.conv2d"
// CHECK: "nn.reduce_max"({{.*}}) {axes = array<i64: 3>} : (tensor<2x4x4x2xf32>) -> tensor<2x4x4xf32>
// CHECK-NOT: nn.transpose
// CHECK: return
func.func @between(%image: tensor<2x3x8x8xf32>, %w1: tensor<4x3x3x3xf32>, %w2: tensor<2x8x3x3xf32>, %key: tensor<4xi32>, %table: tensor<2x8x4x4xf32>) -> (tensor<2x4x4xf32>, tensor<2x4xf32>) {
  %x = "nn.conv2d"(%image, %w1) {strides = array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>} : (tensor<2x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<2x4x8x8xf32>
  %m = "nn.reduce_sum"(%x) {axes = array<i64: 2, 3>} : (tensor<2x4x8x8xf32>) -> tensor<2x4xf32>
  %s = "nn.sigmoid"(%m) : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %s4 = "nn.reshape"(%s) : (tensor<2x4xf32>) -> tensor<2x4x1x1xf32>
  %sb = "nn.broadcast"(%s4) {dims = array<i64: 0, 1, 2, 3>} : (tensor<2x4x1x1xf32>) -> tensor<2x4x8x8xf32>
  %gated = "nn.mul"(%sb, %x) : (tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32>) -> tensor<2x4x8x8xf32>
  %st:2 = "nn.moments"(%gated) {axes = array<i64: 2, 3>} : (tensor<2x4x8x8xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>)
  %mb = "nn.broadcast"(%st#0) {dims = array<i64: 0, 1>} : (tensor<2x4xf32>) -> tensor<2x4x8x8xf32>
  %c = "nn.sub"(%gated, %mb) : (tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32>) -> tensor<2x4x8x8xf32>
  %p = "nn.slice"(%c) {starts = array<i64: 0, 1, 0, 0>, sizes = array<i64: 2, 3, 4, 4>, strides = array<i64: 1, 1, 2, 2>} : (tensor<2x4x8x8xf32>) -> tensor<2x3x4x4xf32>
  %q = "nn.pad"(%p) {low = array<i64: 0, 0, 0, 0>, high = array<i64: 0, 2, 0, 0>, interior = array<i64: 0, 0, 0, 0>, value = 0.0 : f64} : (tensor<2x3x4x4xf32>) -> tensor<2x5x4x4xf32>
  %j = "nn.concat"(%q, %p) {axis = 1 : i64} : (tensor<2x5x4x4xf32>, tensor<2x3x4x4xf32>) -> tensor<2x8x4x4xf32>
  %u = "nn.random_uniform"(%key) : (tensor<4xi32>) -> tensor<2x8x4x4xf32>
  %r = "nn.constant"() {value = 0.25 : f64} : () -> tensor<2x8x4x4xf32>
  %keep = "nn.compare"(%u, %r) {predicate = "ge"} : (tensor<2x8x4x4xf32>, tensor<2x8x4x4xf32>) -> tensor<2x8x4x4xi1>
  %zero = "nn.constant"() {value = 0.0 : f64} : () -> tensor<2x8x4x4xf32>
  %d = "nn.select"(%keep, %j, %zero) : (tensor<2x8x4x4xi1>, tensor<2x8x4x4xf32>, tensor<2x8x4x4xf32>) -> tensor<2x8x4x4xf32>
  %t = "nn.add"(%d, %table) : (tensor<2x8x4x4xf32>, tensor<2x8x4x4xf32>) -> tensor<2x8x4x4xf32>
  %y = "nn.conv2d"(%t, %w2) {strides = array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>} : (tensor<2x8x4x4xf32>, tensor<2x8x3x3xf32>) -> tensor<2x2x4x4xf32>
  %z = "nn.reduce_max"(%y) {axes = array<i64: 1>} : (tensor<2x2x4x4xf32>) -> tensor<2x4x4xf32>
  return %z, %st#1 : tensor<2x4x4xf32>, tensor<2x4xf32>
}

// Reducing the height alone leaves batch, width, channels: a twin of three axes, brought back where it is returned. A transpose to
// channels-last in the source is nothing; the sum of two values from outside a chain stays as it is.
// CHECK-LABEL: func.func @orders
// CHECK-NEXT: %[[O:.*]] = "nn.add"(%arg0, %arg0)
// CHECK-NEXT: %[[T:.*]] = "nn.transpose"(%[[O]])
// CHECK-NEXT: %[[C:.*]] = "nn.conv2d"(%[[T]], %arg1)
// CHECK-NEXT: %[[R:.*]] = "nn.reduce_sum"(%[[C]]) {axes = array<i64: 1>} : (tensor<2x8x8x4xf32>) -> tensor<2x8x4xf32>
// CHECK-NEXT: %[[E:.*]] = "nn.exp"(%[[R]])
// CHECK-NEXT: %[[L:.*]]:3 = "nn.layernorm"(%[[C]], %arg2, %arg2)
// CHECK-NEXT: %[[B:.*]] = "nn.transpose"(%[[E]]) {perm = array<i64: 0, 2, 1>} : (tensor<2x8x4xf32>) -> tensor<2x4x8xf32>
// CHECK-NEXT: return %[[O]], %[[B]], %[[L]]#0
func.func @orders(%image: tensor<2x3x8x8xf32>, %w: tensor<4x3x3x3xf32>, %g: tensor<4xf32>) -> (tensor<2x3x8x8xf32>, tensor<2x4x8xf32>, tensor<2x8x8x4xf32>) {
  %o = "nn.add"(%image, %image) : (tensor<2x3x8x8xf32>, tensor<2x3x8x8xf32>) -> tensor<2x3x8x8xf32>
  %c = "nn.conv2d"(%o, %w) {strides = array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>} : (tensor<2x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<2x4x8x8xf32>
  %r = "nn.reduce_sum"(%c) {axes = array<i64: 2>} : (tensor<2x4x8x8xf32>) -> tensor<2x4x8xf32>
  %e = "nn.exp"(%r) : (tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
  %t = "nn.transpose"(%c) {perm = array<i64: 0, 2, 3, 1>} : (tensor<2x4x8x8xf32>) -> tensor<2x8x8x4xf32>
  %l:3 = "nn.layernorm"(%t, %g, %g) {eps = 1.0e-5 : f64} : (tensor<2x8x8x4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<2x8x8x4xf32>, tensor<2x8x8xf32>, tensor<2x8x8xf32>)
  return %o, %e, %l#0 : tensor<2x3x8x8xf32>, tensor<2x4x8xf32>, tensor<2x8x8x4xf32>
}

// Volumes, between whose convolutions a pool joins depth and height: channels last, none but the first transpose. A target without
// convolutions of volumes makes those of images of them, one for each place along the depth.
// RUN: %nnc_opt %s --passes=layout,simplify --target=cuda --gpu-arch=sm_80 | FileCheck %s --check-prefix=SLICES
// CHECK-LABEL: func.func @volume
// CHECK-NEXT: "nn.transpose"(%arg0) {perm = array<i64: 0, 2, 3, 4, 1>} : (tensor<1x2x4x6x6xf32>) -> tensor<1x4x6x6x2xf32>
// CHECK-NEXT: "nn.conv3d"({{.*}}) {layout = "ndhwc", {{.*}} -> tensor<1x4x6x6x4xf32>
// CHECK-NEXT: "nn.reshape"
// CHECK-NEXT: "nn.maxpool2d"
// CHECK-NEXT: "nn.reshape"
// CHECK-NEXT: "nn.conv3d_input_grad"({{.*}}) {layout = "ndhwc", {{.*}} -> tensor<1x8x6x6x2xf32>
// CHECK-NEXT: "nn.reduce_sum"
// CHECK-NEXT: return
// SLICES-LABEL: func.func @volume
// SLICES-NOT: conv3d
// SLICES-COUNT-3: "nn.conv2d"
// SLICES-NOT: "nn.conv2d"
// SLICES: "nn.maxpool2d"
// SLICES-COUNT-2: "nn.conv2d_input_grad"
// SLICES-NOT: "nn.conv2d
// SLICES: "nn.reduce_sum"
// SLICES: return
func.func @volume(%x: tensor<1x2x4x6x6xf32>, %w: tensor<4x2x3x3x3xf32>, %u: tensor<4x2x2x2x2xf32>) -> tensor<1x2xf32> {
  %0 = "nn.conv3d"(%x, %w) {strides = array<i64: 1, 1, 1>, padding = array<i64: 1, 1, 1, 1, 1, 1>} : (tensor<1x2x4x6x6xf32>, tensor<4x2x3x3x3xf32>) -> tensor<1x4x4x6x6xf32>
  %1 = "nn.transpose"(%0) {perm = array<i64: 0, 2, 3, 4, 1>} : (tensor<1x4x4x6x6xf32>) -> tensor<1x4x6x6x4xf32>
  %2 = "nn.reshape"(%1) : (tensor<1x4x6x6x4xf32>) -> tensor<4x6x6x4xf32>
  %3:2 = "nn.maxpool2d"(%2) {layout = "nhwc", kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, padding = array<i64: 0, 0, 0, 0>} : (tensor<4x6x6x4xf32>) -> (tensor<4x3x3x4xf32>, tensor<4x3x3x4xui8>)
  %4 = "nn.reshape"(%3#0) : (tensor<4x3x3x4xf32>) -> tensor<1x4x3x3x4xf32>
  %5 = "nn.transpose"(%4) {perm = array<i64: 0, 4, 1, 2, 3>} : (tensor<1x4x3x3x4xf32>) -> tensor<1x4x4x3x3xf32>
  %6 = "nn.conv3d_input_grad"(%5, %u) {strides = array<i64: 2, 2, 2>, padding = array<i64: 0, 0, 0, 0, 0, 0>} : (tensor<1x4x4x3x3xf32>, tensor<4x2x2x2x2xf32>) -> tensor<1x2x8x6x6xf32>
  %7 = "nn.reduce_sum"(%6) {axes = array<i64: 2, 3, 4>} : (tensor<1x2x8x6x6xf32>) -> tensor<1x2xf32>
  return %7 : tensor<1x2xf32>
}
