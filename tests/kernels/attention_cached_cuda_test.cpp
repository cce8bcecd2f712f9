// Attention with a cache on CUDA, compared with the CPU. Without a device, the tests report why and check nothing.
#include <array>
#include <cmath>

#include "kernels/attention_options.h"
#include "kernels/attention_tolerance.h"
#include "kernels/cuda/attention_decode.h"
#include "kernels/device_array.h"

using namespace lt;
using kernels::AttentionShape;
using test::Array;
using test::DeviceArray;
using test::gpu_stream;
using test::has_gpu;

namespace {

// A call on both devices over the same numbers. Compares the results, and what was appended to the caches.
void compare_cached(const AttentionShape& s, DType dtype, Size past, const std::vector<std::int32_t>& pasts,
                    double rope_base) {
  const Size capacity = 883, kv = s.G * s.D;
  CAPTURE(s.B, s.T, s.H, s.G, s.D, s.window, dtype_name(dtype), past, pasts.size(), rope_base);
  Array qkv = Array::random(dtype, s.B * s.T * s.row(), 1);
  Array k = Array::random(dtype, s.B * capacity * kv, 2), v = Array::random(dtype, s.B * capacity * kv, 3);
  Array out(dtype, s.B * s.T * s.H * s.D, 99), found(out.dtype(), out.count(), 99);
  const Array rows = Array::random(dtype, qkv.count(), 1);  // the call may rotate its own
  DeviceArray k_there(k), v_there(v), out_there(found);
  DeviceArray workspace(kernels::attention_cached_workspace(DeviceType::cuda, dtype, s));
  DeviceArray pasts_there(static_cast<Size>(std::max<std::size_t>(1, pasts.size()) * sizeof(std::int32_t)));
  kernels::AttentionCached call{dtype, s, 0.2, out.data(), qkv.data(), k.data(), v.data(), capacity, past};
  call.rope_base = rope_base;
  if (!pasts.empty()) call.past_B = pasts.data();
  kernels::attention_cached(CpuStream{}, call);
  call.out_BTHD = out_there.data(), call.k_cache = k_there.data();
  call.v_cache = v_there.data(), call.workspace = workspace.data();
  if (!pasts.empty()) {
    device::cuda::copy(pasts_there.data(), pasts.data(), static_cast<Size>(pasts.size() * sizeof(std::int32_t)),
                       gpu_stream());
    call.past_B = static_cast<const std::int32_t*>(pasts_there.data());
  }
  DeviceArray there(rows);
  call.qkv = there.data();
  kernels::attention_cached(gpu_stream(), call);
  out_there.read(found);
  CHECK(test::attention_error(found, out) <= test::own_tolerance(dtype).out);
  Array k_found(dtype, k.count()), v_found(dtype, v.count());
  k_there.read(k_found), v_there.read(v_found);
  CHECK(test::attention_error(k_found, k) <= test::own_tolerance(dtype).out);
  CHECK(v_found.same_bits(v));
}

}  // namespace

TEST_CASE("attention on CUDA: generation from a cache agrees with the CPU's", "[cuda]") {
  if (!has_gpu()) return;
  for (const Size D : {4, 20, 64, 100, 128, 256}) {
    for (const DType dtype : test::kFloats) {
      for (const auto& [past, count, window] :
           {std::array<Size, 3>{0, 70, 0}, {82, 1, 0}, {40, 7, 0}, {0, 1, 0}, {40, 7, 5}, {82, 1, 50}, {0, 70, 33}}) {
        for (const double base : {0.0, 10000.0}) {
          compare_cached({2, count, 6, 2, D, window}, dtype, past, {}, base);
        }
      }
    }
  }
}

TEST_CASE("attention on CUDA: one token of sequences of any lengths, with split keys", "[cuda]") {
  if (!has_gpu()) return;
  for (const DType dtype : test::kFloats) {
    for (const Size D : {20, 64, 128, 256}) {
      for (const auto& [H, G] : {std::pair<Size, Size>{8, 2}, {6, 1}, {3, 3}, {16, 2}}) {
        compare_cached({4, 1, H, G, D}, dtype, 0, {0, 63, 64, 882}, 500000.0);
        compare_cached({1, 1, H, G, D, 70}, dtype, 0, {511}, 10000.0);
      }
    }
  }
}

TEST_CASE("attention on CUDA: a key that is no number makes the output none", "[cuda]") {
  if (!has_gpu()) return;
  const Size capacity = 700, past = 650;
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const Size D : {20, 64, 128}) {
      const AttentionShape s{1, 1, 4, 2, D};
      Array keys = Array::random(dtype, capacity * s.G * D, 2);
      keys.set(100 * D, std::nan(""));
      DeviceArray qkv(Array::random(dtype, s.row(), 1)), k(keys), v(Array::random(dtype, keys.count(), 3));
      Array out(dtype, s.H * D);
      DeviceArray out_there(out), workspace(kernels::attention_cached_workspace(DeviceType::cuda, dtype, s));
      kernels::AttentionCached call{dtype, s, 0.2, out_there.data(), qkv.data(), k.data(), v.data(), capacity, past};
      call.workspace = workspace.data();
      kernels::attention_cached(gpu_stream(), call);
      out_there.read(out);
      CAPTURE(dtype_name(dtype), D);
      CHECK(std::isnan(out[0]));       // of its head
      CHECK(!std::isnan(out[2 * D]));  // of another head's
    }
  }
}

TEST_CASE("attention on CUDA: a sequence gets the same bits beside others, and without clusters", "[cuda]") {
  if (!has_gpu()) return;
  const Size capacity = 700;
  const AttentionShape one{1, 1, 8, 2, 64}, four{4, 1, 8, 2, 64};
  const Array row = Array::random(DType::bf16, one.row(), 1), cache = Array::random(DType::bf16, capacity * 128, 2);
  const auto outputs = [&](const AttentionShape& s, bool clusters) {
    const auto repeated = [&](const Array& x) {
      Array all(x.dtype(), s.B * x.count());
      for (Size i = 0; i < all.count(); ++i) all.set(i, x[i % x.count()]);
      return all;
    };
    DeviceArray qkv(repeated(row)), k(repeated(cache)), v(repeated(cache)), out(s.B * 8 * 64 * 2);
    DeviceArray workspace(kernels::attention_cached_workspace(DeviceType::cuda, DType::bf16, s));
    kernels::AttentionCached call{DType::bf16, s, 0.2, out.data(), qkv.data(), k.data(), v.data(), capacity, 650};
    call.workspace = workspace.data();
    REQUIRE(kernels::decode::attention(gpu_stream(), call, clusters));
    Array all(DType::bf16, s.B * 8 * 64);
    out.read(all);
    return all;
  };
  const Array alone = outputs(one, true), beside = outputs(four, true);
  CHECK(outputs(one, false).same_bits(alone));
  for (Size i = 0; i < beside.count(); ++i) REQUIRE(beside[i] == alone[i % alone.count()]);
}
