// Token files, the order of samples, and the loader that reads each rank's share of every batch.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "libtrain/api.h"
#include "libtrain/data/batch_source.h"
#include "libtrain/data/data_source.h"
#include "libtrain/tensor/batch.h"
#include "libtrain/tokenizer/tokenizer.h"

namespace lt::data {
class ReadAhead;
class Samples;
}  // namespace lt::data

namespace LT_API lt {

enum class TokenFormat {
  automatic,  // by magic number: 20240520 (uint16) or 20240801 (uint32)
  raw16,      // headerless uint16
};

// A token file NAME.bin, and its mask NAME.mask if there is one. The mask says which tokens are targets.
// docs/reference/data-files.md describes both formats. Ranges are read on demand. Several threads may read at once.
class TokenFile {
 public:
  // Opens the file and reads its header. Throws DataError, which names file, offset, expected and actual, for a file
  // that is not a complete token file, and for a mask with another number of tokens.
  TokenFile(const std::string& path, TokenFormat format);

  const std::string& path() const;
  Size tokens() const;
  Size bytes() const;
  // Returns a hash of the file and of its mask, as 16 hexadecimal digits. It covers the size, the first and last 4 KiB,
  // and 14 pieces of 4 KiB between them. It does not depend on the path. Throws DataError if the file or its mask can
  // no longer be read.
  std::string digest() const;
  // The functions below throw InternalError if the range is not within the tokens, and DataError if the file or its
  // mask can no longer be read.

  // out[0..count) = tokens [begin, begin + count). A token of 2^31 or more becomes negative.
  void read(Size begin, Size count, std::int32_t* out) const;
  bool has_mask() const;
  // For i in [0, count): sets targets[i] to kIgnoredTarget if the mask says that token begin + i is not a target. Other
  // elements stay unchanged. Does nothing without a mask.
  void ignore_masked(Size begin, Size count, std::int32_t* targets) const;
  // True if at least one of the tokens [begin, end) is a target. Without a mask all tokens are targets.
  bool has_targets(Size begin, Size end) const;
  // Throws DataError, which names file, byte offset, expected and actual, for the first token of [begin, end) that is
  // not below `vocab`.
  void require_below(std::int64_t vocab, Size begin, Size end) const;

 private:
  struct Content;
  std::shared_ptr<const Content> content_;
};

// Writes a token file in the format of llm.c: 256 little-endian int32 (magic, version, count), then one uint16 for each
// token, or one uint32 if a token needs it. A temporary file is renamed when it is complete, so a reader sees the
// complete file or no file. Throws DataError for 2^31 tokens or more, and if the file cannot be written.
void write_token_file(const std::string& path, const std::vector<std::uint32_t>& tokens);

// Returns element i of a keyed permutation of [0, n): a pure function of (key, i, n). Uses a Feistel network of Philox
// words with cycle walking (Black & Rogaway 2002). Throws InternalError unless 0 <= i < n.
Size permuted(std::uint64_t key, Size i, Size n);

struct DataOptions {
  std::uint64_t seed = 1337;
  bool shuffle = true;  // false: samples in file order
  TokenFormat format = TokenFormat::automatic;
  // All tokens must be below it. A loader throws DataError for another token when it opens a file, or when it reads one
  // that was overwritten later. 0: only the range of i32 is checked. A model then throws UsageError for a token outside
  // of its vocabulary: on a CPU before the operation runs, on a GPU when the host reads the results of the step.
  Size vocab = 0;
  // The token that ends a document. If given, batches have document_starts, and the target of this token is ignored,
  // because that target is the first token of the next document.
  std::optional<std::uint32_t> document_end = {};
};

// Returns the number of samples of `seq` tokens in an epoch (one pass over all files). Reads only headers. Throws
// UsageError if `seq` is below 1 or a source has no files, and DataError for a file that cannot be read or is too short
// for one sample.
Size count_samples(const std::vector<DataSource>& sources, Size seq, TokenFormat format);

// Reads the batches of a run. The samples of a run are a continuous sequence of epochs. A step consumes B = ranks *
// accum * micro_batch samples: step n, from 1, consumes samples [(n-1)B, nB), and rank r takes the r-th contiguous
// share. A sample is a block of seq tokens. A file of n tokens has floor((n-1)/seq) blocks; no block spans files.
// Sample i of an epoch is block permuted(key, i, blocks) of all files, with a key for each epoch; without shuffle, it
// is block i. Targets are the next tokens, or kIgnoredTarget for tokens that the file's mask excludes. From the first
// next() on, threads read the following steps ahead.
class TokenLoader : public BatchSource {
 public:
  // `files` are paths or glob patterns, read in order. Each rank scans its share of every file for tokens outside of
  // the vocabulary. Throws UsageError for an invalid shape or no files, and DataError for files that are unreadable,
  // invalid or too short.
  TokenLoader(const std::vector<std::string>& files, const BatchShape& shape, const DataOptions& options = {});
  // A loader that mixes several sources by weight. Among the first n samples, the number from each source is its share
  // of n, to within one sample. Each source has its own epochs. Also throws UsageError for weights that
  // docs/how-to/data.md does not allow.
  static TokenLoader mix(const std::vector<DataSource>& sources, const BatchShape& shape,
                         const DataOptions& options = {});

  ~TokenLoader() override;
  TokenLoader(TokenLoader&&) noexcept;
  TokenLoader& operator=(TokenLoader&&) noexcept;

  // Returns this rank's rows of the next step, on the CPU. The next call overwrites them. Throws DataError if a file
  // can no longer be read, or was overwritten with a token outside of the vocabulary.
  Batch next() override;
  // The number of samples of the run that all ranks together have consumed before next(). Because it counts samples and
  // not steps, a resume is exact even with another batch size.
  Size position() const { return position_; }
  void seek(Size samples) override { position_ = samples; }
  Size samples_per_epoch() const;  // blocks in all files
  Size tokens() const override;    // in all files
  Size sources() const;
  // The index of the source to which files()[file] belongs.
  Size source_of(Size file) const;
  // The index of the first sample of the run that the source with index `source` repeats.
  Size first_repeat(Size source) const;
  // True if a file has a mask, or if DataOptions::document_end is given.
  bool has_ignored_targets() const override;
  // Returns a batch of samples [first, end) of the run, on the CPU, but at most batch_rows() of them. Remaining rows
  // are padding: tokens 0, all targets ignored. The next call of rows() or next() overwrites them. Does not move
  // position(). Throws like next().
  Batch rows(Size first, Size end);
  Size batch_rows() const { return shape_.samples(); }
  // Reads sample `index` >= 0 of the run into `tokens`, i32 [seq + 1]: seq input tokens and the token after them.
  // Throws like next(), and InternalError for a negative index.
  void read_sample(Size index, std::int32_t* tokens) const;
  const std::vector<TokenFile>& files() const;

 private:
  TokenLoader(const BatchShape& shape, std::shared_ptr<const data::Samples> samples);

  void find_documents();  // of the batch

  std::shared_ptr<const data::Samples> samples_;
  BatchShape shape_;
  Size position_ = 0;
  Batch batch_;
  std::unique_ptr<data::ReadAhead> ahead_;  // null before the first next()
};

}  // namespace lt
