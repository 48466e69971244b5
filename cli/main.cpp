#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "cli/common.hpp"
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

int run_guarded(const cli::Verb& verb) {
  try {
    return verb();
  } catch (const Interrupted&) {
    return complain("interrupted; nothing was written", cli::exit_interrupted);
  } catch (const NotAvailable& error) {
    return complain(error.what(), cli::exit_not_available);
  } catch (const Error& error) {
    return complain(error.what(), cli::exit_bad_input);
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
      {"inspect", cli::add_inspect(program)},
  };
  try {
    program.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return program.exit(error) == 0 ? cli::exit_ok : cli::exit_bad_input;
  }
  cli::catch_interrupts();
  for (const auto& [name, verb] : verbs)
    if (program.got_subcommand(name)) return run_guarded(verb);
  return cli::exit_bad_input;
}
