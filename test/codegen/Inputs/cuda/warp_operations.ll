; One warp: each lane writes the result of every operation to its row of out (32, 20).
define ptx_kernel void @warp_operations(ptr addrspace(1) %out) {
entry:
  %lane = call i32 @llvm.nvvm.read.ptx.sreg.laneid()
  %row.at = mul i32 %lane, 20
  %row = getelementptr i32, ptr addrspace(1) %out, i32 %row.at
  %value = add i32 %lane, 100
  %up = call i32 @llvm.nvvm.shfl.sync.up.i32(i32 -1, i32 %value, i32 3, i32 0)
  %down = call i32 @llvm.nvvm.shfl.sync.down.i32(i32 -1, i32 %value, i32 3, i32 31)
  %bfly = call i32 @llvm.nvvm.shfl.sync.bfly.i32(i32 -1, i32 %value, i32 5, i32 31)
  %idx = call i32 @llvm.nvvm.shfl.sync.idx.i32(i32 -1, i32 %value, i32 7, i32 31)
  ; segments of 8 lanes: mask (32 - 8) << 8, clamp 7 or 31
  %segment.down = call { i32, i1 } @llvm.nvvm.shfl.sync.down.i32p(i32 -1, i32 %value, i32 2, i32 6175)
  %segment.value = extractvalue { i32, i1 } %segment.down, 0
  %segment.inside = extractvalue { i32, i1 } %segment.down, 1
  %segment.bit = zext i1 %segment.inside to i32
  %segment.idx = call i32 @llvm.nvvm.shfl.sync.idx.i32(i32 -1, i32 %value, i32 1, i32 6175)
  %bit = and i32 %lane, 1
  %odd = icmp eq i32 %bit, 1
  %ballot = call i32 @llvm.nvvm.vote.ballot.sync(i32 -1, i1 %odd)
  %any = call i1 @llvm.nvvm.vote.any.sync(i32 -1, i1 %odd)
  %all = call i1 @llvm.nvvm.vote.all.sync(i32 -1, i1 %odd)
  %any.bit = zext i1 %any to i32
  %all.bit = zext i1 %all to i32
  %sum = call i32 @llvm.nvvm.redux.sync.add(i32 %value, i32 -1)
  %minimum = call i32 @llvm.nvvm.redux.sync.min(i32 %value, i32 -1)
  %negative = sub i32 0, %value
  %maximum = call i32 @llvm.nvvm.redux.sync.max(i32 %negative, i32 -1)
  %unsigned = call i32 @llvm.nvvm.redux.sync.umax(i32 %negative, i32 -1)
  %either = call i32 @llvm.nvvm.redux.sync.or(i32 %lane, i32 -1)
  ; the even lanes among themselves
  br i1 %odd, label %store, label %even

even:
  %even.sum = call i32 @llvm.nvvm.redux.sync.add(i32 %lane, i32 1431655765)
  br label %store

store:
  %partial = phi i32 [ -1, %entry ], [ %even.sum, %even ]
  %p0 = getelementptr i32, ptr addrspace(1) %row, i32 0
  store i32 %up, ptr addrspace(1) %p0, align 4
  %p1 = getelementptr i32, ptr addrspace(1) %row, i32 1
  store i32 %down, ptr addrspace(1) %p1, align 4
  %p2 = getelementptr i32, ptr addrspace(1) %row, i32 2
  store i32 %bfly, ptr addrspace(1) %p2, align 4
  %p3 = getelementptr i32, ptr addrspace(1) %row, i32 3
  store i32 %idx, ptr addrspace(1) %p3, align 4
  %p4 = getelementptr i32, ptr addrspace(1) %row, i32 4
  store i32 %segment.value, ptr addrspace(1) %p4, align 4
  %p5 = getelementptr i32, ptr addrspace(1) %row, i32 5
  store i32 %segment.bit, ptr addrspace(1) %p5, align 4
  %p6 = getelementptr i32, ptr addrspace(1) %row, i32 6
  store i32 %segment.idx, ptr addrspace(1) %p6, align 4
  %p7 = getelementptr i32, ptr addrspace(1) %row, i32 7
  store i32 %ballot, ptr addrspace(1) %p7, align 4
  %p8 = getelementptr i32, ptr addrspace(1) %row, i32 8
  store i32 %any.bit, ptr addrspace(1) %p8, align 4
  %p9 = getelementptr i32, ptr addrspace(1) %row, i32 9
  store i32 %all.bit, ptr addrspace(1) %p9, align 4
  %p10 = getelementptr i32, ptr addrspace(1) %row, i32 10
  store i32 %sum, ptr addrspace(1) %p10, align 4
  %p11 = getelementptr i32, ptr addrspace(1) %row, i32 11
  store i32 %minimum, ptr addrspace(1) %p11, align 4
  %p12 = getelementptr i32, ptr addrspace(1) %row, i32 12
  store i32 %maximum, ptr addrspace(1) %p12, align 4
  %p13 = getelementptr i32, ptr addrspace(1) %row, i32 13
  store i32 %unsigned, ptr addrspace(1) %p13, align 4
  %p14 = getelementptr i32, ptr addrspace(1) %row, i32 14
  store i32 %either, ptr addrspace(1) %p14, align 4
  %p15 = getelementptr i32, ptr addrspace(1) %row, i32 15
  store i32 %partial, ptr addrspace(1) %p15, align 4
  ret void
}

declare i32 @llvm.nvvm.read.ptx.sreg.laneid()
declare i32 @llvm.nvvm.shfl.sync.up.i32(i32, i32, i32, i32)
declare i32 @llvm.nvvm.shfl.sync.down.i32(i32, i32, i32, i32)
declare i32 @llvm.nvvm.shfl.sync.bfly.i32(i32, i32, i32, i32)
declare i32 @llvm.nvvm.shfl.sync.idx.i32(i32, i32, i32, i32)
declare { i32, i1 } @llvm.nvvm.shfl.sync.down.i32p(i32, i32, i32, i32)
declare i32 @llvm.nvvm.vote.ballot.sync(i32, i1)
declare i1 @llvm.nvvm.vote.any.sync(i32, i1)
declare i1 @llvm.nvvm.vote.all.sync(i32, i1)
declare i32 @llvm.nvvm.redux.sync.add(i32, i32)
declare i32 @llvm.nvvm.redux.sync.min(i32, i32)
declare i32 @llvm.nvvm.redux.sync.max(i32, i32)
declare i32 @llvm.nvvm.redux.sync.umax(i32, i32)
declare i32 @llvm.nvvm.redux.sync.or(i32, i32)
