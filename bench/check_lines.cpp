// check_bench_lines PROGRAM TABLE: runs a benchmark with --quick and holds what it prints against docs/performance.md:
// every line is a JSON object with the fields named there, a case id of the table there, and times that are numbers.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <regex>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using nlohmann::json;

std::string text_of(const std::string& file) {
  std::ifstream in(file);
  if (!in) throw std::runtime_error(file + " cannot be read");
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t at = 0, end = 0; at < text.size(); at = end + 1) {
    end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
  }
  return lines;
}

std::string output_of(const std::string& command) {
  std::FILE* const pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error(command + " cannot be started");
  std::string text;
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) text += static_cast<char>(c);
  if (::pclose(pipe) != 0) throw std::runtime_error(command + " failed");
  return text;
}

/// What stands between backticks.
std::vector<std::string> quoted(const std::string& text) {
  static const std::regex pattern("`([^`]+)`");
  std::vector<std::string> found;
  for (std::sregex_iterator match(text.begin(), text.end(), pattern), end; match != end; ++match)
    found.push_back((*match)[1]);
  return found;
}

/// An id of the table, where words in capitals and numbers stand for others.
std::regex pattern_of(const std::string& id) {
  static const std::regex placeholder("[A-Z]+|[0-9]+");
  std::string pattern;
  std::size_t at = 0;
  for (std::sregex_iterator match(id.begin(), id.end(), placeholder), end; match != end; ++match) {
    const std::string word = match->str();
    const bool is_number = std::isdigit(static_cast<unsigned char>(word[0])) != 0 || (word.size() == 1 && word != "W");
    pattern += id.substr(at, static_cast<std::size_t>(match->position()) - at);
    pattern += is_number ? "[0-9]+" : word == "W" ? "[0-9]e-[0-9]" : "[A-Za-z0-9_]+";
    at = static_cast<std::size_t>(match->position() + match->length());
  }
  return std::regex(pattern + id.substr(at));
}

/// The ids of one benchmark: rows "| `BENCH …`: `ID`, `ID` | ours | against |".
std::vector<std::regex> documented_ids(const std::string& table, const std::string& bench) {
  std::vector<std::regex> ids;
  for (const std::string& line : lines_of(table)) {
    const bool is_row = line.starts_with("| `" + bench + "`: ") || line.starts_with("| `" + bench + " [");
    if (!is_row) continue;
    const std::vector<std::string> words = quoted(line.substr(0, line.find(" | ")));
    for (std::size_t i = 1; i < words.size(); ++i) ids.push_back(pattern_of(words[i]));
  }
  return ids;
}

void demand(bool holds, const std::string& what) {
  if (!holds) throw std::runtime_error(what);
}

void check(const json& line, const std::string& bench, const std::vector<std::regex>& ids, const std::string& table) {
  const auto number = [&](const char* field) { return line.at(field).get<double>(); };
  demand(line.at("bench") == bench, "is of another benchmark");
  const std::string id = line.at("case");
  bool is_known = false;
  for (const std::regex& known : ids) is_known = is_known || std::regex_match(id, known);
  demand(is_known, "has a case id that docs/performance.md does not name");
  demand(std::isfinite(number("ratio")) && number("ratio") > 0.0, "has a ratio that is no positive number");
  demand(std::isfinite(number("median_s")) && number("median_s") > 0.0, "has a time that is no positive number");
  demand(number("threads") >= 1.0, "has no number of threads");
  for (const char* text : {"against", "machine"}) demand(!line.at(text).get<std::string>().empty(), "names nobody");
  for (const auto& [field, value] : line.items())
    demand(table.find("`" + field + "`") != std::string::npos,
           "has a field that docs/performance.md does not name: " + field);
}

}  // namespace

int main(int argc, char** argv) {
  std::string line;
  try {
    if (argc != 3) throw std::runtime_error("check_bench_lines PROGRAM TABLE");
    const std::string program = argv[1], table = text_of(argv[2]);
    const std::string bench = program.substr(program.rfind("bench_") + 6);
    const std::vector<std::regex> ids = documented_ids(table, bench);
    const std::vector<std::string> lines = lines_of(output_of("'" + program + "' --quick"));
    demand(!lines.empty(), program + " prints nothing");
    for (const std::string& printed : lines) {
      line = printed + "\n";
      check(json::parse(printed), bench, ids, table);
    }
    fmt::print("{} lines\n", lines.size());
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}{}\n", line, error.what());
    return 1;
  }
}
