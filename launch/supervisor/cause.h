// Why an attempt ended, in words, from what its launcher and its ranks say on standard error.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace lt::launch {

class Cause {
 public:
  // Reads one line of standard error, without its newline.
  void read(std::string_view line);
  // The reason where a line told it, else what the code says of `rank`; `code` as a shell has it.
  std::string text(int code, const std::string& rank = "a rank") const;

 private:
  std::string signal_, error_, host_, exit_, rank_of_exit_;  // first of each kind
};

// "SIGKILL"; "signal 33" where it has no name.
std::string signal_name(int signal);

}  // namespace lt::launch
