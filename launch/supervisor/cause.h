// Finds the reason why an attempt ended, in words, from the standard error of its launcher and its ranks.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace lt::launch {

class Cause {
 public:
  // Reads one line of standard error, without its newline.
  void read(std::string_view line);
  // True if the lines read so far report a failure.
  bool is_known() const;
  // Returns the reason found in the lines. If there is none, describes from `code`, an exit code as in a shell, how
  // `rank` ended.
  std::string text(int code, const std::string& rank = "a rank") const;

 private:
  std::string signal_, error_, host_, exit_, rank_of_exit_;  // the first of each kind
};

// "SIGKILL"; "signal 33" for a signal without a name.
std::string signal_name(int signal);

}  // namespace lt::launch
