// Shares the failure of one rank with all ranks, so that no rank waits for a failed one.
#include <fmt/format.h>

#include <optional>

#include "comm/backend.h"
#include "comm/current_error.h"
#include "libtrain/comm/group.h"
#include "libtrain/error.h"

namespace lt {
namespace {

// An Error as sent between ranks: numbers in decimal, each followed by a space; each text follows its length.
struct Failure {
  ExitCode code;
  int rank;  // in the run
  std::string component, message, hint;
  std::string field = {}, expected = {}, actual = {}, origin = {};  // of a UsageError
};

std::string pack(const Failure& failure) {
  std::string bytes = fmt::format("{} {} ", static_cast<int>(failure.code), failure.rank);
  for (const std::string* text : {&failure.component, &failure.message, &failure.hint, &failure.field,
                                  &failure.expected, &failure.actual, &failure.origin}) {
    bytes += fmt::format("{} {} ", text->size(), *text);
  }
  return bytes;
}

Failure unpack(const std::string& bytes) {
  std::size_t at = 0;
  const auto number = [&] {
    const std::size_t space = bytes.find(' ', at);
    const int value = std::stoi(bytes.substr(at, space - at));
    at = space + 1;
    return value;
  };
  const auto text = [&] {
    const auto length = static_cast<std::size_t>(number());
    std::string value = bytes.substr(at, length);
    at += length + 1;
    return value;
  };
  Failure failure;
  failure.code = static_cast<ExitCode>(number());
  failure.rank = number();
  for (std::string* part : {&failure.component, &failure.message, &failure.hint, &failure.field, &failure.expected,
                            &failure.actual, &failure.origin}) {
    *part = text();
  }
  return failure;
}

Failure failure_of(const Error& error, int run_rank) {
  return {error.code(), error.shared() ? error.rank() : run_rank, error.component(), error.what(), error.hint()};
}

std::optional<Failure> run(const std::function<void()>& body, int run_rank) {
  try {
    body();
    return std::nullopt;
  } catch (const UsageError& error) {
    Failure failure = failure_of(error, run_rank);
    failure.field = error.field(), failure.expected = error.expected(), failure.actual = error.actual();
    failure.origin = error.origin();
    return failure;
  } catch (...) {
    return failure_of(comm::current_error(), run_rank);
  }
}

template <class E>
[[noreturn]] void throw_as(E error, const Failure& failure, bool shared) {
  if (shared) error.set_shared(failure.rank);
  throw error;
}

}  // namespace

void collectively(const Group& group, const std::function<void()>& body) {
  const comm::GroupPlace& place = group.backend_->place();
  const std::optional<Failure> mine = run(body, place.run_rank);
  for (const std::string& bytes : group.all_gather_bytes(mine ? pack(*mine) : std::string())) {
    if (bytes.empty()) continue;
    const Failure failure = unpack(bytes);
    const bool shared = place.size == place.run_size;
    // The same type on every rank, so that callers may catch it by type.
    if (failure.code == ExitCode::usage) {
      UsageError error = failure.field.empty() ? UsageError(failure.component, failure.message, failure.hint)
                                               : UsageError(failure.component, failure.field, failure.expected,
                                                            failure.actual, failure.hint);
      error.set_origin(failure.origin);
      throw_as(std::move(error), failure, shared);
    }
    if (failure.code == ExitCode::data) {
      throw_as(DataError(failure.component, failure.message, failure.hint), failure, shared);
    }
    throw_as(Error(failure.code, failure.component, failure.message, failure.hint), failure, shared);
  }
}

}  // namespace lt
