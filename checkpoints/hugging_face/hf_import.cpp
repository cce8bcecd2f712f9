// Converts a folder in Hugging Face's format to a checkpoint. Holds the weights of one checkpoint file in memory at a
// time.
#include <algorithm>
#include <filesystem>

#include "checkpoints/format/commit.h"
#include "checkpoints/format/files.h"
#include "checkpoints/format/layout.h"
#include "checkpoints/format/manifest.h"
#include "checkpoints/format/model_json.h"
#include "checkpoints/format/shard_file.h"
#include "checkpoints/format/transfer.h"
#include "checkpoints/hugging_face/hf_folder.h"
#include "libtrain/checkpoints/checkpoint.h"
#include "libtrain/device/phase.h"
#include "libtrain/tokenizer/tokenizer.h"

namespace lt::checkpoint {
namespace fs = std::filesystem;

std::string import_hf(const std::string& hf_directory, const std::string& out_directory, Size weights_at_once,
                      std::vector<std::string>* notes, const OnProgress& on_progress) {
  const PhaseScope phase(Phase::save);
  const HfFolder folder(hf_directory);
  const fs::path parent = out_directory;
  require_new_or_empty(fs::absolute(parent));
  RunState state;
  state.run = draw_run_id();
  state.model = model_to_json(folder.spec(), folder.spec().max_seq);
  state.tokenizer = folder.tokenizer();
  state.tokenizer_files = folder.tokenizer_files();
  const std::string named = state.tokenizer.empty() ? "" : "/tokenizer.json";
  const std::string problem = unsupported_reason(state.tokenizer, state.tokenizer_files, hf_directory + named);
  if (notes != nullptr && !problem.empty()) notes->push_back(problem);
  // One rank's file after another, as if as many ranks had saved.
  std::vector<std::vector<StateRange>> files(1);
  Size room = weights_at_once;
  ShardMap shards{folder.parameters(), {}, {}};
  for (const ParameterInfo& parameter : shards.parameters) {
    for (Size begin = 0; begin < parameter.shape.elements();) {
      if (room == 0) files.emplace_back(), room = weights_at_once;
      const Size end = std::min(parameter.shape.elements(), begin + room);
      files.back().push_back({parameter.name, kMaster, begin, end, {}});
      room -= end - begin, begin = end;
    }
  }
  within(fs::absolute(parent), [&] { make_folders_durably(parent); });
  Size total = 0, done = 0;  // bytes
  for (const ParameterInfo& parameter : shards.parameters)
    total += parameter.shape.elements() * dtype_bytes(DType::f32);
  const auto report = [&](Size bytes) {
    if (on_progress) on_progress(bytes, total);
  };
  report(0);
  write_and_commit(parent, shards, state, Group(), [&](const fs::path& temporary) {
    std::vector<std::string> parts;
    for (std::size_t rank = 0; rank < files.size(); ++rank) {
      shards.owned = std::move(files[rank]);
      Size bytes = 0;
      for (StateRange& range : shards.owned) {
        range.values = Tensor::empty({range.end - range.begin}, DType::f32);
        bytes += range.values.bytes();
      }
      Transfer on_host;
      folder.read(shards.owned, on_host);
      report(done + bytes / 2);
      const ShardOwner owner{static_cast<int>(rank), static_cast<int>(files.size()), state.step};
      parts.push_back(within(temporary, [&] { return file_entry_text(write_shard(temporary, owner, shards)); }));
      report(done += bytes);
      shards.owned.clear();
    }
    return parts;
  });
  tidy(parent, state, {});
  return (parent / step_name(state.step)).string();
}

}  // namespace lt::checkpoint
