; Two warps in turns: warp 0 fills a buffer and arrives at barrier 1, warp 1 waits there, doubles what it finds and arrives at barrier 2, on which warp 0 waits.
@buffer = internal addrspace(3) global [32 x i32] undef, align 16

define ptx_kernel void @named_barriers(ptr addrspace(1) %out, i32 %rounds) {
entry:
  %tid = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %lane = and i32 %tid, 31
  %mine = getelementptr [32 x i32], ptr addrspace(3) @buffer, i32 0, i32 %lane
  %other.lane = sub i32 31, %lane
  %theirs = getelementptr [32 x i32], ptr addrspace(3) @buffer, i32 0, i32 %other.lane
  %consumes = icmp ugt i32 %tid, 31
  %to = getelementptr i32, ptr addrspace(1) %out, i32 %lane
  br i1 %consumes, label %consumer, label %producer

producer:
  %r = phi i32 [ 0, %entry ], [ %r.next, %producer ]
  %value = add i32 %r, %lane
  store i32 %value, ptr addrspace(3) %mine, align 4
  call void @llvm.nvvm.barrier.cta.arrive.aligned.count(i32 1, i32 64)
  call void @llvm.nvvm.barrier.cta.sync.aligned.count(i32 2, i32 64)
  %r.next = add i32 %r, 1
  %r.more = icmp slt i32 %r.next, %rounds
  br i1 %r.more, label %producer, label %done

consumer:
  %s = phi i32 [ 0, %entry ], [ %s.next, %consumer ]
  %sum = phi i32 [ 0, %entry ], [ %sum.next, %consumer ]
  call void @llvm.nvvm.barrier.cta.sync.aligned.count(i32 1, i32 64)
  %found = load i32, ptr addrspace(3) %theirs, align 4
  %sum.next = add i32 %sum, %found
  call void @llvm.nvvm.barrier.cta.arrive.aligned.count(i32 2, i32 64)
  %s.next = add i32 %s, 1
  %s.more = icmp slt i32 %s.next, %rounds
  br i1 %s.more, label %consumer, label %write

write:
  store i32 %sum.next, ptr addrspace(1) %to, align 4
  br label %done

done:
  ret void
}

declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare void @llvm.nvvm.barrier.cta.arrive.aligned.count(i32, i32)
declare void @llvm.nvvm.barrier.cta.sync.aligned.count(i32, i32)
