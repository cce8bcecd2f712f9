// Matmul algorithms on CUDA: how they are found in a table, and searched.
#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/cublas_matmuls.h"
#include "kernels/cuda/matmul_search.h"
#include "kernels/cuda/matmul_tiles.h"
#include "kernels/gemm.h"
#include "kernels/matmul_algorithms.h"
#include "kernels/on_both.h"
#include "libtrain/error.h"
#include "test_main/message_of.h"
#include "test_main/world.h"

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
    const Choice before_search = prepared->choice;
    const std::vector<Algorithm> all = cublas.all_algorithms(*prepared);
    CHECK(all.front() == prepared->first);
    std::size_t refused = 0;
    Array d_result(out, M * N), sums_result(DType::f32, M);
    for (std::size_t i = 0; i < all.size(); ++i) {
      device::cuda::copy(d_there.data(), before.data(), before.bytes(), gpu_stream());
      device::cuda::copy(sums_there.data(), no_sums.data(), no_sums.bytes(), gpu_stream());
      prepared->choice = {all[i]};
      const float alpha = 1, beta = accumulate ? 1 : 0;
      cublas.run(*prepared, &alpha, &beta, there, there.d, gpu_stream());
      if (prepared->choice.algorithm != all[i]) ++refused;  // cuBLASLt refused to launch it, and ran its proposal
      d_there.read(d_result), sums_there.read(sums_result);
      CAPTURE(i, all.size(), static_cast<int>(kind), accumulate, dtype_name(dtype), M, N, K);
      CHECK(d_result.same_bits(d));
      if (there.sum_a_M != nullptr) CHECK(sums_result.same_bits(sums));
    }
    CHECK(2 * refused < all.size());
    prepared->choice = before_search;
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

TEST_CASE("cuda: an algorithm survives a round trip through its attributes", "[cuda][cublas]") {
  if (!has_gpu()) return;
  cublasLtHandle_t handle = nullptr;
  LT_CUBLAS(cublasLtCreate(&handle));
  Cublas cublas(kGpu.index);
  std::size_t checked = 0;
  for (const auto& [dtype, type] : {std::pair{DType::bf16, CUDA_R_16BF}, {DType::f32, CUDA_R_32F}}) {
    DeviceArray a(Array(dtype, 512 * 384)), b(Array(dtype, 640 * 384)), d(Array(dtype, 512 * 640));
    const Gemm g{
        .M = 512, .N = 640, .K = 384, .a = a.data(), .b = b.data(), .d = d.data(), .dtype = dtype, .out = dtype};
    const Prepared* const prepared = cublas.prepare(problem_of(gpu_stream(), g, false, g.d));
    REQUIRE(prepared != nullptr);
    for (const Algorithm& algorithm : cublas.all_algorithms(*prepared)) {
      CHECK(algorithm_of(handle, {CUBLAS_COMPUTE_32F, CUDA_R_32F, type, type}, attributes_of(algorithm)) == algorithm);
      ++checked;
    }
  }
  CHECK(checked > 8);
  TableAlgorithm split = attributes_of({});
  split.attributes[TableAlgorithm::kSplit] = 2, split.attributes[TableAlgorithm::kReduce] = 1;
  CHECK(!algorithm_of(handle, {CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_32F, CUDA_R_32F}, split));
  cublasLtDestroy(handle);
}

TEST_CASE("cuda: matmuls have the same bits each time", "[cuda]") {
  if (!has_gpu()) return;
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    CAPTURE(dtype_name(dtype));
    const Size M = 768, N = 512, K = 1031;
    const Array a = random_array(dtype, M * K, 1), b = random_array(dtype, K * N, 2);
    DeviceArray a_there(a), b_there(b);
    const auto matmul = [&](DType out, bool deterministic) {
      return gpu_matmul({.M = M,
                         .N = N,
                         .K = K,
                         .a = a_there.data(),
                         .b = b_there.data(),
                         .dtype = dtype,
                         .out = out,
                         .settings = {.deterministic = deterministic}});
    };
    for (const DType out : {dtype, DType::f32}) {
      const Array first = matmul(out, true);
      for (int i = 0; i < 20; ++i) CHECK(matmul(out, i % 2 == 0).same_bits(first));
    }
  }
}

TEST_CASE("cuda: a matmul takes what a search found; other processes read it from the table",
          "[cuda][cublas][search]") {
  if (!has_gpu()) return;
  const Size M = 512, N = 768, K = 256;
  DeviceArray a(small_numbers(DType::bf16, M * K, 1)), b(small_numbers(DType::bf16, N * K, 2));
  DeviceArray d(Array(DType::bf16, M * N)), input(Array(DType::bf16, M * N));
  Gemm g{.M = M, .N = N, .K = K, .a = a.data(), .b = b.data(), .d = d.data(), .transpose_b = true};
  g.dtype = g.out = DType::bf16;
  Cublas cublas(kGpu.index);
  cublas.use(std::nullopt);
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
  CHECK(p->choice == Choice{p->first});
  const Array expected = run(*p, g);

  std::vector<SearchedMatmul> searched;
  const auto search = [&](const std::function<void()>& compute) {
    searched.clear();
    return MatmulSearch(cublas, [&](const SearchedMatmul& matmul) { searched.push_back(matmul); }).search(compute);
  };
  Gemm adding = g, pinned = g;
  adding.accumulate = true, pinned.pinned = true;
  Prepared* const of_pinned = cublas.prepare(problem_of(gpu_stream(), pinned, false, g.d));
  REQUIRE(of_pinned != nullptr);
  CHECK(search([&] { run(*p, adding), run(*of_pinned, pinned); }).algorithms.empty());
  AlgorithmTable table = search([&] { run(*p, g), run(*p, g); });
  REQUIRE(searched.size() == 1);
  CHECK(searched[0].name == "bf16 512 x 768 x 256, B transposed");
  CHECK(searched[0].in_all == 1);
  CHECK(searched[0].found_ms > 0);
  CHECK(searched[0].found_ms <= searched[0].present_ms);
  CHECK(p->choice == Choice{p->first});  // the search changes nothing here
  CHECK(table.gpu == cublas.gpu());
  CHECK(table.algorithms.size() == 1);

  // Passes that take no time win.
  g.gelu_input_MN = input.data();
  const Problem fused = problem_of(gpu_stream(), g, false, g.d);
  Prepared* const with_gelu = cublas.prepare(fused);
  REQUIRE(with_gelu != nullptr);
  CHECK(with_gelu->choice.fused);
  const AlgorithmTable of_gelu = search([&] {
    cublas.run_chosen(
        *with_gelu, g, gpu_stream(), [&] { run(*with_gelu, g); }, [] {});
  });
  CHECK(searched.back().name == "bf16 512 x 768 x 256, B transposed, GELU");
  table.algorithms.insert(of_gelu.algorithms.begin(), of_gelu.algorithms.end());

  Cublas in_another_process(kGpu.index);
  in_another_process.use(AlgorithmTable::parse(table.text(), "the table"));
  REQUIRE(in_another_process.prepare(fused) != nullptr);
  CHECK(!in_another_process.prepare(fused)->choice.fused);
  CHECK(attributes_of(in_another_process.prepare(problem)->choice.algorithm) ==
        table.algorithms.at(*problem.in_table()));
  cublas.use(table);  // frees what was prepared
  CHECK(run(*cublas.prepare(problem), g).same_bits(expected));

  // An algorithm that this version does not have gives way to the first proposal.
  for (auto& [matmul, algorithm] : table.algorithms) algorithm.attributes[TableAlgorithm::kId] = 9999;
  cublas.use(table);
  CHECK(cublas.prepare(problem)->choice == Choice{cublas.prepare(problem)->first});
}

TEST_CASE("cuda: a table for another kind of GPU or a damaged one is refused, and nothing changes", "[cuda]") {
  if (!has_gpu()) return;
  const std::string before = matmul_algorithms(kGpu);
  CHECK(lt_test::message_of<UsageError>([] {
          use_matmul_algorithms(kGpu, "libtrain-algorithms 1\ngpu sm_80 108\ncublaslt 13.1.0\n", "a.txt");
        }).find("found: sm_80 with 108 multiprocessors") != std::string::npos);
  CHECK(lt_test::message_of<DataError>([] { use_matmul_algorithms(kGpu, "libtrain", "a.txt"); }) ==
        "a.txt: line 1: expected a newline at its end, found: libtrain");
  CHECK(matmul_algorithms(kGpu) == before);
}

TEST_CASE("cuda: cuBLASLt accepts each entry of the carried table", "[cuda][cublas]") {
  if (!has_gpu()) return;
  Cublas cublas(kGpu.index);
  if (cublas.gpu() != GpuKind{90, 132}) return lt_test::skip("the table is for sm_90 with 132 multiprocessors");
  CHECK(digest_of_algorithms(matmul_algorithms(kGpu)) == digest_of_algorithms(carried_matmul_algorithms(kGpu)));
  REQUIRE(cublas.table().has_value());
  for (const auto& [m, algorithm] : cublas.table()->algorithms) {
    const Size lda = m.transpose_a ? m.M : m.K, ldb = m.transpose_b ? m.K : m.N;
    const Prepared* const prepared = cublas.prepare({{m.M, m.N, m.K, lda, ldb, m.N, m.N, 1, 0, 0, 0, 0},
                                                     {m.transpose_a, m.transpose_b, m.tf32, m.one_scale},
                                                     m.epilogue,
                                                     m.dtype,
                                                     m.out,
                                                     {128, 128, 128, 128},
                                                     kGpu.index,
                                                     false});
    REQUIRE(prepared != nullptr);
    CAPTURE(m.M, m.N, m.K, static_cast<int>(m.epilogue));
    CHECK(prepared->choice.fused == !algorithm.passes);
    if (!algorithm.passes) CHECK(attributes_of(prepared->choice.algorithm) == algorithm);
  }
}
