; Each thread takes the next number from a counter: the order in which the emulator runs blocks and threads.
define ptx_kernel void @order(ptr addrspace(1) %counter, ptr addrspace(1) %taken) {
  %tid = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %bid = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %size = call i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
  %first = mul i32 %bid, %size
  %i = add i32 %first, %tid
  %number = atomicrmw add ptr addrspace(1) %counter, i32 1 monotonic
  %place = getelementptr i32, ptr addrspace(1) %taken, i32 %i
  store i32 %number, ptr addrspace(1) %place, align 4
  ret void
}

declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
