// Writes a cluster's table as JSON for programs and as text and a curve for people.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "config/names.h"
#include "drawing/text.h"
#include "drawing/ticks.h"
#include "libtrain/plan/plan_cluster.h"
#include "plan/plan_text.h"
#include "record/short_text.h"

namespace lt {
namespace {

using drawing::bytes_text;
using Json = nlohmann::ordered_json;

double of_a_rank(const ClusterRow& row) { return row.best->tokens_per_s / row.ranks; }

// Relative to the smallest size that fits; the rows must hold one.
double efficiency(const Cluster& cluster, const ClusterRow& row) {
  const auto first =
      std::find_if(cluster.rows.begin(), cluster.rows.end(), [](const ClusterRow& r) { return r.best.has_value(); });
  return of_a_rank(row) / of_a_rank(*first);
}

Size batch_of(const ClusterRow& row) { return row.best->micro_batch * row.accum * row.ranks; }

Json row_json(const Cluster& cluster, const ClusterRow& row) {
  Json json = {{"nodes", row.nodes}, {"ranks", row.ranks}, {"fits", row.best.has_value()}};
  if (!row.best) return json;
  json.update({{"strategy", config::name_of(row.strategy)},
               {"shard_size", row.best->shard_size},
               {"recompute", config::name_of(row.recompute)},
               {"micro_batch", row.best->micro_batch},
               {"accum", row.accum},
               {"global_batch", batch_of(row)},
               {"peak_bytes", row.best->peak_bytes},
               {"step_ms", row.best->step_ms},
               {"tokens_per_s", row.best->tokens_per_s},
               {"tokens_per_s_per_rank", of_a_rank(row)},
               {"efficiency", efficiency(cluster, row)},
               {"exposed_share", row.exposed_share},
               {"bound_by", row.bound_by}});
  return json;
}

}  // namespace

std::string to_json(const Cluster& cluster) {
  Json rows = Json::array();
  for (const ClusterRow& row : cluster.rows) rows.push_back(row_json(cluster, row));
  return Json{{"model", Json::parse(cluster.model_json)},
              {"dtype", config::name_of(cluster.dtype)},
              {"device", cluster.machine.device},
              {"ranks_per_node", cluster.machine.ranks_per_node},
              {"memory_bytes", cluster.memory_bytes},
              {"global_batch", cluster.global_batch},
              {"rows", rows}}
      .dump(2);
}

std::string to_text(const Cluster& cluster) {
  std::string text = fmt::format(
      "{}\nnodes of {} with {} each; estimates for {}; {}\n\n", cluster.subject,
      recorder::counted(cluster.machine.ranks_per_node, "rank"), bytes_text(static_cast<double>(cluster.memory_bytes)),
      planner::device_text(cluster.machine),
      cluster.global_batch > 0 ? fmt::format("global batches of {}", recorder::counted(cluster.global_batch, "sample"))
                               : "the largest micro-batch that fits");
  text += fmt::format("{:>5} {:>6}  {:<8} {:>10} {:<9} {:>11} {:>5} {:>12} {:>8} {:>9} {:>9} {:>11} {:>7}\n", "nodes",
                      "ranks", "strategy", "shard_size", "recompute", "micro_batch", "accum", "tokens/step", "peak",
                      "step ms", "tokens/s", "of a rank", "exposed");
  for (const ClusterRow& row : cluster.rows) {
    text += fmt::format("{:>5} {:>6}  ", row.nodes, row.ranks);
    if (!row.best) {
      text +=
          cluster.global_batch % row.ranks != 0 ? "the global batch does not divide by the ranks\n" : "nothing fits\n";
      continue;
    }
    const int shards = row.best->shard_size == 0 ? row.ranks : row.best->shard_size;
    text += fmt::format("{:<8} {:>10} {:<9} {:>11} {:>5} {:>12} {:>8} {:>9.1f} {:>9} {:>5} {:>4.0f}% {:>6.0f}%\n",
                        row.strategy.name, row.strategy.shards_nothing() ? "" : std::to_string(shards),
                        config::name_of(row.recompute), row.best->micro_batch, row.accum,
                        recorder::short_count(static_cast<double>(batch_of(row) * cluster.seq)),
                        bytes_text(static_cast<double>(row.best->peak_bytes)), row.best->step_ms,
                        recorder::short_count(row.best->tokens_per_s), recorder::short_count(of_a_rank(row)),
                        100 * efficiency(cluster, row), 100 * row.exposed_share);
  }
  text.pop_back();
  return text;
}

// One line over the logarithm of the ranks.
std::string to_svg(const Cluster& cluster) {
  constexpr double kLeft = 60, kRight = 740, kTop = 40, kBottom = 220;
  std::vector<const ClusterRow*> rows;
  double most = 0;
  for (const ClusterRow& row : cluster.rows) {
    if (row.best) rows.push_back(&row), most = std::max(most, of_a_rank(row));
  }
  std::string svg =
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 760 260\" font-family=\"sans-serif\" font-size=\"11\">\n"
      "<rect width=\"760\" height=\"260\" fill=\"white\"/>\n";
  svg += fmt::format("<text x=\"{}\" y=\"20\" font-weight=\"bold\">tokens/s of a rank, {}; {}</text>\n", kLeft,
                     drawing::escaped(planner::device_text(cluster.machine)), drawing::escaped(cluster.subject));
  if (rows.empty()) return svg + "</svg>\n";
  const std::vector<double> ticks = drawing::outer_ticks({0, most}, 5);
  const std::vector<std::string> texts = drawing::tick_texts(ticks);
  const double low = std::log2(rows.front()->ranks), high = std::max(low + 1, std::log2(rows.back()->ranks));
  const auto x = [&](const ClusterRow& row) {
    return kLeft + (std::log2(row.ranks) - low) / (high - low) * (kRight - kLeft);
  };
  const auto y = [&](double value) { return kBottom - value / ticks.back() * (kBottom - kTop); };
  for (std::size_t i = 0; i < ticks.size(); ++i) {
    svg += fmt::format(
        "<line x1=\"{0}\" x2=\"{1}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\" stroke=\"#ddd\"/>"
        "<text x=\"{3}\" y=\"{4:.1f}\" text-anchor=\"end\">{5}</text>\n",
        kLeft, kRight, y(ticks[i]), kLeft - 6, y(ticks[i]) + 4, texts[i]);
  }
  std::string points;
  for (const ClusterRow* row : rows) {
    const double at = x(*row), value = y(of_a_rank(*row));
    points += fmt::format("{:.1f},{:.1f} ", at, value);
    svg += fmt::format(
        "<text x=\"{0:.1f}\" y=\"{1}\" text-anchor=\"middle\">{2}</text>"
        "<circle cx=\"{0:.1f}\" cy=\"{3:.1f}\" r=\"3\" fill=\"#1f77b4\"><title>{4} {5}</title></circle>\n",
        at, kBottom + 16, row->ranks, value, row->strategy.name, recorder::short_count(of_a_rank(*row)));
  }
  points.pop_back();
  return svg + fmt::format(
                   "<polyline fill=\"none\" stroke=\"#1f77b4\" stroke-width=\"1.6\" points=\"{}\"/>\n"
                   "<text x=\"{}\" y=\"252\" text-anchor=\"middle\">ranks</text>\n</svg>\n",
                   points, (kLeft + kRight) / 2);
}

}  // namespace lt
