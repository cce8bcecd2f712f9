// Numbers, flags and plain structs between ranks, as their bytes: all ranks of a run have one architecture.
#pragma once

#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "libtrain/comm/group.h"
#include "libtrain/error.h"

namespace lt {

// Returns rank `root`'s value. All ranks of the group must call it.
template <class T>
T broadcast_value(const Group& group, const T& value, int root = 0) {
  static_assert(std::is_trivially_copyable_v<T>);
  const std::string bytes = group.broadcast_bytes({reinterpret_cast<const char*>(&value), sizeof value}, root);
  if (bytes.size() != sizeof value) throw CommError("a value of another rank has another size than this rank's");
  T result = value;
  std::memcpy(&result, bytes.data(), sizeof result);
  return result;
}

// Returns every rank's value, in rank order. All ranks of the group must call it.
template <class T>
std::vector<T> gather_values(const Group& group, const T& value) {
  static_assert(std::is_trivially_copyable_v<T> && !std::is_same_v<T, bool>);  // vector<bool> has no bytes
  std::vector<T> values;
  for (const std::string& bytes : group.all_gather_bytes({reinterpret_cast<const char*>(&value), sizeof value})) {
    if (bytes.size() != sizeof value) throw CommError("a value of another rank has another size than this rank's");
    std::memcpy(&values.emplace_back(), bytes.data(), sizeof value);
  }
  return values;
}

}  // namespace lt
