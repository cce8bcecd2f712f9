// The state from which a run starts or continues: one of five kinds, which find_start() decides once.
#pragma once

#include <variant>

#include "checkpoints/format/load.h"
#include "libtrain/checkpoints/checkpoint.h"
#include "libtrain/dtype.h"

namespace lt::run {

// New weights: loaded from model.from, or drawn from train.seed.
struct Fresh {};

// The run's newest valid checkpoint.
struct FromDisk {
  checkpoint::Loaded checkpoint;
};

// The copies of the run's state in the hosts' memory. They are newer than any of its checkpoints.
struct FromMemory {
  Size step = 0;
  Size newest_on_disk = -1;  // step of the run's newest valid checkpoint; -1: none
  // step, data_tokens and the program's state. Rank 0 also has the newest checkpoint's config_hash and tokenizer, and
  // the last start's computed_by. If this or the last start is elastic, rank 0 has the last start's configuration; if
  // the last one is, also threads_per_rank.
  checkpoint::RunState state;
};

// Another run's checkpoint: checkpoint.resume names it, or the run began from it and has saved nothing since.
struct FromOtherRun {
  checkpoint::Loaded checkpoint;
  bool begins_data = false;  // true: the run has other data, and reads it from the first sample on
};

// The run's checkpoint of the last step or of a later step.
struct Complete {
  checkpoint::Loaded checkpoint;
};

using Start = std::variant<Fresh, FromDisk, FromMemory, FromOtherRun, Complete>;

// The checkpoint on disk that was loaded; null if there is none.
inline const checkpoint::Loaded* checkpoint_of(const Start& start) {
  return std::visit(
      []<class From>(const From& from) -> const checkpoint::Loaded* {
        if constexpr (requires { from.checkpoint; }) return &from.checkpoint;
        return nullptr;
      },
      start);
}

// The state that was loaded; empty for Fresh.
inline const checkpoint::RunState& state_of(const Start& start) {
  static const checkpoint::RunState none;
  if (const auto* const memory = std::get_if<FromMemory>(&start)) return memory->state;
  const checkpoint::Loaded* const checkpoint = checkpoint_of(start);
  return checkpoint == nullptr ? none : checkpoint->state;
}

}  // namespace lt::run
