// Divides the spool into training and validation tokens, packed or in their given order.
#include "data/prepare_files.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <set>
#include <vector>

#include "data/packing.h"
#include "data/token_writer.h"
#include "data/whole_part.h"
#include "device/fault.h"
#include "io/readable.h"

namespace lt::data {
namespace {

namespace fs = std::filesystem;

constexpr Size kChunk = Size{1} << 20;          // tokens copied at a time
constexpr Size kWindowTokens = Size{16} << 20;  // packed at a time
constexpr std::size_t kDocumentsAtATime = 1u << 16;

// Lengths of the files that hold `count` units of `unit` tokens, and `extra` more tokens in each.
std::vector<Size> file_lengths(Size count, Size unit, Size extra, Size most) {
  const Size units = (most - extra) / unit;
  std::vector<Size> lengths;
  do {
    const Size in_this = std::min(count, units);
    lengths.push_back(in_this > 0 ? in_this * unit + extra : 0);
    count -= in_this;
  } while (count > 0);
  return lengths;
}

Size sum(const std::vector<Size>& lengths) {
  Size all = 0;
  for (const Size length : lengths) all += length;
  return all;
}

void copy_tokens(const Spool& spool, Size begin, Size end, TokenFilesWriter& to) {
  std::vector<std::uint32_t> tokens;
  std::vector<std::uint8_t> targets;
  for (; begin < end; begin += static_cast<Size>(tokens.size())) {
    tokens.resize(static_cast<std::size_t>(std::min(kChunk, end - begin)));
    targets.resize(tokens.size());
    spool.read_tokens(begin, tokens);
    spool.read_targets(begin, targets);
    to.write(tokens, targets);
  }
}

void pack(const Spool& spool, Size block_tokens, const std::function<void(const Packer::Block&, bool)>& emit) {
  Packer packer(block_tokens, kWindowTokens, emit);
  std::vector<std::uint64_t> lengths;
  for (Size done = 0; done < spool.state().documents; done += static_cast<Size>(lengths.size())) {
    lengths.resize(std::min(kDocumentsAtATime, static_cast<std::size_t>(spool.state().documents - done)));
    spool.read_documents(done, lengths);
    for (const std::uint64_t length : lengths) packer.add(static_cast<Size>(length));
  }
  packer.finish();
}

// Writes blocks. A file ends with one more token, because a block's last target is the token behind it.
class BlockWriter {
 public:
  BlockWriter(const Spool& spool, Size block_tokens, std::uint32_t filler, std::vector<Size> lengths,
              TokenFilesWriter& to)
      : spool_(spool), block_tokens_(block_tokens), filler_(filler), lengths_(std::move(lengths)), to_(to) {}

  void write(const Packer::Block& block, bool continues) {
    const auto size = static_cast<std::size_t>(block_tokens_);
    tokens_.assign(size, filler_);
    targets_.assign(size, 0);
    std::size_t at = 0;
    for (const DocumentPiece& piece : block) {
      const auto count = static_cast<std::size_t>(piece.tokens);
      spool_.read_tokens(piece.begin, std::span(tokens_).subspan(at, count));
      spool_.read_targets(piece.begin, std::span(targets_).subspan(at, count));
      if (piece.continues && at > 0) targets_[at] = 0;  // another document's end would predict it
      at += count;
    }
    // The last token of another block would predict the block's first token, so that is no target.
    if (!continues || in_file_ == 0) targets_[0] = 0;
    to_.write(tokens_, targets_);
    in_file_ += block_tokens_;
    if (in_file_ + 1 < lengths_[file_]) return;
    to_.write(std::span(&filler_, 1), std::span(&kNoTarget, 1));
    ++file_, in_file_ = 0;
  }

 private:
  static constexpr std::uint8_t kNoTarget = 0;
  const Spool& spool_;
  Size block_tokens_;
  std::uint32_t filler_;
  std::vector<Size> lengths_;
  TokenFilesWriter& to_;
  std::size_t file_ = 0;
  Size in_file_ = 0;
  std::vector<std::uint32_t> tokens_;
  std::vector<std::uint8_t> targets_;
};

// Whether a file could be a token file or a mask.
bool is_output(std::string name) {
  if (!name.ends_with(".bin") && !name.ends_with(".mask")) return false;
  name.resize(name.rfind('.'));
  const std::size_t dash = name.rfind('-');
  const bool has_number = dash != std::string::npos && name.size() - dash == 6 &&
                          name.find_first_not_of("0123456789", dash + 1) == std::string::npos;
  if (has_number) name.resize(dash);
  return name == "train" || name == "val";
}

// Removes what a killed process left under temporary names.
void remove_temporary(const std::string& folder) {
  for (const fs::path& path : io::readable_entries(folder)) {
    const std::string name = path.filename().string(), final_name = name.substr(0, name.find(".tmp-"));
    if (final_name != name && is_output(final_name)) io::remove_pending(folder + "/" + final_name);
  }
}

// A file with all its bytes on disk, which still has to be committed.
std::unique_ptr<io::PendingFile> pending_file(const std::string& path, const std::string& bytes) {
  std::error_code ignored;  // opening says what is wrong
  fs::create_directory(fs::path(path).parent_path(), ignored);
  io::remove_pending(path);
  auto file = std::make_unique<io::PendingFile>("data", path);
  file->write(bytes.data(), bytes.size());
  file->finish();
  return file;
}

// Removes the outputs of earlier calls, which are of other text.
void remove_others(const std::string& folder, const std::set<std::string>& written) {
  std::error_code ignored;
  for (const fs::path& path : io::readable_entries(folder)) {
    const std::string name = path.filename().string();
    if (is_output(name) && !written.contains(name)) fs::remove(path, ignored);
  }
}

}  // namespace

std::string token_file_in(const std::string& folder) {
  std::string first;
  for (const fs::path& path : io::readable_entries(folder)) {
    const std::string name = path.filename().string();
    if (is_output(name) && (first.empty() || name < first)) first = name;
  }
  return first;
}

void write_prepared_files(const PrepareOptions& options, const Spool& spool, std::optional<std::uint32_t> end_of_text,
                          const std::map<std::string, std::string>& tokenizer_files, PrepareResult& result) {
  remove_temporary(options.out);
  const bool is_packed = options.pack > 0, has_val = options.val_fraction > 0;
  Size units = spool.state().tokens;
  std::uint32_t highest = spool.state().highest;
  if (is_packed) {
    units = 0;
    pack(spool, options.pack, [&](const Packer::Block&, bool) { ++units; });
    highest = std::max(highest, *end_of_text);
  }
  const auto val = static_cast<Size>(whole_part(static_cast<double>(units) * options.val_fraction));
  const Size train = units - val, unit = is_packed ? options.pack : 1;
  const Size extra = is_packed ? 1 : 0;
  const bool narrow = highest <= 0xffff, may_mask = is_packed || spool.state().masked > 0;
  const std::vector<Size> train_lengths = file_lengths(train, unit, extra, options.max_file_tokens);
  const std::vector<Size> val_lengths =
      has_val ? file_lengths(val, unit, extra, options.max_file_tokens) : std::vector<Size>();
  TokenFilesWriter train_files(options.out, "train", train_lengths, narrow, may_mask);
  TokenFilesWriter val_files(options.out, "val", val_lengths, narrow, may_mask);
  if (is_packed) {
    BlockWriter train_blocks(spool, unit, *end_of_text, train_lengths, train_files);
    BlockWriter val_blocks(spool, unit, *end_of_text, val_lengths, val_files);
    Size done = 0;
    pack(spool, unit, [&](const Packer::Block& block, bool continues) {
      (done++ < train ? train_blocks : val_blocks).write(block, continues);
    });
  } else {
    copy_tokens(spool, 0, train, train_files);
    copy_tokens(spool, train, units, val_files);
  }
  std::vector<io::PendingFile*> files = train_files.finish();
  std::vector<std::unique_ptr<io::PendingFile>> of_tokenizer;
  for (const auto& [path, bytes] : tokenizer_files) {
    of_tokenizer.push_back(pending_file(options.out + "/" + path, bytes));
    files.push_back(of_tokenizer.back().get());
  }
  for (io::PendingFile* const file : val_files.finish()) files.push_back(file);
  device::fault_point("prepare-rename");
  for (io::PendingFile* const file : files) file->commit();

  std::set<std::string> written;
  for (const TokenFilesWriter* const each : {&train_files, &val_files}) {
    for (const std::string& path : each->paths()) written.insert(fs::path(path).filename().string());
  }
  remove_others(options.out, written);
  result.train_tokens = sum(train_lengths), result.val_tokens = sum(val_lengths);
  result.masked_tokens = train_files.masked() + val_files.masked();
}

}  // namespace lt::data
