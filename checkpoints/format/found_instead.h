// What a folder holds in place of a model or a checkpoint, for messages.
#pragma once

#include <string>

namespace lt::checkpoint {

// An adapter of PEFT, or the snapshots of a Hugging Face cache.
struct FoundInstead {
  std::string found, hint;  // empty: nothing that is known
};
FoundInstead found_instead(const std::string& path);

}  // namespace lt::checkpoint
