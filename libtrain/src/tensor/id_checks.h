// Ids outside the table that an operation looks them up in. On the CPU operations look at ids before they run. On a GPU
// kernels skip bad ids and record the first one in a word of device memory; the error comes when the host next reads
// values of that device, or the results of the step.
#pragma once

#include <cstdint>
#include <mutex>
#include <string_view>
#include <vector>

#include "kernels/id_check.h"
#include "libtrain/tensor/tensor.h"

namespace lt::tensor {

// The ids that are one argument of an operation.
struct IdUse {
  std::string_view operation, argument;  // string literals
  Size V = 0;                            // ids are in [0, V)
  Size row = 0;                          // ids of a sample's last dimension; 0: fewer than two dimensions
  bool one_a_sample = false;             // as it seems: one dimension, and as many ids as samples
  bool operator==(const IdUse&) const = default;
};
class IdChecks;
// `checks` may be null.
IdUse use_of(std::string_view operation, std::string_view argument, const Tensor& ids, Size V, const IdChecks* checks);

// Throws UsageError that names operation, argument, range, id and position.
[[noreturn]] void refuse_id(const IdUse& use, Size position, std::int32_t id);

// The checks that share a word. An engine has its own, each CUDA device one for all other work.
class IdChecks {
 public:
  // `word` is on the CUDA device `device`, initially 0. On other devices there is none, and checks are the caller's.
  explicit IdChecks(Device device, std::uint64_t* word = nullptr) : device_(device), word_(word) {}
  // The checks of the thread's context if it has any on `device`, otherwise those of the device. Null unless on CUDA.
  static IdChecks* on(Device device);

  const std::uint64_t* word() const { return word_; }
  // Later checks are of `samples` samples from `first` on, in the rank's batch. Positions count from there, if the ids
  // have a dimension of samples: the first of several, or the only one where it has `samples` ids.
  void begin_at_sample(Size first, Size samples) { first_sample_ = first, samples_ = samples; }
  bool has_one_a_sample(const Tensor& ids) const;
  Size position_of(const Tensor& ids) const;

  // What a kernel needs to check `ids`. The last kMostIdChecks different uses are known; an error may name a wrong one
  // if more are under way.
  kernels::IdCheck add(const IdUse& use, const Tensor& ids);
  // Enqueues a copy of the word to `to`, unless nothing was added since the last call.
  void receive(std::uint64_t& to);
  // Throws UsageError for the bad id of `word`, unless it is 0.
  void require_none(std::uint64_t word) const;
  // Forgets the bad id.
  void reset();

 private:
  Device device_;
  std::uint64_t* word_;
  Size first_sample_ = 0, samples_ = 0;
  mutable std::mutex mutex_;  // for the members below; operations of several threads share those of a device
  std::vector<IdUse> uses_;   // by kernels::IdCheck::check
  std::size_t oldest_ = 0;    // of these, once there are kMostIdChecks
  bool is_new_ = false;       // added since receive()
};

}  // namespace lt::tensor
