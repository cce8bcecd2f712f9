// Reads and writes the text of tables, and finds the nearest entry.
#include "kernels/algorithm_table.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <utility>
#include <vector>

#include "kernels/matmul_algorithms.h"
#include "libtrain/error.h"
#include "libtrain/kernels/random.h"

namespace lt::kernels {
namespace {

constexpr std::string_view kFirstLine = "libtrain-algorithms 1";
constexpr std::string_view kEpilogues[] = {"none", "bias", "gelu", "bias_gelu", "gelu_gradient", "sum_a"};
constexpr DType kDTypes[] = {DType::f32, DType::f64, DType::bf16, DType::f16, DType::e4m3};
constexpr std::string_view kPasses = "passes";

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  for (std::size_t at = 0; (at = line.find_first_not_of(' ', at)) != line.npos;) {
    const std::size_t end = std::min(line.find(' ', at), line.size());
    words.push_back(line.substr(at, end - at));
    at = end;
  }
  return words;
}

template <class N>
bool read(std::string_view word, N& number) {
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  return error == std::errc{} && end == word.data() + word.size() && number >= 0;
}

// One line of a file, for errors.
struct Line {
  const std::string& where;
  Size number;

  [[noreturn]] void refuse(std::string_view expected, std::string_view found) const {
    throw DataError("kernels", where + ": line " + std::to_string(number) + ": expected " + std::string(expected) +
                                   ", found: " + std::string(found.substr(0, 80)));
  }
};

DType dtype_of(std::string_view word, const Line& line) {
  const auto* const found = std::ranges::find(kDTypes, word, dtype_name);
  if (found == std::end(kDTypes)) line.refuse("a dtype", word);
  return *found;
}

// "bf16", "f32/tf32", "e4m3/one_scale".
std::string operands_text(const TableMatmul& m) {
  return std::string(dtype_name(m.dtype)) + (m.tf32 ? "/tf32" : "") + (m.one_scale ? "/one_scale" : "");
}

TableMatmul matmul_of(const std::vector<std::string_view>& words, const Line& line) {
  TableMatmul m;
  const std::size_t slash = words[0].find('/');
  const std::string_view mode = slash == words[0].npos ? "" : words[0].substr(slash + 1);
  m.dtype = dtype_of(words[0].substr(0, slash), line), m.out = dtype_of(words[1], line);
  m.tf32 = mode == "tf32" && m.dtype == DType::f32, m.one_scale = mode == "one_scale" && m.dtype == DType::e4m3;
  if (slash != words[0].npos && !m.tf32 && !m.one_scale) line.refuse("f32/tf32 or e4m3/one_scale", words[0]);
  if (m.out == DType::e4m3) line.refuse("a dtype of results", words[1]);
  const std::string_view layout = words[2];
  if (layout.size() != 2 || layout.find_first_not_of("nt") != layout.npos) line.refuse("nn, nt, tn or tt", layout);
  m.transpose_a = layout[0] == 't', m.transpose_b = layout[1] == 't';
  for (const auto& [size, word] : {std::pair{&m.M, words[3]}, {&m.N, words[4]}, {&m.K, words[5]}}) {
    if (!read(word, *size) || *size == 0) line.refuse("the size of a matrix", word);
  }
  const auto* const epilogue = std::ranges::find(kEpilogues, words[6]);
  if (epilogue == std::end(kEpilogues)) line.refuse("an epilogue", words[6]);
  m.epilogue = static_cast<Epilogue>(epilogue - std::begin(kEpilogues));
  return m;
}

std::string text_of(const TableMatmul& m) {
  std::string text = operands_text(m) + " " + std::string(dtype_name(m.out)) + " ";
  text += m.transpose_a ? 't' : 'n', text += m.transpose_b ? 't' : 'n';
  for (const Size size : {m.M, m.N, m.K}) text += " " + std::to_string(size);
  return text + " " + std::string(kEpilogues[static_cast<std::size_t>(m.epilogue)]);
}

constexpr std::size_t kMatmulWords = 7;

TableAlgorithm algorithm_of(const std::vector<std::string_view>& words, Epilogue epilogue, const Line& line) {
  TableAlgorithm algorithm;
  if (words.size() == kMatmulWords + 1 && words.back() == kPasses) {
    if (epilogue == Epilogue::none || epilogue == Epilogue::bias) line.refuse("an algorithm", kPasses);
    algorithm.passes = true;
    return algorithm;
  }
  constexpr std::uint32_t kMost = 0xffff;  // cuBLASLt's clusters and inner shapes have two bytes
  for (std::size_t i = kMatmulWords; i < words.size(); ++i) {
    const std::size_t equals = words[i].find('=');
    const auto* const name = std::ranges::find(TableAlgorithm::kAttributes, words[i].substr(0, equals));
    std::uint32_t value = 0;
    if (equals == words[i].npos || name == std::end(TableAlgorithm::kAttributes) ||
        !read(words[i].substr(equals + 1), value) || value > kMost)
      line.refuse("an attribute of an algorithm", words[i]);
    algorithm.attributes[static_cast<std::size_t>(name - std::begin(TableAlgorithm::kAttributes))] = value;
  }
  return algorithm;
}

std::string text_of(const TableAlgorithm& algorithm) {
  if (algorithm.passes) return " " + std::string(kPasses);
  std::string text;
  for (std::size_t i = 0; i < algorithm.attributes.size(); ++i) {
    if (algorithm.attributes[i] == 0) continue;
    text += " " + std::string(TableAlgorithm::kAttributes[i]) + "=" + std::to_string(algorithm.attributes[i]);
  }
  return text;
}

std::string gpu_line(const GpuKind& gpu) {
  return "gpu sm_" + std::to_string(gpu.architecture) + " " + std::to_string(gpu.multiprocessors);
}

// The factor between two sizes, at least 1.
double factor(Size a, Size b) {
  return static_cast<double>(std::max(a, b)) / static_cast<double>(std::max<Size>(std::min(a, b), 1));
}

}  // namespace

std::string to_string(const GpuKind& kind) {
  return "sm_" + std::to_string(kind.architecture) + " with " + std::to_string(kind.multiprocessors) +
         " multiprocessors";
}

AlgorithmTable AlgorithmTable::parse(std::string_view text, const std::string& where) {
  AlgorithmTable table;
  Line line{where, 0};
  bool has_gpu = false;
  while (!text.empty()) {
    ++line.number;
    const std::size_t end = text.find('\n');
    if (end == text.npos) line.refuse("a newline at its end", text);
    const std::string_view content = text.substr(0, end);
    text.remove_prefix(end + 1);
    const std::vector<std::string_view> words = words_of(content);
    if (line.number == 1) {
      if (content != kFirstLine) line.refuse(kFirstLine, content);
    } else if (words.empty() || words[0].starts_with('#')) {
      continue;
    } else if (words[0] == "gpu") {
      has_gpu = words.size() == 3 && words[1].starts_with("sm_") && read(words[1].substr(3), table.gpu.architecture) &&
                read(words[2], table.gpu.multiprocessors);
      if (!has_gpu) line.refuse("gpu sm_90 132 or another kind", content);
    } else if (words[0] == "cublaslt") {
      if (words.size() != 2) line.refuse("cublaslt and a version", content);
      table.cublaslt = words[1];
    } else {
      if (words.size() <= kMatmulWords) line.refuse("a matmul and its algorithm", content);
      const TableMatmul matmul = matmul_of(words, line);
      if (!table.algorithms.emplace(matmul, algorithm_of(words, matmul.epilogue, line)).second)
        line.refuse("each matmul once", text_of(matmul));
    }
  }
  if (line.number == 0) line.refuse(kFirstLine, "an empty file");
  if (!has_gpu) line.refuse("a line gpu before the end", "none");
  if (table.cublaslt.empty()) line.refuse("a line cublaslt before the end", "none");
  return table;
}

std::string AlgorithmTable::text() const {
  std::string text = std::string(kFirstLine) + "\n" + gpu_line(gpu) + "\ncublaslt " + cublaslt + "\n";
  for (const auto& [matmul, algorithm] : algorithms) text += text_of(matmul) + text_of(algorithm) + "\n";
  return text;
}

std::string AlgorithmTable::digest() const {
  AlgorithmTable same = *this;
  same.cublaslt = "any";
  char digits[17] = "";
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(derive_key(0, same.text())));
  return digits;
}

std::string digest_of_algorithms(const std::string& text) {
  return text.empty() ? "none" : AlgorithmTable::parse(text, "a table of algorithms").digest();
}

const TableAlgorithm* AlgorithmTable::find(const TableMatmul& matmul) const {
  if (const auto exact = algorithms.find(matmul); exact != algorithms.end()) return &exact->second;
  const TableAlgorithm* nearest = nullptr;
  double least = kMostFactor;
  for (const auto& [entry, algorithm] : algorithms) {
    TableMatmul same = entry;
    same.M = matmul.M, same.K = matmul.K;
    if (same != matmul || (entry.M != matmul.M && entry.K != matmul.K)) continue;
    const double distance = factor(entry.M, matmul.M) * factor(entry.K, matmul.K);
    if (distance < least || (nearest == nullptr && distance == least)) nearest = &algorithm, least = distance;
  }
  return nearest;
}

}  // namespace lt::kernels
