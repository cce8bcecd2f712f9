// Groups whose tensor collectives are messages between pairs of ranks, for tensors on the CPU. A transport receives
// each part directly in its final place. Sums are added here in tree order, so every transport gives the same bits.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "comm/backend.h"

namespace lt::comm {

// The messages of one collective. Post all receives before the first send, so that messages find them waiting.
class MessageTransfer : public Transfer {
 public:
  // Two ranks must send and receive their messages in the same order and sizes.
  virtual void receive(void* values_N, Size n, DType dtype, int from) = 0;
  virtual void send(const void* values_N, Size n, DType dtype, int to) = 0;
  // Call it after the last message.
  virtual void start() {}
  // `finish` runs at the end of wait().
  void then(std::function<void()> finish) { finish_ = std::move(finish); }

  void wait() final;

 protected:
  // Blocks until all messages are received and sent.
  virtual void complete() = 0;

 private:
  std::function<void()> finish_;
};

class MessageBackend : public GroupBackend {
 public:
  using GroupBackend::GroupBackend;

  bool takes(Device device) const final { return device.type == DeviceType::cpu; }
  std::unique_ptr<Transfer> all_gather(const AllGatherCall& call) final;
  std::unique_ptr<Transfer> reduce_scatter(const ReduceScatterCall& call) final;
  std::unique_ptr<Transfer> all_to_all(const AllToAllCall& call) final;

 protected:
  virtual std::unique_ptr<MessageTransfer> next_transfer() = 0;
};

}  // namespace lt::comm
