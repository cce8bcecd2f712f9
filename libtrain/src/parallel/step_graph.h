// StepGraph: a step as one CUDA graph. A launch repeats the captured work in the same memory, and counts the same
// activities and collectives. Their times are measured in the last launch.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "comm/call_log.h"
#include "libtrain/comm/group.h"
#include "profile/activity_clock.h"

namespace lt::parallel {

class StepGraph {
 public:
  // The conditions of the capture. If one of them changes, the graph must be captured again.
  struct Key {
    std::string batch;  // result of shapes_of() for the batch
    Size arena = 0;     // StepMemory::arena_number()
    bool operator==(const Key&) const = default;
  };

  // Captures the work that `body` enqueues on `stream` and on streams that fork from it. Nothing runs yet.
  StepGraph(Key key, const Stream& stream, const std::function<void()>& body);
  const Key& key() const { return key_; }
  void launch(const Stream& stream) const;

 private:
  Key key_;
  std::shared_ptr<void> graph_;
  profile::Lap lap_;
  std::shared_ptr<const CommLap> collectives_;
  comm::GraphCalls calls_;
};

}  // namespace lt::parallel
