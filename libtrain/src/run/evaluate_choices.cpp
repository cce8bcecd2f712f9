// Multiple choice: finds the most likely of several continuations.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "comm/value_exchange.h"
#include "data/input_stream.h"
#include "data/json_line.h"
#include "generate/loaded_model.h"
#include "io/lines.h"
#include "libtrain/error.h"
#include "libtrain/run/evaluate.h"

namespace lt {
namespace {

struct Question {
  std::string text;
  std::vector<std::string> choices;
  std::size_t answer = 0;
};

Question question_of(const std::string& path, const data::JsonLine& line) {
  const nlohmann::json json = data::object_of(path, line);
  const auto field = [&](const char* name, const char* expected, auto&& is_good) -> const nlohmann::json& {
    const auto found = json.find(name);
    if (found != json.end() && is_good(*found)) return *found;
    data::refuse_line(path, line,
                      fmt::format("field \"{}\": expected {}, found {}", name, expected,
                                  found == json.end()          ? std::string("none")
                                  : found->is_number_integer() ? found->dump()
                                                               : std::string(found->type_name())));
  };
  const auto is_text = [](const nlohmann::json& value) { return value.is_string(); };
  const auto is_list = [&](const nlohmann::json& value) {
    return value.is_array() && !value.empty() && std::all_of(value.begin(), value.end(), is_text) &&
           std::none_of(value.begin(), value.end(),
                        [](const auto& text) { return text.template get<std::string>().empty(); });
  };
  Question question;
  question.text = field("question", "a string", is_text).get<std::string>();
  question.choices = field("choices", "a list of texts that are not empty", is_list).get<std::vector<std::string>>();
  const auto is_index = [&](const nlohmann::json& value) {
    return value.is_number_unsigned() && value.get<std::uint64_t>() < question.choices.size();
  };
  const std::string range = fmt::format("an index of choices, 0 to {}", question.choices.size() - 1);
  question.answer = field("answer", range.c_str(), is_index).get<std::size_t>();
  return question;
}

// One row with the tokens of question and choice, of which only the choice's are targets. Rows are padded to multiples
// of kRowStep, so that few shapes occur.
constexpr Size kRowStep = 64;

Batch row_of(const LoadedModel& loaded, const Question& question, const std::string& choice, const std::string& where) {
  const Size vocab = loaded.model->spec().vocab, most = loaded.model->spec().max_seq;
  const Tokenizer::Ids ids = loaded.tokenizer->encode(question.text + choice);
  const auto own = loaded.tokenizer->encode(question.text).size();
  const auto length = static_cast<Size>(ids.size()) - 1;
  if (own < 1 || own >= ids.size() || length > most) {
    throw DataError("data", fmt::format("{}: expected a question and a choice of at least 1 token each, in all at most "
                                        "{}, found {} and {}",
                                        where, most + 1, own, ids.size() - std::min(own, ids.size())));
  }
  for (const std::uint32_t id : ids) {
    if (id < vocab) continue;
    throw DataError("data",
                    fmt::format("{}: expected tokens below the model's vocabulary {}, found {}", where, vocab, id));
  }
  const auto columns = static_cast<std::size_t>(std::min(most, (length + kRowStep - 1) / kRowStep * kRowStep));
  std::vector<std::int32_t> inputs(columns, 0), targets(columns, kIgnoredTarget);
  for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
    inputs[i] = static_cast<std::int32_t>(ids[i]);
    if (i + 1 >= own) targets[i] = static_cast<std::int32_t>(ids[i + 1]);
  }
  const Shape shape{1, static_cast<Size>(columns)};
  return {Tensor::from(inputs, shape), Tensor::from(targets, shape)};
}

}  // namespace

ChoicesResult evaluate_choices(LoadedModel& loaded, const std::string& path, const Group& group,
                               const OnProgress& on_progress) {
  if (loaded.tokenizer == nullptr) {
    throw UsageError(
        "data",
        "choices: expected a model with a tokenizer, found " +
            (loaded.tokenizer_problem.empty() ? "none" : "one of another kind: " + loaded.tokenizer_problem),
        loaded.tokenizer_hint);
  }
  ChoicesResult own;
  Size index = 0;
  collectively(group, [&] {
    const std::string text = data::read_whole_input(path);
    Size number = 0;
    const auto lines = io::split_lines(text);
    for (const std::string& line : lines) {
      if (on_progress) on_progress(number, static_cast<Size>(lines.size()));
      const std::string where = fmt::format("{}:{}", path, ++number);
      if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
      const Question question = question_of(path, {line, number});
      if (index++ % group.size() != group.rank()) continue;
      std::vector<double> sums, normalized;
      for (const std::string& choice : question.choices) {
        const BatchLoss loss = generator::loss_of(*loaded.model, row_of(loaded, question, choice, where));
        sums.push_back(-loss.loss * loss.counted);
        if (const double sum = sums.back(); !std::isfinite(sum)) {
          throw NonFiniteError(
              fmt::format("{}: expected a finite log-probability of the choice \"{}\", got {}", where, choice,
                          std::isnan(sum) ? std::abs(sum) : sum),
              "the weights, or what the model computes from them in --train.dtype, are not finite numbers");
        }
        normalized.push_back(sums.back() / static_cast<double>(choice.size()));
      }
      const auto is_best = [&](const std::vector<double>& values) {
        return static_cast<std::size_t>(std::max_element(values.begin(), values.end()) - values.begin()) ==
               question.answer;
      };
      own.correct += is_best(sums), own.correct_normalized += is_best(normalized);
    }
    if (on_progress) on_progress(number, number);
    if (index == 0) throw DataError("data", path + ": expected questions, found none");
  });
  return {index, comm::sum_over_ranks(group, own.correct), comm::sum_over_ranks(group, own.correct_normalized)};
}

}  // namespace lt
