#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <new>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "cli/common.hpp"
#include "cli/keep_memory.hpp"
#include "cli/verbs.hpp"
#include "driftbound/num/errors.hpp"

namespace {

using namespace driftbound;

std::string join_command_line(int argc, char** argv) {
  std::string text = "driftbound";
  for (int i = 1; i < argc; ++i) text += std::string(" ") + argv[i];
  return text;
}

int complain(const std::string& message, int status) {
  fmt::print(stderr, "driftbound: {}\n", message);
  return status;
}

/// The first argument where it is neither an option nor a verb.
std::string unknown_verb(int argc, char** argv) {
  const std::string first = argc > 1 ? argv[1] : "-";
  const bool is_known = first.empty() || first[0] == '-' || first == "report" || first == "capture" ||
                        first == "certify" || first == "inspect";
  return is_known ? "" : first;
}

int run_guarded(const CLI::App& app, const cli::Verb& verb) {
  try {
    cli::require_filled(app);
    const int status = verb();
    cli::flush_output();
    return status;
  } catch (const Interrupted&) {
    return complain("interrupted; nothing was written", cli::exit_interrupted);
  } catch (const NotAvailable& error) {
    return complain(error.what(), cli::exit_not_available);
  } catch (const Error& error) {
    return complain(error.what(), cli::exit_bad_input);
  } catch (const std::filesystem::filesystem_error& error) {
    return complain(error.path1().string() + ": " + error.code().message(), cli::exit_bad_input);
  } catch (const std::system_error& error) {
    return complain(std::string("output cannot be written: ") + error.what(), cli::exit_bad_input);
  } catch (const std::bad_alloc&) {
    return complain("out of memory: use fewer samples, or a smaller model", cli::exit_bad_input);
  }
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App program{"Rounding error of neural networks: measured, certified and bounded, layer by layer.", "driftbound"};
  program.set_version_flag("--version", "driftbound " DRIFTBOUND_VERSION);
  program.require_subcommand(1);
  program.footer(
      "Exit status: 0 holds, 1 undecided or void, 2 violated, 3 bad input or usage, 4 not available, 130 interrupted.");

  const std::vector<std::pair<std::string, cli::Verb>> verbs = {
      {"report", cli::add_report(program, join_command_line(argc, argv))},
      {"capture", cli::add_capture(program)},
      {"certify", cli::add_certify(program, join_command_line(argc, argv))},
      {"inspect", cli::add_inspect(program)},
  };
  if (const std::string unknown = unknown_verb(argc, argv); !unknown.empty()) {
    const bool is_planned = unknown == "drift" || unknown == "probe" || unknown == "study";
    return complain(fmt::format("there is no verb '{}'{}; there are: report, capture, certify, inspect", unknown,
                                is_planned ? " in this version" : ""),
                    is_planned ? cli::exit_not_available : cli::exit_bad_input);
  }
  try {
    program.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return program.exit(error) == 0 ? cli::exit_ok : cli::exit_bad_input;
  }
  cli::catch_interrupts();
  cli::keep_memory();
  for (const auto& [name, verb] : verbs)
    if (program.got_subcommand(name)) return run_guarded(*program.get_subcommand(name), verb);
  return cli::exit_bad_input;
}
