#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

namespace driftbound::cli {

/// What the program can do: a subcommand with its options.
struct Verb {
  /// Runs the verb with the options that were parsed; the result is the exit status.
  using Run = std::function<int()>;
  std::string name, summary;
  /// Adds the verb's options to its subcommand; the verb gets the command line to record it.
  std::function<Run(CLI::App& app, const std::string& command_line)> add;
};

// A new verb is one file of this folder, which defines the function, and one line here.
Verb report();
Verb capture();
Verb certify();
Verb mesh();
Verb octree();
Verb render();
Verb drift();
Verb tolerance();
Verb probe();
Verb inspect();
inline std::vector<Verb> verbs() {
  return {report(), drift(), tolerance(), capture(), certify(), mesh(), octree(), render(), probe(), inspect()};
}

}  // namespace driftbound::cli
