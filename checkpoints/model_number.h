// Numbers of a model's description. It comes from a file, so none may make a reader overflow or take memory before the
// description was compared with the parameters that the file has.
#pragma once

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "libtrain/dtype.h"
#include "libtrain/error.h"

namespace lt::checkpoint {

// The product of any two of these, and of three times the one with the other, fits 63 bits.
inline constexpr Size kMaxModelSize = Size{1} << 28;
inline constexpr Size kMaxModelLayers = Size{1} << 16;

// model[key], an integer of [1, limit]. Throws DataError, or nlohmann's exception where the key is missing.
inline Size model_size(const nlohmann::json& model, const char* key, Size limit = kMaxModelSize) {
  const nlohmann::json& value = model.at(key);
  const bool fits = value.is_number_integer() && value >= 1 && value <= limit;
  if (fits) return value.get<Size>();
  throw DataError("checkpoint", fmt::format("manifest.json: model.{}: expected an integer of 1 to {}, found {}", key,
                                            limit, value.is_structured() ? value.type_name() : value.dump()));
}

// model[key], a finite number of [low, high].
inline double model_real(const nlohmann::json& model, const char* key, double low, double high) {
  const nlohmann::json& value = model.at(key);
  if (value.is_number() && value.get<double>() >= low && value.get<double>() <= high) return value.get<double>();
  throw DataError("checkpoint", fmt::format("manifest.json: model.{}: expected a number of {} to {}, found {}", key,
                                            low, high, value.is_structured() ? value.type_name() : value.dump()));
}

}  // namespace lt::checkpoint
