// The MPI back end. Every tensor collective except broadcast consists of point-to-point messages between all pairs,
// with a separate tag. So several collectives can be in flight at once, without extra copies.
#include "comm/mpi/mpi_group.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <thread>
#include <utility>

#include "comm/mpi/mpi_error.h"
#include "libtrain/error.h"

namespace lt::comm {
namespace {

constexpr int kTags = 32767;  // the smallest MPI_TAG_UB that the standard allows
Size message_elements = Size{1} << 30;

MPI_Datatype mpi_type(DType dtype) {
  switch (dtype_bytes(dtype)) {
    case 2: return MPI_UINT16_T;
    case 4: return MPI_UINT32_T;
    case 8: return MPI_UINT64_T;
    default: return MPI_BYTE;
  }
}

// Calls each(pointer, count) for each message that `n` elements are split into.
template <class Byte, class Each>
void for_messages(Byte* values_N, Size n, DType dtype, Each&& each) {
  for (Size i = 0; i < n; i += message_elements) {
    each(values_N + i * dtype_bytes(dtype), static_cast<int>(std::min(n - i, message_elements)));
  }
}

// Open MPI's own waits spin. A patient wait sleeps 50 us at first, then up to 1 ms.
void wait_for(std::vector<MPI_Request>& requests, bool patiently) {
  const auto count = static_cast<int>(requests.size());
  if (!patiently) return LT_MPI(MPI_Waitall(count, requests.data(), MPI_STATUSES_IGNORE));
  constexpr std::chrono::microseconds kFirstNap{50}, kLongestNap{1000};
  int done = 0;
  for (auto nap = kFirstNap;; nap = std::min(2 * nap, kLongestNap)) {
    LT_MPI(MPI_Testall(count, requests.data(), &done, MPI_STATUSES_IGNORE));
    if (done != 0) return;
    std::this_thread::sleep_for(nap);
  }
}

// Owns a communicator. Groups may outlive MPI, which frees the rest when it ends. During stack unwinding nothing is
// freed, because freeing is a collective call.
class Communicator {
 public:
  explicit Communicator(MPI_Comm comm) : comm_(comm) {}
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  ~Communicator() {
    int finalized = 0;
    MPI_Finalized(&finalized);
    if (finalized == 0 && std::uncaught_exceptions() == 0) MPI_Comm_free(&comm_);
  }
  MPI_Comm get() const { return comm_; }

 private:
  MPI_Comm comm_;
};

class MpiTransfer final : public MessageTransfer {
 public:
  MpiTransfer(MPI_Comm comm, int tag, bool patient) : comm_(comm), tag_(tag), patient_(patient) {}
  // Only a transfer that could not be started has requests left.
  ~MpiTransfer() override {
    int finalized = 0;
    MPI_Finalized(&finalized);
    for (std::size_t i = 0; finalized == 0 && i < requests_.size(); ++i) {
      if (requests_[i] == MPI_REQUEST_NULL) continue;
      if (i < receives_) MPI_Cancel(&requests_[i]);
      MPI_Request_free(&requests_[i]);  // refused for a broadcast, which is then left as it is
    }
  }

  void receive(void* values_N, Size n, DType dtype, int from) override {
    for_messages(static_cast<std::byte*>(values_N), n, dtype, [&](std::byte* begin, int count) {
      LT_MPI(MPI_Irecv(begin, count, mpi_type(dtype), from, tag_, comm_, &requests_.emplace_back(MPI_REQUEST_NULL)));
      ++receives_;
    });
  }
  void send(const void* values_N, Size n, DType dtype, int to) override {
    for_messages(static_cast<const std::byte*>(values_N), n, dtype, [&](const std::byte* begin, int count) {
      LT_MPI(MPI_Isend(begin, count, mpi_type(dtype), to, tag_, comm_, &requests_.emplace_back(MPI_REQUEST_NULL)));
    });
  }
  void broadcast(void* values_N, Size n, DType dtype, int root) {
    for_messages(static_cast<std::byte*>(values_N), n, dtype, [&](std::byte* begin, int count) {
      LT_MPI(MPI_Ibcast(begin, count, mpi_type(dtype), root, comm_, &requests_.emplace_back(MPI_REQUEST_NULL)));
    });
  }
  void complete() override {
    wait_for(requests_, patient_);
    requests_.clear();
  }

  // MPI cannot take back a message that is on its way. If the peers gave up alike, all messages arrive.
  void abandon() noexcept override {}
  bool has_ended() noexcept override {
    int finalized = 0, done = 0;
    MPI_Finalized(&finalized);
    if (finalized != 0) return false;
    const auto count = static_cast<int>(requests_.size());
    if (MPI_Testall(count, requests_.data(), &done, MPI_STATUSES_IGNORE) != MPI_SUCCESS || done == 0) return false;
    requests_.clear();
    return true;
  }

 private:
  MPI_Comm comm_;
  int tag_;
  bool patient_;
  std::size_t receives_ = 0;
  std::vector<MPI_Request> requests_;
};

class MpiBackend final : public MessageBackend {
 public:
  MpiBackend(MPI_Comm comm, GroupPlace place) : MessageBackend(std::move(place)), comm_(comm) {}

  std::unique_ptr<Transfer> broadcast(const BroadcastCall& call) override {
    auto transfer = std::make_unique<MpiTransfer>(comm_.get(), 0, place().patient);
    transfer->broadcast(call.values_N, call.n, call.dtype, call.root);
    return transfer;
  }
  void barrier() override { place().patient ? idle_barrier() : LT_MPI(MPI_Barrier(comm_.get())); }
  void idle_barrier() override {
    run_patiently([&](MPI_Request* request) { LT_MPI(MPI_Ibarrier(comm_.get(), request)); });
  }
  std::vector<std::string> all_gather_bytes(const std::string& mine) override;
  std::string broadcast_bytes(const std::string& value, int root) override;
  std::shared_ptr<GroupBackend> split(const std::vector<int>& colors, std::string name) override;
  std::shared_ptr<GroupBackend> duplicate_patient(std::string name) override;

 private:
  std::unique_ptr<MessageTransfer> next_transfer() override { return next_messages(); }
  std::unique_ptr<MpiTransfer> next_messages() {
    return std::make_unique<MpiTransfer>(comm_.get(), static_cast<int>(sequence_++ % kTags), place().patient);
  }
  // Waits for the request that start(request) makes.
  template <class Start>
  void run_patiently(Start&& start) {
    std::vector<MPI_Request> request{MPI_REQUEST_NULL};
    start(request.data());
    wait_for(request, true);
  }
  void broadcast_in_place(void* values, int count, MPI_Datatype type, int root) {
    if (!place().patient) return LT_MPI(MPI_Bcast(values, count, type, root, comm_.get()));
    run_patiently([&](MPI_Request* request) { LT_MPI(MPI_Ibcast(values, count, type, root, comm_.get(), request)); });
  }

  Communicator comm_;
  std::uint64_t sequence_ = 0;
};

std::vector<std::string> MpiBackend::all_gather_bytes(const std::string& mine) {
  const auto ranks = static_cast<std::size_t>(size());
  const auto length = static_cast<std::int64_t>(mine.size());
  std::vector<std::int64_t> lengths(ranks);
  if (place().patient) {
    run_patiently([&](MPI_Request* request) {
      LT_MPI(MPI_Iallgather(&length, 1, MPI_INT64_T, lengths.data(), 1, MPI_INT64_T, comm_.get(), request));
    });
  } else {
    LT_MPI(MPI_Allgather(&length, 1, MPI_INT64_T, lengths.data(), 1, MPI_INT64_T, comm_.get()));
  }
  std::vector<std::string> all(ranks);
  auto transfer = next_messages();
  for_peers([&](int r) {
    std::string& text = all[static_cast<std::size_t>(r)];
    text.resize(static_cast<std::size_t>(lengths[static_cast<std::size_t>(r)]));
    transfer->receive(text.data(), static_cast<Size>(text.size()), DType::u8, r);
  });
  for_peers([&](int r) { transfer->send(mine.data(), length, DType::u8, r); });
  transfer->complete();  // Group counts the waiting of exchanges
  all[static_cast<std::size_t>(rank())] = mine;
  return all;
}

std::string MpiBackend::broadcast_bytes(const std::string& value, int root) {
  std::string result = rank() == root ? value : std::string();
  auto length = static_cast<std::int64_t>(result.size());
  broadcast_in_place(&length, 1, MPI_INT64_T, root);
  result.resize(static_cast<std::size_t>(length));
  for_messages(result.data(), length, DType::u8,
               [&](char* begin, int count) { broadcast_in_place(begin, count, MPI_BYTE, root); });
  return result;
}

std::shared_ptr<GroupBackend> MpiBackend::split(const std::vector<int>& colors, std::string name) {
  GroupPlace place = split_place(colors, std::move(name));
  // MPI's color is the group's lowest rank, so that callers may use any integers.
  const int own = colors[static_cast<std::size_t>(rank())];
  const auto first = std::find(colors.begin(), colors.end(), own) - colors.begin();
  MPI_Comm comm = MPI_COMM_NULL;
  LT_MPI_SET_UP(MPI_Comm_split(comm_.get(), static_cast<int>(first), rank(), &comm));
  if (place.size > 1) return std::make_shared<MpiBackend>(comm, std::move(place));
  LT_MPI(MPI_Comm_free(&comm));
  return make_self_backend(std::move(place));
}

std::shared_ptr<GroupBackend> MpiBackend::duplicate_patient(std::string name) {
  MPI_Comm comm = MPI_COMM_NULL;
  LT_MPI_SET_UP(MPI_Comm_dup(comm_.get(), &comm));
  return std::make_shared<MpiBackend>(comm, patient_place(std::move(name)));
}

}  // namespace

std::shared_ptr<GroupBackend> make_mpi_world_backend() {
  GroupPlace place;
  place.name = "world";
  MPI_Comm comm = MPI_COMM_NULL;
  LT_MPI_SET_UP(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
  LT_MPI_SET_UP(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
  LT_MPI_SET_UP(MPI_Comm_rank(comm, &place.rank));
  LT_MPI_SET_UP(MPI_Comm_size(comm, &place.size));
  place.run_rank = place.rank, place.run_size = place.size;
  return std::make_shared<MpiBackend>(comm, std::move(place));
}

Size set_mpi_message_elements(Size elements) { return std::exchange(message_elements, elements); }

}  // namespace lt::comm
