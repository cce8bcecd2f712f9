// The front end of all back ends: checks arguments, allocates staging memory, logs and counts. Its allocations and
// counts depend only on sizes, so a meta group allocates and counts the same as a real one.
#include "libtrain/comm/group.h"

#include <fmt/format.h>

#include <algorithm>

#include "comm/backend.h"
#include "comm/work.h"
#include "device/copy_bytes.h"
#include "kernels/reduce.h"
#include "libtrain/error.h"
#include "libtrain/memory/memory.h"
#include "libtrain/profile/operation.h"

namespace lt {
namespace {

// Names a call in errors.
struct Call {
  std::string_view op, name;

  [[noreturn]] void fail(std::string_view argument, const std::string& expected, const std::string& actual) const {
    throw UsageError("comm", fmt::format("{} \"{}\": {}: expected {}, got {}", op, name, argument, expected, actual));
  }

  void require_contiguous(std::string_view argument, const Tensor& tensor, const comm::GroupBackend& backend) const {
    if (!tensor.defined()) fail(argument, "a tensor", "none");
    if (!tensor.is_contiguous()) fail(argument, "a contiguous tensor", "strides " + to_string(tensor.strides()));
    if (!backend.takes(tensor.device())) {
      fail(argument, "a tensor on a device of group " + backend.place().name, "device " + to_string(tensor.device()));
    }
  }

  void require_flat(std::string_view argument, const Tensor& tensor, const comm::GroupBackend& backend) const {
    require_contiguous(argument, tensor, backend);
    if (tensor.dims() != 1) fail(argument, "one dimension", "shape " + to_string(tensor.shape()));
  }

  // Requires `part` to be this rank's part of `full`, in place or disjoint from it.
  void require_part(const Tensor& part, const Tensor& full, const comm::GroupBackend& backend) const {
    require_flat("full", full, backend);
    require_flat("part", part, backend);
    if (part.dtype() != full.dtype()) {
      fail("part", std::string(dtype_name(full.dtype())), std::string(dtype_name(part.dtype())));
    }
    if (part.device() != full.device()) fail("part", to_string(full.device()), to_string(part.device()));
    const Size n = full.elements(), expected = Group::part_size(n, backend.size(), backend.rank());
    if (part.elements() != expected) {
      fail("part", fmt::format("{} elements (part {} of {} of {})", expected, backend.rank(), backend.size(), n),
           std::to_string(part.elements()));
    }
    if (full.device().is_meta() || expected == 0) return;
    const auto* begin = static_cast<const std::byte*>(full.data());
    const auto* mine = static_cast<const std::byte*>(part.data());
    const Size place = Group::part_begin(n, backend.size(), backend.rank()) * dtype_bytes(full.dtype());
    if (mine != begin + place && mine < begin + full.bytes() && begin < mine + part.bytes()) {
      fail("part", fmt::format("memory outside of full, or its bytes from {} on", place),
           fmt::format("its bytes from {} on", mine - begin));
    }
  }

  void require_addends(std::span<const Tensor> addends, const Tensor& part, const comm::GroupBackend& backend) const {
    if (addends.size() > Group::kMostAddends) {
      fail("addends", fmt::format("at most {}", Group::kMostAddends), std::to_string(addends.size()));
    }
    for (const Tensor& addend : addends) {
      require_flat("addends", addend, backend);
      if (addend.dtype() == part.dtype() && addend.elements() == part.elements()) continue;
      fail("addends", fmt::format("{} elements of {}", part.elements(), dtype_name(part.dtype())),
           fmt::format("{} of {}", addend.elements(), dtype_name(addend.dtype())));
    }
  }

  void require_squares(const SumOfSquares& of, const Tensor& part, const Tensor& full) const {
    const Tensor& squares = of.sum;
    const Size n = part.elements(), pieces = of.piece > 0 ? n / of.piece : 1;
    const bool are_whole = of.piece <= 0 || pieces * of.piece == n;
    if (!are_whole || of.piece < 0 || pieces > kernels::kMostPieces || (pieces & (pieces - 1)) != 0) {
      fail("squares.piece",
           fmt::format("0, or a size that cuts the {} elements of part into 1, 2, 4, ... or {} pieces", n,
                       kernels::kMostPieces),
           std::to_string(of.piece));
    }
    if (squares.dtype() != DType::f64) fail("squares", "f64", std::string(dtype_name(squares.dtype())));
    if (squares.elements() != 1) fail("squares", "one number", "shape " + to_string(squares.shape()));
    if (squares.device() != full.device()) fail("squares", to_string(full.device()), to_string(squares.device()));
  }

  void require_wire(DType dtype, DType wire) const {
    for (const auto& [argument, type] : {std::pair{"full", dtype}, std::pair{"wire", wire}}) {
      if (type != DType::f32 && type != DType::f64 && type != DType::bf16) {
        fail(argument, "f32, f64 or bf16", std::string(dtype_name(type)));
      }
    }
  }
};

Size gather_bytes(const comm::GroupBackend& backend, Size n, DType dtype) {
  return (backend.size() - 1) * Group::part_size(n, backend.size(), backend.rank()) * dtype_bytes(dtype);
}

Size reduce_bytes(const comm::GroupBackend& backend, Device device, Size n, DType wire) {
  const Size mine = Group::part_size(n, backend.size(), backend.rank());
  const comm::HostGrid stages = backend.stages(device, n);
  if (stages.is_one_stage()) return (n - mine) * dtype_bytes(wire);
  const Size on_host = (stages.ranks - 1) * stages.hosts * dtype_bytes(wire);
  return mine * (on_host + (stages.hosts - 1) * dtype_bytes(comm::GroupBackend::sum_type(wire)));
}

// The messages to or from other ranks, as raw memory.
std::vector<comm::Piece> pieces_of(std::span<const Message> messages, int own_rank) {
  std::vector<comm::Piece> pieces;
  for (const Message& message : messages) {
    if (message.rank == own_rank || message.values.elements() == 0) continue;
    pieces.push_back({message.rank, message.values.data_or_null(), message.values.bytes()});
  }
  return pieces;
}

// The messages of a rank to itself.
std::vector<const Tensor*> to_itself(std::span<const Message> messages, int own_rank) {
  std::vector<const Tensor*> tensors;
  for (const Message& message : messages) {
    if (message.rank == own_rank && message.values.elements() > 0) tensors.push_back(&message.values);
  }
  return tensors;
}

void start_all_gather(Work::State& state, const Tensor& full, const Tensor& part) {
  if (full.device().is_meta()) return;
  state.hold(full), state.hold(part);
  state.transfer = state.backend->all_gather({full.device(), full.dtype(), full.elements(), full.data(), part.data()});
}

static_assert(Group::kMostAddends == kernels::kMostAddends);

void start_reduce_scatter(Work::State& state, const Tensor& part, const Tensor& full, DType wire,
                          std::span<const Tensor> addends, const SumOfSquares& squares, bool is_first_half = false) {
  const MemoryScope owner(MemoryOwner::communication);
  const OperationScope operation("reduce_scatter");
  comm::ReduceScatterCall call{full.device(), full.dtype(), wire, full.elements()};
  call.wants_squares = squares.sum.defined(), call.piece = squares.piece;
  const auto staging = state.backend->staging(call);
  if (staging.outgoing > 0) state.outgoing = Tensor::empty({staging.outgoing}, wire, full.device());
  if (staging.incoming > 0) state.incoming = Tensor::empty({staging.incoming}, wire, full.device());
  if (staging.host_sums > 0) {
    state.host_sums = Tensor::empty({staging.host_sums}, comm::GroupBackend::sum_type(wire), full.device());
  }
  if (staging.partials > 0) state.partials = Tensor::empty({staging.partials}, DType::f64, full.device());
  if (full.device().is_meta()) return;
  state.hold(full), state.hold(part);
  for (const Tensor& addend : addends) state.hold(addend), call.addends.push_back(addend.data_or_null());
  call.part_P = part.data(), call.full_N = full.data(), call.is_first_half = is_first_half;
  if (staging.outgoing > 0) call.outgoing = state.outgoing.data();
  if (staging.incoming > 0) call.incoming = state.incoming.data();
  if (staging.host_sums > 0) call.host_sums = state.host_sums.data();
  if (staging.partials > 0) call.partials = state.partials.data<double>();
  if (squares.sum.defined()) call.squares = squares.sum.data<double>();
  state.transfer = state.backend->reduce_scatter(call);
}

// A call as logged and counted: `bytes` that this rank sends, of tensors of `whole` bytes as sent.
struct Entry {
  CollectiveOp op;
  std::string_view name;
  Size bytes, whole;
  bool on_device = false;
};

std::uint64_t note(comm::GroupBackend& backend, const Entry& entry) {
  const comm::GroupCounting counting(backend);
  comm::count_collective(entry.op, entry.bytes);
  return backend.log().begin(entry.op, entry.name, entry.bytes, entry.whole, entry.on_device);
}

bool is_on_device(const Tensor& tensor) { return tensor.device().type == DeviceType::cuda; }

// Runs one half of a larger collective to completion.
template <class Start>
void run_half(const std::shared_ptr<comm::GroupBackend>& backend, CollectiveOp op, Start&& start) {
  auto state = std::make_unique<Work::State>(backend, op);
  start(*state);
  Work(std::move(state)).wait();
}

template <class Wait>
void run_barrier(comm::GroupBackend& backend, Wait&& wait) {
  const comm::GroupCounting counting(backend);
  const TimePoint begin = TimePoint::on(Stream::compute(kCpu));
  comm::count_collective(CollectiveOp::barrier, 0);
  {
    const comm::CallScope call(backend.log(), CollectiveOp::barrier, "barrier", 0, 0);
    const comm::WaitingScope waiting;
    wait();
  }
  if (backend.is_paper()) return;
  comm::count_times({CollectiveOp::barrier, begin, TimePoint::on(Stream::compute(kCpu)), begin});
}

comm::GroupPlace paper_place(int rank, int size, std::vector<int> hosts) {
  comm::GroupPlace place{rank, size, rank, size, "meta"};
  place.hosts = std::move(hosts);
  return place;
}

}  // namespace

Group::Group() : backend_(comm::make_self_backend({})) {}
Group::Group(std::shared_ptr<comm::GroupBackend> backend) : backend_(std::move(backend)) {}

Group Group::meta(int rank, int size, DeviceType planned, int ranks_per_host) {
  if (size < 1 || rank < 0 || rank >= size) {
    throw UsageError("comm", fmt::format("meta group: rank: expected 0 to size - 1, got {} of size {}", rank, size));
  }
  std::vector<int> hosts;
  if (ranks_per_host > 0) {
    for (int r = 0; r < size; ++r) hosts.push_back(r / ranks_per_host);
  }
  return Group(comm::make_meta_backend(paper_place(rank, size, std::move(hosts)), planned));
}

Group Group::on_meta(Device device) const {
  comm::GroupPlace place = paper_place(rank(), size(), backend_->place().hosts);
  place.most_arriving = backend_->place().most_arriving;
  return Group(comm::make_meta_backend(std::move(place), backend_->counted_type(device)));
}

int Group::rank() const { return backend_->rank(); }
int Group::size() const { return backend_->size(); }

Size Group::part_begin(Size n, int size, int rank) { return std::min(n, rank * ((n + size - 1) / size)); }
Size Group::part_size(Size n, int size, int rank) { return part_begin(n, size, rank + 1) - part_begin(n, size, rank); }

Work Group::all_gather(std::string_view name, const Tensor& full, const Tensor& part) const {
  Call{"all_gather", name}.require_part(part, full, *backend_);
  const Size bytes = gather_bytes(*backend_, full.elements(), full.dtype());
  const auto sequence = note(*backend_, {CollectiveOp::all_gather, name, bytes, full.bytes(), is_on_device(full)});
  auto state = std::make_unique<Work::State>(backend_, CollectiveOp::all_gather, sequence);
  start_all_gather(*state, full, part);
  state->open_span(name, bytes);
  return Work(std::move(state));
}

Work Group::reduce_scatter(std::string_view name, const Tensor& part, const Tensor& full, DType wire,
                           std::span<const Tensor> addends, const SumOfSquares& squares) const {
  const Call call{"reduce_scatter", name};
  call.require_part(part, full, *backend_);
  call.require_wire(full.dtype(), wire);
  call.require_addends(addends, part, *backend_);
  if (squares.sum.defined()) call.require_squares(squares, part, full);
  const Size bytes = reduce_bytes(*backend_, full.device(), full.elements(), wire);
  const auto sequence = note(
      *backend_, {CollectiveOp::reduce_scatter, name, bytes, full.elements() * dtype_bytes(wire), is_on_device(full)});
  auto state = std::make_unique<Work::State>(backend_, CollectiveOp::reduce_scatter, sequence);
  start_reduce_scatter(*state, part, full, wire, addends, squares);
  state->open_span(name, bytes);
  return Work(std::move(state));
}

void Group::all_reduce(std::string_view name, const Tensor& full, DType wire) const {
  const comm::GroupCounting counting(*backend_);
  const Call call{"all_reduce", name};
  call.require_flat("full", full, *backend_);
  call.require_wire(full.dtype(), wire);
  const Size n = full.elements();
  const Size bytes = reduce_bytes(*backend_, full.device(), n, wire) + gather_bytes(*backend_, n, full.dtype());
  comm::count_collective(CollectiveOp::all_reduce, bytes);
  const comm::CallScope scope(backend_->log(), CollectiveOp::all_reduce, name, bytes, n * dtype_bytes(wire),
                              is_on_device(full));
  const SpanScope span(Lane::reduce, name, {bytes, size(), backend_->place().stride, 2});
  const Tensor part = full.narrow(0, part_begin(n, size(), rank()), part_size(n, size(), rank()));
  const Stream stream = Stream::compute(full.device());
  const TimePoint begin = TimePoint::on(stream);
  run_half(backend_, CollectiveOp::reduce_scatter,
           [&](Work::State& state) { start_reduce_scatter(state, part, full, wire, {}, {}, true); });
  run_half(backend_, CollectiveOp::all_gather, [&](Work::State& state) { start_all_gather(state, full, part); });
  if (!full.device().is_meta()) comm::count_times({CollectiveOp::all_reduce, begin, TimePoint::on(stream), begin});
}

Work Group::all_to_all(std::string_view name, Device device, std::span<const Message> outgoing,
                       std::span<const Message> incoming, Size whole) const {
  const Call call{"all_to_all", name};
  Size bytes = 0;
  for (const auto& [argument, messages] : {std::pair{"outgoing", outgoing}, {"incoming", incoming}}) {
    for (const Message& message : messages) {
      call.require_contiguous(argument, message.values, *backend_);
      if (message.values.device() != device) {
        call.fail(argument, to_string(device), to_string(message.values.device()));
      }
      if (message.rank < 0 || message.rank >= size()) {
        call.fail(argument, fmt::format("ranks of 0 to {}", size() - 1), std::to_string(message.rank));
      }
    }
  }
  const auto sent = to_itself(outgoing, rank()), received = to_itself(incoming, rank());
  if (sent.size() != received.size()) {
    call.fail("incoming", fmt::format("{} messages of this rank to itself", sent.size()),
              std::to_string(received.size()));
  }
  for (std::size_t i = 0; i < sent.size(); ++i) {
    if (sent[i]->bytes() == received[i]->bytes()) continue;
    call.fail("incoming", fmt::format("{} bytes of this rank to itself", sent[i]->bytes()),
              std::to_string(received[i]->bytes()));
  }
  for (const Message& message : outgoing) {
    if (message.rank != rank()) bytes += message.values.bytes();
  }
  const bool on_device = device.type == DeviceType::cuda;
  const auto sequence = note(*backend_, {CollectiveOp::all_to_all, name, bytes, whole, on_device});
  auto state = std::make_unique<Work::State>(backend_, CollectiveOp::all_to_all, sequence);
  if (!device.is_meta()) {
    for (const std::span<const Message> messages : {outgoing, incoming}) {
      for (const Message& message : messages) state->hold(message.values);
    }
    for (std::size_t i = 0; i < sent.size(); ++i) {
      if (sent[i]->data() == received[i]->data()) continue;
      device::copy_bytes(device, received[i]->data(), sent[i]->data(), sent[i]->bytes());
    }
    state->transfer = backend_->all_to_all({device, pieces_of(outgoing, rank()), pieces_of(incoming, rank())});
  }
  state->open_span(name, bytes);
  return Work(std::move(state));
}

Work Group::broadcast(std::string_view name, const Tensor& tensor, int root) const {
  const Call call{"broadcast", name};
  call.require_contiguous("tensor", tensor, *backend_);
  if (root < 0 || root >= size()) call.fail("root", fmt::format("0 to {}", size() - 1), std::to_string(root));
  const Size bytes = root == rank() ? (size() - 1) * tensor.bytes() : 0;
  const auto sequence = note(*backend_, {CollectiveOp::broadcast, name, bytes, tensor.bytes(), is_on_device(tensor)});
  auto state = std::make_unique<Work::State>(backend_, CollectiveOp::broadcast, sequence);
  if (!tensor.device().is_meta()) {
    state->hold(tensor);
    state->transfer = backend_->broadcast({tensor.device(), tensor.dtype(), tensor.elements(), tensor.data(), root});
  }
  state->open_span(name, bytes);
  return Work(std::move(state));
}

void Group::barrier() const {
  run_barrier(*backend_, [&] { backend_->barrier(); });
}
void Group::idle_barrier() const {
  run_barrier(*backend_, [&] { backend_->idle_barrier(); });
}

std::vector<std::string> Group::all_gather_bytes(const std::string& mine) const {
  const comm::GroupCounting counting(*backend_);
  const comm::WaitingScope waiting;
  const comm::CallScope call(backend_->log(), CollectiveOp::exchange, "bytes of all", 0, 0);
  return backend_->all_gather_bytes(mine);
}

std::string Group::broadcast_bytes(const std::string& value, int root) const {
  if (root < 0 || root >= size()) {
    Call{"broadcast_bytes", ""}.fail("root", fmt::format("0 to {}", size() - 1), std::to_string(root));
  }
  const comm::GroupCounting counting(*backend_);
  const comm::WaitingScope waiting;
  const comm::CallScope call(backend_->log(), CollectiveOp::exchange, "bytes of one", 0, 0);
  return backend_->broadcast_bytes(value, root);
}

Group Group::split(int color, std::string_view name) const {
  if (backend_->is_paper() && size() > 1) {
    throw UsageError("comm",
                     fmt::format("split \"{}\": a meta group does not know the colors of its other ranks", name),
                     "give the color as a function of the rank");
  }
  std::vector<int> colors;
  colors.reserve(static_cast<std::size_t>(size()));
  for (const std::string& text : all_gather_bytes(std::to_string(color))) colors.push_back(std::stoi(text));
  return split([&](int r) { return colors[static_cast<std::size_t>(r)]; }, name);
}

Group Group::split(const std::function<int(int)>& color, std::string_view name) const {
  std::vector<int> colors(static_cast<std::size_t>(size()));
  for (int r = 0; r < size(); ++r) colors[static_cast<std::size_t>(r)] = color(r);
  const comm::CallScope call(backend_->log(), CollectiveOp::exchange, "split", 0, 0);
  return Group(backend_->split(colors, std::string(name)));
}

Group Group::duplicate(std::string_view name) const {
  return split([](int) { return 0; }, name);
}

Group Group::duplicate_in_slices(std::string_view name, Size bytes) const {
  Group result = duplicate(name);
  result.backend_->let_arrive_at_most(bytes);
  return result;
}

Group Group::duplicate_patient(std::string_view name) const {
  return Group(backend_->duplicate_patient(std::string(name)));
}

PeerMemory Group::peer_memory(Device device) const { return backend_->peer_memory(device); }

void Group::abandon() const noexcept { backend_->abandon(); }

std::vector<CollectiveRecord> Group::log() const { return backend_->log().last(); }

}  // namespace lt
