// New files under names that nobody can foresee: what is planted under such a name, a link above all, is never followed
// or overwritten.
#pragma once

#include <string>

namespace lt {

// That many random hexadecimal digits, by the kernel.
std::string random_hex(std::size_t digits);

struct NewFile {
  int fd = -1;  // for reading and writing; -1: errno says why not
  std::string path;
};
// A file that was not there, named `path` and ".tmp-" with random digits. The caller closes it and gives it its name or
// removes it.
NewFile create_beside(const std::string& path);

}  // namespace lt
