// Gives the device's Cublas object its table.
#include "kernels/matmul_algorithms.h"

#include <cublasLt.h>

#include <optional>
#include <string>
#include <utility>

#include "kernels/algorithm_table.h"
#include "kernels/cuda/carried_algorithms.h"
#include "kernels/cuda/cublas_matmuls.h"
#include "libtrain/error.h"

namespace lt::kernels {
namespace {

std::string text_of(const std::optional<AlgorithmTable>& table) { return table ? table->text() : ""; }

}  // namespace

std::string carried_matmul_algorithms(Device device) {
  if (device.type != DeviceType::cuda) return {};
  return text_of(carried_algorithms(Cublas::of(device.index).gpu()));
}

std::string matmul_algorithms(Device device) {
  return device.type == DeviceType::cuda ? text_of(Cublas::of(device.index).table()) : "";
}

void use_matmul_algorithms(Device device, const std::string& text, const std::string& where) {
  if (device.type != DeviceType::cuda) return;
  Cublas& cublas = Cublas::of(device.index);
  if (text.empty()) return cublas.use(std::nullopt);
  AlgorithmTable table = AlgorithmTable::parse(text, where);
  if (table.gpu != cublas.gpu()) {
    throw UsageError(
        "kernels", where + ": expected algorithms for " + to_string(cublas.gpu()) + ", found: " + to_string(table.gpu),
        "make a table for this GPU with ltrain bench tune");
  }
  cublas.use(std::move(table));
}

std::string cublaslt_version() {
  const std::size_t version = cublasLtGetVersion();  // 130103
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

}  // namespace lt::kernels
