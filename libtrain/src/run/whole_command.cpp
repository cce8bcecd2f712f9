// Climbs from a rank to its launcher by the process table, and puts the launcher's options before the rank's words.
#include "run/whole_command.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>
#include <system_error>
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

bool is_shell(const std::string& word) {
  constexpr std::array kNames{"sh", "bash", "dash", "zsh", "ksh", "csh", "tcsh", "fish"};
  const std::string name = file_name(word);
  return name.ends_with(".sh") || std::ranges::find(kNames, name) != kNames.end();
}

bool is_setting(std::string_view name) {
  constexpr std::array kPrefixes{"LTRAIN_", "OMP_", "OMPI_", "NCCL_", "UCX_", "CUDA_"};
  return name != "LTRAIN_TOKEN" &&
         std::ranges::any_of(kPrefixes, [&](const char* prefix) { return name.starts_with(prefix); });
}

// The name in NAME=VALUE; empty if the text does not have this form.
std::string_view variable_in(std::string_view text) {
  const std::string_view name = text.substr(0, text.find('='));
  const bool is_name = name.size() < text.size() &&
                       std::ranges::all_of(name, [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
  return is_name ? name : std::string_view();
}

// NAME=VALUE, or NAME alone if the value may be a secret. A value with a further `=` may set more variables.
std::string without_secret(std::string_view text) {
  const std::string_view name = variable_in(text);
  const bool is_one = text.find('=', name.size() + 1) == text.npos;
  return std::string(name.empty() || (is_one && is_setting(name)) ? text : name);
}

// `list`: entries between semicolons.
std::string without_secrets_in(std::string_view list) {
  std::string kept;
  for (std::size_t begin = 0, end = 0; end != list.npos; begin = end + 1) {
    end = list.find(';', begin);
    kept += (begin == 0 ? "" : ";") + without_secret(list.substr(begin, end == list.npos ? end : end - begin));
  }
  return kept;
}

// The options of a launcher, and of programs such as `env` that it starts before the rank's.
Words without_secrets(const Words& words) {
  constexpr std::array kPassing{"-x", "-e", "--env"};  // with NAME alone, they pass the value that the shell has
  Words kept;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string before = i == 0 ? "" : words[i - 1];
    const std::size_t value = words[i].starts_with('-') ? words[i].find('=') + 1 : 0;  // --option=NAME=VALUE
    const bool is_of_torchrun = before.starts_with("--rdzv") || words[i].starts_with("--rdzv");
    if (is_of_torchrun) {
      kept.push_back(words[i]);
    } else if (before == "mca_base_env_list") {
      kept.push_back(without_secrets_in(words[i]));
    } else if (value > 0 || std::ranges::find(kPassing, before) != kPassing.end()) {
      kept.push_back(words[i].substr(0, value) + without_secret(std::string_view(words[i]).substr(value)));
    } else if (without_secret(words[i]) == words[i]) {
      kept.push_back(words[i]);
    }  // else: `env NAME` would be a program
  }
  return kept;
}

// A process above a rank. No words: not found.
struct Launcher {
  int pid = 0;
  Words words = {};
};

template <class IsLauncher>
Launcher launcher_above(int pid, const ProcessView& view, IsLauncher&& is_launcher) {
  for (int level = 0; level < kMostLevels; ++level) {
    pid = view.parent(pid);
    if (pid <= 1) break;
    Words words = view.words(pid);
    if (!words.empty() && is_launcher(words)) return {pid, std::move(words)};
  }
  return {};
}

// What precedes the rank's own words.
struct Beginning {
  Words launcher;
  std::string folder = {};  // where to call it; empty: where the launcher was called
};

// `numbers`: a launcher's words with the numbers of ranks and hosts.
Beginning beginning_of(Launcher launcher, const Words& own, const Words& numbers, int pid, const ProcessView& view) {
  Words& words = launcher.words;
  if (words.size() > own.size() && std::equal(own.rbegin(), own.rend(), words.rbegin())) {
    words.resize(words.size() - own.size());
    return {without_secrets(words)};
  }
  const auto shell = std::ranges::find_if(words, is_shell);
  Beginning beginning{shell == words.end() ? numbers : without_secrets(Words(words.begin(), shell))};
  if (std::string folder = view.folder(pid); folder != view.folder(launcher.pid)) beginning.folder = std::move(folder);
  return beginning;
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

Words torchrun(const LaunchInfo& info) {
  Words words{"torchrun", "--nproc_per_node=" + std::to_string(info.local_size), "--no-python"};
  if (const int hosts = info.size / info.local_size; hosts > 1)
    words.insert(words.begin() + 1, "--nnodes=" + std::to_string(hosts));
  return words;
}

Beginning beginning_of(const LaunchInfo& info, const Words& own, int pid, const ProcessView& view) {
  if (info.source == "Open MPI") {
    const Words numbers{"mpirun", "-n", std::to_string(info.size)};
    Launcher found = launcher_above(pid, view, is_mpirun);
    if (found.words.empty()) return {numbers};  // a daemon on another host than mpirun's started the rank
    return beginning_of(std::move(found), own, numbers, pid, view);
  }
  if (info.source == "torchrun variables") {
    Launcher found = launcher_above(pid, view, is_torchrun);
    if (found.words.empty()) return {};
    if (found.words.size() > 1 && file_name(found.words[1]) == "torchrun") found.words.erase(found.words.begin());
    return beginning_of(std::move(found), own, torchrun(info), pid, view);
  }
  if (info.source == "Slurm") return {srun(info, view)};
  return {};
}

}  // namespace

WholeCommand whole_command(const LaunchInfo& info, int pid, const ProcessView& view, const std::string& settings) {
  const Words own = view.words(pid);
  if (own.empty()) return {};
  WholeCommand whole{.text = view.variable(kCommandVariable),
                     .program = io::shell_word(own[0]),
                     // Options after `--` would be arguments.
                     .takes_options = own.size() > 1 && own[1] == "train" && std::ranges::find(own, "--") == own.end()};
  if (!whole.text.empty()) {
    whole.takes_options = whole.takes_options && whole.text.find(" -- ") != std::string::npos;
    whole.text = settings + whole.text;
    return whole;
  }
  auto [words, folder] = beginning_of(info, own, pid, view);
  words.insert(words.end(), own.begin(), own.end());
  whole.text = (folder.empty() ? "" : "cd " + io::shell_word(folder) + " && ") + settings + io::shell_text(words);
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
          .folder =
              [](int pid) {
                std::error_code failed;
                return std::filesystem::read_symlink("/proc/" + std::to_string(pid) + "/cwd", failed).string();
              },
          .variable =
              [](const std::string& name) {
                const char* const value = std::getenv(name.c_str());
                return std::string(value == nullptr ? "" : value);
              }};
}

}  // namespace lt::run
