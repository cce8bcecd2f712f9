// Decides which runs are comparable, and compares the runs of each group in words.
#include "report/groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "report/agreement.h"
#include "report/findings.h"
#include "report/segments.h"
#include "report/text.h"

namespace lt::report {
namespace {

// What determines the work per token. The numbers of the start event cover what keys may leave to a default: head_dim,
// window, lora, tie_embeddings, norms and biases. If the configuration lacks the shape, the preset stands for it. Of a
// model that is no transformer every key counts.
std::string work_of(const RunData& run) {
  std::string text = fmt::format("{} {} {} ", config_text(run, "train.seq"), whole_text(run.flops_per_token),
                                 whole_text(run.parameters));
  if (!run.config.contains("model.preset")) {
    text += run.model + " ";
    for (const auto& [key, value] : run.config) {
      if (key.starts_with("model.") && key != "model.from") text += value + " ";
    }
    return text;
  }
  for (const char* key :
       {"model.family", "model.layers", "model.heads", "model.kv_heads", "model.width", "model.ffn", "model.vocab"}) {
    text += config_text(run, key) + " ";
  }
  if (config_number(run, "model.dropout") > 0) text += "dropout ";
  if (const std::string frozen = config_text(run, "model.freeze"); frozen != "[]" && frozen != "–") text += frozen;
  return config_text(run, "model.layers") == "–" ? text + " " + config_text(run, "model.preset") : text;
}

std::string name_of(const RunData& run) {
  const std::string model = model_of(run), seq = config_text(run, "train.seq");
  if (model == "–") return {};
  return seq == "–" ? model : model + ", sequences of " + seq + " tokens";
}

// Adds to equal names what tells their groups apart: the keys of [model] that differ, or else parameters or FLOPs.
void tell_apart(std::vector<RunGroup>& groups) {
  std::vector<std::string> names;
  for (const RunGroup& group : groups) {
    const RunData& run = *group.runs.front();
    std::set<std::string> differences;
    for (const RunGroup& other : groups) {
      if (&other == &group || other.name != group.name || group.name.empty()) continue;
      for (const auto& entry : run.config) {
        const std::string &key = entry.first, value = config_text(run, key);
        const bool differs = value != config_text(*other.runs.front(), key);
        if (differs && key.starts_with("model.") && key != "model.from") differences.insert(key + " " + value);
      }
      if (!differences.empty()) continue;
      const bool same_size = run.parameters == other.runs.front()->parameters;
      differences.insert(same_size ? count_text(run.flops_per_token) + " FLOPs a token"
                                   : count_text(run.parameters) + " parameters");
    }
    names.push_back(group.name);
    for (const std::string& difference : differences) names.back() += ", " + difference;
  }
  for (std::size_t i = 0; i < groups.size(); ++i) groups[i].name = names[i];
}

void choose_base(RunGroup& group) {
  for (std::size_t i = 0; i < group.summaries.size(); ++i) {
    const Summary &s = group.summaries[i], &base = group.summaries[group.base];
    if (!(s.ranks > 0) || std::isnan(s.tokens_per_s)) continue;
    if (!group.has_base || s.ranks < base.ranks || (s.ranks == base.ranks && s.tokens_per_s > base.tokens_per_s)) {
      group.base = i;
    }
    group.has_base = true;
  }
}

// Says whether scaling is strong or weak, and lists differences between the runs that make efficiency unfair.
std::string caveats(const RunGroup& group) {
  const auto differ = [&](auto&& value) {
    std::set<std::string> values;
    for (std::size_t i = 0; i < group.runs.size(); ++i) values.insert(value(*group.runs[i], group.summaries[i]));
    values.erase(kDash);  // what a run does not say differs from nothing
    std::string text;
    for (const std::string& v : values) text += (text.empty() ? "" : ", ") + v;
    return values.size() > 1 ? text : std::string();
  };
  const auto environment = [](const char* key) {
    return [key](const RunData& run, const Summary&) { return environment_text(run, key); };
  };
  const auto tokens_a_step = [](const RunData& run) { return run.steps.empty() ? kMissing : run.steps.back().tokens; };
  const bool scaling = !differ([](const RunData&, const Summary& s) { return whole_text(s.ranks); }).empty();
  std::string text;
  const auto say = [&](const std::string& what, const std::string& values) {
    if (!values.empty()) text += fmt::format(" The runs differ in {} ({}).", what, values);
  };
  if (const auto values = differ([&](const RunData& run, const Summary&) { return whole_text(tokens_a_step(run)); });
      values.empty()) {
    text += " All process the same number of tokens per step";
    text += scaling ? ", so with more ranks each has fewer (strong scaling)." : ".";
  } else if (differ([&](const RunData& run, const Summary& s) {
               return whole_text(tokens_a_step(run) / s.ranks);
             }).empty()) {
    text += " All process the same number of tokens per step and rank, so a step grows with the ranks (weak scaling).";
  } else {
    say("tokens per step", values);
  }
  say("dtype", differ([](const RunData&, const Summary& s) { return s.dtype; }));
  say("recomputation", differ([](const RunData&, const Summary& s) { return s.recompute; }));
  say("processor", differ(environment("processor")));
  say("threads of a rank",
      differ([](const RunData& run, const Summary&) { return whole_text(threads_per_rank(run)); }));
  say("the version of the program", differ(environment("commit")));
  return text;
}

std::string described(const RunGroup& group, std::size_t i) {
  const Summary& s = group.summaries[i];
  const std::string on = s.ranks > 0 ? fmt::format(" on {:g} rank{}", s.ranks, s.ranks == 1 ? "" : "s") : "";
  return fmt::format("{} ({}{})", group.runs[i]->name, strategy_of(s), on);
}

// The fastest and the smallest run, compared with the base.
std::string conclusion(const RunGroup& group) {
  std::size_t fastest = group.base, smallest = group.base;
  for (std::size_t i = 0; i < group.runs.size(); ++i) {
    const Summary& s = group.summaries[i];
    if (s.tokens_per_s > group.summaries[fastest].tokens_per_s) fastest = i;
    const double least = group.summaries[smallest].memory_peak_bytes;
    if (s.memory_peak_bytes < least || std::isnan(least)) smallest = i;
  }
  const Summary& base = group.summaries[group.base];
  std::string text = fmt::format("Fastest is {} with {} tokens per second", described(group, fastest),
                                 count_text(group.summaries[fastest].tokens_per_s));
  if (fastest != group.base) {
    text += fmt::format(", {:.2f} times as many as {}", group.summaries[fastest].tokens_per_s / base.tokens_per_s,
                        described(group, group.base));
  }
  std::string close;
  for (std::size_t i = 0; i < group.runs.size(); ++i) {
    if (i == fastest || !same_speed_within_noise(*group.runs[fastest], *group.runs[i])) continue;
    close += (close.empty() ? "" : ", ") + group.runs[i]->name;
  }
  if (!close.empty()) text += fmt::format(". Within noise (the middle halves of the steps overlap) as fast: {}", close);
  const double least = group.summaries[smallest].memory_peak_bytes;
  if (!std::isfinite(least)) return text + ".";
  text += fmt::format(". The least memory on a rank takes {} with {}", described(group, smallest), bytes_text(least));
  if (smallest != group.base && std::isfinite(base.memory_peak_bytes)) {
    text += fmt::format(", {} of the base's", percent_text(least / base.memory_peak_bytes));
  }
  return text + ".";
}

void add_group(Document& document, const RunGroup& group) {
  if (group.has_base && group.runs.size() > 1) {
    document.add(Paragraph{conclusion(group)});
    const Summary& base = group.summaries[group.base];
    document.add(Paragraph{fmt::format(
        "Efficiency is tokens per second and rank, relative to {} ({}, {:g} rank{}, {} tokens per second and rank). "
        "Exposed is the mean share of a step in which a rank waits for communication. Peak memory is that of the "
        "fullest rank.{}",
        group.runs[group.base]->name, strategy_of(base), base.ranks, base.ranks == 1 ? "" : "s",
        count_text(base.tokens_per_s_per_rank), caveats(group))});
  }
  add_scaling(document, group);
}

}  // namespace

std::string strategy_of(const Summary& s) {
  if (s.ranks == 1) return "single";
  return std::isnan(s.shard_size) ? s.strategy : fmt::format("{}, shards over {:g}", s.strategy, s.shard_size);
}

std::vector<RunGroup> group_runs(const std::vector<RunData>& runs) {
  std::vector<RunGroup> groups;
  std::vector<std::string> works;
  for (const RunData& run : runs) {
    const std::string work = work_of(run);
    const auto i = static_cast<std::size_t>(std::find(works.begin(), works.end(), work) - works.begin());
    if (i == works.size()) {
      works.push_back(work);
      groups.push_back({.name = name_of(run), .runs = {}, .summaries = {}});
    }
    groups[i].runs.push_back(&run);
    groups[i].summaries.push_back(summarize(run));
  }
  for (RunGroup& group : groups) choose_base(group);
  tell_apart(groups);
  return groups;
}

void add_groups(Document& document, const std::vector<RunData>& runs) {
  const std::vector<RunGroup> groups = group_runs(runs);
  if (groups.size() > 1) {
    document.add(Paragraph{fmt::format(
        "In these runs a token is {} different kinds of work, so speed and memory are compared only within each group.",
        groups.size())});
  }
  for (const RunData& run : runs) {
    if (!has_segments(run)) continue;
    document.add(
        Paragraph{fmt::format("{}: the comparison covers steps {} only, since earlier steps ran with other settings.",
                              run.name, measured_range(run))});
  }
  for (const RunGroup& group : groups) {
    document.add(Heading{2, group.name.empty() ? "Speed and memory" : group.name});
    add_group(document, group);
  }
  List bounds;
  for (const RunData& run : runs) bounds.items.push_back({run.name, verdict(run)});
  document.add(Heading{2, "What bounds each run"});
  document.add(bounds);
}

}  // namespace lt::report
