// Finds from the standard error of launcher and ranks why an attempt ended, in words, and whose failure it was.
#pragma once

#include <optional>
#include <set>
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

// The rank whose failure ended an attempt. It is certain only if all messages that blame a rank blame the same one.
class FailedRank {
 public:
  // Reads one line of standard error of any process, without its newline.
  void read(std::string_view line);
  // A signal ended this rank, and the supervisor did not send it.
  void add_killed(int rank) { blamed_.insert(rank); }
  std::optional<int> rank() const;

 private:
  std::set<int> blamed_;
  bool has_error_ = false;      // a rank has reported an error
  bool is_of_several_ = false;  // an error may be that of several ranks
};

// "SIGKILL"; "signal 33" for a signal without a name.
std::string signal_name(int signal);

}  // namespace lt::launch
