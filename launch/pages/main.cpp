// ltrain_pages FOLDER: writes the man pages of `ltrain` and its completion for bash and zsh.
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>

#include "pages/command_tree.h"

namespace {

void write(const std::filesystem::path& path, const std::string& text) {
  std::ofstream file;
  file.exceptions(std::ios::failbit | std::ios::badbit);
  file.open(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("error: [usage] expected one folder\nhint: ltrain_pages FOLDER\n", stderr);
    return 2;
  }
  try {
    const std::filesystem::path folder = argv[1];
    std::filesystem::remove_all(folder / "man");  // pages of commands that are no more
    std::filesystem::create_directories(folder / "man");
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
