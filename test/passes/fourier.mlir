// A Fourier transform stays where the target has loops for its length: the host for prime factors up to 13. Others, and all with keep=none, become products of short transforms.
// RUN: nnc-opt %s --passes='fourier' | FileCheck %s --check-prefixes=CHECK,HOST
// RUN: nnc-opt %s --passes='fourier{keep=none}' | FileCheck %s --check-prefixes=CHECK,NONE

// CHECK-LABEL: func.func @predict(
// HOST: "nn.fourier"(%{{.*}}) {{.*}}tensor<3x96xf32>) -> tensor<3x49x2xf32>
// NONE-NOT: nn.fourier
// NONE: "nn.matmul"(%{{.*}}, %{{.*}}) {{.*}}(tensor<3x12x8xf32>, tensor<8x16xf32>) -> tensor<3x12x16xf32>
// CHECK-NOT: "nn.fourier"(%{{.*}}) {{.*}}tensor<3x17xf32>)
// CHECK: "nn.matmul"(%{{.*}}, %{{.*}}) {{.*}}(tensor<3x17xf32>, tensor<17x18xf32>) -> tensor<3x18xf32>
func.func @predict(%x: tensor<3x96xf32>, %y: tensor<3x17xf32>) -> (tensor<3x49x2xf32>, tensor<3x9x2xf32>) {
  %a = "nn.fourier"(%x) {length = 96 : i64, kind = "real"} : (tensor<3x96xf32>) -> tensor<3x49x2xf32>
  %b = "nn.fourier"(%y) {length = 17 : i64, kind = "real"} : (tensor<3x17xf32>) -> tensor<3x9x2xf32>
  return %a, %b : tensor<3x49x2xf32>, tensor<3x9x2xf32>
}
