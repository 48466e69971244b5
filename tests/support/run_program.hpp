#pragma once

#include <sys/wait.h>

#include <cstdlib>
#include <string>

#include "support/temporary_folder.hpp"

/// What a command printed (standard output and error apart) and how it ended.
struct ProgramResult {
  int status = -1;
  std::string out, err;
};

/// Runs the program with arguments as a shell would split them; `wrapper` stands before it ("timeout 2 ").
inline ProgramResult run_program(const std::string& arguments, const std::string& wrapper = "",
                                 const std::string& program = DRIFTBOUND_PROGRAM) {
  const driftbound::test::TemporaryFolder folder;
  const std::string command =
      wrapper + program + " " + arguments + " >" + folder.file("out") + " 2>" + folder.file("err") + " </dev/null";
  const int status = std::system(command.c_str());
  ProgramResult result;
  result.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  result.out = driftbound::test::read_file(folder.file("out"));
  result.err = driftbound::test::read_file(folder.file("err"));
  return result;
}
