#include <doctest/doctest.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "support/recording.hpp"
#include "support/temporary_folder.hpp"
#include "trace/run_steps.hpp"

using namespace driftbound;
using namespace driftbound::test;

namespace {

using Tokens = Tensor<std::int64_t>;

/// A run that looks up tokens of several steps in one table, and computes positions before each lookup. `has_cache`: a step
/// reads what the one before computed.
std::optional<ReadTexts> read_in(const std::vector<Tokens>& steps, bool are_positions_first = false,
                                 bool has_cache = true) {
  const TemporaryFolder folder;
  RecordingWriter writer;
  writer.value("table", StoredTensor::from(Tensor<float>({9, 2})));
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const std::string step = std::to_string(i);
    writer.value("positions" + step, StoredTensor::from(steps[i]));
    writer.record("aten::arange", {}, {"positions" + step});
    writer.value("tokens" + step, StoredTensor::from(steps[i]));
    Shape shape = steps[i].shape;
    shape.push_back(2);
    writer.value("x" + step, StoredTensor::from(Tensor<float>(shape)));
    writer.record("aten::embedding", {"table", "tokens" + step}, {"x" + step});
    writer.value("y" + step, StoredTensor::from(Tensor<float>(shape)));
    if (i > 0 && has_cache) {
      writer.value("kept" + step, StoredTensor::from(Tensor<float>({1})));
      writer.record("aten::cat", {"y" + std::to_string(i - 1), "x" + step}, {"kept" + step});
    }
    writer.record("aten::relu", {"x" + step}, {"y" + step});
  }
  writer.write(folder.path() / "run.safetensors");
  const RecordedRun run(folder.path() / "run.safetensors");
  return texts_of(run, lookups_of(run), "tokens0", are_positions_first,
                  [&](const std::string& id) { return std::optional(run.stored(id).to_int64()); });
}

AlignedRows same_texts(std::int64_t rows, std::int64_t a, std::int64_t b, const AlignedStretch& stretch) {
  AlignedRows all{rows, rows, {}, AlignedPositions{a, b, {}, "", "", std::nullopt}};
  for (std::int64_t row = 0; row < rows; ++row) {
    all.of_b.push_back(row);
    all.positions->of_b.push_back(stretch);
  }
  return all;
}

}  // namespace

TEST_CASE("A step reads the tokens behind those before, or all of them again; it begins with its positions") {
  const auto cached = read_in({{{2, 3}, {1, 2, 3, 4, 5, 6}}, {{2, 1}, {7, 8}}, {{2, 2}, {1, 2, 4, 5}}});
  REQUIRE(cached);
  CHECK(cached->tokens.shape == Shape{2, 6});
  CHECK(cached->tokens.values == std::vector<std::int64_t>{1, 2, 3, 7, 1, 2, 4, 5, 6, 8, 4, 5});
  REQUIRE(cached->steps.size() == 3);
  CHECK(cached->steps[2].begin == 4);
  CHECK(cached->steps[2].first == 4);
  CHECK(cached->steps[2].end == 6);
  CHECK(cached->steps[0].record == 0);
  CHECK(cached->steps[1].record == 3);  // not 4, which looks up the tokens
  const auto others = read_in({{{2, 3}, {1, 2, 3, 4, 5, 6}}, {{2, 1}, {7, 8}}}, false, false);
  REQUIRE(others);
  CHECK(others->goes_on_with_others);
  CHECK(others->steps.size() == 1);
  CHECK_FALSE(cached->goes_on_with_others);
  const auto again = read_in({{{1, 2}, {1, 2}}, {{1, 3}, {1, 2, 3}}, {{1, 5}, {1, 2, 3, 4, 5}}});
  REQUIRE(again);
  CHECK(again->tokens.values == std::vector<std::int64_t>{1, 2, 3, 4, 5});
  CHECK(again->steps[2].begin == 0);
  CHECK(again->steps[2].first == 3);
  const auto turned = read_in({{{3, 2}, {1, 4, 2, 5, 3, 6}}, {{1, 2}, {7, 8}}}, true);
  REQUIRE(turned);
  CHECK(turned->tokens.values == std::vector<std::int64_t>{1, 2, 3, 7, 4, 5, 6, 8});
  CHECK_FALSE(read_in({{{2, 2}, {1, 2, 3, 4}}, {{1, 1}, {7}}}));  // a step with fewer texts
}

TEST_CASE("Steps that have new positions in common are paired, with the keys that both have seen") {
  const auto cached = read_in({{{1, 3}, {1, 2, 3}}, {{1, 1}, {4}}, {{1, 1}, {5}}}).value();
  const auto whole = read_in({{{1, 6}, {1, 2, 3, 4, 5, 6}}}).value();
  const std::vector<StepPair> pairs = pairs_of_steps(cached, whole, same_texts(1, 5, 6, {0, 0, 5}));
  REQUIRE(pairs.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(pairs[i].a == i);
    CHECK(pairs[i].b == 0);
    CHECK_FALSE(pairs[i].step.leaves_some_out);
  }
  const AlignedPositions last = pairs[2].step.rows.value().positions.value();
  CHECK(last.a == 1);
  CHECK(last.b == 6);
  CHECK(last.of_b == std::vector<AlignedStretch>{{0, 4, 1}});
  CHECK(last.keys.value().a == 5);
  CHECK(last.keys->of_b == std::vector<AlignedStretch>{{0, 0, 5}});
  CHECK(pairs[2].step.first_a == 4);
  CHECK(pairs_of_steps(cached, cached, same_texts(1, 5, 5, {0, 0, 5})).empty());  // the same steps
  const auto again = read_in({{{1, 3}, {1, 2, 3}}, {{1, 4}, {1, 2, 3, 4}}}).value();
  const std::vector<StepPair> of_again = pairs_of_steps(again, cached, same_texts(1, 4, 5, {0, 0, 4}));
  REQUIRE(of_again.size() == 2);
  CHECK_FALSE(of_again[0].step.rows);  // the same positions
  CHECK(of_again[1].step.leaves_some_out);
  const std::vector<StepPair> padded = pairs_of_steps(cached, whole, same_texts(1, 5, 6, {1, 0, 4}));
  REQUIRE(padded.size() == 3);
  CHECK(padded[0].step.rows->positions->of_b == std::vector<AlignedStretch>{{1, 0, 2}});
  CHECK(padded[2].step.rows->positions->keys->of_b == std::vector<AlignedStretch>{{1, 0, 4}});
}

TEST_CASE("Scores of a step are compared along its positions and along the keys that it has seen") {
  AlignedRows rows = same_texts(2, 1, 4, {0, 2, 1});
  rows.positions->keys = AlignedKeys{3, 4, {{0, 0, 3}, {1, 0, 2}}, 0, 0};
  rows.positions->of_b[1] = {0, 1, 1};
  Tensor<double> a({2, 1, 3}), b({2, 4, 4});
  const auto score = [](std::int64_t row, std::int64_t query, std::int64_t key) {
    return static_cast<double>(1000 * row + 10 * query + key);
  };
  for (std::int64_t key = 0; key < 3; ++key) {
    a.values[static_cast<std::size_t>(key)] = score(0, 2, key);
    a.values[static_cast<std::size_t>(3 + key)] = key == 0 ? -1.0 : score(1, 1, key - 1);
  }
  for (std::int64_t row = 0; row < 2; ++row)
    for (std::int64_t query = 0; query < 4; ++query)
      for (std::int64_t key = 0; key < 4; ++key)
        b.values[static_cast<std::size_t>(16 * row + 4 * query + key)] = score(row, query, key);
  const auto both = aligned_numbers(StoredTensor::from(a), StoredTensor::from(b), rows);
  REQUIRE(both);
  CHECK(both->a.size() == 5);
  CHECK(both->a.identical(both->b));
  // Numbers that have nothing to do with each other are compared all the same: how they lie is known.
  for (double& x : a.values) x += 5000.0;
  const auto apart = aligned_numbers(StoredTensor::from(a), StoredTensor::from(b), rows);
  REQUIRE(apart);
  CHECK_FALSE(apart->a.identical(apart->b));
}
