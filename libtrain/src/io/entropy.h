// Random bits of the kernel, for secrets and for names that nobody can foresee. What a run computes with comes from its
// seed (libtrain/kernels/random.h) and never from here.
#pragma once

#include <cstddef>
#include <string>

namespace lt {

// Throws InternalError where the kernel gives none.
void fill_random(void* bytes, std::size_t count);
// That many hexadecimal digits.
std::string random_hex(std::size_t digits);

}  // namespace lt
