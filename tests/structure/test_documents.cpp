#include <doctest/doctest.h>

#include <cctype>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <string>
#include <utility>
#include <vector>

// What people read: README.md, CONTRIBUTING.md and the documents below docs/.

namespace {

namespace fs = std::filesystem;

const fs::path checkout = DRIFTBOUND_SOURCE_DIR;

/// Pages that the program prints ("driftbound inspect --ops", "--functions"); other tests compare them with its output.
const std::set<std::string> printed_pages = {"ops.md", "functions.md"};

std::vector<fs::path> documents() {
  std::vector<fs::path> all = {checkout / "README.md", checkout / "CONTRIBUTING.md", checkout / "lab/README.md"};
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(checkout / "docs"))
    if (entry.path().extension() == ".md") all.push_back(entry.path());
  return all;
}

std::vector<std::string> lines_in(const fs::path& file) {
  std::vector<std::string> lines;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

/// The characters of a text in UTF-8, not its bytes.
std::size_t characters(const std::string& text) {
  std::size_t count = 0;
  for (const char byte : text) count += (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U ? 1 : 0;
  return count;
}

/// The lines outside of blocks of code, with their numbers.
std::vector<std::pair<std::size_t, std::string>> prose_of(const fs::path& file) {
  std::vector<std::pair<std::size_t, std::string>> prose;
  bool is_code = false;
  std::size_t number = 0;
  for (const std::string& line : lines_in(file)) {
    ++number;
    const bool is_fence = line.rfind("```", 0) == 0;
    if (is_fence) is_code = !is_code;
    if (!is_fence && !is_code) prose.emplace_back(number, line);
  }
  return prose;
}

/// The anchor that GitHub makes of a heading: lower case, blanks as hyphens, letters, digits, "_" and "-" alone.
std::string anchor_of(const std::string& heading) {
  std::string anchor;
  for (const char c : heading) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == ' ')
      anchor += '-';
    else if (byte >= 0x80U || std::isalnum(byte) != 0 || c == '_' || c == '-')
      anchor += static_cast<char>(std::tolower(byte));
  }
  return anchor;
}

std::set<std::string> anchors_in(const fs::path& file) {
  static const std::regex heading("^#+ (.*)$");
  std::set<std::string> anchors;
  std::smatch match;
  for (const auto& line : prose_of(file))
    if (std::regex_match(line.second, match, heading)) anchors.insert(anchor_of(match[1]));
  return anchors;
}

/// The targets of links to files: no web addresses.
std::vector<std::string> links_in(const fs::path& file) {
  static const std::regex link(R"rx(\]\(([^)\s]+)\))rx");
  std::vector<std::string> targets;
  for (const auto& line : prose_of(file))
    for (std::sregex_iterator match(line.second.begin(), line.second.end(), link), end; match != end; ++match)
      if ((*match)[1].str().find("://") == std::string::npos) targets.push_back((*match)[1]);
  return targets;
}

bool resolves(const fs::path& from, const std::string& target) {
  const std::string file = target.substr(0, target.find('#'));
  const fs::path named = file.empty() ? from : from.parent_path() / file;
  if (!fs::exists(named)) return false;
  const std::size_t hash = target.find('#');
  return hash == std::string::npos || anchors_in(named).count(target.substr(hash + 1)) == 1;
}

}  // namespace

TEST_CASE("lines of documents have at most 120 characters, outside of tables and code") {
  for (const fs::path& file : documents()) {
    if (printed_pages.count(file.filename().string()) == 1) continue;
    for (const auto& [number, line] : prose_of(file))
      if (line.rfind('|', 0) != 0 && characters(line) > 120)
        FAIL_CHECK(file.string() << ":" << number << " has " << characters(line) << " characters");
  }
}

TEST_CASE("what holds today of performance and campaigns takes at most 200 lines each; lab/ has the rest") {
  for (const char* name : {"performance", "campaigns"}) {
    CAPTURE(name);
    const std::size_t lines = lines_in(checkout / "docs" / (std::string(name) + ".md")).size();
    CHECK(lines > 50);
    CHECK(lines <= 200);
    CHECK(lines_in(checkout / "lab" / (std::string(name) + ".jsonl")).size() > 200);
  }
}

TEST_CASE("every link of a document leads to a file, and to a heading where it names one") {
  std::size_t count = 0;
  for (const fs::path& file : documents())
    for (const std::string& target : links_in(file)) {
      ++count;
      CHECK_MESSAGE(resolves(file, target), file.string() << " links to " << target);
    }
  CHECK(count > 200);
}

TEST_CASE("a link to no file, or to no heading, is found, and characters are counted, not bytes") {
  CHECK(resolves(checkout / "README.md", "docs/theory.md#theorems"));
  CHECK_FALSE(resolves(checkout / "README.md", "docs/no-such-page.md"));
  CHECK_FALSE(resolves(checkout / "README.md", "docs/theory.md#no-such-heading"));
  CHECK(anchor_of("T-04 Products of factors: γₙ") == "t-04-products-of-factors-γₙ");
  CHECK(characters("γₙ ≤ 1") == 6);
}
