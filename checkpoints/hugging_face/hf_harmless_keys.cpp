// The table of keys that an import ignores: whole keys, and endings of keys.
#include "checkpoints/hugging_face/hf_harmless_keys.h"

#include <algorithm>
#include <iterator>

namespace lt::checkpoint {
namespace {

// Where a model came from, how it was initialised, what computes it, lengths that no model here reads, its dropout,
// defaults of generation, special tokens, heads for other tasks.
constexpr std::string_view kHarmless[] = {"_name_or_path",
                                          "_commit_hash",
                                          "architectures",
                                          "model_type",
                                          "torch_dtype",
                                          "dtype",
                                          "use_cache",
                                          "use_flash_attn",
                                          "gradient_checkpointing",
                                          "max_sequence_length",
                                          "model_max_length",
                                          "seq_length",
                                          "initializer_range",
                                          "tokenizer_class",
                                          "prefix",
                                          "task_specific_params",
                                          "id2label",
                                          "label2id",
                                          "problem_type",
                                          "finetuning_task",
                                          "summary_activation",
                                          "summary_proj_to_labels",
                                          "summary_type",
                                          "summary_use_proj",
                                          "n_ctx",
                                          "max_window_layers",
                                          "return_dict",
                                          "output_attentions",
                                          "output_hidden_states",
                                          "chunk_size_feed_forward",
                                          "do_sample",
                                          "early_stopping",
                                          "max_length",
                                          "min_length",
                                          "max_new_tokens",
                                          "min_new_tokens",
                                          "num_beams",
                                          "num_beam_groups",
                                          "temperature",
                                          "top_k",
                                          "top_p",
                                          "min_p",
                                          "typical_p",
                                          "repetition_penalty",
                                          "length_penalty",
                                          "diversity_penalty",
                                          "no_repeat_ngram_size",
                                          "encoder_no_repeat_ngram_size",
                                          "num_return_sequences",
                                          "reorder_and_upcast_attn",
                                          "n_special",
                                          "predict_special_tokens",
                                          "output_past",
                                          "num_labels",
                                          "_num_labels",
                                          "is_llama_config",
                                          "transformers.js_config",
                                          "is_encoder_decoder"};
// The same by the beginnings and ends of their names.
constexpr std::string_view kHarmlessBegin[] = {"_attn_implementation", "unsloth_"};
constexpr std::string_view kHarmlessEnd[] = {"_token_id", "_version", "dropout", "_dropout_prob", "_pdrop"};

}  // namespace

bool is_harmless(std::string_view key) {
  return std::ranges::find(kHarmless, key) != std::end(kHarmless) ||
         std::ranges::any_of(kHarmlessBegin, [&](std::string_view begin) { return key.starts_with(begin); }) ||
         std::ranges::any_of(kHarmlessEnd, [&](std::string_view end) { return key.ends_with(end); });
}

}  // namespace lt::checkpoint
