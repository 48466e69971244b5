#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "analysis/sign_file.hpp"
#include "driftbound/num/errors.hpp"
#include "support/npy_reader.hpp"
#include "support/temporary_folder.hpp"

using namespace driftbound;
using namespace driftbound::analysis;
using driftbound::test::npy_of_file;
using driftbound::test::read_file;
using driftbound::test::TemporaryFolder;

namespace {

const std::vector<std::int8_t> signs = {-1, 0, 1, 2, 1, 1, -1};

SignFile::Identity identity(const std::string& model) {
  return [model] { return std::map<std::string, std::string>{{"model", model}, {"points", "p"}}; };
}

SignProgress progress_after(std::size_t count) {
  SignProgress progress;
  progress.seconds = 0.1;
  for (std::size_t i = 0; i < count; ++i) {
    ++progress.counts.points;
    if (signs[i] == -1) ++progress.counts.negative;
    if (signs[i] == 0) ++progress.counts.zero;
    if (signs[i] == 1) ++progress.counts.positive;
    if (signs[i] == 2) ++progress.counts.undecided;
  }
  progress.counts.stages[1] = {static_cast<std::int64_t>(count), 0.3};
  return progress;
}

std::span<const std::int8_t> part(std::size_t first, std::size_t count) {
  return std::span(signs).subspan(first, count);
}

/// A run that is ended after `kept` signs of a checkpoint and one more.
void leave_unfinished(const std::string& name, std::size_t kept, const std::string& model = "m") {
  SignFile file(name, 7, identity(model), true);
  const auto start = static_cast<std::size_t>(file.start().counts.points);
  file.append(part(start, kept - start));
  file.checkpoint(progress_after(kept));
  file.append(part(kept, 1));
}

}  // namespace

TEST_CASE("a file of signs is an array of int8, and appears when it is whole") {
  const TemporaryFolder folder;
  const std::string name = folder.file("s.npy");
  {
    SignFile file(name, 7, identity("m"), false);
    file.append(part(0, 3));
    CHECK_FALSE(std::filesystem::exists(name));
    file.append(part(3, 4));
    file.finish();
  }
  const StoredTensor array = npy_of_file(name);
  CHECK(array.type() == ElementType::i8);
  CHECK(array.shape() == Shape{7});
  CHECK(array.to_double().values == std::vector<double>(signs.begin(), signs.end()));
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
}

TEST_CASE("a run that is resumed, twice, gives the file of one that is not") {
  const TemporaryFolder folder;
  const std::string name = folder.file("s.npy"), whole = folder.file("whole.npy");
  leave_unfinished(name, 2);
  leave_unfinished(name, 4);
  {
    SignFile file(name, 7, identity("m"), true);
    const SignProgress &start = file.start(), expected = progress_after(4);
    CHECK(start.counts.points == 4);
    CHECK(start.counts.negative == expected.counts.negative);
    CHECK(start.counts.zero == expected.counts.zero);
    CHECK(start.counts.positive == expected.counts.positive);
    CHECK(start.counts.undecided == expected.counts.undecided);
    CHECK(start.counts.stages[1].decided == 4);
    CHECK(start.counts.stages[1].seconds == 0.3);
    CHECK(start.seconds == 0.1);
    file.append(part(4, 3));
    file.finish();
  }
  {
    SignFile file(whole, 7, identity("m"), false);
    file.append(signs);
    file.finish();
  }
  CHECK(read_file(name) == read_file(whole));
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 2);
}

TEST_CASE("a run is resumed only as the same run, and when asked to") {
  const TemporaryFolder folder;
  const std::string name = folder.file("s.npy");
  leave_unfinished(name, 4);
  CHECK_THROWS_WITH_AS(SignFile(name, 7, identity("m"), false), doctest::Contains("--resume"), InvalidArgument);
  CHECK_THROWS_WITH_AS(SignFile(name, 7, identity("other"), true), doctest::Contains("of a run of another model;"),
                       InvalidArgument);
  CHECK_THROWS_WITH_AS(SignFile(name, 8, identity("m"), true), doctest::Contains("other points"), InvalidArgument);
  CHECK(SignFile(name, 7, identity("m"), true).start().counts.points == 4);
}

TEST_CASE("a state or a part that something else has changed is refused") {
  const TemporaryFolder folder;
  const std::string name = folder.file("s.npy");
  leave_unfinished(name, 4);
  const std::string state = read_file(name + ".state");
  for (const std::string& bad : {std::string("no JSON"), std::string("{}"), state.substr(0, state.size() / 2),
                                 std::string(state).replace(state.find("\"negative\": 1"), 13, "\"negative\": 2"),
                                 std::string(state).replace(state.find("\"zero\": 1"), 9, "\"zero\": -1")}) {
    folder.write("s.npy.state", bad);
    CHECK_THROWS_AS(SignFile(name, 7, identity("m"), true), ParseError);
  }
  folder.write("s.npy.state", state);
  std::filesystem::resize_file(name + ".part", 100);
  CHECK_THROWS_AS(SignFile(name, 7, identity("m"), true), ParseError);
}

TEST_CASE("a state that was written before there was a stage counts none of it") {
  const TemporaryFolder folder;
  const std::string name = folder.file("s.npy"), stage = "float32-domain";
  leave_unfinished(name, 4);
  std::string state = read_file(name + ".state");
  const std::size_t at = state.find(stage);
  REQUIRE(at != std::string::npos);
  folder.write("s.npy.state", state.replace(at, stage.size(), "unheard of"));
  const SignFile file(name, 7, identity("m"), true);
  CHECK(file.start().counts.points == 4);
  CHECK(file.start().counts.stages[static_cast<std::size_t>(SignStage::float32_domain)].decided == 0);
}

TEST_CASE("without a checkpoint, and when discarded, nothing is left") {
  const TemporaryFolder folder;
  const std::string name = folder.file("s.npy");
  SignFile(name, 7, identity("m"), false).append(part(0, 2));
  CHECK(std::filesystem::is_empty(folder.path()));
  leave_unfinished(name, 4);
  SignFile(name, 7, identity("m"), true).discard();
  CHECK(std::filesystem::is_empty(folder.path()));
  CHECK_THROWS_AS(SignFile(folder.file("no/s.npy"), 7, identity("m"), false), FileError);
  CHECK_THROWS_AS(SignFile(folder.path(), 7, identity("m"), false), FileError);
}

TEST_CASE("a file is one run's at a time: another one is refused, and harms neither it nor what follows") {
  const TemporaryFolder folder;
  const std::string name = folder.file("s.npy");
  {
    SignFile file(name, 7, identity("m"), false);
    file.append(part(0, 5));
    for (const bool resume : {false, true})
      CHECK_THROWS_WITH_AS(SignFile(name, 7, identity("other"), resume), doctest::Contains("another run writes it"),
                           InvalidArgument);
    file.append(part(5, 2));
    file.finish();
    SignFile(name, 7, identity("other"), false).append(part(0, 1));
  }
  CHECK(npy_of_file(name).to_double().values == std::vector<double>(signs.begin(), signs.end()));
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
}
