// ltrain_pages FOLDER: writes the man pages of `ltrain` and its completion for bash and zsh.
// ltrain_pages --docs FOLDER: renews the generated blocks of the pages in FOLDER, which is docs/reference.
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "io/whole_file.h"
#include "launch/pages/command_tree.h"
#include "launch/pages/markdown.h"

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

void write_programs_pages(const std::filesystem::path& folder, const lt::launch::PageCommand& root) {
  std::filesystem::create_directories(folder / "man");
  remove_pages(folder / "man");
  write(folder / "man/ltrain.1", man_page(root, root));
  for (const lt::launch::PageCommand& command : root.commands) {
    write(folder / "man" / ("ltrain-" + command.path + ".1"), man_page(command, root));
  }
  write(folder / "ltrain.bash", bash_completion(root));
  write(folder / "_ltrain", zsh_completion(root));
}

void renew_docs(const std::filesystem::path& folder, const lt::launch::PageCommand& root) {
  const std::vector<lt::launch::PageBlock> blocks = page_blocks(root);
  std::set<std::string> pages;
  for (const lt::launch::PageBlock& block : blocks) pages.insert(block.page);
  for (const std::string& page : pages) {
    const std::string text = lt::io::read_whole_file("pages", (folder / page).string());
    const std::string renewed = lt::launch::renewed(page, text, blocks);
    if (renewed != text) write(folder / page, renewed);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const bool is_docs = argc == 3 && std::string_view(argv[1]) == "--docs";
  if (argc != 2 && !is_docs) {
    std::fputs("error: [usage] expected one folder\nhint: ltrain_pages FOLDER, or ltrain_pages --docs FOLDER\n",
               stderr);
    return 2;
  }
  try {
    const lt::launch::PageCommand root = lt::launch::command_tree();
    if (is_docs) {
      renew_docs(argv[2], root);
    } else {
      write_programs_pages(argv[1], root);
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: [pages] %s\n", error.what());
    return 1;
  }
  return 0;
}
