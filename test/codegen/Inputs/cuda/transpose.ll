; out (columns, rows) = x (rows, columns) transposed, by 32 by 32 tiles in shared memory padded to 33 columns; blocks of 32 by 8 threads.
@tile = internal addrspace(3) global [32 x [33 x float]] undef, align 16

define ptx_kernel void @transpose(ptr addrspace(1) noalias readonly %x, ptr addrspace(1) noalias %out, i32 %rows, i32 %columns) {
entry:
  %tx = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %ty = call i32 @llvm.nvvm.read.ptx.sreg.tid.y()
  %bx = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %by = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.y()
  %column0 = mul i32 %bx, 32
  %row0 = mul i32 %by, 32
  %column = add i32 %column0, %tx
  %column.ok = icmp slt i32 %column, %columns
  br label %read

read:
  %r = phi i32 [ %ty, %entry ], [ %r.next, %read.next ]
  %row = add i32 %row0, %r
  %row.ok = icmp slt i32 %row, %rows
  %ok = and i1 %row.ok, %column.ok
  br i1 %ok, label %read.one, label %read.next

read.one:
  %from.row = mul i32 %row, %columns
  %from = add i32 %from.row, %column
  %from.address = getelementptr float, ptr addrspace(1) %x, i32 %from
  %value = load float, ptr addrspace(1) %from.address, align 4
  %place = getelementptr [32 x [33 x float]], ptr addrspace(3) @tile, i32 0, i32 %r, i32 %tx
  store float %value, ptr addrspace(3) %place, align 4
  br label %read.next

read.next:
  %r.next = add i32 %r, 8
  %r.more = icmp slt i32 %r.next, 32
  br i1 %r.more, label %read, label %meet

meet:
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  %out.column = add i32 %row0, %tx
  %out.column.ok = icmp slt i32 %out.column, %rows
  br label %write

write:
  %c = phi i32 [ %ty, %meet ], [ %c.next, %write.next ]
  %out.row = add i32 %column0, %c
  %out.row.ok = icmp slt i32 %out.row, %columns
  %write.ok = and i1 %out.row.ok, %out.column.ok
  br i1 %write.ok, label %write.one, label %write.next

write.one:
  %from.tile = getelementptr [32 x [33 x float]], ptr addrspace(3) @tile, i32 0, i32 %tx, i32 %c
  %moved = load float, ptr addrspace(3) %from.tile, align 4
  %to.row = mul i32 %out.row, %rows
  %to = add i32 %to.row, %out.column
  %to.address = getelementptr float, ptr addrspace(1) %out, i32 %to
  store float %moved, ptr addrspace(1) %to.address, align 4
  br label %write.next

write.next:
  %c.next = add i32 %c, 8
  %c.more = icmp slt i32 %c.next, 32
  br i1 %c.more, label %write, label %done

done:
  ret void
}

declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.tid.y()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.y()
declare void @llvm.nvvm.barrier.cta.sync.aligned.all(i32)
