// Finds bad ids: ids outside the table in which an operation looks them up. On the CPU operations check ids before they
// run. On a GPU kernels skip bad ids and record the first one in a word of device memory. The error is thrown when the
// host next reads values of that device, or the results of the step.
#pragma once

#include <cstdint>
#include <mutex>
#include <string_view>
#include <vector>

#include "kernels/id_check.h"
#include "libtrain/tensor/tensor.h"

namespace lt::tensor {

// One use of ids: an argument of an operation.
struct IdUse {
  std::string_view operation, argument;  // string literals
  Size V = 0;                            // ids are in [0, V)
  Size row = 0;                          // size of the ids' last dimension; 0: fewer than two dimensions
  bool one_a_sample = false;             // true: one dimension, with as many ids as samples
  bool operator==(const IdUse&) const = default;
};
class IdChecks;
// `checks` may be null.
IdUse use_of(std::string_view operation, std::string_view argument, const Tensor& ids, Size V, const IdChecks* checks);

// Throws UsageError that names operation, argument, range, id and position.
[[noreturn]] void refuse_id(const IdUse& use, Size position, std::int32_t id);

// The checks that share a word. Each engine has its own; each CUDA device has one for all other work.
class IdChecks {
 public:
  // `word` is on the CUDA device `device`, initially 0. On other devices it is null, and the caller checks ids.
  explicit IdChecks(Device device, std::uint64_t* word = nullptr) : device_(device), word_(word) {}
  // Returns the checks of the thread's context if they are on `device`, otherwise the device's checks. Null unless
  // `device` is a CUDA device.
  static IdChecks* on(Device device);

  const std::uint64_t* word() const { return word_; }
  // Declares that later checks are of samples [first, first + samples) of the rank's batch. Positions in errors are
  // relative to the batch if the ids have a dimension of samples: the first of several dimensions, or the only one if
  // it has `samples` ids.
  void begin_at_sample(Size first, Size samples) { first_sample_ = first, samples_ = samples; }
  bool has_one_a_sample(const Tensor& ids) const;
  Size position_of(const Tensor& ids) const;

  // Returns the arguments with which a kernel checks `ids`. Remembers the last kMostIdChecks different uses; if more
  // are in flight, an error may name a wrong use.
  kernels::IdCheck add(const IdUse& use, const Tensor& ids);
  // Enqueues a copy of the word to `to`, unless no use was added since the last call.
  void receive(std::uint64_t& to);
  // Throws UsageError for the bad id in `word`, unless `word` is 0.
  void require_none(std::uint64_t word) const;
  // Forgets the bad id.
  void reset();

 private:
  Device device_;
  std::uint64_t* word_;
  Size first_sample_ = 0, samples_ = 0;
  mutable std::mutex mutex_;  // guards the members below; several threads may share a device's checks
  std::vector<IdUse> uses_;   // indexed by kernels::IdCheck::check
  std::size_t oldest_ = 0;    // index of the oldest use, once there are kMostIdChecks
  bool is_new_ = false;       // true: a use was added since receive()
};

}  // namespace lt::tensor
