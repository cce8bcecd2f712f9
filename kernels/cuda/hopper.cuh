// One function for each instruction of compute capability 9.0 that attention uses: barriers in shared memory that also
// count bytes, copies and sums of whole tiles by the tensor memory accelerator, and matmuls of a warp group, which is
// four warps (PTX ISA, "mbarrier", "cp.async.bulk", "wgmma"). Only for code that is compiled for sm_90a.
//
// Shared memory is given as its 32-bit address. A tile in shared memory has rows of 128 bytes, 64 two-byte elements,
// and begins at a multiple of 1024. The 16-byte chunks of row r are stored in the order c ^ (r % 8) (the accelerator's
// 128-byte swizzle), so that neither rows nor columns meet bank conflicts.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <type_traits>

#include "kernels/cuda/packed.cuh"

namespace lt::kernels::hopper {

inline constexpr int kWarpGroup = 128;     // threads
inline constexpr int kTileRowBytes = 128;  // of a tile in shared memory

// Returns x, which must be the same in all threads of a warp. This tells the compiler to use uniform registers.
template <class N>
__device__ inline N uniform(N x) {
  return __shfl_sync(~0u, x, 0);
}

// Returns x, and hides from the compiler that it is x. So values derived from it do not occupy registers for a whole
// loop.
__device__ inline int computed_anew(int x) {
  asm volatile("" : "+r"(x));
  return x;
}

__device__ inline std::uint32_t shared_address(const void* pointer) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}
// Returns the address of a 16-byte chunk of a row of a tile.
__device__ inline std::uint32_t chunk_address(std::uint32_t tile, int row, int chunk) {
  return tile + static_cast<std::uint32_t>(row * kTileRowBytes + ((chunk ^ (row & 7)) << 4));
}

// Barriers. A phase ends after `arrivals` arrivals and all expected bytes. Phases 0, 1, 2 have parity 0, 1, 0.
__device__ inline void init_barrier(std::uint32_t barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals));
}
__device__ inline void arrive(std::uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
__device__ inline void arrive_expecting(std::uint32_t barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
__device__ inline void wait_for(std::uint32_t barrier, int parity) {
  asm volatile(
      "{\n.reg .pred passed;\n"
      "AGAIN: mbarrier.try_wait.parity.shared::cta.b64 passed, [%0], %1;\n"
      "@passed bra PASSED;\nbra AGAIN;\nPASSED:\n}\n" ::"r"(barrier),
      "r"(parity)
      : "memory");
}
// Each warp of a block arrives once, when all its threads have reached this call. `lane` is the thread's number in its
// warp.
__device__ inline void arrive_as_warp(std::uint32_t barrier, int lane) {
  __syncwarp();
  if (lane == 0) arrive(barrier);
}
// Makes new barriers visible to copies. Call it before the block synchronises.
__device__ inline void publish_barriers() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
// The block's barriers, by number. `threads` counts all threads of the barrier, including those that only arrive.
__device__ inline void synchronize(int number, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(number), "r"(threads) : "memory");
}
__device__ inline void arrive_at(int number, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(number), "r"(threads) : "memory");
}

// Copies run asynchronously and access memory by a separate path. So a fence is needed between a thread's own stores
// and copies that read them, and between other blocks' copies and copies that add to their results.
__device__ inline void fence_shared_for_copies() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ inline void fence_global_for_copies() { asm volatile("fence.proxy.async.global;" ::: "memory"); }
// Where a tile lies in an array [B, T, heads, 64].
struct TilePlace {
  int head, t, b;
};
__device__ inline void load_tile(std::uint32_t to, const CUtensorMap& map, const TilePlace& at, std::uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], "
      "[%2];" ::"r"(to),
      "l"(&map), "r"(barrier), "r"(0), "r"(at.head), "r"(at.t), "r"(at.b)
      : "memory");
}
__device__ inline void store_tile(const CUtensorMap& map, const TilePlace& at, std::uint32_t from) {
  asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::"l"(&map),
               "r"(from), "r"(0), "r"(at.head), "r"(at.t), "r"(at.b)
               : "memory");
}
// Bytes and both addresses are multiples of 16.
__device__ inline void load_bytes(std::uint32_t to, const void* from, int bytes, std::uint32_t barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
               "l"(from), "r"(bytes), "r"(barrier)
               : "memory");
}
__device__ inline void store_bytes(void* to, std::uint32_t from, int bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(from), "r"(bytes)
               : "memory");
}
__device__ inline void add_floats(float* to, std::uint32_t from, int bytes) {
  asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(to), "r"(from),
               "r"(bytes)
               : "memory");
}
// Wait until this thread's stores and sums have read shared memory, or until they have reached global memory too.
__device__ inline void wait_until_read() {
  asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group.read 0;" ::: "memory");
}
__device__ inline void wait_until_stored() {
  asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;" ::: "memory");
}

// Flags in global memory, between blocks.
__device__ inline int read_flag(const int* flag) {
  int value = 0;
  asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
  return value;
}
__device__ inline void set_flag(int* flag, int value) {
  asm volatile("st.release.gpu.global.s32 [%0], %1;" ::"l"(flag), "r"(value) : "memory");
}

// Matmuls of a warp group: 64 x 64 sums in f32, 32 registers per thread. They run asynchronously. They start after
// wgmma_fence(), and the program must not touch sums or operands in registers until wgmma_wait() has
// returned. All four warps must execute each of these instructions, waits included, so none may be in a branch that
// only some warps take.
using Sums = float[32];
// Row and column of element i of thread `thread`.
__device__ inline int sum_row(int i, int thread) { return thread / kWarp * 16 + thread / 4 % 8 + i % 4 / 2 * 8; }
__device__ inline int sum_column(int i, int thread) { return i / 4 * 8 + thread % 4 * 2 + i % 2; }
template <class T>
using Operand = Packed<T>[4];  // 64 x 64 elements of two bytes: columns 16 i to 16 i + 15 are in element i

__device__ inline void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
// Waits until at most the youngest `groups` groups still run.
template <int groups>
__device__ inline void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(groups) : "memory");
}
// begin() tells the compiler that the sums have unspecified values, changed() that they may have changed.
__device__ inline void begin(Sums& sums) {
#pragma unroll
  for (int i = 0; i < 32; ++i) asm volatile("" : "=f"(sums[i])::"memory");
}
__device__ inline void changed(Sums& sums) {
#pragma unroll
  for (int i = 0; i < 32; ++i) asm volatile("" : "+f"(sums[i])::"memory");
}
// Describes a tile in shared memory at the given address as an operand: groups of 8 rows lie 1024 bytes apart, 128-byte
// swizzle.
__device__ inline std::uint64_t descriptor(std::uint32_t address) {
  return static_cast<std::uint64_t>((address & 0x3ffff) >> 4) | std::uint64_t{1} << 16 |
         std::uint64_t{1024 >> 4} << 32 | std::uint64_t{1} << 62;
}

// Describes two tiles, `apart` bytes from one to the next, as an operand of 128 columns that lie across their rows.
__device__ inline std::uint64_t descriptor_of_two(std::uint32_t address, int apart) {
  return (descriptor(address) & ~std::uint64_t{0xffff0000}) | static_cast<std::uint64_t>(apart >> 4) << 16;
}

// The descriptors of a tile whose address is the same in a warp. They differ in their lower halves only, which the
// compiler computes in uniform registers.
class TileDescriptor {
 public:
  __device__ explicit TileDescriptor(std::uint32_t address)
      : low_(uniform(static_cast<std::uint32_t>(descriptor(address)))) {}
  // Describes two tiles, as descriptor_of_two() does.
  __device__ TileDescriptor(std::uint32_t address, int apart)
      : low_(uniform(static_cast<std::uint32_t>(descriptor_of_two(address, apart)))) {}
  // `bytes` from the tile's beginning, a multiple of 16.
  __device__ std::uint64_t at(int bytes) const {
    return descriptor(0) >> 32 << 32 | (low_ + static_cast<std::uint32_t>(bytes) / 16);
  }

 private:
  std::uint32_t low_;
};

#define LT_SUMS(x)                                                                                            \
  "+f"(x[0]), "+f"(x[1]), "+f"(x[2]), "+f"(x[3]), "+f"(x[4]), "+f"(x[5]), "+f"(x[6]), "+f"(x[7]), "+f"(x[8]), \
      "+f"(x[9]), "+f"(x[10]), "+f"(x[11]), "+f"(x[12]), "+f"(x[13]), "+f"(x[14]), "+f"(x[15]), "+f"(x[16]),  \
      "+f"(x[17]), "+f"(x[18]), "+f"(x[19]), "+f"(x[20]), "+f"(x[21]), "+f"(x[22]), "+f"(x[23]), "+f"(x[24]), \
      "+f"(x[25]), "+f"(x[26]), "+f"(x[27]), "+f"(x[28]), "+f"(x[29]), "+f"(x[30]), "+f"(x[31])
#define LT_SUM_REGISTERS                                                                                            \
  "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, " \
  "%24, %25, %26, %27, %28, %29, %30, %31}"
#define LT_SUMS_OF_TWO(x, y) LT_SUMS(x), LT_SUMS(y)
#define LT_REGISTERS_OF_TWO                                                                                         \
  "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, " \
  "%24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, "  \
  "%46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}"
#define LT_MULTIPLY_SHARED(type)                                                       \
  asm volatile(                                                                        \
      "{\n.reg .pred add;\nsetp.ne.b32 add, %34, 0;\n"                                 \
      "wgmma.mma_async.sync.aligned.m64n64k16.f32." type "." type " " LT_SUM_REGISTERS \
      ", %32, %33, add, 1, 1, %35, %36;\n}\n"                                          \
      : LT_SUMS(sums)                                                                  \
      : "l"(a), "l"(b), "r"(static_cast<int>(add)), "n"(kTransposedA), "n"(kTransposedB))
#define LT_MULTIPLY_REGISTERS(type)                                                             \
  asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32." type "." type " " LT_SUM_REGISTERS \
               ", {%32, %33, %34, %35}, %36, 1, 1, 1, 1;\n"                                     \
               : LT_SUMS(sums)                                                                  \
               : "r"(a.words[0]), "r"(a.words[1]), "r"(a.words[2]), "r"(a.words[3]), "l"(b))
#define LT_MULTIPLY_TWO(type)                                                                       \
  asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32." type "." type " " LT_REGISTERS_OF_TWO \
               ", {%64, %65, %66, %67}, %68, 1, 1, 1, 1;\n"                                         \
               : LT_SUMS_OF_TWO(first, second)                                                      \
               : "r"(a.words[0]), "r"(a.words[1]), "r"(a.words[2]), "r"(a.words[3]), "l"(b))

// sums (+)= a b over 16 elements, a 64 x 16 and b 16 x 64, T bf16 or f16. An operand's rows in memory run along the 16
// elements, or across them with kTransposedA or kTransposedB = 1.
template <class T, int kTransposedA, int kTransposedB>
__device__ inline void multiply(Sums& sums, std::uint64_t a, std::uint64_t b, bool add) {
  if constexpr (std::is_same_v<T, bf16>) {
    LT_MULTIPLY_SHARED("bf16");
  } else {
    LT_MULTIPLY_SHARED("f16");
  }
}
// Like the function above, but with a in registers and b transposed. Always adds.
template <class T>
__device__ inline void multiply(Sums& sums, const Packed<T>& a, std::uint64_t b) {
  if constexpr (std::is_same_v<T, bf16>) {
    LT_MULTIPLY_REGISTERS("bf16");
  } else {
    LT_MULTIPLY_REGISTERS("f16");
  }
}
// The same for b 16 x 128: `first` gets columns 0 to 63, `second` the others.
template <class T>
__device__ inline void multiply(Sums& first, Sums& second, const Packed<T>& a, std::uint64_t b) {
  if constexpr (std::is_same_v<T, bf16>) {
    LT_MULTIPLY_TWO("bf16");
  } else {
    LT_MULTIPLY_TWO("f16");
  }
}
#undef LT_SUMS
#undef LT_SUM_REGISTERS
#undef LT_SUMS_OF_TWO
#undef LT_REGISTERS_OF_TWO
#undef LT_MULTIPLY_SHARED
#undef LT_MULTIPLY_REGISTERS
#undef LT_MULTIPLY_TWO

// Rounds sums to an operand.
template <class T>
__device__ inline void round_to(Operand<T>& operand, const Sums& sums) {
#pragma unroll
  for (int i = 0; i < 4; ++i) operand[i].fill([&](int k) { return sums[8 * i + k]; });
}
// Stores columns 16 i to 16 i + 15 of a warp group's operand to 64 rows of a tile.
template <class T>
__device__ inline void store_columns(std::uint32_t tile, const Packed<T>& columns, int i, int thread) {
  const int row = thread / kWarp * 16 + thread % 16;
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(
                   chunk_address(tile, row, 2 * i + thread % kWarp / 16)),
               "r"(columns.words[0]), "r"(columns.words[1]), "r"(columns.words[2]), "r"(columns.words[3])
               : "memory");
}
// Rounds a warp group's sums and stores them to 64 rows of a tile.
template <class T>
__device__ inline void store_rounded(std::uint32_t tile, const Sums& sums, int thread) {
  Operand<T> rounded;
  round_to<T>(rounded, sums);
#pragma unroll
  for (int i = 0; i < 4; ++i) store_columns(tile, rounded[i], i, thread);
}

// Loads columns 16 i to 16 i + 15 of 64 rows of a tile, as store_columns() stores them.
template <class T>
__device__ inline Packed<T> load_columns(std::uint32_t tile, int i, int thread) {
  Packed<T> columns;
  const int row = thread / kWarp * 16 + thread % 16;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(columns.words[0]), "=r"(columns.words[1]), "=r"(columns.words[2]), "=r"(columns.words[3])
               : "r"(chunk_address(tile, row, 2 * i + thread % kWarp / 16))
               : "memory");
  return columns;
}
#define LT_MULTIPLY_OF_WARP(type)                                                       \
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." type "." type                   \
               ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n" \
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                         \
               : "r"(a.words[0]), "r"(a.words[1]), "r"(a.words[2]), "r"(a.words[3]), "r"(b[2 * k]), "r"(b[2 * k + 1]))
// A matmul of one warp, which need not wait for the rest of its warp group (PTX ISA, "mma"). sums += a b^T over columns
// 16 i to 16 i + 15. a is this warp's result of load_columns(). b is rows 16 n to 16 n + 15 of a tile. The sums are
// elements 8 n to 8 n + 7 of Sums.
template <class T>
__device__ inline void multiply_of_warp(float* sums, const Packed<T>& a, std::uint32_t tile, int n, int i, int thread) {
  std::uint32_t b[4];
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3])
               : "r"(chunk_address(tile, 16 * n + thread % kWarp / 16 * 8 + thread % 8, 2 * i + thread / 8 % 2))
               : "memory");
#pragma unroll
  for (int k = 0; k < 2; ++k) {
    float* const c = sums + 4 * k;
    if constexpr (std::is_same_v<T, bf16>) {
      LT_MULTIPLY_OF_WARP("bf16");
    } else {
      LT_MULTIPLY_OF_WARP("f16");
    }
  }
}
#undef LT_MULTIPLY_OF_WARP

__device__ inline float2 load_pair(std::uint32_t address) {
  float2 x{};
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(x.x), "=f"(x.y) : "r"(address) : "memory");
  return x;
}
__device__ inline float4 load_four(std::uint32_t address) {
  float4 x{};
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(x.x), "=f"(x.y), "=f"(x.z), "=f"(x.w)
               : "r"(address)
               : "memory");
  return x;
}
__device__ inline void store_four(std::uint32_t address, float a, float b, float c, float d) {
  asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(address), "f"(a), "f"(b), "f"(c), "f"(d) : "memory");
}

inline constexpr float kLog2E = 1.4426950408889634f, kLn2 = 0.6931471805599453f;
// 2^x, as the hardware approximates it; below 2^-126 it is 0.
__device__ inline float power_of_two(float x) {
  float y = 0;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// Redistribute the block's registers: a computing warp group takes `registers` per thread, and other warp groups give
// theirs up.
template <int registers>
__device__ inline void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(registers));
}
template <int registers>
__device__ inline void give_registers_up() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(registers));
}

}  // namespace lt::kernels::hopper
