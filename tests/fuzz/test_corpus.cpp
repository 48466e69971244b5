#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "fuzz/memory_count.hpp"
#include "fuzz/seeds.hpp"
#include "fuzz/targets.hpp"
#include "support/process_memory.hpp"

using namespace driftbound::fuzz;

namespace {

const std::filesystem::path root = DRIFTBOUND_SOURCE_DIR "/tests/fuzz";

std::string contents_of(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

std::vector<std::filesystem::path> files_in(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  if (!std::filesystem::exists(folder)) return files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

/// Every byte in turn damaged a little, and every length cut short.
std::vector<std::string> damaged(const std::string& good) {
  std::vector<std::string> all;
  for (std::size_t i = 0; i < good.size(); ++i) {
    all.push_back(good.substr(0, i));
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ (1 << (i % 8)));
    all.push_back(std::move(bad));
  }
  return all;
}

std::size_t run(const Target& target, const std::string& contents) {
  return run_checked(target, std::as_bytes(std::span(contents)));
}

}  // namespace

TEST_CASE("every file of the corpus and every past finding is read or refused within 64 MiB and twice its size") {
  std::size_t files = 0, bytes = 0;
  for (const Target& target : targets()) {
    for (const char* kind : {"corpus", "regressions"}) {
      for (const std::filesystem::path& file : files_in(root / kind / target.name)) {
        CAPTURE(file.string());
        const std::string contents = contents_of(file);
        CHECK(run(target, contents) <= memory_limit(contents.size()));
        ++files;
        bytes += contents.size();
      }
    }
  }
  CHECK(files >= seeds().size());
  CHECK(bytes < 300'000);
}

TEST_CASE("a process that reads a file of the corpus or a past finding grows by 64 MiB and twice its size at most") {
  if (!driftbound::test::process_memory_is_ours()) return;
  for (const Target& target : targets()) {
    for (const char* kind : {"corpus", "regressions"}) {
      for (const std::filesystem::path& file : files_in(root / kind / target.name)) {
        CAPTURE(file.string());
        const auto read = [&] { run(target, contents_of(file)); };
        CHECK(driftbound::test::process_memory_of(read) <= memory_limit(std::filesystem::file_size(file)));
      }
    }
  }
}

TEST_CASE("the memory of a process is measured, and work that fails is not taken for done") {
  if (!driftbound::test::process_memory_is_ours()) return;
  constexpr std::size_t size = 70'000'000;
  CHECK(driftbound::test::process_memory_of([] { std::string(size, 'x').swap(*new std::string); }) >= size);
  CHECK(driftbound::test::process_memory_of([] {}) < 1'000'000);
  CHECK_THROWS_AS(driftbound::test::process_memory_of([] { throw Violation("this"); }), std::runtime_error);
}

TEST_CASE("the corpus holds what the generator of its files writes") {
  for (const Seed& seed : seeds()) {
    CAPTURE(seed.target);
    CAPTURE(seed.name);
    CHECK(contents_of(root / "corpus" / seed.target / seed.name) == seed.contents);
  }
}

TEST_CASE("files of the corpus are read or refused when cut short anywhere or with any byte damaged") {
  for (const Seed& seed : seeds()) {
    if (seed.contents.size() > 2'000) continue;
    CAPTURE(seed.target);
    CAPTURE(seed.name);
    for (const std::string& bad : damaged(seed.contents)) CHECK(run(find_target(seed.target), bad) > 0);
  }
}

TEST_CASE("taking too much memory, and exceptions of other kinds, do not pass unseen") {
  const Target greedy{"greedy", [](Bytes) { std::vector<std::string>(70, std::string(1'000'000, 'x')); }};
  CHECK_THROWS_AS(run(greedy, ""), Violation);
  CHECK(run(greedy, std::string(6'000'000, ' ')) > 70'000'000);
  const Target absurd{"absurd", [](Bytes) { std::vector<char>(std::size_t{1} << 40); }};
  CHECK_THROWS_AS(run(absurd, ""), std::bad_alloc);
  const Target foreign{"foreign", [](Bytes) { throw std::length_error("vector"); }};
  CHECK_THROWS_AS(run(foreign, ""), std::length_error);
}
