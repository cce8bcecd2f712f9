// Matmul algorithms on CUDA: how they are chosen, searched and stored.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <thread>
#include <vector>

#include "kernels/cuda/algorithm_file.h"
#include "kernels/cuda/cublas_matmuls.h"
#include "kernels/cuda/matmul_tiles.h"
#include "kernels/gemm.h"
#include "kernels/matmul_search.h"
#include "kernels/on_both.h"
#include "libtrain/error.h"

using namespace lt;
using namespace lt::kernels;
using namespace lt::test;

namespace {

// -1, 0 and 1: their sums are so small that two bytes hold them exactly, so every algorithm has the same bits.
Array small_numbers(DType dtype, Size count, std::uint64_t seed) {
  Array values(dtype, count);
  const auto ids = random_ids(count, 3, seed);
  for (Size i = 0; i < count; ++i) values.set(i, ids[static_cast<std::size_t>(i)] - 1);
  return values;
}

}  // namespace

TEST_CASE("tiles of a matmul: those that cover its result in fewer rounds cost less", "[cublas]") {
  const auto cost = [](Size M, Size N, cublasLtMatmulTile_t id) {
    const std::vector<TileConfiguration> tiles = tiles_by_cost(M, N, 132);
    CHECK(std::is_sorted(tiles.begin(), tiles.end(), [](const auto& a, const auto& b) { return a.cost < b.cost; }));
    return std::find_if(tiles.begin(), tiles.end(), [&](const TileConfiguration& tile) { return tile.id == id; })->cost;
  };
  // 1600 columns take 5 tiles of 320, or 7 of 256; 2048 take 8 of 256, or 7 of 320, the last less than half full.
  CHECK(cost(16384, 1600, CUBLASLT_MATMUL_TILE_320x128) < 0.9 * cost(16384, 1600, CUBLASLT_MATMUL_TILE_256x128));
  CHECK(cost(16384, 2048, CUBLASLT_MATMUL_TILE_256x128) < cost(16384, 2048, CUBLASLT_MATMUL_TILE_320x128));
  // One tile too many costs a round: 132 multiprocessors take 12 x 11 tiles at once.
  CHECK(cost(1408, 3072, CUBLASLT_MATMUL_TILE_256x128) < 0.6 * cost(1409, 3072, CUBLASLT_MATMUL_TILE_256x128));
}

TEST_CASE("cuda: all algorithms that a matmul is timed with give the same bits, all tiles too",
          "[cuda][cublas][search]") {
  if (!has_gpu()) return;
  std::size_t most = 0;
  enum class Kind { plain, bias, weight_gradient, weight_gradient_and_sums };
  const auto check = [&](DType dtype, Kind kind, bool accumulate, Size M, Size N, Size K) {
    const bool is_weight_gradient = kind == Kind::weight_gradient || kind == Kind::weight_gradient_and_sums;
    const DType out = is_weight_gradient ? DType::f32 : dtype;
    const Array a = small_numbers(dtype, M * K, 1), b = small_numbers(dtype, N * K, 2),
                bias = small_numbers(dtype, N, 3), before = small_numbers(out, M * N, 4);
    Array d = small_numbers(out, M * N, 4), sums(DType::f32, M);
    const auto matmul = [&](auto& a_at, auto& b_at, auto& bias_at, auto& d_at, auto& sums_at) {
      Gemm g{.M = M, .N = N, .K = K, .a = a_at.data(), .b = b_at.data(), .d = d_at.data(), .dtype = dtype, .out = out};
      g.transpose_a = is_weight_gradient, g.transpose_b = !is_weight_gradient, g.accumulate = accumulate;
      if (kind == Kind::bias) g.bias_N = bias_at.data();
      if (kind == Kind::weight_gradient_and_sums) g.sum_a_M = static_cast<float*>(sums_at.data());
      return g;
    };
    gemm(CpuStream{}, matmul(a, b, bias, d, sums));
    const Array no_sums(DType::f32, M, -1);
    DeviceArray a_there(a), b_there(b), bias_there(bias), d_there(before), sums_there(no_sums);
    const Gemm there = matmul(a_there, b_there, bias_there, d_there, sums_there);
    Cublas& cublas = Cublas::of(kGpu.index);
    Prepared* const prepared = cublas.prepare(problem_of(gpu_stream(), there, kind == Kind::bias, there.d));
    REQUIRE(prepared != nullptr);
    const std::vector<Algorithm> before_search = prepared->candidates;
    std::vector<Algorithm> all = before_search;
    if (dtype == DType::bf16) {
      cublas.take_search_candidates(*prepared);
      all.insert(all.end(), prepared->candidates.begin(), prepared->candidates.end());
    }
    std::size_t refused = 0;
    Array d_result(out, M * N), sums_result(DType::f32, M);
    for (std::size_t i = 0; i < all.size(); ++i) {
      device::cuda::copy(d_there.data(), before.data(), before.bytes(), gpu_stream());
      device::cuda::copy(sums_there.data(), no_sums.data(), no_sums.bytes(), gpu_stream());
      prepared->candidates = {all[i]};
      const float alpha = 1, beta = accumulate ? 1 : 0;
      try {
        cublas.run(*prepared, &alpha, &beta, there, there.d, gpu_stream());
      } catch (const InternalError&) {  // cuBLASLt may refuse to launch what it has not proposed
        REQUIRE(i >= before_search.size());
        ++refused;
        continue;
      }
      d_there.read(d_result), sums_there.read(sums_result);
      CAPTURE(i, all.size(), static_cast<int>(kind), accumulate, dtype_name(dtype), M, N, K);
      CHECK(d_result.same_bits(d));
      if (there.sum_a_M != nullptr) CHECK(sums_result.same_bits(sums));
    }
    CHECK(2 * refused < all.size());
    prepared->candidates = before_search;
    most = std::max(most, all.size());
  };
  for (const DType dtype : {DType::bf16, DType::f16}) {
    for (const auto& [M, N, K] : {std::array<Size, 3>{384, 640, 256}, {520, 1608, 264}}) {
      for (const bool accumulate : {false, true}) {
        for (const Kind kind : {Kind::plain, Kind::bias, Kind::weight_gradient}) {
          check(dtype, kind, accumulate, M, N, K);
        }
      }
      check(dtype, Kind::weight_gradient_and_sums, false, M, N, K);
    }
  }
  if (device::cuda::compute_capability(kGpu.index) == 90) CHECK(most > 300);
}

TEST_CASE("cuda: deterministic matmuls have the same bits again, before and after an algorithm was chosen", "[cuda]") {
  if (!has_gpu()) return;
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    CAPTURE(dtype_name(dtype));
    const Size M = 768, N = 512, K = 1031;
    const Array a = random_array(dtype, M * K, 1), b = random_array(dtype, K * N, 2);
    DeviceArray a_there(a), b_there(b);
    const auto matmul = [&](bool deterministic) {
      return gpu_matmul({.M = M,
                         .N = N,
                         .K = K,
                         .a = a_there.data(),
                         .b = b_there.data(),
                         .dtype = dtype,
                         .out = dtype,
                         .settings = {.deterministic = deterministic}});
    };
    const Array first = matmul(true), chosen = matmul(false);
    for (int i = 0; i < 3; ++i) CHECK(matmul(true).same_bits(first));
    CHECK(error_of(chosen, first.values()) <= 2 * tolerance(dtype));
  }
}

TEST_CASE("cuda: algorithms are timed by one process at a time, and the others read the choice", "[cuda][cublas]") {
  if (!has_gpu()) return;
  AlgorithmFile first(kGpu.index), second(kGpu.index);  // as two processes have them
  lt::kernels::Algorithm chosen{.has_workspace = false};
  chosen.words.data[0] = 7;
  std::atomic<bool> has_turn{false};
  std::optional<AlgorithmFile::Turn> turn(std::in_place, first);
  std::thread other([&] {
    const AlgorithmFile::Turn its(second);
    has_turn = true;
  });
  {
    const AlgorithmFile::Turn nested(first);
    CHECK(first.add("a-matmul", chosen));
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  CHECK(!has_turn);
  CHECK(!second.find("a-matmul"));
  turn.reset();
  other.join();
  REQUIRE(second.find("a-matmul"));
  CHECK(second.find("a-matmul")->words.data[0] == 7);
  CHECK(!second.find("a-matmul")->has_workspace);
}

TEST_CASE("cuda: a searched matmul takes what was found or what it took before; the file keeps it",
          "[cuda][cublas][search]") {
  if (!has_gpu()) return;
  const Size M = 512, N = 768, K = 256;
  DeviceArray a(small_numbers(DType::bf16, M * K, 1)), b(small_numbers(DType::bf16, N * K, 2));
  DeviceArray d(Array(DType::bf16, M * N)), input(Array(DType::bf16, M * N));
  Gemm g{.M = M, .N = N, .K = K, .a = a.data(), .b = b.data(), .d = d.data(), .transpose_b = true};
  g.dtype = g.out = DType::bf16;
  Cublas cublas(kGpu.index);
  const float one = 1, zero = 0;
  const auto run = [&](Prepared& p, const Gemm& matmul) {
    cublas.run(p, &one, &zero, matmul, matmul.d, gpu_stream());
    Array result(DType::bf16, M * N);
    d.read(result);
    return result;
  };
  const Problem problem = problem_of(gpu_stream(), g, false, g.d);
  Prepared* const p = cublas.prepare(problem);
  REQUIRE(p != nullptr);
  REQUIRE(p->candidates.size() > 1);
  const Algorithm before = p->candidates[1];
  p->candidates = {before};  // as a run's choice
  const Array expected = run(*p, g);

  std::vector<SearchedMatmul> searched;
  const ReportSearch report = [&](const SearchedMatmul& matmul) { searched.push_back(matmul); };
  const auto search = [&](const std::function<void()>& compute) { cublas.search(compute, report); };
  search([&] {
    Gemm deterministic = g, adding = g;
    deterministic.settings.deterministic = true, adding.accumulate = true;
    run(*p, deterministic), run(*p, adding);
  });
  CHECK(searched.empty());
  search([&] { run(*p, g), run(*p, g); });
  REQUIRE(searched.size() == 1);
  CHECK(searched[0].name == "bf16 512 x 768 x 256, B transposed");
  CHECK(searched[0].in_all == 1);
  CHECK(searched[0].found_ms > 0);
  CHECK(searched[0].found_ms <= searched[0].present_ms);
  REQUIRE(p->candidates.size() == 1);
  const Algorithm found = p->candidates.front();
  CHECK(run(*p, g).same_bits(expected));
  cublas.use(Algorithms::present);
  CHECK(p->candidates.front() == before);
  cublas.use(Algorithms::found);
  CHECK(p->candidates.front() == found);
  CHECK(!AlgorithmFile(kGpu.index).find(problem.text()));
  CHECK(!cublas.keep_found().empty());
  CHECK(AlgorithmFile(kGpu.index).find(problem.text()) == found);

  // Passes that take no time win.
  g.gelu_input_MN = input.data();
  const Problem fused = problem_of(gpu_stream(), g, false, g.d);
  Prepared* const with_gelu = cublas.prepare(fused);
  REQUIRE(with_gelu != nullptr);
  search([&] {
    cublas.run_faster(
        *with_gelu, g, gpu_stream(), [&] { run(*with_gelu, g); }, [] {});
  });
  CHECK(searched.back().name == "bf16 512 x 768 x 256, B transposed, GELU");
  CHECK(with_gelu->fused_wins == false);
  cublas.keep_found();
  Cublas in_another_process(kGpu.index);
  REQUIRE(in_another_process.prepare(fused) != nullptr);
  CHECK(in_another_process.prepare(fused)->fused_wins == false);
  CHECK(in_another_process.prepare(problem)->candidates == std::vector{found});

  // Matmuls of sizes that may not come again are not timed, and take what is known.
  g.settings.varied_sizes = true, g.M /= 2;
  const Problem shorter = problem_of(gpu_stream(), g, false, g.d);
  Prepared* const prompt = cublas.prepare(shorter);
  REQUIRE(prompt != nullptr);
  int passes = 0;
  for (int call = 0; call < 2; ++call) {
    cublas.run_faster(
        *prompt, g, gpu_stream(), [&] { run(*prompt, g); }, [&] { ++passes; });
  }
  CHECK(passes == 2);
  run(*prompt, g);
  CHECK(prompt->candidates.size() > 1);
  CHECK(!AlgorithmFile(kGpu.index).find(shorter.text()));
}
