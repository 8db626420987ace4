; A histogram of 8 bins: counted in shared memory by all threads of a block, added to global memory; with the sum of all values in f32, their maximum,
; and a counter raised by compare and swap.
@bins = internal addrspace(3) global [8 x i32] undef, align 16

define ptx_kernel void @atomics(ptr addrspace(1) %x, ptr addrspace(1) %counts, ptr addrspace(1) %sum, ptr addrspace(1) %max, ptr addrspace(1) %tickets, i32 %n) {
entry:
  %tid = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %bid = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %size = call i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
  %clears = icmp slt i32 %tid, 8
  br i1 %clears, label %clear, label %ready

clear:
  %bin.mine = getelementptr [8 x i32], ptr addrspace(3) @bins, i32 0, i32 %tid
  store i32 0, ptr addrspace(3) %bin.mine, align 4
  br label %ready

ready:
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  %first = mul i32 %bid, %size
  %i = add i32 %first, %tid
  %inside = icmp slt i32 %i, %n
  br i1 %inside, label %count, label %counted

count:
  %address = getelementptr i32, ptr addrspace(1) %x, i32 %i
  %value = load i32, ptr addrspace(1) %address, align 4
  %bin = and i32 %value, 7
  %bin.address = getelementptr [8 x i32], ptr addrspace(3) @bins, i32 0, i32 %bin
  %old = atomicrmw add ptr addrspace(3) %bin.address, i32 1 monotonic
  %float = sitofp i32 %value to float
  %old.sum = atomicrmw fadd ptr addrspace(1) %sum, float %float monotonic
  %old.max = atomicrmw max ptr addrspace(1) %max, i32 %value monotonic
  br label %ticket

ticket:
  %seen = load atomic i32, ptr addrspace(1) %tickets monotonic, align 4
  %raised = add i32 %seen, 1
  %pair = cmpxchg ptr addrspace(1) %tickets, i32 %seen, i32 %raised monotonic monotonic
  %won = extractvalue { i32, i1 } %pair, 1
  br i1 %won, label %counted, label %ticket

counted:
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  br i1 %clears, label %add, label %done

add:
  %bin.final = getelementptr [8 x i32], ptr addrspace(3) @bins, i32 0, i32 %tid
  %total = load i32, ptr addrspace(3) %bin.final, align 4
  %count.address = getelementptr i32, ptr addrspace(1) %counts, i32 %tid
  %old.count = atomicrmw add ptr addrspace(1) %count.address, i32 %total monotonic
  br label %done

done:
  ret void
}

declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
declare void @llvm.nvvm.barrier.cta.sync.aligned.all(i32)
