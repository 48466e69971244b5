#include "cli/outputs.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>

#include "cli/files.hpp"
#include "driftbound/num/errors.hpp"

namespace driftbound::cli {
namespace {

struct Format {
  std::string Outputs::*file;
  std::string (*text_of)(const analysis::Document&);
  const char *option, *about;
};

constexpr Format formats[] = {
    {&Outputs::html, analysis::to_html, "--html", "Write the report as one self-contained HTML page"},
    {&Outputs::csv, analysis::to_csv, "--csv", "Write one line per layer, scope and bound"},
    {&Outputs::junit, analysis::to_junit, "--junit", "Write JUnit XML for CI: a test case per layer and output"},
};

}  // namespace

void Outputs::add_json_to(CLI::App& app, const std::string& about) {
  app.add_option("--json", json, about);
}

void Outputs::add_others_to(CLI::App& app) {
  for (const Format& format : formats) app.add_option(format.option, this->*format.file, format.about);
}

void Outputs::add_quiet_to(CLI::App& app) {
  app.add_flag("--quiet", quiet, "No table and no progress; the verdict goes to standard error");
}

std::vector<std::string> Outputs::files(std::initializer_list<std::string> others) const {
  std::vector<std::string> files = {json};
  for (const Format& format : formats) files.push_back(this->*format.file);
  files.insert(files.end(), others);
  return files;
}

void Outputs::check(std::initializer_list<std::string> others) const {
  const std::vector<std::string> all = files(others);
  for (const std::string& file : all)
    if (file != "-") require_writable(file);
  for (const std::string& file : all)
    if (file == "-" && &file != &all.front())
      throw InvalidArgument("only --json can be written to standard output ('-')");
}

void Outputs::publish(const analysis::Document& document, const analysis::TextOptions& options,
                      const std::function<void()>& write_first) const {
  std::vector<std::string> failures;
  const auto attempt = [&](const std::function<void()>& write) {
    try {
      write();
    } catch (const Error& error) {
      failures.emplace_back(error.what());
    }
  };
  if (write_first) attempt(write_first);
  if (json == "-") fmt::print("{}", analysis::to_json(document));
  if (json != "-" && !json.empty()) attempt([&] { write_whole(json, analysis::to_json(document)); });
  for (const Format& format : formats)
    if (const std::string& file = this->*format.file; !file.empty())
      attempt([&] { write_whole(file, format.text_of(document)); });
  if (quiet)
    fmt::print(stderr, "{}\n", document.headline);
  else if (json != "-")
    fmt::print("{}", analysis::to_text(document, options));
  if (!failures.empty()) throw FileError(fmt::format("{}", fmt::join(failures, "; ")));
}

}  // namespace driftbound::cli
