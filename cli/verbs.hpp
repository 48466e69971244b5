#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>

namespace driftbound::cli {

/// A verb adds its subcommand and returns what runs it; the result is the exit status.
using Verb = std::function<int()>;

Verb add_report(CLI::App& program, const std::string& command_line);
Verb add_capture(CLI::App& program);
Verb add_certify(CLI::App& program, const std::string& command_line);
Verb add_inspect(CLI::App& program);

}  // namespace driftbound::cli
