#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <new>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "cli/common.hpp"
#include "cli/files.hpp"
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

/// "report, capture", the names of all verbs.
std::string names_of(const std::vector<cli::Verb>& verbs) {
  std::string names;
  for (const cli::Verb& verb : verbs) names += (names.empty() ? "" : ", ") + verb.name;
  return names;
}

/// Whether the first argument is neither an option nor a verb.
bool is_unknown(const std::string& first, const std::vector<cli::Verb>& verbs) {
  return !first.empty() && first[0] != '-' &&
         std::none_of(verbs.begin(), verbs.end(), [&](const cli::Verb& verb) { return verb.name == first; });
}

int complain_about(const std::string& unknown, const std::vector<cli::Verb>& verbs) {
  const bool is_planned = unknown == "study";
  return complain(fmt::format("there is no verb '{}'{}; there are: {}", unknown, is_planned ? " in this version" : "",
                              names_of(verbs)),
                  is_planned ? cli::exit_not_available : cli::exit_bad_input);
}

int run_guarded(const CLI::App& app, const cli::Verb::Run& run) {
  try {
    cli::require_filled(app);
    const int status = run();
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

/// "--box=" without a value, whose value would be the next argument; null: none.
const char* option_without_value(int argc, char** argv) {
  for (int i = 1; i < argc && std::string_view(argv[i]) != "--"; ++i)
    if (const std::string_view argument = argv[i]; argument.starts_with("--") && argument.ends_with('='))
      return argv[i];
  return nullptr;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App program{"Rounding error of neural networks: measured, certified and bounded, layer by layer.", "driftbound"};
  program.set_version_flag("--version", "driftbound " DRIFTBOUND_VERSION);
  program.require_subcommand(1);
  program.footer(
      "Exit status: 0 holds, 1 undecided, improbable or void, 2 violated, 3 bad input or usage, 4 not available, 130 "
      "interrupted.");

  const std::vector<cli::Verb> verbs = cli::verbs();
  std::vector<std::pair<CLI::App*, cli::Verb::Run>> runs;
  for (const cli::Verb& verb : verbs) {
    CLI::App* app = program.add_subcommand(verb.name, verb.summary);
    runs.emplace_back(app, verb.add(*app, join_command_line(argc, argv)));
  }
  if (argc > 1 && is_unknown(argv[1], verbs)) return complain_about(argv[1], verbs);
  if (const char* const option = option_without_value(argc, argv))
    return complain(std::string(option) + " has no value: write it right behind the '=', or leave the option out",
                    cli::exit_bad_input);
  try {
    program.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return program.exit(error) == 0 ? cli::exit_ok : cli::exit_bad_input;
  }
  cli::catch_interrupts();
  cli::keep_memory();
  for (const auto& [app, run] : runs)
    if (app->parsed()) return run_guarded(*app, run);
  return cli::exit_bad_input;
}
