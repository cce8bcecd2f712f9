// Recognises the contents of a folder that is neither a model nor a checkpoint, for error messages.
#pragma once

#include <string>

namespace lt::checkpoint {

// A PEFT adapter, or the snapshots of a Hugging Face cache.
struct FoundInstead {
  std::string found, hint;  // both empty if not recognised
};
FoundInstead found_instead(const std::string& path);

}  // namespace lt::checkpoint
