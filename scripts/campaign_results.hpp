#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "driftbound/num/errors.hpp"

/// What campaigns that go on where they stopped have in common.
namespace campaign {

using Json = nlohmann::ordered_json;

/// One line on a terminal, nothing in a pipe.
class Progress {
public:
  void say(const std::string& text) const {
    if (is_terminal_) fmt::print(stderr, "\r\033[K{}", text);
    std::fflush(stderr);
  }
  ~Progress() { say(""); }

private:
  bool is_terminal_ = isatty(2) != 0;
};

/// One line of JSON for every unit of work that is done.
class Results {
public:
  /// A last line that an interruption left half written is removed: its unit runs again.
  explicit Results(const std::filesystem::path& file) : file_(file) {
    std::ifstream in(file);
    std::uintmax_t whole = 0;
    for (std::string line; std::getline(in, line) && !in.eof(); whole += line.size() + 1)
      lines_.push_back(Json::parse(line));
    if (std::filesystem::exists(file) && whole < std::filesystem::file_size(file))
      std::filesystem::resize_file(file, whole);
  }
  bool has(const std::string& unit) const {
    return std::any_of(lines_.begin(), lines_.end(), [&](const Json& line) { return line.at("unit") == unit; });
  }
  void add(Json line) {
    std::ofstream out(file_, std::ios::app);
    out << line.dump() << std::endl;
    if (!out) throw driftbound::FileError("cannot write " + file_.string());
    lines_.push_back(std::move(line));
  }
  const std::vector<Json>& lines() const { return lines_; }

private:
  std::filesystem::path file_;
  std::vector<Json> lines_;
};

}  // namespace campaign
