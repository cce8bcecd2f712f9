// CUDA kernels compared with the CPU on the same inputs: all dtypes, odd sizes, sizes that fill a device, with and
// without accumulation. gemm_cuda_test.cpp tests matmuls, attention_cuda_test.cpp attention, optimizers_cuda_test.cpp
// optimizers, and reduce_cuda_test.cpp sums.
#include <array>

#include "kernels/documents.h"
#include "kernels/elementwise.h"
#include "kernels/embedding.h"
#include "kernels/norm.h"
#include "kernels/on_both.h"
#include "kernels/qk_norm.h"
#include "kernels/random.h"
#include "kernels/rope.h"

using namespace lt;
using namespace lt::kernels;
using namespace lt::test;

namespace {

const std::int32_t* as_ids(const void* p) { return static_cast<const std::int32_t*>(p); }

void check_norms(DType dtype, Rows rows) {
  const DType sums = kernels::gradient_dtype(dtype);
  const Size R = rows.R, C = rows.C;
  for (const bool add : {false, true}) {
    CAPTURE(R, C, add, dtype_name(dtype));
    OnBoth both;
    const int x = both.array(dtype, R * C), w = both.array(dtype, C), b = both.array(dtype, C),
              dy = both.array(dtype, R * C), y = both.array(dtype, R * C), mean = both.array(sums, R),
              rstd = both.array(sums, R), dx = both.array(dtype, R * C), dw = both.array(sums, C),
              db = both.array(sums, C), y2 = both.array(dtype, R * C), rstd2 = both.array(sums, R),
              dx2 = both.array(dtype, R * C), dw2 = both.array(sums, C);
    both.run(
        [&](auto s, auto at) {
          layer_norm_forward(s, {dtype, R, C, at(y), at(mean), at(rstd), at(x), at(w), at(b), 1e-2f});
          layer_norm_backward(
              s, {dtype, R, C, at(dx), at(dw), at(db), add, add, add, at(dy), at(x), at(w), at(mean), at(rstd)});
          rms_norm_forward(s, {dtype, R, C, at(y2), at(rstd2), at(x), at(w), 1e-2f});
          rms_norm_backward(s, {dtype, R, C, at(dx2), at(dw2), add, add, at(dy), at(x), at(w), at(rstd2)});
          if (!add) rms_norm_backward(s, {dtype, R, C, at(x), nullptr, false, false, at(dy), at(x), at(w), at(rstd2)});
        },
        8);  // rstd of a row with few channels is up to 10 and multiplies earlier errors
  }
}

}  // namespace

TEST_CASE("cuda: conversions, fills and scaling", "[cuda]") {
  for_floats([](DType dtype) {
    for (const Size n : kCounts) {
      for (const bool add : {false, true}) {
        for (const DType to : kFloats) {
          OnBoth both;
          const int x = both.array(dtype, n), y = both.array(to, n), z = both.array(dtype, n), f = both.array(dtype, n),
                    zero = both.array(dtype, n);
          both.run([&](auto s, auto at) {
            convert(s, to, at(y), dtype, at(x), n, add);
            scale(s, dtype, at(z), at(x), -1.75, n, add);
            fill(s, dtype, at(f), 0.375, n);
            fill_zero(s, at(zero), n * dtype_bytes(dtype));
          });
        }
      }
    }
  });
}

TEST_CASE("cuda: strided copies, sums and matmuls", "[cuda]") {
  for_floats([](DType dtype) {
    for (const bool add : {false, true}) {
      OnBoth both;
      const int a = both.array(dtype, 5 * 33 * 7), b = both.array(dtype, 7), out = both.array(dtype, 33 * 5 * 7),
                sum = both.array(dtype, 5 * 33 * 7), matmul = both.array(dtype, 5 * 33 * 7);
      both.run([&](auto s, auto at) {
        kernels::copy_strided(s, dtype, {3, {33, 5, 7}, {35, 7, 1}, {7, 231, 1}, {}}, at(out), at(a), add);
        const Strided rows{2, {165, 7}, {7, 1}, {7, 1}, {0, 1}};
        kernels::add(s, dtype, rows, at(sum), at(a), at(b));
        kernels::mul(s, dtype, rows, at(matmul), at(a), at(b), add);
      });
    }
  });
}

TEST_CASE("cuda: GELU's derivative of huge numbers, whose squares overflow, is 0 or 1", "[cuda]") {
  const double huge[] = {-65, -1e12, -1e15, -1e20, -2e19, -3e38, 65, 1e12, 2e19, 3e38, std::nan("")};
  for_floats([&](DType dtype) {
    for (const double x_of_all : huge) {
      if (dtype == DType::f16 && std::abs(x_of_all) > 65) continue;
      CAPTURE(dtype_name(dtype), x_of_all);
      Array result(dtype, 1, x_of_all);
      DeviceArray x(result), dx(Array(dtype, 1, 1));  // dx is dy first
      gelu_backward(gpu_stream(), dtype, dx.data(), dx.data(), x.data(), 1, false);
      dx.read(result);
      CHECK((std::isnan(x_of_all) ? std::isnan(result[0]) : result[0] == (x_of_all > 0 ? 1 : 0)));
    }
  });
}

TEST_CASE("cuda: activations and dropout", "[cuda]") {
  for_floats([](DType dtype) {
    for (const Size n : kCounts) {
      for (const bool add : {false, true}) {
        OnBoth both;
        const int x = both.array(dtype, n, 6), dy = both.array(dtype, n), y = both.array(dtype, n),
                  dx = both.array(dtype, n), u = both.array(dtype, n), du = both.array(dtype, n),
                  d = both.array(dtype, n), whole = both.array(dtype, n), in_place = both.array(dtype, n),
                  numbered = both.array(dtype, n), aligned = both.array(dtype, n),
                  counter = both.words(std::uint64_t{1} << 33);
        both.run([&](auto s, auto at) {
          gelu_forward(s, dtype, at(y), at(x), n);
          gelu_backward(s, dtype, at(dx), at(dy), at(x), n, add);
          silu_forward(s, dtype, at(u), at(x), n);
          silu_backward(s, dtype, at(du), at(dy), at(x), n, add);
          kernels::dropout(s, {dtype, n, at(d), at(x), 0.3f, 77, {13}, add});
          kernels::dropout(s, {dtype, n, at(whole), at(x), 0.3f, 77, {16}, add});
          kernels::dropout(s, {dtype, n, at(in_place), at(in_place), 0.3f, 77, {16}, add});
          const auto* const samples = static_cast<const std::uint64_t*>(at(counter));
          kernels::dropout(s, {dtype, n, at(numbered), at(x), 0.3f, 77, {5, samples, 3}, add});
          kernels::dropout(s, {dtype, n, at(aligned), at(x), 0.3f, 77, {8, samples, 4}, add});
        });
      }
    }
    for (const auto [R, F] : kRows) {
      for (const bool add : {false, true}) {
        OnBoth both;
        const int x = both.array(dtype, R * 2 * F, 3), y = both.array(dtype, R * F), dy = both.array(dtype, R * F),
                  dx = both.array(dtype, R * 2 * F);
        both.run([&, R = R, F = F](auto s, auto at) {
          swiglu_forward(s, dtype, at(y), at(x), R, F);
          swiglu_backward(s, dtype, at(dx), at(dy), at(x), R, F, add);
        });
      }
    }
  });
}

TEST_CASE("cuda: norms", "[cuda]") {
  for_floats([](DType dtype) {
    for (const Rows rows : kRows) check_norms(dtype, rows);
  });
}

// Every width of RowShape, for elements of two bytes and of four, with enough rows that the backward reuses a warp's
// memory; the first case does so for the forward.
TEST_CASE("cuda: norms of many rows", "[cuda]") {
  if (!has_gpu()) return;
  constexpr Rows kTwoBytes[] = {{17'000, 64}, {3200, 768},  {3200, 1000}, {2200, 1280},
                                {2200, 1600}, {2200, 2048}, {800, 4096},  {540, 8192}};
  constexpr Rows kFourBytes[] = {{17'000, 64}, {3200, 384},  {3200, 500}, {2200, 640},
                                 {2200, 768},  {2200, 1024}, {800, 2048}, {540, 4096}};
  for (const Rows rows : kTwoBytes) check_norms(DType::bf16, rows);
  for (const Rows rows : {kTwoBytes[1], kTwoBytes[4]}) check_norms(DType::f16, rows);
  for (const Rows rows : kFourBytes) check_norms(DType::f32, rows);
}

TEST_CASE("cuda: norms of rows anywhere in memory, of long rows, and with gradients or b left out", "[cuda]") {
  for_floats([](DType dtype) {
    const DType sums = kernels::gradient_dtype(dtype);
    const auto bytes = static_cast<std::size_t>(dtype_bytes(dtype));
    for (const auto& [R, C, skip] :
         {std::array<Size, 3>{0, 64, 0}, {9, 64, 1}, {5, 6000, 0}, {5, 20'000, 0}, {40, 128, 0}}) {
      OnBoth both;
      const int x = both.array(dtype, R * C + skip), w = both.array(dtype, C), b = both.array(dtype, C),
                dy = both.array(dtype, R * C + skip), y = both.array(dtype, R * C + skip), mean = both.array(sums, R),
                rstd = both.array(sums, R), dx = both.array(dtype, R * C + skip), dw = both.array(sums, C),
                db = both.array(sums, C), in_place = both.array(dtype, R * C + skip),
                without_b = both.array(dtype, R * C + skip);
      both.run(
          [&, R = R, C = C, skip = skip](auto s, auto at) {
            const auto from = [&](int i) {
              return static_cast<void*>(static_cast<std::byte*>(at(i)) + static_cast<std::size_t>(skip) * bytes);
            };
            layer_norm_forward(s, {dtype, R, C, from(without_b), at(mean), at(rstd), from(x), at(w), nullptr, 1e-2f});
            layer_norm_forward(s, {dtype, R, C, from(y), at(mean), at(rstd), from(x), at(w), at(b), 1e-2f});
            layer_norm_backward(s, {dtype, R, C, from(dx), nullptr, nullptr, false, false, false, from(dy), from(x),
                                    at(w), at(mean), at(rstd)});
            layer_norm_backward(s, {dtype, R, C, nullptr, at(dw), at(db), false, false, true, from(dy), from(x), at(w),
                                    at(mean), at(rstd)});
            layer_norm_backward(s, {dtype, R, C, from(in_place), nullptr, at(db), false, false, false, from(in_place),
                                    from(x), at(w), at(mean), at(rstd)});
          },
          8);
    }
  });
}

TEST_CASE("cuda: embeddings", "[cuda]") {
  for_floats([](DType dtype) {
    const DType sums = kernels::gradient_dtype(dtype);
    for (const auto [M, C] : kRows) {
      for (const bool add : {false, true}) {
        const Size V = 50, T = M % 2 == 0 ? M / 2 : M, max_T = T + 3;
        OnBoth both;
        const int table = both.array(dtype, V * C), positions = both.array(dtype, max_T * C), ids = both.ids(M, V),
                  y = both.array(dtype, M * C), dy = both.array(dtype, M * C), dtable = both.array(sums, V * C),
                  dpositions = both.array(sums, max_T * C);
        both.run([&, M = M, C = C](auto s, auto at) {
          embedding_forward(s, {dtype, M, T, C, V, at(y), at(table), at(positions), as_ids(at(ids)), 2});
          embedding_backward(s,
                             {dtype, M, T, C, V, max_T, at(dtable), at(dpositions), add, add, at(dy), as_ids(at(ids))});
        });
      }
    }
  });
}

TEST_CASE("cuda: embeddings without positions, of sequences of one token", "[cuda]") {
  for_floats([](DType dtype) {
    for (const auto [M, C] : kRows) {
      OnBoth both;
      const int table = both.array(dtype, 50 * C), ids = both.ids(M, 50), y = both.array(dtype, M * C),
                one = both.array(dtype, M * C);
      both.run([&, M = M, C = C](auto s, auto at) {
        embedding_forward(s, {dtype, M, M, C, 50, at(y), at(table), nullptr, as_ids(at(ids)), 0});
        embedding_forward(s, {dtype, M, 1, C, 50, at(one), at(table), nullptr, as_ids(at(ids)), 0});
      });
    }
  });
}

TEST_CASE("cuda: embeddings with documents, and from a later position on", "[cuda]") {
  for_floats([](DType dtype) {
    const DType sums = kernels::gradient_dtype(dtype);
    for (const auto [T, C] : {Rows{1, 8}, Rows{33, 40}, Rows{200, 9}}) {
      for (const bool add : {false, true}) {
        const Size B = 5, M = B * T, V = 50, max_T = T + 3;
        OnBoth both;
        const int table = both.array(dtype, V * C), positions = both.array(dtype, max_T * C), ids = both.ids(M, V),
                  starts = both.ids(document_starts(B, T, {1, 70, 9})), y = both.array(dtype, M * C),
                  dy = both.array(dtype, M * C), dtable = both.array(sums, V * C),
                  dpositions = both.array(sums, max_T * C), dlater = both.array(sums, max_T * C);
        both.run([&, T = T, C = C](auto s, auto at) {
          embedding_forward(
              s, {dtype, M, T, C, V, at(y), at(table), at(positions), as_ids(at(ids)), 0, as_ids(at(starts))});
          embedding_backward(s, {dtype, M, T, C, V, max_T, at(dtable), at(dpositions), add, add, at(dy),
                                 as_ids(at(ids)), as_ids(at(starts))});
          embedding_backward(
              s, {dtype, M, T, C, V, max_T, nullptr, at(dlater), false, add, at(dy), as_ids(at(ids)), nullptr, 3});
        });
      }
    }
  });
}

TEST_CASE("cuda: gradients of ids that are frequent", "[cuda]") {
  for_floats([](DType dtype) {
    const DType sums = kernels::gradient_dtype(dtype);
    for (const Size V : {1, 3, 7}) {
      for (const auto [M, C] : {Rows{64, 8}, Rows{65, 40}, Rows{128, 9}, Rows{1000, 40}, Rows{1411, 136}}) {
        OnBoth both;
        const int ids = both.ids(M, V), dy = both.array(dtype, M * C), dtable = both.array(sums, V * C);
        both.run([&, M = M, C = C](auto s, auto at) {
          embedding_backward(s, {dtype, M, M, C, V, 0, at(dtable), nullptr, true, false, at(dy), as_ids(at(ids))});
        });
      }
    }
  });
}

TEST_CASE("cuda: rotary positions", "[cuda]") {
  for_floats([](DType dtype) {
    for (const bool add : {false, true}) {
      for (const bool inverse : {false, true}) {
        for (const Size D : {12, 64, 128, 320}) {  // 8, 4, 2 and 1 tokens per block
          const Size B = 3, T = 37, heads = 5, row = 8 * D;
          OnBoth both;
          const int x = both.array(dtype, B * T * row), y = both.array(dtype, B * T * row);
          both.run([&](auto s, auto at) {
            rope(s, {dtype, B, T, row, heads, D, at(y), at(x), 10000.0, 4, inverse, add});
            const RopeScaling scaling{RopeScaling::Kind::llama3, 8, 1, 4, 16};
            if (!add) rope(s, {dtype, B, T, row, heads, D, at(x), at(x), 10000.0, 4, inverse, false, scaling});
          });
        }
      }
    }
  });
}

TEST_CASE("cuda: rotary positions in documents", "[cuda]") {
  for_floats([](DType dtype) {
    for (const bool inverse : {false, true}) {
      for (const Size D : {12, 64, 128, 320}) {
        const Size B = 70, T = 37, heads = 3, row = 4 * D;  // more sequences than blocks take at once
        OnBoth both;
        const int x = both.array(dtype, B * T * row), y = both.array(dtype, B * T * row),
                  starts = both.ids(document_starts(B, T, {1, 20, 9}));
        both.run([&](auto s, auto at) {
          rope(s, {.dtype = dtype,
                   .B = B,
                   .T = T,
                   .row = row,
                   .heads = heads,
                   .D = D,
                   .y_BTrow = at(y),
                   .x_BTrow = at(x),
                   .base = 10000.0,
                   .inverse = inverse,
                   .starts_BT = as_ids(at(starts))});
        });
      }
    }
  });
}

TEST_CASE("cuda: QK-norm", "[cuda]") {
  for_floats([](DType dtype) {
    for (const QkNormShape s : {QkNormShape{1, 1, 1, 1}, {37, 6, 2, 64}, {5, 3, 3, 33}, {300, 2, 1, 128}}) {
      CAPTURE(s.rows, s.H, s.G, s.D);
      const DType sums = kernels::gradient_dtype(dtype);
      OnBoth both;
      const int x = both.array(dtype, s.rows * s.row(), 2), dy = both.array(dtype, s.rows * s.row());
      const int wq = both.array(dtype, s.D), wk = both.array(dtype, s.D), y = both.array(dtype, s.rows * s.row());
      const int rstd = both.array(sums, s.rows * s.heads()), dwq = both.array(sums, s.D), dwk = both.array(sums, s.D);
      both.run([&](auto stream, auto at) {
        qk_norm_forward(stream, {dtype, s, at(y), at(rstd), at(x), at(wq), at(wk), 1e-5f});
        qk_norm_backward(stream,
                         {dtype, s, at(dy), at(dwq), at(dwk), true, false, at(dy), at(x), at(wq), at(wk), at(rstd)});
      });
    }
  });
}

TEST_CASE("cuda: normal random numbers", "[cuda]") {
  if (!has_gpu()) return;
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    for (const Size n : kCounts) {
      for (const std::uint64_t first : {0u, 5u, 4'000'000'003u}) {
        OnBoth both;
        const int values = both.array(dtype, n);
        both.run([&](auto s, auto at) { fill_normal(s, dtype, at(values), 77, first, n, 0.25f, 2.0f); });
      }
    }
  }
}
