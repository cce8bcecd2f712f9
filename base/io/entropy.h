// Random bits from the kernel, for secrets and unpredictable names. Never use it in a run's computation, where all
// random numbers follow from the seed (libtrain/kernels/random.h).
#pragma once

#include <cstddef>
#include <string>

namespace lt::io {

// Fills `count` bytes with random bits. Throws InternalError if the kernel provides none.
void fill_random(void* bytes, std::size_t count);
// Returns `digits` random hexadecimal digits.
std::string random_hex(std::size_t digits);

}  // namespace lt::io
