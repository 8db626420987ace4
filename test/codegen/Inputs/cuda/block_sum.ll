; out[block] = sum of x over the block's stripe: each thread adds its elements, a warp adds by shuffles, the first warp adds the warps' sums.
@partial = internal addrspace(3) global [32 x float] undef, align 16

define ptx_kernel void @block_sum(ptr addrspace(1) %x, ptr addrspace(1) %out, i32 %n) #0 {
entry:
  %tid = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %bid = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %size = call i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
  %blocks = call i32 @llvm.nvvm.read.ptx.sreg.nctaid.x()
  %first.block = mul i32 %bid, %size
  %first = add i32 %first.block, %tid
  %stride = mul i32 %blocks, %size
  br label %loop

loop:
  %i = phi i32 [ %first, %entry ], [ %i.next, %body ]
  %sum = phi float [ 0.0, %entry ], [ %sum.next, %body ]
  %inside = icmp slt i32 %i, %n
  br i1 %inside, label %body, label %reduce

body:
  %address = getelementptr float, ptr addrspace(1) %x, i32 %i
  %value = load float, ptr addrspace(1) %address, align 4
  %sum.next = fadd float %sum, %value
  %i.next = add i32 %i, %stride
  br label %loop

reduce:
  %s16 = call float @llvm.nvvm.shfl.sync.bfly.f32(i32 -1, float %sum, i32 16, i32 31)
  %a16 = fadd float %sum, %s16
  %s8 = call float @llvm.nvvm.shfl.sync.bfly.f32(i32 -1, float %a16, i32 8, i32 31)
  %a8 = fadd float %a16, %s8
  %s4 = call float @llvm.nvvm.shfl.sync.bfly.f32(i32 -1, float %a8, i32 4, i32 31)
  %a4 = fadd float %a8, %s4
  %s2 = call float @llvm.nvvm.shfl.sync.bfly.f32(i32 -1, float %a4, i32 2, i32 31)
  %a2 = fadd float %a4, %s2
  %s1 = call float @llvm.nvvm.shfl.sync.bfly.f32(i32 -1, float %a2, i32 1, i32 31)
  %a1 = fadd float %a2, %s1
  %lane = and i32 %tid, 31
  %warp = lshr i32 %tid, 5
  %leads = icmp eq i32 %lane, 0
  br i1 %leads, label %store.partial, label %meet

store.partial:
  %mine = getelementptr [32 x float], ptr addrspace(3) @partial, i32 0, i32 %warp
  store float %a1, ptr addrspace(3) %mine, align 4
  br label %meet

meet:
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  %first.thread = icmp eq i32 %tid, 0
  br i1 %first.thread, label %add, label %done

add:
  %warps = lshr i32 %size, 5
  br label %add.loop

add.loop:
  %w = phi i32 [ 0, %add ], [ %w.next, %add.loop ]
  %total = phi float [ 0.0, %add ], [ %total.next, %add.loop ]
  %theirs = getelementptr [32 x float], ptr addrspace(3) @partial, i32 0, i32 %w
  %part = load float, ptr addrspace(3) %theirs, align 4
  %total.next = fadd float %total, %part
  %w.next = add i32 %w, 1
  %more = icmp slt i32 %w.next, %warps
  br i1 %more, label %add.loop, label %write

write:
  %where = getelementptr float, ptr addrspace(1) %out, i32 %bid
  store float %total.next, ptr addrspace(1) %where, align 4
  br label %done

done:
  ret void
}

declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.nctaid.x()
declare float @llvm.nvvm.shfl.sync.bfly.f32(i32, float, i32, i32)
declare void @llvm.nvvm.barrier.cta.sync.aligned.all(i32)

attributes #0 = { "nvvm.maxntid"="1024" }
