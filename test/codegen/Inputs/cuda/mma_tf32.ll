; c (16, 8) = a (16, 8) times b (8, 8), one warp, operands rounded to tf32 and read from global memory in the layout of the fragments.
define ptx_kernel void @mma_tf32(ptr addrspace(1) %a, ptr addrspace(1) %b, ptr addrspace(1) %c) {
  %lane = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %group = lshr i32 %lane, 2
  %place = and i32 %lane, 3
  %row.at = mul i32 %group, 8
  %at = add i32 %row.at, %place
  %pa0 = getelementptr float, ptr addrspace(1) %a, i32 %at
  %pa1 = getelementptr float, ptr addrspace(1) %pa0, i32 64
  %pa2 = getelementptr float, ptr addrspace(1) %pa0, i32 4
  %pa3 = getelementptr float, ptr addrspace(1) %pa0, i32 68
  %fa0 = load float, ptr addrspace(1) %pa0, align 4
  %fa1 = load float, ptr addrspace(1) %pa1, align 4
  %fa2 = load float, ptr addrspace(1) %pa2, align 4
  %fa3 = load float, ptr addrspace(1) %pa3, align 4
  %b.row = mul i32 %place, 8
  %b.at = add i32 %b.row, %group
  %pb0 = getelementptr float, ptr addrspace(1) %b, i32 %b.at
  %pb1 = getelementptr float, ptr addrspace(1) %pb0, i32 32
  %fb0 = load float, ptr addrspace(1) %pb0, align 4
  %fb1 = load float, ptr addrspace(1) %pb1, align 4
  %a0 = call i32 @llvm.nvvm.f2tf32.rna(float %fa0)
  %a1 = call i32 @llvm.nvvm.f2tf32.rna(float %fa1)
  %a2 = call i32 @llvm.nvvm.f2tf32.rna(float %fa2)
  %a3 = call i32 @llvm.nvvm.f2tf32.rna(float %fa3)
  %b0 = call i32 @llvm.nvvm.f2tf32.rna(float %fb0)
  %b1 = call i32 @llvm.nvvm.f2tf32.rna(float %fb1)
  %d = call { float, float, float, float } @llvm.nvvm.mma.m16n8k8.row.col.tf32(i32 %a0, i32 %a1, i32 %a2, i32 %a3, i32 %b0, i32 %b1, float 0.0, float 0.0, float 0.0, float 0.0)
  %d0 = extractvalue { float, float, float, float } %d, 0
  %d1 = extractvalue { float, float, float, float } %d, 1
  %d2 = extractvalue { float, float, float, float } %d, 2
  %d3 = extractvalue { float, float, float, float } %d, 3
  %column = mul i32 %place, 2
  %c.at = add i32 %row.at, %column
  %pc0 = getelementptr float, ptr addrspace(1) %c, i32 %c.at
  %pc1 = getelementptr float, ptr addrspace(1) %pc0, i32 1
  %pc2 = getelementptr float, ptr addrspace(1) %pc0, i32 64
  %pc3 = getelementptr float, ptr addrspace(1) %pc0, i32 65
  store float %d0, ptr addrspace(1) %pc0, align 4
  store float %d1, ptr addrspace(1) %pc1, align 4
  store float %d2, ptr addrspace(1) %pc2, align 4
  store float %d3, ptr addrspace(1) %pc3, align 4
  ret void
}

declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.f2tf32.rna(float)
declare { float, float, float, float } @llvm.nvvm.mma.m16n8k8.row.col.tf32(i32, i32, i32, i32, i32, i32, float, float, float, float)
