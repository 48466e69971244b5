#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

#include "analysis/document.hpp"

namespace driftbound::cli {

/// Where the document of a verb goes: files, and the terminal.
struct Outputs {
  std::string json, html, csv, junit;  ///< files; empty: not written. JSON as "-" is standard output
  bool quiet = false;

  /// The option --json, whose description is the verb's own.
  void add_json_to(CLI::App& app, const std::string& about);
  /// The options --html, --csv and --junit.
  void add_others_to(CLI::App& app);
  void add_quiet_to(CLI::App& app);

  /// All files, with others that the verb writes.
  std::vector<std::string> files(std::initializer_list<std::string> others = {}) const;
  /// Checks early that all of these can be written, so that no work is lost.
  /// Throws:    FileError, InvalidArgument
  void check(std::initializer_list<std::string> others = {}) const;
  /// Shows the document, or its headline on standard error, and writes every file asked for, after what `write_first`
  /// writes. What fails keeps no other file from being written.
  /// Throws:    FileError naming all that failed
  void publish(const analysis::Document& document, const analysis::TextOptions& options,
               const std::function<void()>& write_first = {}) const;
};

}  // namespace driftbound::cli
