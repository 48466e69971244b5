#pragma once

#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

/// What a command printed (standard output and error apart) and how it ended.
struct ProgramResult {
  int status = -1;
  std::string out, err;
};

/// A folder of its own for one test, removed at the end.
class TemporaryFolder {
public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "driftbound-test-XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::string file(const std::string& name) const { return (path_ / name).string(); }
  const std::filesystem::path& path() const { return path_; }

private:
  std::filesystem::path path_;
};

inline std::string read_file(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

/// Runs the program with arguments as a shell would split them.
inline ProgramResult run_program(const std::string& arguments) {
  const TemporaryFolder folder;
  const std::string command =
      std::string(DRIFTBOUND_PROGRAM) + " " + arguments + " >" + folder.file("out") + " 2>" + folder.file("err") + " </dev/null";
  const int status = std::system(command.c_str());
  ProgramResult result;
  result.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  result.out = read_file(folder.file("out"));
  result.err = read_file(folder.file("err"));
  return result;
}
