// Embedding look-up and its gradient: sums in row order, for any number of threads.
#include "kernels/embedding.h"

#include <omp.h>

#include "kernels/documents.h"
#include "kernels/inputs.h"
#include "kernels/tolerance.h"
#include "libtrain/device/device.h"
#include "test_main/catch.h"

using namespace lt;
using namespace lt::kernels;
using namespace lt::test;

namespace {

struct EmbeddingShape {
  Size B, T, C, V, max_T;
};
constexpr EmbeddingShape kEmbeddingShapes[] = {
    {1, 1, 1, 1, 1}, {2, 3, 5, 7, 4}, {4, 50, 128, 256, 64}, {3, 33, 100, 11, 33}, {2, 8, 65, 5000, 9}};

}  // namespace

TEST_CASE("embedding_forward looks up tokens and adds positions", "[kernels]") {
  for (const DType dtype : kFloats) {
    for (const EmbeddingShape& s : kEmbeddingShapes) {
      const Size M = s.B * s.T, first = s.max_T - s.T;
      const Array table = random_array(dtype, s.V * s.C, 1), positions = random_array(dtype, s.max_T * s.C, 2);
      const auto ids = random_ids(M, s.V, 3);
      Array y(dtype, M * s.C);
      std::vector<double> tokens(static_cast<std::size_t>(M * s.C)), both(tokens.size());
      for (Size i = 0; i < M * s.C; ++i) {
        const Size m = i / s.C, c = i % s.C;
        const std::size_t u = static_cast<std::size_t>(i);
        tokens[u] = table[ids[static_cast<std::size_t>(m)] * s.C + c];
        both[u] = tokens[u] + positions[(first + m % s.T) * s.C + c];
      }
      embedding_forward(CpuStream{}, {dtype, M, s.T, s.C, s.V, y.data(), table.data(), nullptr, ids.data(), 0});
      CHECK(error_of(y, tokens) == 0);
      embedding_forward(CpuStream{},
                        {dtype, M, s.T, s.C, s.V, y.data(), table.data(), positions.data(), ids.data(), first});
      CHECK(error_of(y, both) <= tolerance(dtype));
    }
  }
}

TEST_CASE("embedding_backward sums each row of the tables", "[kernels]") {
  for (const DType dtype : kFloats) {
    const DType sums = kernels::gradient_dtype(dtype);
    for (const EmbeddingShape& s : kEmbeddingShapes) {
      const Size M = s.B * s.T;
      const auto ids = random_ids(M, s.V, 3);
      const Array dy = random_array(dtype, M * s.C, 4);
      for (const bool accumulate : {false, true}) {
        Array table = random_array(sums, s.V * s.C, 5), positions = random_array(sums, s.max_T * s.C, 6);
        std::vector<double> table_expected(static_cast<std::size_t>(s.V * s.C)),
            positions_expected(static_cast<std::size_t>(s.max_T * s.C));
        if (accumulate) table_expected = table.values(), positions_expected = positions.values();
        for (Size i = 0; i < M * s.C; ++i) {
          const Size m = i / s.C, c = i % s.C;
          table_expected[static_cast<std::size_t>(ids[static_cast<std::size_t>(m)] * s.C + c)] += dy[i];
          positions_expected[static_cast<std::size_t>(m % s.T * s.C + c)] += dy[i];
        }
        const Array table_before = copy_of(table);
        embedding_backward(CpuStream{}, {dtype, M, s.T, s.C, s.V, s.max_T, table.data(), positions.data(), accumulate,
                                         accumulate, dy.data(), ids.data()});
        CHECK(error_of(table, table_expected) <= tolerance(sums));
        CHECK(error_of(positions, positions_expected) <= tolerance(sums));
        Array alone = copy_of(table_before);
        embedding_backward(CpuStream{}, {dtype, M, s.T, s.C, s.V, s.max_T, alone.data(), nullptr, accumulate, false,
                                         dy.data(), ids.data()});
        CHECK(alone.same_bits(table));
      }
    }
  }
}

TEST_CASE("embedding_backward gives the bits of the sum in row order at every number of threads", "[kernels]") {
  const Size M = 10000, T = 100, C = 112, V = 5;  // large enough for several owners of rows
  const auto ids = random_ids(M, V, 3);
  const Array dy = random_array(DType::f32, M * C, 4);
  Array expected(DType::f32, V * C);
  for (Size i = 0; i < M * C; ++i) {
    float& sum = pointer<float>(expected)[ids[static_cast<std::size_t>(i / C)] * C + i % C];
    sum += static_cast<float>(dy[i]);
  }
  const int threads = omp_get_max_threads();
  for (const int count : {1, 2, 3, 7}) {
    omp_set_num_threads(count);
    Array table(DType::f32, V * C);
    embedding_backward(CpuStream{},
                       {DType::f32, M, T, C, V, T, table.data(), nullptr, false, false, dy.data(), ids.data()});
    CHECK(table.same_bits(expected));
  }
  omp_set_num_threads(threads);
}

TEST_CASE("embedding: with documents, positions count from a document's start, forward and backward", "[kernels]") {
  const EmbeddingShape s{3, 33, 100, 11, 40};
  const Size M = s.B * s.T;
  const auto ids = random_ids(M, s.V, 3);
  const auto starts = document_starts(s.B, s.T, {5, 1, 40});
  for (const DType dtype : kFloats) {
    const DType sums = kernels::gradient_dtype(dtype);
    const Array table = random_array(dtype, s.V * s.C, 1), positions = random_array(dtype, s.max_T * s.C, 2);
    const Array dy = random_array(dtype, M * s.C, 4);
    Array y(dtype, M * s.C);
    embedding_forward(
        CpuStream{}, {dtype, M, s.T, s.C, s.V, y.data(), table.data(), positions.data(), ids.data(), 0, starts.data()});
    for (const bool accumulate : {false, true}) {
      Array dpositions = random_array(sums, s.max_T * s.C, 6);
      std::vector<double> both(static_cast<std::size_t>(M * s.C)), expected(static_cast<std::size_t>(s.max_T * s.C));
      if (accumulate) expected = dpositions.values();
      for (Size i = 0; i < M * s.C; ++i) {
        const Size m = i / s.C, c = i % s.C;
        const std::size_t u = static_cast<std::size_t>(m);
        const Size position = m % s.T - starts[u];
        both[static_cast<std::size_t>(i)] = table[ids[u] * s.C + c] + positions[position * s.C + c];
        expected[static_cast<std::size_t>(position * s.C + c)] += dy[i];
      }
      CHECK(error_of(y, both) <= tolerance(dtype));
      embedding_backward(CpuStream{}, {dtype, M, s.T, s.C, s.V, s.max_T, nullptr, dpositions.data(), false, accumulate,
                                       dy.data(), ids.data(), starts.data()});
      CHECK(error_of(dpositions, expected) <= tolerance(sums));
    }
  }
}
