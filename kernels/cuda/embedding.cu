// Embedding look-up and its gradient on the GPU. The backward sorts rows by id (stably, so rows of one id stay in
// order) and adds them up in chunks of fixed size, so a frequent id uses many blocks. Uses no atomics, so the bits are
// the same each time.
#include "kernels/embedding.h"

#include <algorithm>
#include <bit>
#include <cub/device/device_radix_sort.cuh>

#include "kernels/cuda/bad_id.cuh"
#include "kernels/cuda/common.cuh"
#include "kernels/elementwise.h"
#include "kernels/limits.h"
#include "memory/workspace.h"

namespace lt::kernels {
namespace {

constexpr int kForwardRows = 4;  // per block; their loads are in flight together

// A block takes one place of kForwardRows sequences. Without documents they share a position, whose row is read once
// for all of them. Blocks cover the places of the first group of sequences, then those of the next. A bad id reads the
// table's first row: a condition before the loads would keep them from being in flight together.
template <int kCount, class T>
__global__ void embedding_forward_kernel(T* y_MC, const T* table_VC, const T* positions_TC, const std::int32_t* ids_M,
                                         const std::int32_t* starts_M, Size M, Size tokens, Size C, Size V, Size first,
                                         IdCheck check) {
  using P = Pack<T, kCount>;
  const Size t = blockIdx.x % tokens, begin = blockIdx.x / tokens * kForwardRows * tokens + t;
  if (begin >= M) return;
  const P* token[kForwardRows];
#pragma unroll
  for (int i = 0; i < kForwardRows; ++i) {
    const Size m = begin + i * tokens < M ? begin + i * tokens : begin;
    const std::int32_t id = ids_M[m];
    const bool is_good = is_inside(id, V);
    token[i] = reinterpret_cast<const P*>(table_VC + (is_good ? static_cast<Size>(id) : 0) * C);
    if (!is_good && threadIdx.x == 0) record_bad_id(check, m, id);
  }
  const P* const position = reinterpret_cast<const P*>(positions_TC + (first + t) * C);
  for (Size p = threadIdx.x; p < C / kCount; p += blockDim.x) {
    P row[kForwardRows], add{};
#pragma unroll
    for (int i = 0; i < kForwardRows; ++i) row[i] = token[i][p];
    if (positions_TC) add = position[p];
#pragma unroll
    for (int i = 0; i < kForwardRows; ++i) {
      if (starts_M && begin + i * tokens < M) add = position[p - starts_M[begin + i * tokens] * (C / kCount)];
#pragma unroll
      for (int k = 0; positions_TC && k < kCount; ++k) {
        row[i].values[k] = store<T>(load(row[i].values[k]) + load(add.values[k]));
      }
      const Size m = begin + i * tokens;
      if (m < M) reinterpret_cast<P*>(y_MC + m * C)[p] = row[i];
    }
  }
}

__global__ void row_numbers_kernel(std::int32_t* rows_M, Size M) {
  for (Size m = thread_index(); m < M; m += thread_count()) rows_M[m] = static_cast<std::int32_t>(m);
}

__global__ void positions_kernel(std::int32_t* positions_M, const std::int32_t* starts_M, Size M, Size tokens) {
  for (Size m = thread_index(); m < M; m += thread_count()) {
    positions_M[m] = static_cast<std::int32_t>(m % tokens) - starts_M[m];
  }
}

// Sorted places are cut into chunks. A run is a stretch of places with one id. A run within one chunk goes into the
// table at once. A run that crosses chunks leaves one part per chunk: [0] if it continues from the previous chunk, [1]
// if it begins in this one.
struct Chunks {
  const std::int32_t *ids_M, *rows_M;  // sorted; bad ids by their low bits, and their sums go nowhere
  Size M, C, V, rows;                  // rows per chunk

  __device__ Size begin(Size chunk) const { return chunk * rows; }
  __device__ Size end(Size chunk) const { return begin(chunk) + rows < M ? begin(chunk) + rows : M; }
  // Whether places p - 1 and p belong to one run.
  __device__ bool joined(Size p) const { return p > 0 && p < M && ids_M[p - 1] == ids_M[p]; }
};

constexpr int kColumnThreads = 128;

constexpr int kAhead = 8;  // rows whose loads are in flight together

// `fresh`: the table holds zeros.
template <int kCount, class T>
__global__ void add_chunks_kernel(Arithmetic<T>* dtable_VC, bool fresh, Arithmetic<T>* parts, const T* dy_MC,
                                  Chunks chunks) {
  using A = Arithmetic<T>;
  using Sum = Pack<A, kCount>;
  const Size C = chunks.C, chunk = blockIdx.x, end = chunks.end(chunk);
  const Size c = (static_cast<Size>(blockIdx.y) * blockDim.x + threadIdx.x) * kCount;
  if (c >= C) return;
  Sum sum{};
  Size run = chunks.begin(chunk);  // where the current run begins in this chunk
  for (Size group = run; group < end; group += kAhead) {
    Pack<T, kCount> rows[kAhead];
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const Size row = chunks.rows_M[group + i < end ? group + i : group];
      rows[i] = *reinterpret_cast<const Pack<T, kCount>*>(dy_MC + row * C + c);
    }
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const Size p = group + i;
      if (p >= end) break;
#pragma unroll
      for (int k = 0; k < kCount; ++k) sum.values[k] += load(rows[i].values[k]);
      const bool goes_on = chunks.joined(p + 1);
      if (goes_on && p + 1 < end) continue;
      const bool came = chunks.joined(run), is_part = came || goes_on;
      const Size id = chunks.ids_M[p];
      A* const target = is_part ? parts + (2 * chunk + (came ? 0 : 1)) * C + c : dtable_VC + id * C + c;
      if (is_part || is_inside(id, chunks.V)) {
        if (!is_part && !fresh) {
          const Sum before = *reinterpret_cast<const Sum*>(target);
#pragma unroll
          for (int k = 0; k < kCount; ++k) sum.values[k] = before.values[k] + sum.values[k];
        }
        *reinterpret_cast<Sum*>(target) = sum;
      }
      sum = Sum{};
      run = p + 1;
    }
  }
}

// One block per chunk. If the chunk's last run begins here and continues in the next chunk, adds its parts in order.
template <class A>
__global__ void add_parts_kernel(A* dtable_VC, const A* parts, Chunks chunks) {
  const Size first = blockIdx.x, last = chunks.end(first) - 1, id = chunks.ids_M[last], C = chunks.C;
  const Size c = static_cast<Size>(blockIdx.y) * blockDim.x + threadIdx.x;
  const bool begins_here = chunks.ids_M[chunks.begin(first)] != id || !chunks.joined(chunks.begin(first));
  if (c >= C || !chunks.joined(last + 1) || !begins_here || !is_inside(id, chunks.V)) return;
  A sum = parts[(2 * first + 1) * C + c];
  for (Size chunk = first + 1;; ++chunk) {
    sum += parts[2 * chunk * C + c];
    const Size end = chunks.end(chunk);
    if (chunks.ids_M[end - 1] != id || !chunks.joined(end)) break;
  }
  dtable_VC[id * C + c] += sum;
}

template <int kCount, class T>
__global__ void add_positions_kernel(Arithmetic<T>* dpositions_TC, const T* dy_MC, Size M, Size tokens, Size C,
                                     Size max_tokens, Size first, bool accumulate) {
  using Sum = Pack<Arithmetic<T>, kCount>;
  const Size packs = C / kCount;
  for (Size i = thread_index(); i < max_tokens * packs; i += thread_count()) {
    const Size position = i / packs, t = position - first, c = i % packs * kCount;
    Sum& target = *reinterpret_cast<Sum*>(dpositions_TC + position * C + c);
    Sum sum = accumulate ? target : Sum{};
    if (t >= 0 && t < tokens) {
#pragma unroll 8
      for (Size m = t; m < M; m += tokens) {
        const auto row = *reinterpret_cast<const Pack<T, kCount>*>(dy_MC + m * C + c);
#pragma unroll
        for (int k = 0; k < kCount; ++k) sum.values[k] += load(row.values[k]);
      }
    }
    target = sum;
  }
}

// Ids of rows: given ones, or, with documents, positions in sequences of `tokens`.
struct RowIds {
  const std::int32_t *ids_M, *starts_M;  // one of them
  Size tokens;
};

// A table's gradient: sorts the ids with their row numbers, then sums chunks of them.
template <class T>
void add_rows(CudaStream stream, Arithmetic<T>* dtable_VC, bool fresh, const T* dy_MC, const RowIds& ids, Size M,
              Size C, Size V) {
  using A = Arithmetic<T>;
  require_embedding_ids(DeviceType::cuda, M);
  const int count = static_cast<int>(M), bits = std::bit_width(static_cast<std::uint32_t>(V));
  std::size_t work = 0;
  std::int32_t* none = nullptr;
  LT_CUDA(
      cub::DeviceRadixSort::SortPairs(nullptr, work, ids.ids_M, none, none, none, count, 0, bits, stream_of(stream)));
  const auto padded = [](Size bytes) { return (bytes + 255) / 256 * 256; };
  const Size column = padded(M * 4), columns = ids.starts_M != nullptr ? 4 : 3;
  const Size sorting = columns * column + padded(static_cast<Size>(work));
  // Chunks of 64 rows, or more if their parts would not fit.
  const Size part_bytes = 2 * C * static_cast<Size>(sizeof(A));
  const Size most = std::max<Size>(1, (memory::kScratchBytes - sorting) / part_bytes);
  const Size rows = std::max<Size>(64, (M + most - 1) / most), chunk_count = (M + rows - 1) / rows;
  std::byte* const memory = memory::scratch(stream, sorting + chunk_count * part_bytes);
  auto *const numbers = reinterpret_cast<std::int32_t*>(memory),
              *const sorted_ids = reinterpret_cast<std::int32_t*>(memory + column),
              *const sorted_rows = reinterpret_cast<std::int32_t*>(memory + 2 * column);
  A* const parts = reinterpret_cast<A*>(memory + sorting);
  row_numbers_kernel<<<blocks_for(stream, M), kThreads, 0, stream_of(stream)>>>(numbers, M);
  check_launch("row_numbers");
  const std::int32_t* ids_M = ids.ids_M;
  if (ids.starts_M != nullptr) {
    auto* const positions = reinterpret_cast<std::int32_t*>(memory + 3 * column);
    positions_kernel<<<blocks_for(stream, M), kThreads, 0, stream_of(stream)>>>(positions, ids.starts_M, M, ids.tokens);
    check_launch("positions");
    ids_M = positions;
  }
  LT_CUDA(cub::DeviceRadixSort::SortPairs(memory + columns * column, work, ids_M, sorted_ids, numbers, sorted_rows,
                                          count, 0, bits, stream_of(stream)));
  const Chunks chunks{sorted_ids, sorted_rows, M, C, V, rows};
  const auto grid = [&](Size channels) {
    return dim3(static_cast<unsigned>(chunk_count),
                static_cast<unsigned>((channels + kColumnThreads - 1) / kColumnThreads));
  };
  dispatch_flag(C % kPack<T> == 0 && aligned(dy_MC, dtable_VC), [&](auto whole) {
    constexpr int kCount = whole.value ? kPack<T> : 1;
    add_chunks_kernel<kCount>
        <<<grid(C / kCount), kColumnThreads, 0, stream_of(stream)>>>(dtable_VC, fresh, parts, dy_MC, chunks);
  });
  check_launch("add_chunks");
  add_parts_kernel<<<grid(C), kColumnThreads, 0, stream_of(stream)>>>(dtable_VC, parts, chunks);
  check_launch("add_parts");
}

}  // namespace

template <>
void embedding_forward(CudaStream stream, const EmbeddingForward& k) {
  const Size M = k.M, T = k.T, C = k.C;
  if (M * C == 0) return;
  dispatch_float(k.dtype, [&]<class E>() {
    E* const y = static_cast<E*>(k.y_MC);
    const E* const table = k.V > 0 ? static_cast<const E*>(k.table_VC) : y;  // all ids are bad in an empty table
    const E* const positions = static_cast<const E*>(k.positions_TC);
    dispatch_flag(C % kPack<E> == 0 && aligned(y, table, positions), [&](auto whole) {
      constexpr int kCount = whole.value ? kPack<E> : 1;
      const Size packs = std::clamp<Size>((C / kCount + kWarp - 1) / kWarp * kWarp, kWarp, kThreads);
      const Size sequences = (M + T - 1) / T, groups = (sequences + kForwardRows - 1) / kForwardRows;
      embedding_forward_kernel<kCount>
          <<<static_cast<unsigned>(T * groups), static_cast<unsigned>(packs), 0, stream_of(stream)>>>(
              y, table, positions, k.ids_M, positions != nullptr ? k.starts_M : nullptr, M, T, C, k.V, k.first,
              k.check);
    });
  });
  check_launch("embedding_forward");
}

template <>
void embedding_backward(CudaStream stream, const EmbeddingBackward& k) {
  const Size M = k.M, C = k.C, max_T = k.max_T;
  if (k.dtable_VC && !k.accumulate_table) {
    fill_zero(stream, k.dtable_VC, k.V * C * dtype_bytes(gradient_dtype(k.dtype)));
  }
  if (C == 0) return;
  dispatch_float(k.dtype, [&]<class E>() {
    using A = Arithmetic<E>;
    const E* const dy = static_cast<const E*>(k.dy_MC);
    if (k.dtable_VC && M > 0)
      add_rows(stream, static_cast<A*>(k.dtable_VC), !k.accumulate_table, dy, {k.ids_M, nullptr, k.T}, M, C, k.V);
    if (k.dpositions_TC && k.starts_M) {
      A* const dpositions = static_cast<A*>(k.dpositions_TC);
      if (!k.accumulate_positions) fill_zero(stream, dpositions, max_T * C * static_cast<Size>(sizeof(A)));
      if (M > 0) add_rows(stream, dpositions, !k.accumulate_positions, dy, {nullptr, k.starts_M, k.T}, M, C, max_T);
    } else if (k.dpositions_TC && max_T > 0) {
      A* const dpositions = static_cast<A*>(k.dpositions_TC);
      dispatch_flag(C % kPack<E> == 0 && aligned(dy, dpositions), [&](auto whole) {
        constexpr int kCount = whole.value ? kPack<E> : 1;
        add_positions_kernel<kCount><<<blocks_for(stream, max_T * C / kCount), kThreads, 0, stream_of(stream)>>>(
            dpositions, dy, M, k.T, C, max_T, k.first, k.accumulate_positions);
      });
      check_launch("add_positions");
    }
  });
}

}  // namespace lt::kernels
