// Errors of the library. Library functions throw these types; only a program's main() ends the process. A message
// states the expected and the actual value; `hint()` suggests a remedy.
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
  communication = 4,  // communication cannot be set up
  non_finite = 5,     // non-finite loss or gradient
  slower = 6,         // bench compare: a row is slower beyond noise
  nothing_fits = 6,   // plan --fit, plan --nodes: no choice fits into memory
  restart = 75,       // stopped for a restart: a peer was lost, communication broke, a signal, or train.max_minutes
};

// The base class of all errors. `component` names the source ("config", "data", "checkpoint", "comm", "ops", ...).
class Error : public std::runtime_error {
 public:
  Error(ExitCode code, std::string component, const std::string& message, std::string hint = {})
      : std::runtime_error(message), code_(code), component_(std::move(component)), hint_(std::move(hint)) {}

  ExitCode code() const { return code_; }
  const std::string& component() const { return component_; }
  const std::string& hint() const { return hint_; }

  // True if every rank throws this same error, so that only one rank should print it. collectively() sets it.
  bool shared() const { return shared_; }
  // The rank on which the error occurred; -1 if unknown.
  int rank() const { return rank_; }
  void set_shared(int rank) { shared_ = true, rank_ = rank; }

 private:
  ExitCode code_;
  std::string component_, hint_;
  bool shared_ = false;
  int rank_ = -1;
};

// Invalid input from the caller: options, configuration, shapes or dtypes.
class UsageError : public Error {
 public:
  UsageError(std::string component, const std::string& message, std::string hint = {})
      : Error(ExitCode::usage, std::move(component), message, std::move(hint)) {}
  // An invalid value of one field. what() is "field: expected ..., got ...".
  UsageError(std::string component, std::string field, std::string expected, std::string actual, std::string hint = {})
      : Error(ExitCode::usage, std::move(component), field + ": expected " + expected + ", got " + actual,
              std::move(hint)),
        field_(std::move(field)),
        expected_(std::move(expected)),
        actual_(std::move(actual)) {}

  // The field, by its name in the component: a configuration key if the component is "config", otherwise a member of an
  // options struct. All three are empty if the error is not about one field.
  const std::string& field() const { return field_; }
  const std::string& expected() const { return expected_; }
  const std::string& actual() const { return actual_; }

  // Returns a copy whose what() ends with " (<origin>)". The origin is the source of the value, such as "from
  // run.toml:4". If the error already has an origin or `origin` is empty, returns an unchanged copy.
  UsageError from(const std::string& origin) const {
    if (origin.empty() || !origin_.empty()) return *this;
    const std::string suffix = " (" + origin + ")";
    UsageError made = field_.empty() ? UsageError(component(), what() + suffix, hint())
                                     : UsageError(component(), field_, expected_, actual_ + suffix, hint());
    made.origin_ = origin;
    if (shared()) made.set_shared(rank());
    return made;
  }
  const std::string& origin() const { return origin_; }  // empty: unknown
  // For an error whose what() already contains the origin, such as an error from another rank.
  void set_origin(std::string origin) { origin_ = std::move(origin); }

 private:
  std::string field_, expected_, actual_, origin_;
};

// A data file or checkpoint is missing, unreadable, corrupt or does not match.
struct DataError : Error {
  DataError(std::string component, const std::string& message, std::string hint = {})
      : Error(ExitCode::data, std::move(component), message, std::move(hint)) {}
};

// Communication cannot be set up.
struct CommError : Error {
  explicit CommError(const std::string& message, std::string hint = {})
      : CommError(ExitCode::communication, message, std::move(hint)) {}

 protected:
  CommError(ExitCode code, const std::string& message, std::string hint)
      : Error(code, "comm", message, std::move(hint)) {}
};

// Communication that was set up has broken: a peer rank has ended or is unreachable, or MPI, NCCL or a connection has
// failed. A restart may succeed.
struct BrokenCommError : CommError {
  explicit BrokenCommError(const std::string& message, std::string hint = {})
      : CommError(ExitCode::restart, message, std::move(hint)) {}
};

// A loss or a gradient is not finite.
struct NonFiniteError : Error {
  explicit NonFiniteError(const std::string& message, std::string hint = {})
      : Error(ExitCode::non_finite, "train", message, std::move(hint)) {}
};

// An invariant of the library does not hold, or a call of the system or CUDA has failed, for example for lack of
// memory.
struct InternalError : Error {
  InternalError(std::string component, const std::string& message)
      : Error(ExitCode::internal, std::move(component), message) {}
};

}  // namespace lt
