// The names of values in a configuration, such as "zero3", "bf16", "auto". A type with a table here can be the type of
// a key.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "libtrain/config/config.h"
#include "libtrain/data/data.h"
#include "libtrain/device/device.h"
#include "libtrain/dtype.h"
#include "libtrain/nn/module.h"
#include "libtrain/optim/optimizer.h"
#include "libtrain/parallel/determinism.h"
#include "libtrain/parallel/strategy.h"

namespace lt::config {

template <class T>
struct Named {
  std::string_view name;
  T value;
};

template <class T>
inline constexpr std::nullptr_t kNames = nullptr;  // no table

template <>
inline constexpr std::array kNames<Documents> = std::to_array<Named<Documents>>({{"cross", Documents::cross},
                                                                                 {"mask", Documents::mask}});
template <>
inline constexpr std::array kNames<TokenFormat> = std::to_array<Named<TokenFormat>>({{"auto", TokenFormat::automatic},
                                                                                     {"raw16", TokenFormat::raw16}});
template <>
inline constexpr std::array kNames<CommBackend> = std::to_array<Named<CommBackend>>({{"auto", CommBackend::automatic},
                                                                                     {"mpi", CommBackend::mpi},
                                                                                     {"nccl", CommBackend::nccl}});
template <>
inline constexpr std::array kNames<Precision> = std::to_array<Named<Precision>>(
    {{"f32", Precision::f32}, {"bf16", Precision::bf16}, {"f16", Precision::f16}, {"fp8", Precision::fp8}});
template <>
inline constexpr std::array kNames<std::optional<Precision>> = [] {
  std::array<Named<std::optional<Precision>>, std::size(kNames<Precision>) + 1> names{};
  names[0] = {"auto", std::nullopt};
  for (std::size_t i = 1; i < names.size(); ++i)
    names[i] = {kNames<Precision>[i - 1].name, kNames<Precision>[i - 1].value};
  return names;
}();
template <>
inline constexpr std::array kNames<std::optional<DeviceType>> = std::to_array<Named<std::optional<DeviceType>>>(
    {{"auto", std::nullopt}, {"cpu", DeviceType::cpu}, {"cuda", DeviceType::cuda}});
template <>
inline constexpr std::array kNames<std::optional<bool>> =
    std::to_array<Named<std::optional<bool>>>({{"auto", std::nullopt}, {"true", true}, {"false", false}});
// Gradients on the wire, optimizer states.
template <>
inline constexpr std::array kNames<DType> = std::to_array<Named<DType>>({{"f32", DType::f32}, {"bf16", DType::bf16}});
// Master weights.
template <>
inline constexpr std::array kNames<std::optional<DType>> =
    std::to_array<Named<std::optional<DType>>>({{"f32", DType::f32}, {"none", std::nullopt}});
template <>
inline constexpr std::array kNames<Decay> = std::to_array<Named<Decay>>(
    {{"cosine", Decay::cosine}, {"linear", Decay::linear}, {"wsd", Decay::wsd}, {"constant", Decay::constant}});
template <>
inline constexpr std::array kNames<Strategy> = [] {
  std::array<Named<Strategy>, std::size(kStrategies)> names{};
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = {kStrategies[i].name, kStrategies[i]};
  return names;
}();
template <>
inline constexpr std::array kNames<Determinism> = std::to_array<Named<Determinism>>(
    {{"false", Determinism::off}, {"true", Determinism::on}, {"elastic", Determinism::elastic}});
template <>
inline constexpr std::array kNames<Recompute> = [] {
  std::array<Named<Recompute>, std::size(nn::kRecomputeNames)> names{};
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = {nn::kRecomputeNames[i], static_cast<Recompute>(i)};
  return names;
}();

// Other names, which are read and never written.
template <class T>
inline constexpr std::array<Named<T>, 0> kAliases{};
template <>
inline constexpr std::array kAliases<Strategy> = std::to_array<Named<Strategy>>({{kFsdp, Strategy::zero3}});

template <class T>
concept HasNames = !std::is_same_v<const std::nullptr_t, decltype(kNames<T>)>;

// Returns an empty text if the value has no name.
template <HasNames T>
std::string name_of(const T& value) {
  for (const Named<T>& entry : kNames<T>) {
    if (entry.value == value) return std::string(entry.name);
  }
  return {};
}

template <HasNames T>
std::optional<T> value_named(std::string_view name) {
  for (const Named<T>& entry : kNames<T>) {
    if (entry.name == name) return entry.value;
  }
  for (const Named<T>& entry : kAliases<T>) {
    if (entry.name == name) return entry.value;
  }
  return std::nullopt;
}

}  // namespace lt::config
