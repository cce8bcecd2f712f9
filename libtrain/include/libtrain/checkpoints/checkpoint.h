// Sharded checkpoints: one HDF5 file a rank and a manifest that commits them. The format is docs/checkpoint-format.md.
//
//   checkpoints/step-00001000/{manifest.json, rank-00000.h5, ...}
//
// Every rank writes what it owns; a folder without a manifest that verifies does not exist.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "libtrain/comm/group.h"
#include "libtrain/error.h"
#include "libtrain/tensor/shard_map.h"

namespace lt::checkpoint {

// Everything of a run's state that is not a tensor.
struct RunState {
  std::string run;                         // the run's id
  std::string parent;                      // of the run whose checkpoint it began from; empty: none
  Size step = 0;                           // steps done
  Size samples = 0;                        // data position
  Size data_tokens = 0;                    // of all training files together; 0: not known
  std::uint64_t seed = 0;                  // of initial weights and dropout
  double loss_scale = 1;                   // f16
  Size loss_scale_steps = 0, skipped = 0;  // f16: steps since the scale changed; steps without an update
  std::string config;                      // the whole configuration, TOML
  std::string config_hash;
  std::string model;      // what export and sample need to know of the model: a JSON object
  std::string tokenizer;  // tokenizer.json, or empty
  // The loss of an evaluation of this very state by the run; none where it was not evaluated at this step.
  std::optional<double> eval_loss = std::nullopt;
};

// An id for a run that begins: UTC time and 64 random bits, "20240501T165500Z-9f3c2a10b4d5e6f7".
std::string draw_run_id();

// Which checkpoints of a folder are meant: a run's own, or any run's.
struct RunFilter {
  std::string run;         // the id; empty: any run's
  bool version_1 = false;  // those of version 1, which carry no id, are the run's too

  bool includes(const std::string& id) const { return run.empty() || id == run || (id.empty() && version_1); }
};
inline const RunFilter kAnyRun;

// One folder as `list` and resuming see it.
struct Listing {
  std::string path;
  Size step = -1;
  bool valid = false;
  std::string reason;  // why it is not valid: file, field, expected, actual
  std::string run;     // where it is valid: whose it is; empty in version 1
  std::optional<double> eval_loss = std::nullopt;
};

// What a save does beside writing.
struct SaveOptions {
  int keep = 3;            // the run's newest checkpoints that stay, at least 2
  Size keep_every = 0;     // each whose step is a multiple of it stays too; 0: none
  bool best = false;       // so does the one with the lowest evaluation loss
  bool version_1 = false;  // checkpoints there that carry no id are this run's
};

// Saves step `state.step` of the run `state.run` under `directory`; all ranks of `group` call it. Order: write and
// fsync each rank's file, gather checksums on rank 0, write and fsync the manifest, rename the folder, fsync the
// parent; then remove what need not stay. A corrupt folder of the same name is moved aside first; a valid one of the
// same state, whatever rank count wrote it, is left and the call returns, one of another state is an error. Rank 0 has
// the folder alone meanwhile, and waits up to 30 s for it. Throws UsageError, before anything is written, where another
// run's valid checkpoint is there, and DataError (all ranks alike) where anything fails; what stood before still
// stands.
std::string save(const std::string& directory, const ShardMap& shards, const RunState& state, const Group& group,
                 const SaveOptions& options = {});

// The newest valid step's folder of `path`: a step's folder, a `checkpoints` folder or a run's folder. Why newer ones
// were passed over is appended to `notes`. Nothing valid: nullopt. Verifies manifests and file sizes, and with
// `checksums` every byte.
std::optional<std::string> find_newest(const std::string& path, const RunFilter& runs, std::vector<std::string>* notes,
                                       bool checksums);

// What load_newest() may try of `path`, newest first: the run's own checkpoints, and folders without a readable
// manifest, whose `reason` says what is wrong. Reads manifests and file sizes.
std::vector<Listing> candidates(const std::string& path, const RunFilter& runs);
// The first that is valid; null: none.
const Listing* newest_valid(const std::vector<Listing>& candidates);

// The newest checkpoint of `path` that is none of `runs` and valid by manifest and file sizes.
std::optional<Listing> find_other(const std::string& path, const RunFilter& runs);
// Throws UsageError, naming both runs, where there is one. `named` is the key of the configuration that gave the path,
// or nothing.
void require_no_other_run(const std::string& path, const RunFilter& runs, const std::string& named = "");

// The newest of any run, with every byte verified; throws DataError where nothing is valid, saying why of each.
// `named` is what the message calls the path: a key of the configuration, or nothing.
std::string newest(const std::string& path, std::vector<std::string>* notes = nullptr, const std::string& named = "");

// Step folders of `path`, oldest first. Throws DataError where nothing is at `path`.
std::vector<Listing> list(const std::string& path, bool checksums);

// Reads the manifest of one step's folder.
RunState read_state(const std::string& step_directory);
std::vector<ParameterInfo> read_parameters(const std::string& step_directory);
int read_world_size(const std::string& step_directory);

// Throws DataError unless the checkpoint's parameters are these, naming the first that differs.
void require_parameters(const std::string& step_directory, const std::vector<ParameterInfo>& parameters);

// Fills every range of `shards.needed` from the files that hold it, whatever rank count and strategy wrote them; all
// ranks of `group` call it. Each rank checks what it reads, and its share of what none reads, so that every byte of the
// checkpoint was verified when it returns. Values for a CUDA device pass through a small buffer. Throws DataError, all
// ranks alike, naming file, dataset, expected and actual; the tensors then hold anything.
RunState load(const std::string& step_directory, const ShardMap& shards, const Group& group = Group());

struct Loaded {
  std::string folder;  // empty: no candidate was whole
  RunState state;
  bool tried = false;  // one or more; where none was whole the tensors then hold anything
};
// Loads the first of rank 0's `candidates` that is whole. Why others were passed over is appended to rank 0's `notes`.
// Throws DataError for a checkpoint of another model or optimizer.
Loaded load_newest(const std::vector<Listing>& candidates, const ShardMap& shards, const Group& group,
                   std::vector<std::string>* notes);
// The error where none is: why of each, and what would have been expected of `path`; `named` as for newest().
DataError no_valid_checkpoint(const std::string& path, const std::vector<std::string>& notes,
                              const std::string& named = "");
// The kind that holds the `weights`, kMaster or kAverage, of each parameter by name. Frozen parameters have no average
// of their own: their masters are it. Throws DataError where the checkpoint has none of that kind, or none of a
// parameter that has other states, and for an average before the first update.
std::unordered_map<std::string, std::string> weight_kinds(const std::string& step_directory,
                                                          const std::string& weights);
// The whole of one parameter's state, f32, flat.
std::vector<float> read_tensor(const std::string& step_directory, const std::string& parameter,
                               const std::string& kind = kMaster);

// Every problem of what `path` names (a step's folder, or all steps of a `checkpoints` or run's folder, oldest first,
// the folder's name before each problem) as "file: what, expected, actual"; empty: every byte is as it was written.
// Throws DataError where no step's folder is there.
std::vector<std::string> verify(const std::string& path);

// Writes `out_directory` with config.json and model.safetensors (f32), which `transformers` loads as GPT2LMHeadModel or
// LlamaForCausalLM, and tokenizer.json where the checkpoint has one in Hugging Face's own format. The folder is written
// beside and renamed, so it is there whole or not at all. `weights` is kMaster or kAverage. Throws DataError where the
// checkpoint is damaged or of another model family, or where `out_directory` exists and is not empty.
void export_hf(const std::string& step_directory, const std::string& out_directory,
               const std::string& weights = kMaster);

}  // namespace lt::checkpoint
