// Names of the files and folders of a checkpoint, and the step folders that a path refers to. See
// docs/reference/checkpoint-format.md.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libtrain/dtype.h"

namespace lt::checkpoint {

inline constexpr std::string_view kManifestName = "manifest.json";
inline constexpr std::string_view kLatestName = "LATEST";
// Payload bytes covered by one checksum.
inline constexpr Size kBlockBytes = Size{4} << 20;
constexpr Size block_elements(DType dtype) { return kBlockBytes / dtype_bytes(dtype); }

std::string step_name(Size step);                                                 // step-00001000
std::string shard_name(int rank);                                                 // rank-00000.h5
std::string temporary_name(const std::string& name, const std::string& attempt);  // <name>.tmp-<attempt>
std::string discarded_name(const std::string& name, const std::string& attempt);  // <name>.old-<attempt>

// Parses a name made by step_name(). Returns nullopt for any other name.
std::optional<Size> parse_step(std::string_view name);
// True for names that temporary_name() or discarded_name() made of a step's name or of LATEST, in an attempt of `run`
// (run_id.h).
bool is_leftover(std::string_view name, std::string_view run);

// Renames `folder` to the first free <name>.corrupt-K and returns its new path.
std::filesystem::path move_aside(const std::filesystem::path& folder);

// Returns the step folders in `directory`, to which a run saves, oldest first. Empty if there are none or the directory
// does not exist.
std::vector<std::filesystem::path> steps_in(const std::filesystem::path& directory);
// Returns the step folders that a user's `path` refers to, oldest first: `path` itself if it is a step folder (by its
// name, or because it has a manifest), else the step folders in `path`/checkpoints, else those in `path`. Empty if
// there are none.
std::vector<std::filesystem::path> step_folders(const std::string& path);

}  // namespace lt::checkpoint
