#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

// From the ground up: a part may include itself and what stands before it.
const std::vector<std::string> ladder = {"simd",   "num",       "model",    "program", "trace",    "linalg", "evaluate",
                                         "bounds", "reference", "implicit", "region",  "analysis", "cli"};

std::ptrdiff_t rung(const std::string& part) {
  const auto found = std::find(ladder.begin(), ladder.end(), part);
  return found == ladder.end() ? -1 : found - ladder.begin();
}

struct Include {
  fs::path file;
  std::string target;
  bool angled;
};

std::vector<Include> includes_of(const fs::path& file) {
  static const std::regex directive(R"rx(^\s*#\s*include\s*([<"])([^>"]+)[>"])rx");
  std::vector<Include> includes;
  std::ifstream in(file);
  std::smatch match;
  for (std::string line; std::getline(in, line);)
    if (std::regex_search(line, match, directive)) includes.push_back({file, match[2], match[1] == "<"});
  return includes;
}

std::vector<fs::path> sources_below(const fs::path& folder) {
  static const std::array<std::string, 4> endings = {".hpp", ".cpp", ".cuh", ".cu"};
  std::vector<fs::path> files;
  if (!fs::exists(folder)) return files;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder))
    if (std::find(endings.begin(), endings.end(), entry.path().extension()) != endings.end())
      files.push_back(entry.path());
  return files;
}

// Part that an include names: "driftbound/<part>/…", "<part>/…"; empty for anything else.
std::string part_of(std::string target) {
  const std::string prefix = "driftbound/";
  if (target.rfind(prefix, 0) == 0) target.erase(0, prefix.size());
  const std::string first = target.substr(0, target.find('/'));
  return target.find('/') != std::string::npos && rung(first) >= 0 ? first : "";
}

std::vector<std::string> upward_includes(const fs::path& root, const std::string& part) {
  std::vector<std::string> offences;
  for (const fs::path& folder : {root / "include/driftbound" / part, root / "src" / part, root / part})
    for (const fs::path& file : sources_below(folder))
      for (const Include& include : includes_of(file)) {
        const std::string target = part_of(include.target);
        if (!target.empty() && rung(target) > rung(part))
          offences.push_back(file.string() + " includes " + include.target);
      }
  return offences;
}

const fs::path source_root = DRIFTBOUND_SOURCE_DIR;

}  // namespace

TEST_CASE("no part includes a part above it") {
  for (const std::string& part : ladder)
    for (const std::string& offence : upward_includes(source_root, part)) FAIL_CHECK(offence);
}

namespace {

// The rooms of bounds, from the ground up; what lies in no room stands above them all.
const std::vector<std::string> rooms = {"kernels", "arithmetic", "theorems", "matrices", "sums",   "nodes",
                                        "local",   "adjoint",    "chance",   "rows",     "blocks", "boxes"};

std::ptrdiff_t room_of(const fs::path& below_bounds) {
  return std::find(rooms.begin(), rooms.end(), below_bounds.begin()->string()) - rooms.begin();
}

std::vector<std::string> upward_between_rooms(const fs::path& bounds) {
  std::vector<std::string> offences;
  for (const fs::path& file : sources_below(bounds))
    for (const Include& include : includes_of(file))
      if (include.target.rfind("bounds/", 0) == 0 &&
          room_of(include.target.substr(7)) > room_of(fs::relative(file, bounds)))
        offences.push_back(file.string() + " includes " + include.target);
  return offences;
}

}  // namespace

TEST_CASE("no room of bounds includes a room above it") {
  const fs::path bounds = source_root / "src/bounds";
  for (const std::string& offence : upward_between_rooms(bounds)) FAIL_CHECK(offence);
  for (const fs::directory_entry& entry : fs::directory_iterator(bounds)) {
    INFO(entry.path().string());
    CHECK((!entry.is_directory() || room_of(entry.path().filename()) < std::ssize(rooms)));
  }
}

TEST_CASE("an include that goes up between rooms is found") {
  const fs::path root = fs::temp_directory_path() / "driftbound-rooms-test";
  fs::create_directories(root / "nodes");
  std::ofstream(root / "nodes/bad.cpp") << "#include \"bounds/rows/run_step.hpp\"\n";
  CHECK(upward_between_rooms(root).size() == 1);
  fs::remove_all(root);
}

TEST_CASE("tests of bounds lie in the rooms of what they test") {
  for (const fs::directory_entry& entry : fs::directory_iterator(source_root / "tests/bounds")) {
    INFO(entry.path().string());
    CHECK(entry.is_directory());
    CHECK(room_of(entry.path().filename()) < std::ssize(rooms));
  }
}

TEST_CASE("an include that goes up the ladder is found") {
  const fs::path root = fs::temp_directory_path() / "driftbound-ladder-test";
  fs::create_directories(root / "src/num");
  std::ofstream(root / "src/num/bad.cpp") << "#include \"driftbound/model/graph.hpp\"\n";
  CHECK(upward_includes(root, "num").size() == 1);
  fs::remove_all(root);
}

TEST_CASE("the CUDA module includes nothing above evaluate, and nobody but tests includes it") {
  for (const fs::path& file : sources_below(source_root / "cuda"))
    for (const Include& include : includes_of(file))
      if (rung(part_of(include.target)) > rung("evaluate")) FAIL_CHECK(file.string() << " includes " << include.target);
  for (const char* folder : {"include", "src", "analysis", "cli"})
    for (const fs::path& file : sources_below(source_root / folder))
      for (const Include& include : includes_of(file))
        if (include.target.rfind("cuda/", 0) == 0) FAIL_CHECK(file.string() << " includes " << include.target);
}

TEST_CASE("headers of CUDA are included where CUDA is called alone") {
  static const std::regex of_cuda("cu(da|blas|fft|rand|solver|sparse|tensor|dnn)[_a-zA-Z0-9]*[.]h|cuda/std/.*");
  static const std::set<fs::path> calling = {source_root / "cuda/cublas.cpp", source_root / "cuda/cublas_lt.cpp",
                                             source_root / "cuda/vendor.hpp",
                                             source_root / "tests/cuda_module/fake_cublas_lt.cpp"};
  for (const char* folder : {"include", "src", "analysis", "cli", "cuda", "tests"})
    for (const fs::path& file : sources_below(source_root / folder)) {
      const bool may = file.extension() == ".cu" || calling.count(file) > 0;
      for (const Include& include : includes_of(file))
        if (!may && std::regex_match(include.target, of_cuda))
          FAIL_CHECK(file.string() << " includes " << include.target);
    }
}

TEST_CASE("public headers include only the standard library and each other, adapters also what they adapt to") {
  static const std::map<std::string, std::regex> of_adapters = {{"eigen.hpp", std::regex("Eigen/Core")},
                                                                {"cgal.hpp", std::regex("CGAL/.*")},
                                                                {"vtk.hpp", std::regex("vtk[^/]*")}};
  for (const fs::path& file : sources_below(source_root / "include"))
    for (const Include& include : includes_of(file)) {
      const bool standard = include.angled && include.target.find_first_of("/.") == std::string::npos;
      const bool own = !include.angled && include.target.rfind("driftbound/", 0) == 0;
      const auto adapter = of_adapters.find(file.filename().string());
      const bool adapted = file.parent_path().filename() == "adapters" && adapter != of_adapters.end() &&
                           std::regex_match(include.target, adapter->second);
      if (!standard && !own && !adapted) FAIL_CHECK(file.string() << " includes " << include.target);
    }
}

namespace {

// A line without its string literals; #error lines, which may name what they forbid, count as empty.
std::string code_of(const std::string& line) {
  static const std::regex literal(R"rx("(\\.|[^"\\])*")rx");
  return line.find("#error") == std::string::npos ? std::regex_replace(line, literal, "\"\"") : "";
}

}  // namespace

TEST_CASE("no source changes the rounding mode or asks for fast math") {
  for (const char* folder : {"include", "src", "analysis", "cli", "cuda"})
    for (const fs::path& file : sources_below(source_root / folder)) {
      std::ifstream in(file);
      for (std::string line; std::getline(in, line);)
        for (const char* banned : {"fesetround(", "-ffast-math", "_MM_SET_FLUSH_ZERO_MODE", "_mm_setcsr("})
          if (code_of(line).find(banned) != std::string::npos) FAIL_CHECK(file.string() << ": " << line);
    }
}
