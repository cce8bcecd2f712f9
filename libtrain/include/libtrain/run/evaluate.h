// Measures a trained model: its loss on token files, and its accuracy on multiple-choice questions.
#pragma once

#include <string>
#include <vector>

#include "libtrain/api.h"
#include "libtrain/comm/group.h"
#include "libtrain/data/data.h"
#include "libtrain/generate/generate.h"
#include "libtrain/progress.h"

namespace LT_API lt {

struct FileLoss {
  std::string name;  // a path or a pattern, as given
  double loss = 0;   // nats; mean over its non-ignored targets
  Size tokens = 0;   // number of these targets
};

struct EvaluationResult {
  double loss = 0;              // nats; mean over the non-ignored targets of all complete blocks
  double bits_per_byte = 0;     // per byte of the text of these targets; 0 without a tokenizer
  Size tokens = 0, blocks = 0;  // numbers of these targets, and of blocks
  std::vector<FileLoss> files;  // one for each entry of `files`, in order
};

// Computes the mean loss over `files` (paths or glob patterns) in blocks of `seq` tokens (0: as in training). A batch
// has `micro_batch` blocks per rank. Documents stay separate if they did in training (data.documents=mask). The ranks
// of `group` divide the batches; all of them must call it with the same model, of which each rank holds all weights.
// The result does not depend on their number. Throws DataError for a file that is not a complete token file, has fewer
// than seq + 1 tokens or holds a token outside the vocabulary, and if all targets are ignored. Throws UsageError if
// there are no files, for a seq above the model's max_seq, for a seq below 0 or a micro_batch below 1, for files of
// another tokenizer, and if separate documents need a tokenizer that the model lacks. `on_progress` receives the tokens
// of the blocks that all ranks have evaluated, and of all blocks.
EvaluationResult evaluate_files(LoadedModel& loaded, const std::vector<std::string>& files, Size seq, Size micro_batch,
                                TokenFormat format, const Group& group = {}, const OnProgress& on_progress = {});

struct ChoicesResult {
  Size questions = 0;
  Size correct = 0;             // number of right answers, by the largest sum of log-probabilities
  Size correct_normalized = 0;  // number of right answers, by the largest sum per UTF-8 byte of the choice
};

// Evaluates multiple-choice questions from JSON lines, optionally in a .gz or .zst file:
// {"question": text, "choices": [text, ...], "answer": index from 0}. Each choice is appended to the question
// unchanged, and both are tokenized as one text. If the question alone has n tokens, the choice's log-probability is
// the sum over all tokens after the first n. The ranks of `group` divide the lines; all of them must call it with the
// same model. Throws DataError (with file, line and field) for a broken line or a text longer than the model's max_seq,
// and if there is no question. Throws UsageError if the model has no tokenizer, and NonFiniteError if a log-probability
// is not finite. `on_progress` receives the number of lines that this rank has passed, and of all lines.
ChoicesResult evaluate_choices(LoadedModel& loaded, const std::string& path, const Group& group = {},
                               const OnProgress& on_progress = {});

}  // namespace lt
