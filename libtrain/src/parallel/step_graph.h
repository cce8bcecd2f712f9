// StepGraph: a step as one CUDA graph. A launch does again what the capture saw, with the same memory, and counts the
// same parts and collectives; their times are those of the last launch.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "libtrain/comm/group.h"
#include "profile/activity_clock.h"

namespace lt {

class StepGraph {
 public:
  // What the graph was captured with; with anything else it must be captured again.
  struct Key {
    std::string batch;  // shapes_of() it
    Size arena = 0;     // StepMemory::arena_number()
    bool operator==(const Key&) const = default;
  };

  // Captures what `body` gives to `stream` and to those that come to depend on it; nothing of it runs.
  StepGraph(Key key, const Stream& stream, const std::function<void()>& body);
  const Key& key() const { return key_; }
  void launch(const Stream& stream) const;

 private:
  Key key_;
  std::shared_ptr<void> graph_;
  Lap lap_;
  std::shared_ptr<const CommLap> collectives_;
};

}  // namespace lt
