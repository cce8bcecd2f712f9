// A search for the algorithms of matrix products that take the least time in training, when a CUDA device is at its
// power limit. It takes some 10 s a product, so it is no part of a run. Builds without CUDA have nothing to search.
#pragma once

#include <functional>
#include <string>

#include "libtrain/device/device.h"

namespace lt::kernels {

struct SearchedProduct {
  std::string name;             // "bf16 16384 x 6400 x 1600, B transposed, bias"
  double present_ms, found_ms;  // of a call, over some tenths of a second
};

// Each product on the device's compute stream is searched in its first call in `compute` that can be repeated: one that
// does not add to its result and is neither pinned nor deterministic. Where work like GELU can be inside it or in a
// pass of its own, both are searched, then compared. From then on it runs with what was found. Throws DataError if the
// file for what is found cannot be written.
void search_products(Device device, const std::function<void()>& compute,
                     const std::function<void(const SearchedProduct&)>& report);

enum class Algorithms { present, found };
// Later calls of all products of the last search take what was found, or what they took before.
void use_products(Device device, Algorithms which);

// Writes what was found to the file from which runs take the algorithms of products. Returns its path, or nothing if
// it cannot be written.
std::string keep_found_products(Device device);

}  // namespace lt::kernels
