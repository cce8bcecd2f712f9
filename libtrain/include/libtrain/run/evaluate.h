// Measures a trained model: its loss on token files, and its choices among given answers.
#pragma once

#include <string>
#include <vector>

#include "libtrain/api.h"
#include "libtrain/comm/group.h"
#include "libtrain/data/data.h"
#include "libtrain/generate/generate.h"

namespace LT_API lt {

struct FileLoss {
  std::string name;  // a path or a pattern, as given
  double loss = 0;   // mean over its counted targets
  Size tokens = 0;   // these targets
};

struct EvaluationResult {
  double loss = 0;              // mean over the counted targets of all whole blocks, nats
  double bits_per_byte = 0;     // of the text of these targets; 0 without a tokenizer
  Size tokens = 0, blocks = 0;  // counted targets
  std::vector<FileLoss> files;  // one for each entry
};

// Evaluates blocks of `seq` tokens (0: as trained), micro_batch of them at a time, with documents apart if the model
// was trained so. The ranks of `group` share the blocks, and the result is the same at any number of ranks; all of them
// must call it with the same model. Throws DataError for a file that is not a whole token file, is shorter than seq + 1
// tokens or holds a token outside the vocabulary. Throws UsageError without files, for a seq above the model's max_seq,
// and for numbers below 1.
EvaluationResult evaluate_files(LoadedModel& loaded, const std::vector<std::string>& files, Size seq, Size micro_batch,
                                TokenFormat format, const Group& group = {});

struct ChoicesResult {
  Size questions = 0;
  Size correct = 0;             // the answer's choice has the largest sum of log-probabilities
  Size correct_normalized = 0;  // the same with each sum divided by the choice's UTF-8 bytes
};

// Reads JSON lines, also of a .gz or .zst file, {"question": text, "choices": [text, ...], "answer": index from 0}. A
// choice is appended to the question as it is, and both are tokenized as one text. Its log-probability is the sum over
// the tokens after as many as the question alone has. Ranks share the lines. Throws DataError that names file, line and
// field, also for a text longer than the model's max_seq, and UsageError for a model without a tokenizer.
ChoicesResult evaluate_choices(LoadedModel& loaded, const std::string& path, const Group& group = {});

}  // namespace lt
