// Makes the environment variables and files that a launcher creates for its ranks.
#pragma once

#include <sys/stat.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <string>

#include "test_main/catch.h"
#include "test_main/temp_folder.h"

namespace lt_test {

// Unsets a launcher's variables, then sets the given ones for its scope.
class Environment {
 public:
  explicit Environment(const std::map<std::string, std::string>& variables) {
    for (const char* name : {"LTRAIN_TOKEN", "SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT",
                             "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "MASTER_PORT"}) {
      ::unsetenv(name);
    }
    for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
    variables_ = variables;
  }
  ~Environment() {
    for (const auto& [name, value] : variables_) ::unsetenv(name.c_str());
  }

 private:
  std::map<std::string, std::string> variables_;
};

inline void write_file(const std::string& path, const std::string& text, mode_t mode) {
  std::ofstream(path) << text;
  REQUIRE(::chmod(path.c_str(), mode) == 0);
}

}  // namespace lt_test
