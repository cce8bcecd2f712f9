// A table of matmul algorithms: which configuration of cuBLASLt computes which matmul on one kind of GPU. Its text is a
// file format (docs/reference/algorithm-tables.md).
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "libtrain/dtype.h"

namespace lt::kernels {

// Work that cuBLASLt fuses into a matmul.
enum class Epilogue { none, bias, gelu, bias_gelu, gelu_gradient, sum_a };

// A matmul as tables name it: arrays without gaps, aligned to 128 bytes, no batch.
struct TableMatmul {
  DType dtype = DType::f32, out = DType::f32;
  bool tf32 = false, one_scale = false;
  bool transpose_a = false, transpose_b = false;
  Epilogue epilogue = Epilogue::none;
  Size M = 0, N = 0, K = 0;

  auto operator<=>(const TableMatmul&) const = default;
};

// The attributes of an algorithm of cuBLASLt, in the order of kAttributes.
struct TableAlgorithm {
  static constexpr std::string_view kAttributes[] = {"id",     "tile",    "stages", "cluster", "split",
                                                     "reduce", "swizzle", "option", "inner",   "workspace"};
  static constexpr std::size_t kId = 0, kTile = 1, kStages = 2, kCluster = 3, kSplit = 4, kReduce = 5, kSwizzle = 6,
                               kOption = 7, kInner = 8, kWorkspace = 9;

  std::array<std::uint32_t, 10> attributes{};
  // The matmul without the epilogue, then a separate pass, is faster than the fused matmul.
  bool passes = false;

  bool operator==(const TableAlgorithm&) const = default;
};

// A kind of GPU: a table applies to all devices of a kind.
struct GpuKind {
  int architecture = 0;  // 90: compute capability 9.0
  int multiprocessors = 0;

  bool operator==(const GpuKind&) const = default;
};
std::string to_string(const GpuKind& kind);  // "sm_90 with 132 multiprocessors"

struct AlgorithmTable {
  GpuKind gpu;
  std::string cublaslt;  // the version that was searched, "13.1.1"
  std::map<TableMatmul, TableAlgorithm> algorithms;

  // Throws DataError that names `where` and the line if the text is damaged or of another version of the format.
  static AlgorithmTable parse(std::string_view text, const std::string& where);
  std::string text() const;
  // 16 hex digits of the kind of GPU and the algorithms.
  std::string digest() const;

  // Returns the algorithm of the matmul, or of the nearest one that differs in M or in K alone, by at most a factor of
  // kMostFactor: usually the one with another number of tokens. Null if there is none.
  const TableAlgorithm* find(const TableMatmul& matmul) const;
  static constexpr double kMostFactor = 4;
};

}  // namespace lt::kernels
