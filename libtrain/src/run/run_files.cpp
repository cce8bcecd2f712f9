// Writes files under temporary names and renames them.
#include "run/run_files.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>

#include "config/config_toml.h"
#include "config/origin.h"
#include "drawing/arena_drawing.h"
#include "io/file.h"
#include "io/print_note.h"
#include "io/shell_word.h"
#include "io/whole_file.h"
#include "libtrain/error.h"
#include "run/machine.h"
#include "run/whole_command.h"

namespace lt::run {
namespace {

namespace fs = std::filesystem;

// A full disk does not stop a continued run: the file of its earlier start stays, and the result is false.
template <class Write>
bool replace_file(const std::string& path, const saver::RunIdentity& identity, Write&& write) {
  io::remove_pending(path);  // left by a killed start
  try {
    write();
    return true;
  } catch (const DataError& error) {
    if (identity.is_new || !fs::exists(path)) throw;
    io::print_note("warning: [record] {}; the file of an earlier start stays\n", error.what());
    return false;
  }
}

// The variables of the environment that set keys: "LTRAIN_TRAIN_STEPS=9 ".
std::string settings_of(const Config& config) {
  std::string text;
  for (const auto& [key, origin] : config.origins) {
    if (!origin.starts_with(config::kFromVariable)) continue;
    const std::string name = origin.substr(config::kFromVariable.size());
    const char* const value = std::getenv(name.c_str());
    if (value != nullptr) text += fmt::format("{}={} ", name, io::shell_word(value));
  }
  return text;
}

// A field of env.json; null if it is not there.
nlohmann::ordered_json last_start(const std::string& run_dir, const char* field) {
  const auto env = nlohmann::ordered_json::parse(io::read_file(run_dir + "/env.json").text, nullptr, false);
  return env.is_object() && env.contains(field) ? env[field] : nlohmann::ordered_json();
}

}  // namespace

bool write_run_json(const std::string& run_dir, const saver::RunIdentity& identity) {
  return replace_file(run_dir + "/run.json", identity, [&] { saver::write_identity(run_dir, identity); });
}

void write_run_files(const Resolved& resolved, const saver::RunIdentity& identity, const World& world,
                     const Algorithms& algorithms, const std::vector<const MemoryPlan*>& plans) {
  const auto write_text = [&](const std::string& name, const std::string& text) {
    const std::string path = resolved.run.dir + "/" + name;
    replace_file(path, identity, [&] { io::write_whole_file("record", path, text); });
  };
  nlohmann::ordered_json env = machine(world);
  const WholeCommand command = whole_command(world.info(), ::getpid(), system_view(), settings_of(resolved.config));
  env["command"] = command.text, env["program"] = command.program;
  env["command_takes_options"] = command.takes_options;
  std::error_code unknown;  // the folder may be gone
  env["working_folder"] = fs::current_path(unknown).string();
  for (const auto& [name, value] : algorithms.computed_by) env["computed_by"][name] = value;
  write_text("config.toml", to_toml(resolved.config));
  // A path on the command line may be any bytes.
  write_text("env.json", env.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  if (!algorithms.table.empty()) {
    write_text("algorithms.txt", algorithms.table);
  } else {
    fs::remove(resolved.run.dir + "/algorithms.txt", unknown);  // of an earlier start
  }
  for (const MemoryPlan* plan : plans) {
    if (plan->name == "step") write_text("arena.svg", drawing::arena_svg(*plan));
  }
}

Size threads_of_last_start(const std::string& run_dir) {
  const nlohmann::ordered_json threads = last_start(run_dir, "threads_per_rank");
  return threads.is_number_integer() ? threads.get<Size>() : 0;
}

checkpoint::ComputedBy computed_by_of_last_start(const std::string& run_dir) {
  checkpoint::ComputedBy computed_by;
  const nlohmann::ordered_json saved = last_start(run_dir, "computed_by");
  for (const auto& [name, value] : saved.items()) {
    if (value.is_string()) computed_by.emplace_back(name, value.get<std::string>());
  }
  return computed_by;
}

void add_notices(const std::string& run_dir, const std::vector<std::string>& notices) {
  const std::string path = run_dir + "/env.json";
  auto env = nlohmann::ordered_json::parse(io::read_file(path).text, nullptr, false);
  if (!env.is_object()) return;
  env["notices"] = notices;
  try {
    io::write_whole_file("record", path,
                         env.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
  } catch (const DataError&) {
    return;
  }
}

}  // namespace lt::run
