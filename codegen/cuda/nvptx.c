// NVIDIA's GPUs: the row of what codegen/kernel/gpu.h lists, as LLVM's NVPTX back end spells it.
#include "codegen/cuda/nvptx.h"

const GpuFamily nvptx_family = {
    .basic =
        {
            [GPU_THREAD_X] = {"llvm.nvvm.read.ptx.sreg.tid.x", "", "() -> i32"},
            [GPU_THREAD_Y] = {"llvm.nvvm.read.ptx.sreg.tid.y", "", "() -> i32"},
            [GPU_BLOCK_X] = {"llvm.nvvm.read.ptx.sreg.ctaid.x", "", "() -> i32"},
            [GPU_BLOCK_Y] = {"llvm.nvvm.read.ptx.sreg.ctaid.y", "", "() -> i32"},
            [GPU_BLOCK_Z] = {"llvm.nvvm.read.ptx.sreg.ctaid.z", "", "() -> i32"},
            [GPU_BARRIER] = {"llvm.nvvm.barrier.cta.sync.aligned.all", "z", "(i32) -> ()"},
            [GPU_WARP_BARRIER] = {"llvm.nvvm.bar.warp.sync", "a", "(i32) -> ()"},
            [GPU_SHUFFLE_XOR] = {"llvm.nvvm.shfl.sync.bfly.i32", "a01l", "(i32, i32, i32, i32) -> i32"},
            [GPU_SHUFFLE_XOR_F32] = {"llvm.nvvm.shfl.sync.bfly.f32", "a01l", "(i32, f32, i32, i32) -> f32"},
            [GPU_SHUFFLE_FROM] = {"llvm.nvvm.shfl.sync.idx.i32", "a01l", "(i32, i32, i32, i32) -> i32"},
            [GPU_SHUFFLE_FROM_F32] = {"llvm.nvvm.shfl.sync.idx.f32", "a01l", "(i32, f32, i32, i32) -> f32"},
            [GPU_BALLOT] = {"llvm.nvvm.vote.ballot.sync", "a0", "(i32, i1) -> i32"},
            [GPU_EXP2] = {"llvm.nvvm.ex2.approx.ftz", "0", "(f32) -> f32"},
            [GPU_LOG2] = {"llvm.nvvm.lg2.approx.ftz.f", "0", "(f32) -> f32"},
            [GPU_RECIPROCAL] = {"llvm.nvvm.rcp.approx.ftz.f", "0", "(f32) -> f32"},
            [GPU_DIVIDE] = {"llvm.nvvm.div.approx.f", "01", "(f32, f32) -> f32"},
            [GPU_ROUND_BF16] = {"llvm.nvvm.f2bf16.rn", "0", "(f32) -> bf16"},
            [GPU_ROUND_TWO_BF16] = {"llvm.nvvm.ff2bf16x2.rn", "01", "(f32, f32) -> vector<2xbf16>"},
            [GPU_ROUND_TWO_F16] = {"llvm.nvvm.ff2f16x2.rn", "01", "(f32, f32) -> vector<2xf16>"},
        },
    .last_lane = 31,
    .pointer = "!llvm.ptr<1>",
    .triple = "nvptx64-nvidia-cuda",
    .prefix = "llvm.nvvm.",
    .kernel_convention = 71,   // ptx_kernel
    .threads = "nvvm.reqntid",
    .blocks = "nvvm.minctasm",
    .device_scope = "device",
};
