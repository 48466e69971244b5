#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

// Every theorem has a test whose data approach its bound (tests/support/approach.hpp).

namespace {

namespace fs = std::filesystem;

const fs::path source_root = DRIFTBOUND_SOURCE_DIR;

/// What states no bound.
const std::map<std::string, std::string> without_a_bound = {
    {"T-19", "a definition, and a counterexample to what is no bound"},
    {"T-79", "a definition"},
    {"T-135", "its probability is that of T-134"},
    {"T-137", "an identity, and bounds of other theorems"},
    {"T-139", "tests of significance"},
    {"T-142", "results within bounds of other theorems"},
    {"T-160", "an isotopy"},
    {"T-162", "an isotopy"},
};

std::string text_of(const fs::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::set<std::string> matches(const std::string& text, const std::regex& pattern) {
  std::set<std::string> found;
  for (std::sregex_iterator match(text.begin(), text.end(), pattern), end; match != end; ++match)
    found.insert((*match)[1]);
  return found;
}

/// Those that a chapter of the theory states, each as often as chapters state it.
std::multiset<std::string> stated() {
  static const std::regex heading(R"rx((?:^|\n)## (T-\d+) )rx");
  std::multiset<std::string> all;
  for (const fs::directory_entry& chapter : fs::directory_iterator(source_root / "docs/theory")) {
    const std::string text = text_of(chapter.path());
    for (std::sregex_iterator match(text.begin(), text.end(), heading), end; match != end; ++match)
      all.insert((*match)[1]);
  }
  return all;
}

std::set<std::string> theorems() {
  const std::multiset<std::string> all = stated();
  return {all.begin(), all.end()};
}

/// Those with a row in the table of docs/theory.md, each as often as it has one.
std::multiset<std::string> listed() {
  static const std::regex row(R"rx(\n\| (T-\d+) \| \[)rx");
  const std::string text = text_of(source_root / "docs/theory.md");
  std::multiset<std::string> all;
  for (std::sregex_iterator match(text.begin(), text.end(), row), end; match != end; ++match) all.insert((*match)[1]);
  return all;
}

/// Those that a file below the folder names anywhere.
std::set<std::string> cited_below(const fs::path& folder) {
  static const std::regex citation(R"rx(\b(T-\d+)\b)rx");
  std::set<std::string> all;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) all.merge(matches(text_of(entry.path()), citation));
  return all;
}

std::set<std::string> approached() {
  static const std::regex assertion(R"rx((?:CHECK_APPROACH|CHECK_EXACT|OF_THEOREM)\(\s*"(T-\d+)")rx");
  std::set<std::string> all;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(source_root / "tests")) {
    const fs::path ending = entry.path().extension();
    if (ending != ".cpp" && ending != ".hpp") continue;
    all.merge(matches(text_of(entry.path()), assertion));
  }
  return all;
}

}  // namespace

TEST_CASE("every theorem has a test that holds its bound against the closest approach, or says why it has none") {
  const std::set<std::string> tested = approached();
  CHECK(theorems().size() > 60);
  for (const std::string& theorem : theorems()) {
    CAPTURE(theorem);
    CHECK(tested.contains(theorem) != without_a_bound.contains(theorem));
  }
}

TEST_CASE("a test names no theorem that there is not, and nothing is excepted that there is not") {
  const std::set<std::string> known = theorems();
  for (const std::string& theorem : approached()) CHECK_MESSAGE(known.contains(theorem), theorem);
  for (const auto& entry : without_a_bound) CHECK_MESSAGE(known.contains(entry.first), entry.first);
}

TEST_CASE("a chapter states every theorem once, and the table of the theory lists it once") {
  CHECK(stated() == listed());
  for (const std::string& theorem : theorems()) CHECK_MESSAGE(stated().count(theorem) == 1, theorem);
}

TEST_CASE("the code cites no theorem that no chapter states") {
  const std::set<std::string> known = theorems();
  for (const char* folder : {"include", "src", "analysis", "cli", "cuda"})
    for (const std::string& theorem : cited_below(source_root / folder))
      CHECK_MESSAGE(known.contains(theorem), folder << " cites " << theorem);
}
