// Climbs from a rank to its launcher by the process table.
#include "run/whole_command.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>
#include <utility>

#include "io/shell_word.h"

namespace lt::run {
namespace {

using Words = std::vector<std::string>;

constexpr int kMostLevels = 16;  // shells, daemons and wrappers between a rank and its launcher

std::string file_name(const std::string& path) { return std::filesystem::path(path).filename().string(); }

bool is_mpirun(const Words& words) {
  constexpr std::array kNames{"mpirun", "mpiexec", "orterun", "prterun"};
  const std::string name = file_name(words[0]);
  return std::ranges::any_of(
      kNames, [&](const char* known) { return name == known || name.starts_with(std::string(known) + "."); });
}

// Python runs it, as a script or as a module.
bool is_torchrun(const Words& words) {
  if (!file_name(words[0]).starts_with("python") && file_name(words[0]) != "torchrun") return false;
  return std::ranges::any_of(words, [](const std::string& word) {
    return file_name(word) == "torchrun" || word == "torch.distributed.run" || word == "torch.distributed.launch";
  });
}

bool is_setting(std::string_view name) {
  constexpr std::array kPrefixes{"LTRAIN_", "OMP_", "OMPI_", "NCCL_", "UCX_", "CUDA_"};
  return name != "LTRAIN_TOKEN" &&
         std::ranges::any_of(kPrefixes, [&](const char* prefix) { return name.starts_with(prefix); });
}

// Leaves values out that may be secrets: `-x NAME` passes the value that the shell has.
Words without_secrets(Words words) {
  for (std::size_t i = 1; i < words.size(); ++i) {
    if (words[i - 1] != "-x") continue;
    const std::string name = words[i].substr(0, words[i].find('='));
    if (!is_setting(name)) words[i] = name;
  }
  return words;
}

// Empty if no process above is the launcher.
template <class IsLauncher>
Words launcher_above(int pid, const ProcessView& view, IsLauncher&& is_launcher) {
  for (int level = 0; level < kMostLevels; ++level) {
    pid = view.parent(pid);
    if (pid <= 1) break;
    Words words = view.words(pid);
    if (!words.empty() && is_launcher(words)) return words;
  }
  return {};
}

// The rank's environment has what srun was told; the process itself may be on another host.
Words srun(const LaunchInfo& info, const ProcessView& view) {
  Words words{"srun", "-n", std::to_string(info.size)};
  if (const std::string nodes = view.variable("SLURM_STEP_NUM_NODES"); !nodes.empty())
    words.insert(words.end(), {"-N", nodes});
  if (!view.variable("PMIX_RANK").empty()) words.emplace_back("--mpi=pmix");
  if (const std::string cores = view.variable("SLURM_CPUS_PER_TASK"); !cores.empty())
    words.push_back("--cpus-per-task=" + cores);
  return words;
}

Words launcher_of(const LaunchInfo& info, int pid, const ProcessView& view, bool& has_program) {
  has_program = true;
  if (info.source == "Open MPI") {
    if (Words words = launcher_above(pid, view, is_mpirun); !words.empty()) return without_secrets(std::move(words));
    has_program = false;  // a daemon on another host than mpirun's started the rank
    return {"mpirun", "-n", std::to_string(info.size)};
  }
  if (info.source == "torchrun variables") {
    if (Words words = launcher_above(pid, view, is_torchrun); !words.empty()) {
      if (words.size() > 1 && file_name(words[1]) == "torchrun") words.erase(words.begin());  // the interpreter
      return words;
    }
  }
  has_program = false;
  return info.source == "Slurm" ? srun(info, view) : Words();
}

}  // namespace

WholeCommand whole_command(const LaunchInfo& info, int pid, const ProcessView& view) {
  Words own = view.words(pid);
  if (own.empty()) return {};
  WholeCommand whole{.text = view.variable(kCommandVariable), .program = io::shell_word(own[0])};
  if (!whole.text.empty()) return whole;
  bool has_program = false;
  Words words = launcher_of(info, pid, view, has_program);
  if (!has_program) words.insert(words.end(), own.begin(), own.end());
  whole.text = io::shell_text(words);
  return whole;
}

ProcessView system_view() {
  const auto text_of = [](int pid, const char* name) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/" + name, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  return {.words =
              [=](int pid) {
                Words words;
                const std::string text = text_of(pid, "cmdline");
                for (std::size_t begin = 0, end = 0; (end = text.find('\0', begin)) != text.npos; begin = end + 1)
                  words.push_back(text.substr(begin, end - begin));
                return words;
              },
          .parent =
              [=](int pid) {
                const std::string text = text_of(pid, "stat");  // "PID (NAME) STATE PARENT ..."
                const std::size_t name_end = text.rfind(')');
                return name_end == text.npos || name_end + 4 > text.size() ? 0 : std::atoi(text.c_str() + name_end + 4);
              },
          .variable =
              [](const std::string& name) {
                const char* const value = std::getenv(name.c_str());
                return std::string(value == nullptr ? "" : value);
              }};
}

}  // namespace lt::run
