// Finds checkpoints and explains why one is not valid.
#include "checkpoints/format/find.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "checkpoints/format/files.h"
#include "checkpoints/format/found_instead.h"
#include "checkpoints/format/known_folders.h"
#include "checkpoints/format/layout.h"
#include "checkpoints/format/manifest.h"
#include "checkpoints/format/shard_checksums.h"
#include "checkpoints/format/verify.h"
#include "io/crc32c.h"
#include "io/descriptor.h"
#include "libtrain/error.h"

namespace lt::checkpoint {
namespace {

using Problems = std::vector<std::string>;

// Runs `body` and records the message of an exception. Returns false if there was one.
template <class Body>
bool attempt(Problems& problems, Body&& body) {
  try {
    body();
    return true;
  } catch (const std::exception& e) {
    problems.emplace_back(e.what());
    return false;
  }
}

void check_bytes(const std::filesystem::path& folder, const FileEntry& file, Problems& problems,
                 const CountBytes& count) {
  const std::size_t before = problems.size();
  attempt(problems, [&] {
    const FileChecksums found = checksums_of(folder / file.name, file.datasets, count);
    for (std::size_t d = 0; d < file.datasets.size(); ++d) {
      const DatasetEntry& dataset = file.datasets[d];
      for (std::size_t b = 0; b < dataset.blocks.size(); ++b) {
        if (found.blocks[d][b] == dataset.blocks[b]) continue;
        problems.push_back(fmt::format("{}: {}: crc32c: expected {}, found {}", file.name, block_name(dataset, b),
                                       io::crc_text(dataset.blocks[b]), io::crc_text(found.blocks[d][b])));
      }
    }
    if (found.metadata != file.crc_metadata) {
      problems.push_back(fmt::format("{}: metadata: crc32c: expected {}, found {}", file.name,
                                     io::crc_text(file.crc_metadata), io::crc_text(found.metadata)));
    }
    if (found.file != file.crc && problems.size() == before) {
      problems.push_back(fmt::format("{}: crc32c: expected {}, found {}", file.name, io::crc_text(file.crc),
                                     io::crc_text(found.file)));
    }
  });
}

// Reports how many bytes of the folders have been checked.
class BytesDone {
 public:
  BytesDone(const std::vector<std::filesystem::path>& folders, const OnProgress& on_progress)
      : on_progress_(on_progress) {
    if (!on_progress_) return;
    Problems ignored;  // problems_of() finds them again
    for (const auto& folder : folders) {
      attempt(ignored, [&] {
        for (const FileEntry& file : read_manifest(folder).files) total_ += file.bytes;
      });
    }
    on_progress_(0, total_);
  }

  // Empty if nobody wants to know.
  CountBytes count() {
    if (!on_progress_) return {};
    return [this](Size bytes) { on_progress_(done_ += bytes, total_); };
  }

 private:
  const OnProgress& on_progress_;
  Size done_ = 0, total_ = 0;
};

Listing look_at(const std::filesystem::path& folder, bool checksums, const CountBytes& count) {
  Manifest manifest;
  const Problems problems = problems_of(folder, checksums, &manifest, count);
  Listing listing;
  listing.path = folder.string();
  listing.step = parse_step(folder.filename().string()).value_or(-1);
  listing.valid = problems.empty();
  if (listing.valid) {
    listing.step = manifest.state.step;
    listing.run = manifest.state.run;
    listing.eval_loss = manifest.state.eval_loss;
  } else {
    listing.reason = problems.front();
    if (problems.size() > 1) listing.reason += fmt::format(" (and {} more)", problems.size() - 1);
  }
  return listing;
}

Listing examine(const std::filesystem::path& folder, bool checksums, const CountBytes& count = {}) {
  if (checksums) return look_at(folder, true, count);
  return remembered(folder, [&] { return look_at(folder, false, {}); });
}

// A run at work may have removed the folder since it was listed.
bool is_gone(const std::filesystem::path& folder) {
  std::error_code failed;
  return std::filesystem::symlink_status(folder, failed).type() == std::filesystem::file_type::not_found;
}

std::vector<Listing> examine_all(const std::vector<std::filesystem::path>& folders, bool checksums,
                                 const CountBytes& count = {}) {
  std::vector<Listing> listings;
  for (const auto& folder : folders) {
    Listing listing = examine(folder, checksums, count);
    if (listing.valid || !is_gone(folder)) listings.push_back(std::move(listing));
  }
  return listings;
}

// Runs are told apart in the directory that they save to.
std::vector<std::filesystem::path> newest_first(const std::string& path, const RunFilter& runs) {
  auto folders = runs.run.empty() ? step_folders(path) : steps_in(path);
  std::reverse(folders.begin(), folders.end());
  return folders;
}

void require_there(const std::string& path) {
  if (!std::filesystem::exists(path)) throw DataError("checkpoint", path + ": no such file or folder");
}

// A path as messages name it, with the configuration key that gave it.
std::string subject_of(const std::string& path, const std::string& named) {
  return named.empty() ? path : named + " " + path;
}

// For a `path` that exists but holds no step folder.
std::string hint_for_no_checkpoint(const std::filesystem::path& path) {
  std::error_code ignored;
  const bool hugging_face = std::filesystem::exists(path / "model.safetensors", ignored) ||
                            std::filesystem::exists(path / "model.safetensors.index.json", ignored) ||
                            (std::filesystem::exists(path / "config.json", ignored) &&
                             std::filesystem::exists(path / "pytorch_model.bin", ignored));
  return hugging_face ? "this is a Hugging Face folder: ltrain checkpoint import makes a checkpoint of it"
                      : "a step's folder, a checkpoints folder or a run's folder is expected";
}

}  // namespace

std::vector<std::string> problems_of(const std::filesystem::path& folder, bool checksums, Manifest* read,
                                     const CountBytes& count) {
  Problems problems;
  Manifest manifest;
  if (!attempt(problems, [&] { manifest = read_manifest(folder); })) return problems;
  for (const FileEntry& file : manifest.files) {
    Size bytes = -1, counted = 0;
    const bool is_there = attempt(problems, [&] { bytes = file_bytes(folder / file.name); });
    if (is_there && bytes != file.bytes) {
      problems.push_back(fmt::format("{}: expected {} bytes, found {}", file.name, file.bytes, bytes));
    } else if (is_there && checksums) {
      check_bytes(folder, file, problems, [&](Size read_bytes) {
        counted += read_bytes;
        if (count) count(read_bytes);
      });
    }
    if (count) count(file.bytes - counted);  // a file that cannot be read is done too
  }
  if (checksums) remember_whole(folder, problems.empty());
  if (read != nullptr) *read = std::move(manifest);
  return problems;
}

std::vector<std::string> verify(const std::string& path, const OnProgress& on_progress) {
  require_there(path);
  const auto folders = step_folders(path);
  if (folders.empty()) throw DataError("checkpoint", path + ": expected step-* folders, found none");
  Problems all;
  Size verified = 0;
  BytesDone done(folders, on_progress);
  for (const auto& folder : folders) {
    const Problems problems = problems_of(folder, true, nullptr, done.count());
    if (is_gone(folder)) continue;
    ++verified;
    for (const std::string& problem : problems) all.push_back(folder.filename().string() + ": " + problem);
  }
  if (verified == 0) throw DataError("checkpoint", path + ": expected step-* folders, found them removed meanwhile");
  return all;
}

std::vector<Listing> list(const std::string& path, bool checksums, const OnProgress& on_progress) {
  require_there(path);
  const auto folders = step_folders(path);
  BytesDone done(folders, on_progress);
  return examine_all(folders, checksums, done.count());
}

std::vector<Listing> saved_in(const std::string& directory) { return examine_all(steps_in(directory), false); }

std::vector<Listing> candidates(const std::string& path, const RunFilter& runs) {
  std::vector<Listing> found;
  for (Listing& listing : examine_all(newest_first(path, runs), false)) {
    if (!listing.valid || runs.includes(listing.run)) found.push_back(std::move(listing));
  }
  return found;
}

std::optional<std::string> first_unreadable(const std::vector<Listing>& candidates) {
  std::optional<std::string> found;
  const auto note = [&](const std::filesystem::path& path, int error) {
    if (error != 0 && error != ENOENT && !found) found = path.string() + ": " + std::strerror(error);
  };
  for (const Listing& candidate : candidates) {
    std::error_code failed;
    std::filesystem::directory_iterator at(candidate.path, failed);
    for (; !failed && at != std::filesystem::directory_iterator(); at.increment(failed)) {
      const io::Descriptor file(::open(at->path().c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
      char byte = 0;
      const bool can_be_read = file.is_open() && (::pread(file.get(), &byte, 1, 0) >= 0 || errno == EISDIR);
      note(at->path(), can_be_read ? 0 : errno);
    }
    note(candidate.path, failed.value());
  }
  return found;
}

const Listing* newest_valid(const std::vector<Listing>& candidates) {
  const auto found = std::find_if(candidates.begin(), candidates.end(), [](const Listing& e) { return e.valid; });
  return found == candidates.end() ? nullptr : &*found;
}

std::optional<Listing> find_other(const std::string& path, const RunFilter& runs) {
  for (const auto& folder : newest_first(path, runs)) {
    const Listing listing = examine(folder, false);
    if (listing.valid && !runs.includes(listing.run)) return listing;
  }
  return std::nullopt;
}

void require_no_other_run(const std::string& path, const RunFilter& runs, const std::string& named) {
  const auto other = find_other(path, runs);
  if (!other) return;
  const std::string hint =
      named.empty() ? "choose another folder for this run's checkpoints"
                    : fmt::format("choose another --{}; --checkpoint.resume={} with it begins a new run from there",
                                  named, other->path);
  throw UsageError(named.empty() ? "checkpoint" : "config",
                   fmt::format("{}: expected checkpoints of run {} alone, found {} of run {}", subject_of(path, named),
                               runs.run, std::filesystem::path(other->path).filename().string(), other->run),
                   hint);
}

std::optional<std::string> find_newest(const std::string& path, const RunFilter& runs, std::vector<std::string>* notes,
                                       bool checksums, const OnProgress& on_progress) {
  for (Listing& listing : candidates(path, runs)) {
    if (listing.valid && checksums) {
      BytesDone done({listing.path}, on_progress);
      listing = examine(listing.path, true, done.count());
    }
    if (listing.valid) return listing.path;
    if (notes != nullptr) {
      notes->push_back(std::filesystem::path(listing.path).filename().string() + ": " + listing.reason);
    }
  }
  return std::nullopt;
}

DataError no_valid_checkpoint(const std::string& path, const std::vector<std::string>& notes,
                              const std::string& named) {
  const std::string subject = subject_of(path, named);
  if (!std::filesystem::exists(path)) return {"checkpoint", subject + ": no such file or folder"};
  if (const FoundInstead other = found_instead(path); notes.empty() && !other.found.empty())
    return {"checkpoint", fmt::format("{}: expected a valid checkpoint, found {}", subject, other.found), other.hint};
  return {"checkpoint",
          fmt::format("{}: expected a valid checkpoint, found none{}{}", subject, notes.empty() ? "" : ": ",
                      fmt::join(notes, "; ")),
          notes.empty() ? hint_for_no_checkpoint(path) : ""};
}

std::string newest_named(const std::string& path, const std::string& named, std::vector<std::string>* notes,
                         const OnProgress& on_progress) {
  Problems reasons;
  const auto found = find_newest(path, kAnyRun, &reasons, true, on_progress);
  if (!found) throw no_valid_checkpoint(path, reasons, named);
  if (notes != nullptr) notes->insert(notes->end(), reasons.begin(), reasons.end());
  return *found;
}

std::string newest(const std::string& path, std::vector<std::string>* notes, const OnProgress& on_progress) {
  return newest_named(path, "", notes, on_progress);
}

}  // namespace lt::checkpoint
