// What every target shares: the bytes as text, the errors that reading may end with, a file for what reads paths.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "libtrain/error.h"

// libFuzzer calls it with bytes that it makes; a crash, a sanitizer's report or an exception that leaves it is a
// finding.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace fuzz {

inline std::string text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// Bytes that are not what a reader expects end in one of the library's errors with a message, in no other exception.
// InternalError says that the library itself is wrong, so it is a finding.
template <class F>
void read_or_refuse(const F& read) {
  try {
    read();
  } catch (const lt::InternalError&) {
    throw;
  } catch (const lt::Error& error) {
    if (*error.what() == '\0') std::abort();
  }
}

// A file in memory with this content.
class File {
 public:
  explicit File(const std::string& content) : path_("/dev/shm/fuzz-" + std::to_string(::getpid())) {
    std::FILE* file = std::fopen(path_.c_str(), "wb");
    if (file == nullptr || std::fwrite(content.data(), 1, content.size(), file) != content.size()) std::abort();
    std::fclose(file);
  }
  ~File() { std::remove(path_.c_str()); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace fuzz
