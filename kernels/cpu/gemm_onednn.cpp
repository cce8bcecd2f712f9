// Matmuls through oneDNN: sgemm for the f32 matmuls that it computes faster, the matmul primitive for the rest. Each
// thread creates a primitive once per shape and caches up to kMostPrimitives of them.
#include <algorithm>
#include <array>
#include <string_view>
#include <unordered_map>

#include "kernels/cpu/gemm_loops.h"
#include "kernels/cpu/onednn.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/scratch.h"

namespace lt::kernels {
namespace {

constexpr std::size_t kMostPrimitives = 1024;

// Everything that a primitive depends on.
struct Key {
  std::array<Size, 12> words;

  explicit Key(const Gemm& g)
      : words{g.M,     g.N,        g.K,        g.lda,      g.ldb,    g.ldd,
              g.batch, g.stride_a, g.stride_b, g.stride_d, flags(g), omp_in_parallel() ? 1 : omp_get_max_threads()} {}
  bool operator==(const Key&) const = default;

 private:
  static Size flags(const Gemm& g) {
    return static_cast<Size>(g.dtype) | static_cast<Size>(g.out) << 4 | (g.transpose_a ? 1 << 8 : 0) |
           (g.transpose_b ? 1 << 9 : 0) | (g.accumulate ? 1 << 10 : 0) | (g.bias_N ? 1 << 11 : 0) |
           (g.add_MN ? 1 << 12 : 0);
  }
};

struct KeyHash {
  std::size_t operator()(const Key& key) const {
    std::uint64_t h = 0;
    for (const Size word : key.words) h = (h ^ static_cast<std::uint64_t>(word)) * 0x9E3779B97F4A7C15u, h ^= h >> 29;
    return static_cast<std::size_t>(h);
  }
};

// A primitive with its arguments; each call sets their addresses. No primitive: oneDNN has no fast implementation.
struct Matmul {
  dnnl::matmul primitive;
  std::unordered_map<int, dnnl::memory> arguments;
  Size scratchpad_bytes = 0;
};

struct Context {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  std::unordered_map<Key, Matmul, KeyHash> matmuls;
};

using Desc = dnnl::memory::desc;

dnnl::memory::data_type type_of(DType dtype) {
  return dtype == DType::bf16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
}

// [batch, rows, columns], or [rows, columns] for one item. A stride of 0 between items makes them one broadcast item.
Desc matrix(const Gemm& g, DType dtype, Size rows, Size columns, Size ld, bool transposed, Size stride) {
  const Size line = ld ? ld : (transposed ? rows : columns);
  const Size row_step = transposed ? 1 : line, column_step = transposed ? line : 1;
  if (g.batch == 1) return Desc({rows, columns}, type_of(dtype), dnnl::memory::dims{row_step, column_step});
  const Size items = stride ? g.batch : 1;
  return Desc({items, rows, columns}, type_of(dtype),
              dnnl::memory::dims{stride ? stride : rows * columns, row_step, column_step});
}

Matmul make_matmul(const dnnl::engine& engine, const Gemm& g) {
  const Desc a = matrix(g, g.dtype, g.M, g.K, g.lda, g.transpose_a, g.stride_a);
  const Desc b = matrix(g, g.dtype, g.K, g.N, g.ldb, g.transpose_b, g.stride_b);
  const Desc d = matrix(g, g.out, g.M, g.N, g.ldd, false, g.stride_d);
  const Desc bias = g.bias_N ? matrix(g, g.dtype, 1, g.N, 0, false, 0) : Desc();
  const Desc add = g.add_MN ? matrix(g, g.out, g.M, g.N, 0, false, 0) : Desc();
  dnnl::post_ops after;
  if (g.accumulate) after.append_sum(1.0f);
  if (g.add_MN) after.append_binary(dnnl::algorithm::binary_add, add);
  dnnl::primitive_attr attr;
  attr.set_post_ops(after);
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);

  Matmul matmul;
  try {
    const auto description = describe_matmul(engine, a, b, bias, d, attr);
    if (std::string_view(description.impl_info_str()).starts_with("ref")) return matmul;
    const auto argument = [&](int index, const Desc& desc) {
      matmul.arguments.emplace(index, dnnl::memory(desc, engine, nullptr));
    };
    argument(DNNL_ARG_SRC, a);
    argument(DNNL_ARG_WEIGHTS, b);
    argument(DNNL_ARG_DST, d);
    if (g.bias_N) argument(DNNL_ARG_BIAS, bias);
    if (g.add_MN) argument(DNNL_ARG_ATTR_MULTIPLE_POST_OP(g.accumulate ? 1 : 0) | DNNL_ARG_SRC_1, add);
    argument(DNNL_ARG_SCRATCHPAD, description.scratchpad_desc());
    matmul.scratchpad_bytes = static_cast<Size>(description.scratchpad_desc().get_size());
    matmul.primitive = dnnl::matmul(description);
  } catch (const dnnl::error& e) {
    if (e.status != dnnl_unimplemented && e.status != dnnl_invalid_arguments) throw;
    matmul.primitive = dnnl::matmul();
  }
  return matmul;
}

bool run_matmul(const Gemm& g) {
  thread_local Context context;
  const Key key(g);
  auto found = context.matmuls.find(key);
  if (found == context.matmuls.end()) {
    if (context.matmuls.size() >= kMostPrimitives) context.matmuls.clear();
    found = context.matmuls.emplace(key, make_matmul(context.engine, g)).first;
  }
  Matmul& matmul = found->second;
  if (!matmul.primitive) return false;
  const auto set = [&](int index, const void* data) {
    matmul.arguments.at(index).set_data_handle(const_cast<void*>(data));
  };
  set(DNNL_ARG_SRC, g.a);
  set(DNNL_ARG_WEIGHTS, g.b);
  set(DNNL_ARG_DST, g.d);
  if (g.bias_N) set(DNNL_ARG_BIAS, g.bias_N);
  if (g.add_MN) set(DNNL_ARG_ATTR_MULTIPLE_POST_OP(g.accumulate ? 1 : 0) | DNNL_ARG_SRC_1, g.add_MN);
  set(DNNL_ARG_SCRATCHPAD, scratch<std::byte>(std::max<Size>(matmul.scratchpad_bytes, 64)));
  matmul.primitive.execute(context.stream, matmul.arguments);
  context.stream.wait();
  return true;
}

}  // namespace

bool gemm_onednn(const Gemm& g) {
  if (g.dtype != DType::f32 && g.dtype != DType::bf16) return false;
  if (g.dtype == DType::f32 && sgemm_onednn(g)) return true;
  return run_matmul(g);
}

}  // namespace lt::kernels
