"""PTX of a kernel with everything that tools/read-sass.py looks for: planted_ptx.py > FILE.ptx."""
N = 40   # values that live across a barrier, with 1024 threads twice on a multiprocessor
PTX = '''.version 7.0
.target sm_80
.address_size 64
.visible .entry conv_forward_bf16_64(.param .u64 memory) .reqntid 1024
{
    .local .align 16 .b8 stack[256];
    .reg .b64 p, l, at;
    .reg .b32 r<8>, v<%d>;
    .reg .f32 c<4>;
    .reg .b16 h;
    ld.param.u64 p, [memory];
    mov.u32 r0, %%tid.x;
    mul.wide.u32 at, r0, 4;
    add.u64 p, p, at;
    %s
    bar.sync 0;
    %s
    mov.u64 l, stack;
    st.local.b32 [l + 8], r0;
    and.b32 r1, r0, 63;
    mul.wide.u32 at, r1, 4;
    add.u64 l, l, at;
    st.local.b32 [l], v0;
    bar.sync 0;
    and.b32 r1, v1, 60;
    cvt.u64.u32 at, r1;
    mov.u64 l, stack;
    add.u64 l, l, at;
    ld.local.b32 r2, [l];
    mov.f32 c0, 0f00000000;
    mov.f32 c1, 0f00000000;
    mov.f32 c2, 0f00000000;
    mov.f32 c3, 0f00000000;
    mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {c0, c1, c2, c3}, {r2, r0, r0, r0}, {r0, r0}, {c0, c1, c2, c3};   // not wgmma.mma_async
    cvt.rn.bf16.f32 h, c0;
    st.global.b16 [p], h;
    ret;
}
'''
print(PTX % (N, '\n    '.join(f'ld.global.b32 v{i}, [p + {4096 * i}];' for i in range(N)), '\n    '.join(f'st.global.b32 [p + {4096 * i + 4}], v{N - 1 - i};' for i in range(N))))
