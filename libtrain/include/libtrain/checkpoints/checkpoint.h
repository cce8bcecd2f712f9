// Sharded checkpoints. Each rank writes the ranges that it owns to its own HDF5 file. A manifest, written last, makes
// the files a checkpoint: a step folder without a valid manifest is no checkpoint. docs/reference/checkpoint-format.md
// describes the format.
//
//   checkpoints/step-00001000/{manifest.json, rank-00000.h5, ...}
//
// `step_directory` is such a step folder. Functions that read one throw DataError, which names file, field or dataset,
// expected and actual, if it is missing, unreadable or corrupt.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "libtrain/api.h"
#include "libtrain/comm/group.h"
#include "libtrain/error.h"
#include "libtrain/progress.h"
#include "libtrain/tensor/shard_map.h"

namespace lt {

// The state that a program keeps in its checkpoints besides model and optimizer: bytes by name, such as the best loss
// so far. It belongs to the run, not to a rank. Names must be UTF-8 and not empty. Names and values together may have
// at most kMaxStateBytes.
using State = std::map<std::string, std::string>;
inline constexpr Size kMaxStateBytes = Size{1} << 20;

namespace LT_API checkpoint {

// Identifies a training file by its content.
struct DataFile {
  Size source = 0;          // index in the list of data sources
  std::string path = {};    // for messages
  Size bytes = 0;           // size of the file
  std::string digest = {};  // TokenFile::digest(): 16 hexadecimal digits

  // True if source, size and digest are equal. Ignores the path.
  bool has_bytes_of(const DataFile& other) const {
    return source == other.source && bytes == other.bytes && digest == other.digest;
  }
};

// What decides the bits of a run on GPUs besides its configuration, as names and values: "gpu" (the model), "cublaslt"
// and "cudnn" (the loaded versions), "algorithms" (digest of the table of matmul algorithms, or "none").
using ComputedBy = std::vector<std::pair<std::string, std::string>>;

// The state of a run, without its tensors.
struct RunState {
  std::string run = {};       // id of the run: 1 to 64 letters, digits and dashes
  std::string parent = {};    // id of the run whose checkpoint this run began from; empty: it began from no checkpoint
  Size step = 0;              // steps done
  Size samples = 0;           // data position: samples that all ranks together have consumed
  Size data_tokens = 0;       // tokens in all training files; 0: unknown
  std::uint64_t seed = 0;     // for initial weights and dropout
  double loss_scale = 1;      // f16 only; 1 for other dtypes
  Size loss_scale_steps = 0;  // f16 only: steps with finite gradients since the scale changed
  Size skipped = 0;           // steps so far that updated nothing
  // CPU threads of a rank, which decide the bits of matmuls on processors. Only for an elastic run
  // (Determinism::elastic) on processors; else 0.
  Size threads_per_rank = 0;
  ComputedBy computed_by = {};   // of a run on GPUs; empty: on processors, or unknown
  std::string config = {};       // the complete configuration, in TOML
  std::string config_hash = {};  // hash of the keys that must not change during a run
  std::string model = {};        // the model's description, which export and sampling need: a JSON object
  std::string tokenizer = {};    // text of tokenizer.json; empty: no tokenizer
  // The other tokenizer files of a Hugging Face folder, unchanged: content by path relative to the folder.
  std::map<std::string, std::string> tokenizer_files = {};
  // Only for a run that saves only its adapters: the base weights to which the adapters are added. `base` is their
  // absolute path (empty: the initial weights for `seed`), `base_beside` the same path relative to the folder of the
  // run's checkpoints, `base_digest` a digest of the weights. For any other run, base_digest is empty.
  std::string base = {}, base_beside = {}, base_digest = {};
  // The training files, in order. Empty: unknown.
  std::vector<DataFile> data_files = {};
  // The evaluation loss of the weights in this checkpoint; nullopt if the run did not evaluate at this step.
  std::optional<double> eval_loss = std::nullopt;
  // The program's own state. save() writes that of rank 0.
  State program = {};
};

// Returns an id for a new run, from the UTC time and 64 random bits: "20240501T165500Z-9f3c2a10b4d5e6f7".
std::string draw_run_id();

// One step folder in the result of list().
struct Listing {
  std::string path;
  Size step = -1;  // -1: unknown
  bool valid = false;
  std::string reason;  // why it is not valid (file, field, expected, actual); empty if valid
  std::string run;     // id of its run; empty if not valid
  std::optional<double> eval_loss = std::nullopt;  // as in RunState
};

// Settings of save(): which checkpoints it keeps. It removes the run's other valid checkpoints.
struct SaveOptions {
  int keep = 3;                               // number of the run's newest checkpoints to keep; below 2 means 2
  Size keep_every = 0;                        // also keeps steps that are multiples of it; 0 disables it
  bool best = false;                          // also keeps the checkpoint with the lowest evaluation loss
  std::vector<std::string> copied_from = {};  // ids of other runs whose checkpoints are treated like this run's
};

// Saves the tensors of shards.owned and `state` as step state.step of the run state.run under `directory`, and returns
// the path of the step folder. Creates `directory` if needed. All ranks of `group` must call it.
// Each rank writes and fsyncs its file; rank 0 gathers the checksums, writes and fsyncs the manifest, renames the
// folder to its final name, and fsyncs `directory`. So the checkpoint is complete on disk, or does not exist. Then rank
// 0 removes superfluous checkpoints; a failure to do so only prints a warning. Rank 0 locks `directory` during the
// call, and waits at most 30 s for the lock. If the step folder exists and is corrupt, it is renamed and kept. If it is
// valid and holds the same state, written by any number of ranks, it is not written again. Throws UsageError, before it
// writes anything, for invalid `shards` or `state`, and if `directory` holds a valid checkpoint of another run. Throws
// DataError if the step folder holds another state, or if anything else fails. All ranks throw. Earlier checkpoints
// then stay intact.
std::string save(const std::string& directory, const ShardMap& shards, const RunState& state, const Group& group,
                 const SaveOptions& options = {});

// Returns the newest valid step folder in `path`, which is a step folder, a `checkpoints` folder or a run's folder.
// Verifies every byte of the folder that it returns. Appends to `notes` why it skipped newer ones; `notes` may be null.
// Reports the bytes that it has verified of one folder after another. If no step folder is valid, throws DataError with
// the reason for each.
std::string newest(const std::string& path, std::vector<std::string>* notes = nullptr,
                   const OnProgress& on_progress = {});

// Returns the step folders in `path`, which is as in newest(), oldest first. Checks manifests and file sizes, and with
// `checksums` every byte, whose number it then reports. Throws DataError if `path` does not exist.
std::vector<Listing> list(const std::string& path, bool checksums, const OnProgress& on_progress = {});
// These read only the manifest: the run's state, all parameters, and the number of ranks that wrote the checkpoint.
RunState read_state(const std::string& step_directory);
std::vector<ParameterInfo> read_parameters(const std::string& step_directory);
int read_world_size(const std::string& step_directory);

// Loads the tensors of shards.needed, and returns the run's state. Any strategy and number of ranks may have written
// the checkpoint; values are converted to the tensors' dtypes. All ranks of `group` must call it. Together the ranks
// verify every byte of the checkpoint. Host memory does not grow with the tensors on a CUDA device: their values pass
// through a small buffer. Throws DataError on all ranks if a file is corrupt, or if the checkpoint has other parameters
// or lacks a state that is needed; the contents of the tensors are then undefined.
RunState load(const std::string& step_directory, const ShardMap& shards, const Group& group = Group());

// Returns all elements of one parameter in one kind of state (kMaster or a name in Optimizer::states), in row-major
// order and converted to f32. Throws DataError if the checkpoint does not have them.
std::vector<float> read_tensor(const std::string& step_directory, const std::string& parameter,
                               const std::string& kind = kMaster);

// Verifies every byte of the step folders in `path`, which is as in newest(). Returns all problems, oldest folder
// first, as "step folder: file: subject: expected ..., found ..."; empty if every byte is intact. Throws DataError if
// there is no step folder. Reports the bytes of all step folders that it has verified.
std::vector<std::string> verify(const std::string& path, const OnProgress& on_progress = {});

// Options of export_hf() and export_adapters().
struct HfExportOptions {
  std::string weights = kMaster;                   // or kAverage, if the run kept an average
  DType dtype = DType::f32;                        // of the exported tensors: f32 or bf16
  Size file_bytes = Size{5} * 1000 * 1000 * 1000;  // upper bound for the tensors of one file, unless one is larger
  std::string base = {};  // for adapters: folder of their base weights; empty: the paths in the checkpoint's RunState
  OnProgress on_progress = {};  // export_hf(): bytes of the tensors that it has written
};

// Exports the model of a checkpoint to `out_directory` in the Hugging Face format, which `transformers` loads:
// config.json, generation_config.json, and model.safetensors or several such files with an index. Adds the tokenizer's
// files unchanged if the tokenizer has Hugging Face's format. Adds adapters to their base weights. Writes a temporary
// folder and renames it, so `out_directory` is complete or is not there. Holds one tensor in memory at a time. Throws
// DataError if the checkpoint is corrupt, if the format cannot express its model, if the base is missing or has
// changed, or if `out_directory` exists and is not empty.
void export_hf(const std::string& step_directory, const std::string& out_directory,
               const HfExportOptions& options = {});

// Exports only the adapters of a checkpoint, in PEFT's format: adapter_config.json and adapter_model.safetensors.
// adapter_config.json names the base if it is a Hugging Face folder. Reads the base only if options.base is set. Throws
// DataError as export_hf() does, and if the checkpoint has no adapters.
void export_adapters(const std::string& step_directory, const std::string& out_directory,
                     const HfExportOptions& options = {});

// Converts a folder in the Hugging Face format to the checkpoint `step-00000000` under `out_directory`, and returns the
// step folder. The checkpoint holds the weights in f32, the model's description and the tokenizer's files, but no
// optimizer states. Each of its files holds at most `weights_at_once` weights (at least 1), which are in memory at one
// time. If this version does not support the tokenizer, appends the reason to `notes`, which may be null. Reports the
// bytes of the weights that are done; a weight that is read, but not written, counts half. Throws DataError if the
// folder or its tokenizer.json is broken, if libtrain has no such model, or if `out_directory` exists and is not empty.
std::string import_hf(const std::string& hf_directory, const std::string& out_directory,
                      Size weights_at_once = Size{256} << 20, std::vector<std::string>* notes = nullptr,
                      const OnProgress& on_progress = {});

}  // namespace checkpoint
}  // namespace lt
