// ltrain_pages FOLDER: writes the man pages of `ltrain` and its completion for bash and zsh.
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <string>

#include "launch/pages/command_tree.h"

namespace {

void write(const std::filesystem::path& path, const std::string& text) {
  std::ofstream file;
  file.exceptions(std::ios::failbit | std::ios::badbit);
  file.open(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
}

// Removes the pages of an earlier version, whose commands may be no more.
void remove_pages(const std::filesystem::path& folder) {
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("ltrain") && name.ends_with(".1")) std::filesystem::remove(entry.path());
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("error: [usage] expected one folder\nhint: ltrain_pages FOLDER\n", stderr);
    return 2;
  }
  try {
    const std::filesystem::path folder = argv[1];
    std::filesystem::create_directories(folder / "man");
    remove_pages(folder / "man");
    const lt::launch::PageCommand root = lt::launch::command_tree();
    write(folder / "man/ltrain.1", man_page(root, root));
    for (const lt::launch::PageCommand& command : root.commands) {
      write(folder / "man" / ("ltrain-" + command.path + ".1"), man_page(command, root));
    }
    write(folder / "ltrain.bash", bash_completion(root));
    write(folder / "_ltrain", zsh_completion(root));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: [pages] %s\n", error.what());
    return 1;
  }
  return 0;
}
