// Errors of the library. A library function throws one of these; only a program's main() ends the process. A message
// names what was expected and what was found; `hint()` suggests a remedy.
#pragma once

#include <stdexcept>
#include <string>

#include "libtrain/api.h"

namespace LT_API lt {

// Exit codes of the `ltrain` program. Each Error carries its exit code.
enum class ExitCode : int {
  ok = 0,
  internal = 1,
  usage = 2,          // usage or configuration
  data = 3,           // data or checkpoint unreadable, corrupt or mismatched
  communication = 4,  // communication cannot be set up, or broke
  non_finite = 5,     // non-finite loss or gradient
  slower = 6,         // bench compare: a time grew beyond noise
  nothing_fits = 6,   // plan --fit, plan --nodes
  restart = 75,       // stopped for a restart, or a peer was lost
};

// The base of all errors. `component` names the origin ("config", "data", "checkpoint", "comm", "ops", ...).
class Error : public std::runtime_error {
 public:
  Error(ExitCode code, std::string component, const std::string& message, std::string hint = {})
      : std::runtime_error(message), code_(code), component_(std::move(component)), hint_(std::move(hint)) {}

  ExitCode code() const { return code_; }
  const std::string& component() const { return component_; }
  const std::string& hint() const { return hint_; }

  // True if every rank throws this same error, so that only one prints it. Set by collectively().
  bool shared() const { return shared_; }
  // The rank where the error arose; -1 if unknown.
  int rank() const { return rank_; }
  void set_shared(int rank) { shared_ = true, rank_ = rank; }

 private:
  ExitCode code_;
  std::string component_, hint_;
  bool shared_ = false;
  int rank_ = -1;
};

// Wrong options, configuration, shapes or dtypes: bad input from the caller, found before anything ran.
class UsageError : public Error {
 public:
  UsageError(std::string component, const std::string& message, std::string hint = {})
      : Error(ExitCode::usage, std::move(component), message, std::move(hint)) {}
  // The value of one field is refused. what() is "field: expected ..., got ...".
  UsageError(std::string component, std::string field, std::string expected, std::string actual, std::string hint = {})
      : Error(ExitCode::usage, std::move(component), field + ": expected " + expected + ", got " + actual,
              std::move(hint)),
        field_(std::move(field)),
        expected_(std::move(expected)),
        actual_(std::move(actual)) {}

  // The field as its component names it: a member of an options struct, or a configuration key where the component is
  // "config". Empty if the error is not about one field; the other two are empty then too.
  const std::string& field() const { return field_; }
  const std::string& expected() const { return expected_; }
  const std::string& actual() const { return actual_; }

  // The same error, whose what() ends with " (<origin>)": where the value comes from, such as "from run.toml:4". An
  // error that has an origin keeps it.
  UsageError from(const std::string& origin) const {
    if (origin.empty() || !origin_.empty()) return *this;
    const std::string suffix = " (" + origin + ")";
    UsageError made = field_.empty() ? UsageError(component(), what() + suffix, hint())
                                     : UsageError(component(), field_, expected_, actual_ + suffix, hint());
    made.origin_ = origin;
    if (shared()) made.set_shared(rank());
    return made;
  }
  const std::string& origin() const { return origin_; }  // empty: not known
  // For an error whose what() has the origin already, such as one of another rank.
  void set_origin(std::string origin) { origin_ = std::move(origin); }

 private:
  std::string field_, expected_, actual_, origin_;
};

// A data file or a checkpoint that is missing, unreadable, corrupt or does not match.
struct DataError : Error {
  DataError(std::string component, const std::string& message, std::string hint = {})
      : Error(ExitCode::data, std::move(component), message, std::move(hint)) {}
};

// Communication that cannot be set up or broke.
struct CommError : Error {
  explicit CommError(const std::string& message, std::string hint = {})
      : CommError(ExitCode::communication, message, std::move(hint)) {}

 protected:
  CommError(ExitCode code, const std::string& message, std::string hint)
      : Error(code, "comm", message, std::move(hint)) {}
};

// A rank that this one waits for has ended, or cannot be reached any more. A restart may succeed.
struct LostPeerError : CommError {
  explicit LostPeerError(const std::string& message, std::string hint = {})
      : CommError(ExitCode::restart, message, std::move(hint)) {}
};

// A loss or gradient that is not finite.
struct NonFiniteError : Error {
  explicit NonFiniteError(const std::string& message, std::string hint = {})
      : Error(ExitCode::non_finite, "train", message, std::move(hint)) {}
};

// A defect of the library itself: an invariant that did not hold.
struct InternalError : Error {
  InternalError(std::string component, const std::string& message)
      : Error(ExitCode::internal, std::move(component), message) {}
};

}  // namespace lt
