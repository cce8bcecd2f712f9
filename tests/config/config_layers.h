// Makes configurations from text and the environment, and returns the errors with which they are refused.
#pragma once

#include <cstdlib>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libtrain/config/config.h"
#include "libtrain/error.h"
#include "test_main/catch.h"
#include "test_main/temp_folder.h"

namespace lt_test {

using Pairs = std::vector<std::pair<std::string, std::string>>;

struct Refusal {
  std::string message, hint;
  bool operator==(const Refusal&) const = default;
};
inline std::ostream& operator<<(std::ostream& out, const Refusal& r) {
  return out << r.message << " | hint: " << r.hint;
}

template <class Body>
Refusal refusal(Body&& body) {
  try {
    body();
  } catch (const lt::UsageError& error) {
    CHECK(error.component() == "config");
    return {error.what(), error.hint()};
  }
  return {"no error was thrown", ""};
}

inline Refusal of_command_line(const Pairs& pairs) {
  return refusal([&] { lt::load_config("", pairs); });
}

// Cuts off the file's path at the beginning of the message.
inline Refusal of_file(std::string_view toml, const Pairs& pairs = {}) {
  const TempFolder folder;
  const std::string path = folder.write("run.toml", toml);
  Refusal result = refusal([&] { lt::load_config(path, pairs); });
  for (std::size_t at; (at = result.message.find(path)) != std::string::npos;)
    result.message.erase(at, path.size()).insert(at, 1, 'F');
  return result;
}

inline lt::Config from_file(std::string_view toml, const Pairs& pairs = {}) {
  const TempFolder folder;
  return lt::load_config(folder.write("run.toml", toml), pairs);
}

// Sets an environment variable for the length of a test.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { ::setenv(name, value, 1); }
  ~Variable() { ::unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

}  // namespace lt_test
