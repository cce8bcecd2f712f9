// Sharded checkpoints: one HDF5 file per rank and a manifest that commits them. docs/checkpoint-format.md has the
// format.
//
//   checkpoints/step-00001000/{manifest.json, rank-00000.h5, ...}
//
// Every rank writes what it owns. A folder without a valid manifest counts as missing.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "libtrain/api.h"
#include "libtrain/comm/group.h"
#include "libtrain/error.h"
#include "libtrain/tensor/shard_map.h"

namespace lt {
namespace LT_API checkpoint {

// A training file by its bytes: size, and a hash of head, tail and samples as 16 hexadecimal digits. `path` is for
// messages.
struct DataFile {
  Size source = 0;  // of several sources
  std::string path;
  Size bytes = 0;
  std::string digest;

  bool has_bytes_of(const DataFile& other) const {
    return source == other.source && bytes == other.bytes && digest == other.digest;
  }
};

// A run's state except its tensors.
struct RunState {
  std::string run;            // the run's id
  std::string parent;         // the run whose checkpoint it began from; empty: none
  Size step = 0;              // steps done
  Size samples = 0;           // data position
  Size data_tokens = 0;       // in all training files; 0: unknown
  std::uint64_t seed = 0;     // for initial weights and dropout
  double loss_scale = 1;      // f16
  Size loss_scale_steps = 0;  // f16: steps since the scale changed
  Size skipped = 0;           // steps without an update
  std::string config;         // the whole configuration, TOML
  std::string config_hash;
  std::string model;      // the model's description for export and sample: a JSON object
  std::string tokenizer;  // tokenizer.json, or empty
  // The files beside tokenizer.json in a Hugging Face folder, as they came: bytes by path in the folder.
  std::map<std::string, std::string> tokenizer_files = {};
  // A run that saves adapters alone has here the absolute path of the weights beneath them (empty: the initial weights
  // of `seed`), the same path relative to the folder of its checkpoints, and a digest of these weights. The digest of
  // any other run is empty.
  std::string base = {}, base_beside = {}, base_digest = {};
  // The training files in their order. Empty: unknown.
  std::vector<DataFile> data_files = {};
  // The run's evaluation loss of this very state; nullopt if it was not evaluated at this step.
  std::optional<double> eval_loss = std::nullopt;
};

// An id for a new run: UTC time and 64 random bits, "20240501T165500Z-9f3c2a10b4d5e6f7".
std::string draw_run_id();

// One step folder, as `list` and resuming see it.
struct Listing {
  std::string path;
  Size step = -1;
  bool valid = false;
  std::string reason;  // why it is not valid: file, field, expected, actual
  std::string run;     // the id of its run, if valid
  std::optional<double> eval_loss = std::nullopt;
};

// Settings of a save.
struct SaveOptions {
  int keep = 3;                               // how many of the run's newest checkpoints stay, at least 2
  Size keep_every = 0;                        // checkpoints at multiples of this step stay too; 0: none
  bool best = false;                          // the one with the lowest evaluation loss stays too
  std::vector<std::string> copied_from = {};  // ids of other runs whose checkpoints count as this run's
};

// Saves step `state.step` of the run `state.run` under `directory`. All ranks of `group` must call it. Order: write and
// fsync each rank's file, gather checksums on rank 0, write and fsync the manifest, rename the folder, fsync the
// parent; then remove what need not stay.
// A corrupt folder of the same name is moved aside first. If a valid one of the same state exists, whatever rank count
// wrote it, the call returns and leaves it; one of another state is an error. Rank 0 locks the folder meanwhile, and
// waits up to 30 s for the lock. Throws UsageError, before anything is written, if the folder holds another run's valid
// checkpoint. Throws DataError, on all ranks alike, if anything fails; earlier checkpoints stay intact.
std::string save(const std::string& directory, const ShardMap& shards, const RunState& state, const Group& group,
                 const SaveOptions& options = {});

// Returns the newest valid step folder of `path`, which is a step folder, a `checkpoints` folder or a run's folder, and
// verifies every byte of it. Appends to `notes` why it skipped newer ones. Throws DataError with the reason for each
// step folder if none is valid.
std::string newest(const std::string& path, std::vector<std::string>* notes = nullptr);

// The step folders of `path`, oldest first. Throws DataError if `path` does not exist.
std::vector<Listing> list(const std::string& path, bool checksums);
// Each reads the manifest of one step's folder.
RunState read_state(const std::string& step_directory);
std::vector<ParameterInfo> read_parameters(const std::string& step_directory);
int read_world_size(const std::string& step_directory);

// Fills every range of `shards.needed` from the files that hold it, whatever rank count and strategy wrote them. All
// ranks of `group` must call it. Each rank checks what it reads, and a share of what no rank reads, so that on return
// every byte of the checkpoint was verified. Values for a CUDA device pass through a small buffer. Throws DataError, on
// all ranks alike, that names file, dataset, expected and actual; the tensors' contents are then undefined.
RunState load(const std::string& step_directory, const ShardMap& shards, const Group& group = Group());

// One parameter's whole state, as f32, flat.
std::vector<float> read_tensor(const std::string& step_directory, const std::string& parameter,
                               const std::string& kind = kMaster);

// Every problem of `path` (a step's folder, or all steps of a `checkpoints` or run's folder, oldest first, with the
// folder's name before each problem) as "file: what, expected, actual". Empty: every byte is intact. Throws DataError
// if there is no step folder.
std::vector<std::string> verify(const std::string& path);

// If a checkpoint holds adapters, export_hf() adds them to the base and writes the sum.
struct HfExportOptions {
  std::string weights = kMaster;                   // or kAverage
  DType dtype = DType::f32;                        // of the tensors: f32 or bf16
  Size file_bytes = Size{5} * 1000 * 1000 * 1000;  // most bytes of a file's tensors; more than that takes several
  std::string base = {};                           // of adapters: where their base is now; empty: where it was
};

// Writes `out_directory` with config.json and model.safetensors, or several files with an index, which `transformers`
// loads, and with the tokenizer's files as they came, if it is one of Hugging Face's format. The folder is written
// under another name and renamed, so it exists whole or not at all. One tensor is in memory at a time. Throws DataError
// if the checkpoint is damaged, if the format cannot express its model, or if `out_directory` exists and is not empty.
void export_hf(const std::string& step_directory, const std::string& out_directory,
               const HfExportOptions& options = {});

// Writes the adapters of a checkpoint as PEFT's folder, adapter_config.json and adapter_model.safetensors, which names
// the base if that is a Hugging Face folder. Reads the base only if one is given. Throws DataError as export_hf() does,
// and if the checkpoint has no adapters.
void export_adapters(const std::string& step_directory, const std::string& out_directory,
                     const HfExportOptions& options = {});

// Makes a checkpoint `step-00000000` under `out_directory` of a folder in Hugging Face's format, with its weights in
// f32, its model and its tokenizer, and without optimizer states. A file of it has `weights_at_once` weights, which are
// in memory at a time. Appends to `notes` what this version does not support of the tokenizer, whose files are kept.
// Returns the step's folder. Throws DataError if the folder or its tokenizer.json is broken, if its model cannot be
// represented, or if `out_directory` exists and is not empty.
std::string import_hf(const std::string& hf_directory, const std::string& out_directory,
                      Size weights_at_once = Size{256} << 20, std::vector<std::string>* notes = nullptr);

}  // namespace checkpoint
}  // namespace lt
