; c (16, 8) f32 = a (16, 16) bf16 times b (16, 8) bf16, one warp: both operands by cp.async into shared memory, ldmatrix, one mma. The rows of a lie in
; dynamic shared memory.
@b.tile = internal addrspace(3) global [16 x [8 x i16]] undef, align 16
@dynamic = external addrspace(3) global [0 x i8], align 16

define ptx_kernel void @mma_bf16(ptr addrspace(1) %a, ptr addrspace(1) %b, ptr addrspace(1) %c) {
entry:
  %lane = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %a.byte = mul i32 %lane, 16
  %a.from = getelementptr i8, ptr addrspace(1) %a, i32 %a.byte
  %a.to = getelementptr i8, ptr addrspace(3) @dynamic, i32 %a.byte
  call void @llvm.nvvm.cp.async.cg.shared.global.16(ptr addrspace(3) %a.to, ptr addrspace(1) %a.from)
  %has.b = icmp slt i32 %lane, 16
  br i1 %has.b, label %copy.b, label %wait

copy.b:
  %b.from = getelementptr i8, ptr addrspace(1) %b, i32 %a.byte
  %b.to = getelementptr i8, ptr addrspace(3) @b.tile, i32 %a.byte
  call void @llvm.nvvm.cp.async.cg.shared.global.16(ptr addrspace(3) %b.to, ptr addrspace(1) %b.from)
  br label %wait

wait:
  call void @llvm.nvvm.cp.async.commit.group()
  call void @llvm.nvvm.cp.async.wait.group(i32 0)
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  ; matrices of a: rows 0-7 and 8-15 of columns 0-7, then of columns 8-15
  %a.row = and i32 %lane, 15
  %a.half = lshr i32 %lane, 4
  %a.row.byte = mul i32 %a.row, 32
  %a.half.byte = mul i32 %a.half, 16
  %a.at = add i32 %a.row.byte, %a.half.byte
  %a.address = getelementptr i8, ptr addrspace(3) @dynamic, i32 %a.at
  %af = call { i32, i32, i32, i32 } @llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4.b16.p3(ptr addrspace(3) %a.address)
  %b.row = and i32 %lane, 15
  %b.row.byte = mul i32 %b.row, 16
  %b.address = getelementptr i8, ptr addrspace(3) @b.tile, i32 %b.row.byte
  %bf = call { i32, i32 } @llvm.nvvm.ldmatrix.sync.aligned.m8n8.x2.trans.b16.p3(ptr addrspace(3) %b.address)
  %a0 = extractvalue { i32, i32, i32, i32 } %af, 0
  %a1 = extractvalue { i32, i32, i32, i32 } %af, 1
  %a2 = extractvalue { i32, i32, i32, i32 } %af, 2
  %a3 = extractvalue { i32, i32, i32, i32 } %af, 3
  %b0 = extractvalue { i32, i32 } %bf, 0
  %b1 = extractvalue { i32, i32 } %bf, 1
  %d = call { float, float, float, float } @llvm.nvvm.mma.m16n8k16.row.col.bf16(i32 %a0, i32 %a1, i32 %a2, i32 %a3, i32 %b0, i32 %b1, float 0.0, float 0.0, float 0.0, float 0.0)
  %d0 = extractvalue { float, float, float, float } %d, 0
  %d1 = extractvalue { float, float, float, float } %d, 1
  %d2 = extractvalue { float, float, float, float } %d, 2
  %d3 = extractvalue { float, float, float, float } %d, 3
  %group = lshr i32 %lane, 2
  %place = and i32 %lane, 3
  %column = mul i32 %place, 2
  %row.at = mul i32 %group, 8
  %at = add i32 %row.at, %column
  %upper = getelementptr float, ptr addrspace(1) %c, i32 %at
  %pair0 = insertelement <2 x float> poison, float %d0, i32 0
  %pair = insertelement <2 x float> %pair0, float %d1, i32 1
  store <2 x float> %pair, ptr addrspace(1) %upper, align 8
  %lower = getelementptr float, ptr addrspace(1) %upper, i32 64
  %pair2 = insertelement <2 x float> poison, float %d2, i32 0
  %pair3 = insertelement <2 x float> %pair2, float %d3, i32 1
  store <2 x float> %pair3, ptr addrspace(1) %lower, align 8
  ret void
}

declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare void @llvm.nvvm.cp.async.cg.shared.global.16(ptr addrspace(3), ptr addrspace(1))
declare void @llvm.nvvm.cp.async.commit.group()
declare void @llvm.nvvm.cp.async.wait.group(i32)
declare void @llvm.nvvm.barrier.cta.sync.aligned.all(i32)
declare { i32, i32, i32, i32 } @llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4.b16.p3(ptr addrspace(3))
declare { i32, i32 } @llvm.nvvm.ldmatrix.sync.aligned.m8n8.x2.trans.b16.p3(ptr addrspace(3))
declare { float, float, float, float } @llvm.nvvm.mma.m16n8k16.row.col.bf16(i32, i32, i32, i32, i32, i32, float, float, float, float)
