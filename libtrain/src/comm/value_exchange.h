// Sends numbers, flags and plain structs between ranks as raw bytes: all ranks of a run have one architecture.
#pragma once

#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "libtrain/comm/group.h"
#include "libtrain/error.h"

namespace lt::comm {

template <class T>
std::string bytes_of(const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

// Returns nullopt if `bytes` does not have the size of T.
template <class T>
std::optional<T> value_of(std::string_view bytes) {
  static_assert(std::is_trivially_copyable_v<T>);
  if (bytes.size() != sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

// Like value_of(), but throws InternalError if the size differs.
template <class T>
T value_of_rank(std::string_view bytes) {
  if (const auto value = value_of<T>(bytes)) return *value;
  throw InternalError("comm", "a value of another rank has another size than this rank's");
}

// Returns rank `root`'s value. All ranks of the group must call it.
template <class T>
T broadcast_value(const Group& group, const T& value, int root = 0) {
  return value_of_rank<T>(group.broadcast_bytes(bytes_of(value), root));
}

// Returns every rank's value, in rank order. All ranks of the group must call it.
template <class T>
std::vector<T> gather_values(const Group& group, const T& value) {
  std::vector<T> values;
  for (const std::string& bytes : group.all_gather_bytes(bytes_of(value))) values.push_back(value_of_rank<T>(bytes));
  return values;
}

// Returns the sum of the ranks' values, added in rank order. All ranks of the group must call it.
template <class T>
T sum_over_ranks(const Group& group, const T& value) {
  T sum{};
  for (const T& own : gather_values(group, value)) sum += own;
  return sum;
}

}  // namespace lt::comm
