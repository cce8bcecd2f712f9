// Converts text to token files: inputs to the spool, the spool to files.
#include "libtrain/data/prepare.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <new>
#include <nlohmann/json.hpp>

#include "data/document_reader.h"
#include "data/file_list.h"
#include "data/input_stream.h"
#include "data/prepare_files.h"
#include "data/spool.h"
#include "data/token_header.h"
#include "device/fault.h"
#include "io/crc32c.h"
#include "io/presence.h"
#include "io/whole_file.h"
#include "libtrain/error.h"
#include "tokenizer/tokenizer_files.h"

namespace lt::data {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSpoolFolder = "/prepare.tmp";

void check(const PrepareOptions& options) {
  const auto refuse = [](const std::string& message) { throw UsageError("data", message); };
  if (options.inputs.empty()) refuse("input: expected at least one file, got none");
  if (options.out.empty()) refuse("out: expected a folder, got none");
  if (!(options.val_fraction >= 0 && options.val_fraction < 1)) {
    refuse(fmt::format("val-fraction: expected a number in [0, 1), got {}", options.val_fraction));
  }
  if (options.max_file_tokens < 1 || options.max_file_tokens > kMostTokens) {
    refuse(fmt::format("max_file_tokens: expected 1 to {}, got {}", kMostTokens, options.max_file_tokens));
  }
  if (options.batch_bytes < 1) refuse(fmt::format("batch_bytes: expected at least 1, got {}", options.batch_bytes));
  if (options.pack < 0) refuse(fmt::format("pack: expected a number of tokens, got {}", options.pack));
  if (options.pack >= options.max_file_tokens) {
    refuse(fmt::format("pack: expected less than {} tokens, got {}", options.max_file_tokens, options.pack));
  }
  if (options.text_separator && options.text_separator->empty()) refuse("text-separator: expected text, got none");
  if (options.chat && options.field) refuse("field: has no effect with chat, whose lines have the field \"messages\"");
  if (options.chat && options.text_separator) refuse("text-separator: has no effect with chat, which reads JSON lines");
}

// Throws UsageError if `out` holds token files, of an earlier call or the user's own, which this one would write over
// or remove.
void require_no_tokens(const PrepareOptions& options) {
  const std::string found = options.overwrite ? "" : token_file_in(options.out);
  if (found.empty()) return;
  throw UsageError("data", fmt::format("out: {}: expected a folder without {}, found one", options.out, found),
                   "choose another --out; --force writes over the token files there");
}

// Ends the refusal of an option that has an effect on no input.
std::string none_else(const std::vector<std::string>& paths) {
  return paths.size() == 1 ? paths[0] + " has nothing else" : "no input has anything else";
}

// A separator divides text alone, so one without text to divide is a mistake.
void require_text(const PrepareOptions& options, const std::vector<std::string>& paths) {
  if (!options.text_separator || !std::ranges::all_of(paths, is_json_lines)) return;
  throw UsageError("data", "text-separator: has no effect on JSON lines, and " + none_else(paths));
}

// A field belongs to JSON lines, so one without any is a mistake.
void require_json_lines(const PrepareOptions& options, const std::vector<std::string>& paths) {
  if (!options.field) return;
  const auto has_fields = [&](const std::string& path) {
    return is_json_lines(path) || (path == "-" && !options.text_separator);
  };
  if (std::ranges::any_of(paths, has_fields)) return;
  throw UsageError("data", "field: has no effect on text, and " + none_else(paths),
                   "a name that ends in .jsonl makes JSON lines of a file, and so does standard input: --input -");
}

// The status of an input, if it is a regular file.
std::optional<struct stat> regular_file(const std::string& path) {
  struct stat status {};
  if (path == "-" || ::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  return status;
}

// Everything that the spooled tokens depend on; empty if that cannot be known.
std::string identity_of(const PrepareOptions& options, const std::vector<std::string>& paths,
                        const std::string& tokenizer) {
  nlohmann::json inputs = nlohmann::json::array();
  for (const std::string& path : paths) {
    const auto status = regular_file(path);
    if (!status) return "";
    inputs.push_back({fs::absolute(path).string(), status->st_size, status->st_mtim.tv_sec, status->st_mtim.tv_nsec});
  }
  const auto text = [](const std::optional<std::string>& option) {
    return option ? nlohmann::json(*option) : nlohmann::json();
  };
  constexpr int kVersion = 4;  // rises where the same input gets other tokens
  const nlohmann::json identity = {kVersion,
                                   inputs,
                                   tokenizer.size(),
                                   io::crc32c(0, tokenizer.data(), tokenizer.size()),
                                   text(options.field),
                                   text(options.text_separator),
                                   text(options.chat),
                                   options.pack > 0};
  // Names of files need not be UTF-8.
  return identity.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

std::string continue_hint(const std::string& spool) {
  return fmt::format("{} keeps the finished part: the same command continues from it", spool);
}

// Before anything is written: the state in a spool would be given up for an input that is away.
void require_openable(const std::vector<std::string>& paths, const std::string& spool) {
  try {
    for (const std::string& path : paths) {
      if (path != "-") StoredBytes::require_openable(path);
    }
  } catch (const ReadError& e) {
    std::error_code failed;
    throw ReadError(e.component(), e.what(), fs::exists(spool, failed) ? continue_hint(spool) : e.hint());
  }
}

// The tokenizer.json, and the files beside it if it is a model's.
std::map<std::string, std::string> files_of(const PrepareOptions& options, const Tokenizer& tokenizer) {
  const fs::path json = options.tokenizer;
  std::map<std::string, std::string> files;
  const bool has_others = tokenizer.bytes_per_token() != 1 && json.filename() == "tokenizer.json";
  if (has_others) files = tokenizer::read_tokenizer_files("data", json.parent_path());
  files["tokenizer.json"] = tokenizer.to_json();
  return files;
}

// Throws UsageError if `out` has a file of another tokenizer: beside the tokens it would pass for one of this
// tokenizer, or be lost. The tokenizer.json of an earlier call goes with its tokens.
void require_no_others(const PrepareOptions& options, const std::map<std::string, std::string>& files) {
  std::map<std::string, std::string> there = tokenizer::read_tokenizer_files("data", options.out);
  const std::string json = options.out + "/tokenizer.json";
  if (io::is_present("data", json) && !fs::exists(options.out + "/train.bin"))
    there["tokenizer.json"] = io::read_file(json).text;
  for (const auto& [path, bytes] : there) {
    const auto ours = files.find(path);
    if (ours != files.end() && ours->second == bytes) continue;
    throw UsageError("data",
                     fmt::format("out: {}/{}: expected no file of another tokenizer than {}, found one", options.out,
                                 path, options.tokenizer),
                     ours != files.end()
                         ? "another --out: that file would be written over"
                         : "another --out, or remove that file: with train.bin it would belong to the tokenizer");
  }
}

// Makes the output's folder; removes those that it made unless it is told to keep them.
class OutputFolder {
 public:
  explicit OutputFolder(const std::string& path) {
    std::error_code error;
    for (fs::path folder = fs::absolute(path).lexically_normal(); !fs::exists(folder, error);
         folder = folder.parent_path()) {
      if (folder.has_filename()) made_.push_back(folder);
    }
    fs::create_directories(path, error);
    if (error) throw DataError("data", fmt::format("{}: cannot create the folder: {}", path, error.message()));
  }
  ~OutputFolder() {
    std::error_code ignored;
    for (const fs::path& folder : made_) fs::remove(folder, ignored);  // only if empty
  }
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;
  void keep() { made_.clear(); }

 private:
  std::vector<fs::path> made_;
};

// Removes the spool when prepare() returns or throws, unless the system failed: in reading, in writing, or for lack of
// memory. The next call goes on from a spool that stays, be it this one or that of a killed process.
class SpoolRemover {
 public:
  SpoolRemover(std::string path, const Spool& spool) : path_(std::move(path)), spool_(spool) {}
  ~SpoolRemover() {
    std::error_code ignored;
    if (!stays_) fs::remove_all(path_, ignored);
  }
  SpoolRemover(const SpoolRemover&) = delete;
  SpoolRemover& operator=(const SpoolRemover&) = delete;

  // Runs `work`, which the system can stop: with a Failure, or with a lack of memory.
  template <class Failure, class Work>
  void keep_if_it_fails(const Work& work) {
    try {
      work();
    } catch (const Failure& e) {
      if (!keep()) throw;
      throw DataError(e.component(), e.what(), hint());
    } catch (const std::bad_alloc&) {
      if (!keep()) throw;
      throw Error(ExitCode::internal, "data", "out of memory", hint());
    }
  }

 private:
  bool keep() { return stays_ = spool_.can_be_resumed(); }
  std::string hint() const { return continue_hint(path_); }

  std::string path_;
  const Spool& spool_;
  bool stays_ = false;
};

// Encodes all inputs into the spool.
void encode(const PrepareOptions& options, const std::vector<std::string>& paths, const Tokenizer& tokenizer,
            const ChatTemplate* chat, Spool& spool, SpoolRemover& remover) {
  using Clock = std::chrono::steady_clock;
  PrepareProgress progress{.resumed = spool.resumed(), .stored_in_all = 0};
  std::vector<Size> stored_before;  // bytes of the files before each
  for (const std::string& path : paths) {
    stored_before.push_back(progress.stored_in_all.value_or(0));
    const auto status = regular_file(path);
    if (!status) progress.stored_in_all.reset();
    if (progress.stored_in_all) *progress.stored_in_all += status->st_size;
  }
  DocumentReader reader(options, paths, tokenizer, chat, spool.state().position);
  const auto report = [&] {
    const auto input = static_cast<std::size_t>(reader.position().input);
    progress.stored_bytes =
        input < paths.size() ? stored_before[input] + reader.stored_offset() : progress.stored_in_all.value_or(0);
    if (options.on_progress) options.on_progress(progress);
  };
  reader.open_current();
  report();
  auto saved = Clock::now();
  EncodedPiece piece;
  for (Size step = 1; reader.next(piece); ++step) {
    remover.keep_if_it_fails<DataError>([&] { spool.append(piece); });
    device::set_fault_step(step);
    device::fault_point("prepare");
    const auto now = Clock::now();
    if (std::chrono::duration<double>(now - saved).count() >= options.save_seconds) {
      remover.keep_if_it_fails<DataError>([&] { spool.save(reader.position()); });
      saved = now;
    }
    progress.text_bytes += piece.bytes;
    report();
  }
  remover.keep_if_it_fails<DataError>([&] { spool.save(reader.position()); });
}

}  // namespace

}  // namespace lt::data

namespace lt {

PrepareResult prepare(const PrepareOptions& given) {
  data::check(given);
  PrepareOptions options = given;
  options.tokenizer = find_tokenizer(given.tokenizer);
  const auto tokenizer = make_tokenizer(options.tokenizer);
  const std::optional<ChatTemplate> chat =
      options.chat ? std::optional<ChatTemplate>(std::in_place, *options.chat, *tokenizer) : std::nullopt;
  if (options.pack > 0 && !tokenizer->end_of_text()) {
    throw UsageError("data",
                     "pack: expected a tokenizer with a token that ends documents, which fills blocks, found none in " +
                         options.tokenizer,
                     "docs/how-to/data.md lists the names of such tokens");
  }
  const std::vector<std::string> paths = data::expand_files(options.inputs);
  data::require_text(options, paths);
  data::require_json_lines(options, paths);
  const std::string spool_folder = options.out + data::kSpoolFolder;
  data::require_openable(paths, spool_folder);
  const std::map<std::string, std::string> tokenizer_files = data::files_of(options, *tokenizer);
  data::require_no_others(options, tokenizer_files);

  std::error_code failed;
  if (!data::fs::exists(spool_folder, failed)) data::require_no_tokens(options);
  data::OutputFolder out(options.out);
  data::Spool spool(spool_folder, data::identity_of(options, paths, tokenizer_files.at("tokenizer.json")),
                    {.width = tokenizer->vocab() <= 0x10000 ? 2 : 4,
                     .has_targets = chat.has_value(),
                     .has_documents = options.pack > 0},
                    [&] { data::require_no_tokens(options); });
  data::SpoolRemover remover(spool_folder, spool);  // this process holds the lock
  PrepareResult result{.files = static_cast<Size>(paths.size()), .resumed = spool.resumed()};
  remover.keep_if_it_fails<data::ReadError>(
      [&] { data::encode(options, paths, *tokenizer, chat ? &*chat : nullptr, spool, remover); });
  if (spool.state().tokens == 0) {
    throw DataError("data", fmt::format("{}{}: expected text, found none", options.inputs[0],
                                        options.inputs.size() > 1 ? " and the files after it" : ""));
  }
  if (spool.state().masked == spool.state().tokens) {
    throw DataError(
        "data", fmt::format("{}{}: expected a message of the role assistant that counts, which is what conversations "
                            "train, found none in {}",
                            options.inputs[0], options.inputs.size() > 1 ? " and the files after it" : "",
                            spool.state().conversations));
  }
  result.bytes = spool.state().bytes;
  result.conversations = spool.state().conversations, result.untrained_conversations = spool.state().untrained;
  result.unused_fields = spool.state().unused;
  device::set_fault_step(0);
  remover.keep_if_it_fails<DataError>(
      [&] { data::write_prepared_files(options, spool, tokenizer->end_of_text(), tokenizer_files, result); });
  out.keep();
  return result;
}

}  // namespace lt
