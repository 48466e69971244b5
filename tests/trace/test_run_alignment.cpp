#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "driftbound/trace/run_alignment.hpp"
#include "model/convert.hpp"
#include "support/recording.hpp"
#include "support/temporary_folder.hpp"

using namespace driftbound;
using namespace driftbound::test;

namespace {

StoredTensor filled(Shape shape, float first) {
  Tensor<float> tensor(std::move(shape));
  for (std::size_t i = 0; i < tensor.size(); ++i) tensor.values[i] = first + static_cast<float>(i % 7);
  return StoredTensor::from(tensor);
}

/// Two recordings, written and read.
class TwoRuns {
public:
  RunAlignment align() {
    a.write(folder_.path() / "a.safetensors");
    b.write(folder_.path() / "b.safetensors");
    run_a_.emplace(folder_.path() / "a.safetensors");
    run_b_.emplace(folder_.path() / "b.safetensors");
    return align_runs(*run_a_, *run_b_);
  }
  std::vector<std::string> ids_of_b(const RunAlignment& alignment) const {
    std::vector<std::string> ids;
    for (const AlignedResult& one : alignment.results)
      ids.push_back(run_b_->records()[one.b.record].results[one.b.result].value());
    return ids;
  }

  RecordingWriter a, b;

private:
  TemporaryFolder folder_;
  std::optional<RecordedRun> run_a_, run_b_;
};

using Ids = std::vector<std::string>;

/// y = x W^T + b in one op, or a product and a sum.
void add_linear(RecordingWriter& writer, bool is_fused, std::int64_t rows = 4) {
  writer.value("w", filled({3, 6}, 0.5F));
  writer.value("bias", filled({3}, -1.0F));
  writer.derived("wt", ElementType::f32, {6, 3});
  writer.record("aten::t", {"w"}, {"wt"});
  writer.value("y", filled({rows, 3}, 2.0F));
  if (is_fused) return writer.record("aten::addmm", {"bias", "x", "wt"}, {"y"}, {}, "fc");
  writer.value("p", filled({rows, 3}, 9.0F));
  writer.record("aten::mm", {"x", "wt"}, {"p"}, {}, "fc");
  writer.record("aten::add", {"p", "bias"}, {"y"}, {}, "fc");
}

}  // namespace

TEST_CASE("The same program's results are aligned one by one, and read the same values") {
  TwoRuns runs;
  for (RecordingWriter* writer : {&runs.a, &runs.b}) {
    writer->value("x", filled({4, 6}, 1.0F));
    add_linear(*writer, true);
    writer->value("z", filled({4, 3}, 3.0F));
    writer->record("aten::tanh", {"y"}, {"z"}, {}, "act");
  }
  const RunAlignment alignment = runs.align();
  CHECK(runs.ids_of_b(alignment) == Ids{"y", "z"});
  for (const AlignedResult& one : alignment.results) {
    CHECK(one.by == AlignedBy::op);
    CHECK(one.operands == OperandsAre::same);
  }
  CHECK(alignment.sources.size() == 3);
  for (const AlignedSource& source : alignment.sources) CHECK(source.is_identical);
  CHECK(alignment.only_a.empty());
  CHECK(alignment.only_b.empty());
  CHECK_FALSE(alignment.rows);
}

TEST_CASE(
    "An op that one run fuses is aligned with the last of the other run's ops, which is named if it has no other") {
  TwoRuns runs;
  runs.a.value("x", filled({4, 6}, 1.0F));
  runs.b.value("x", filled({4, 6}, 1.0F));
  add_linear(runs.a, true);
  add_linear(runs.b, false);
  const RunAlignment alignment = runs.align();
  CHECK(runs.ids_of_b(alignment) == Ids{"y"});
  CHECK(alignment.results.front().by == AlignedBy::module);
  CHECK(alignment.only_a.empty());
  REQUIRE(alignment.only_b.size() == 1);
  CHECK(alignment.only_b.front() == RecordedResult{1, 0});
  CHECK(alignment.sources.size() == 3);
}

TEST_CASE("Exporters' paths and dotted modules are the same module, and weights may be stored transposed") {
  TwoRuns runs;
  runs.a.value("x", filled({4, 6}, 1.0F));
  runs.b.value("x", filled({4, 6}, 1.0F));
  add_linear(runs.a, true);
  Tensor<float> transposed({6, 3});
  const Tensor<double> w = filled({3, 6}, 0.5F).to_double();
  for (std::size_t i = 0; i < 3; ++i)
    for (std::size_t k = 0; k < 6; ++k) transposed.values[k * 3 + i] = static_cast<float>(w.values[i * 6 + k]);
  runs.b.value("wt", StoredTensor::from(transposed));
  runs.b.value("c", filled({3}, -1.0F));
  runs.b.value("y", filled({4, 3}, 2.0F));
  runs.b.record("Gemm", {"x", "wt", "c"}, {"y"});
  runs.b.last_record()["name"] = "/fc/Gemm";
  const RunAlignment alignment = runs.align();
  REQUIRE(alignment.results.size() == 1);
  CHECK(alignment.results.front().by == AlignedBy::op);
  REQUIRE(alignment.sources.size() == 3);
  CHECK(alignment.sources[2].is_transposed);
  CHECK(alignment.sources_only_a.empty());
  CHECK(alignment.sources_only_b.empty());
}

TEST_CASE("Rows with the same numbers are the same sample, however batches are packed") {
  TwoRuns runs;
  Tensor<float> x({4, 6}), some({2, 6});
  for (std::size_t i = 0; i < x.size(); ++i) x.values[i] = static_cast<float>(i);
  std::copy_n(x.values.begin() + 18, 6, some.values.begin());     // row 3
  std::copy_n(x.values.begin() + 6, 6, some.values.begin() + 6);  // row 1
  runs.a.value("x", StoredTensor::from(x));
  runs.b.value("x", StoredTensor::from(some));
  add_linear(runs.a, true, 4);
  add_linear(runs.b, true, 2);
  const RunAlignment alignment = runs.align();
  REQUIRE(alignment.rows);
  CHECK(alignment.rows->of_b == std::vector<std::int64_t>{3, 1});
  REQUIRE(alignment.results.size() == 1);
  CHECK(alignment.results.front().operands == OperandsAre::same);
  CHECK(alignment.sources.front().is_identical);
  const std::optional<StoredTensor> y =
      as_in_b(filled({4, 3}, 2.0F), StoredTensor::from(Tensor<float>({2, 3}, {4, 5, 6, 5, 6, 7})), alignment.rows);
  REQUIRE(y);
  CHECK(y->to_double().values == std::vector<double>{4, 5, 6, 5, 6, 7});
}

TEST_CASE("Rows are found along whatever axis they lie, as blocks or apart") {
  const AlignedRows rows{4, 2, {3, 1}};
  Tensor<float> a({3, 4, 2}), b({3, 2, 2});  // tokens, rows, width
  for (std::size_t i = 0; i < a.size(); ++i) a.values[i] = static_cast<float>(i * i % 23);
  for (std::size_t t = 0; t < 3; ++t)
    for (std::size_t r = 0; r < 2; ++r)
      for (std::size_t j = 0; j < 2; ++j) b.values[(t * 2 + r) * 2 + j] = a.values[(t * 4 + (r == 0 ? 3 : 1)) * 2 + j];
  const auto is_aligned = [&](Tensor<float> of_a, Tensor<float> of_b) {
    const auto both = aligned_numbers(StoredTensor::from(of_a), StoredTensor::from(of_b), rows);
    return both && both->a.identical(both->b);
  };
  CHECK(is_aligned(a, b));
  a.shape = {12, 2};  // tokens and rows in one axis
  b.shape = {6, 2};
  CHECK(is_aligned(a, b));
  const Tensor<float> same({5}, {1, 2, 3, 4, 5});
  CHECK(is_aligned(same, same));
}

namespace {

/// What an axis of a value counts in the test of positions.
enum class Counts { rows, positions, positions_of_rows, others };

/// A value whose elements depend on their row, their positions and their place along other axes alone: run a or b.
/// `shift`: by row, of the positions.
Tensor<float> by_position(const std::vector<Counts>& axes, std::int64_t rows, std::int64_t positions,
                          const std::vector<std::int64_t>& row_names, const std::vector<std::int64_t>& shift) {
  Shape shape;
  for (const Counts axis : axes)
    shape.push_back(axis == Counts::rows                ? rows
                    : axis == Counts::positions         ? positions
                    : axis == Counts::positions_of_rows ? rows * positions
                                                        : 3);
  Tensor<float> value(shape);
  for (std::size_t i = 0; i < value.size(); ++i) {
    std::vector<std::int64_t> at(shape.size());
    std::int64_t rest = static_cast<std::int64_t>(i), row = 0;
    for (std::size_t axis = shape.size(); axis-- > 0; rest /= shape[axis]) at[axis] = rest % shape[axis];
    for (std::size_t axis = 0; axis < axes.size(); ++axis) {
      if (axes[axis] == Counts::rows) row = at[axis];
      if (axes[axis] == Counts::positions_of_rows) row = at[axis] / positions;
    }
    double sum = 1.0;
    for (std::size_t axis = 0; axis < axes.size(); ++axis) {
      std::int64_t name = at[axis];
      if (axes[axis] == Counts::rows) name = row_names[static_cast<std::size_t>(row)];
      if (axes[axis] == Counts::positions) name = at[axis] + shift[static_cast<std::size_t>(row)];
      if (axes[axis] == Counts::positions_of_rows)
        name =
            50 * row_names[static_cast<std::size_t>(row)] + at[axis] % positions + shift[static_cast<std::size_t>(row)];
      sum = std::sin(3.7 * sum + 1.3 * static_cast<double>(name));
    }
    value.values[i] = static_cast<float>(sum);
  }
  return value;
}

}  // namespace

TEST_CASE("Positions are found along whatever axes they lie, and rows have as many in common as they have") {
  // Rows 0 and 1 of b are rows 1 and 0 of a. Row 0 of b: its first 4 positions are those of a; row 1 of b: the whole of
  // a's row 0 (7 positions) stands at its end (9 positions), behind padding.
  const AlignedRows rows{2, 2, {1, 0}, AlignedPositions{7, 9, {{0, 0, 4}, {0, 2, 7}}, "", "", {}}};
  const std::vector<std::vector<Counts>> layouts = {{Counts::rows, Counts::positions, Counts::others},
                                                    {Counts::positions_of_rows, Counts::others},
                                                    {Counts::rows, Counts::others, Counts::positions, Counts::others},
                                                    {Counts::positions, Counts::rows, Counts::others},
                                                    {Counts::rows, Counts::others, Counts::positions}};
  for (const std::vector<Counts>& layout : layouts) {
    const Tensor<float> a = by_position(layout, 2, 7, {0, 1}, {0, 0}), b = by_position(layout, 2, 9, {1, 0}, {0, -2});
    const auto both = aligned_numbers(StoredTensor::from(a), StoredTensor::from(b), rows);
    REQUIRE(both);
    CHECK(both->a.identical(both->b));
    CHECK(both->a.size() == (4 + 7) * a.size() / (2 * 7));
    CHECK(!as_in_b(StoredTensor::from(a), StoredTensor::from(b), rows));  // b has other positions
  }
  // A value without positions is not compared, unless it is the same.
  const StoredTensor pooled = filled({2, 3}, 1.0F), other = filled({2, 3}, 2.0F);
  CHECK(!aligned_numbers(pooled, other, rows));
  CHECK(aligned_numbers(pooled, pooled, rows));
}

TEST_CASE("Scores of positions with positions are compared where both runs have both") {
  const AlignedRows rows{1, 1, {0}, AlignedPositions{6, 8, {{0, 0, 5}}, "", "", {}}};
  const Tensor<float> a =
      by_position({Counts::rows, Counts::others, Counts::positions, Counts::positions}, 1, 6, {0}, {0});
  const Tensor<float> b =
      by_position({Counts::rows, Counts::others, Counts::positions, Counts::positions}, 1, 8, {0}, {0});
  const auto both = aligned_numbers(StoredTensor::from(a), StoredTensor::from(b), rows);
  REQUIRE(both);
  CHECK(both->a.shape() == Shape{1, 3, 5, 5});
  CHECK(both->a.identical(both->b));
}

TEST_CASE("A run that has all positions of the other one is put in their place") {
  const AlignedRows rows{1, 1, {0}, AlignedPositions{8, 5, {{3, 0, 5}}, "", "", {}}};
  const Tensor<float> a = by_position({Counts::rows, Counts::positions, Counts::others}, 1, 8, {0}, {0});
  const Tensor<float> b = by_position({Counts::rows, Counts::positions, Counts::others}, 1, 5, {0}, {3});
  const std::optional<StoredTensor> in_b = as_in_b(StoredTensor::from(a), StoredTensor::from(b), rows);
  REQUIRE(in_b);
  CHECK(in_b->identical(StoredTensor::from(b)));
  const auto both = aligned_numbers(StoredTensor::from(a), StoredTensor::from(b), rows);
  REQUIRE(both);
  CHECK(both->rows_of_a == std::vector<std::int64_t>{3, 4, 5, 6, 7});
}

TEST_CASE("Tokens that are looked up in a table tell which positions two sequences have in common") {
  const auto tokens = [](std::vector<std::int64_t> values, Shape shape) {
    Tensor<std::int64_t> tensor(std::move(shape));
    tensor.values = std::move(values);
    return StoredTensor::from(tensor);
  };
  const auto with_tokens = [&](RecordingWriter& writer, const StoredTensor& ids) {
    Shape shape = ids.shape();
    shape.push_back(4);
    writer.value("ids", ids);
    writer.value("table", filled({9, 4}, 0.25F));
    writer.value("x", filled(shape, 1.0F));
    writer.record("aten::embedding", {"table", "ids"}, {"x"}, {}, "emb");
    writer.value("y", filled(shape, 1.0F));
    writer.record("aten::tanh", {"x"}, {"y"}, {}, "act");
  };
  TwoRuns runs;
  with_tokens(runs.a, tokens({1, 2, 3, 4, 5, 1, 2, 8, 7, 6}, {2, 5}));
  with_tokens(runs.b, tokens({1, 2, 3, 4, 6, 6, 1, 7, 8, 7, 6, 5}, {2, 6}));
  const RunAlignment alignment = runs.align();
  REQUIRE(alignment.rows);
  REQUIRE(alignment.rows->positions);
  CHECK(alignment.rows->of_b == std::vector<std::int64_t>{0, 1});
  const AlignedPositions& positions = *alignment.rows->positions;
  CHECK(positions.of_b == std::vector<AlignedStretch>{{0, 0, 4}, {0, 0, 1}});
  REQUIRE(positions.parting);
  CHECK(positions.parting->position == 4);
  CHECK(positions.parting->a == 5);
  CHECK(positions.parting->b == 6);
  CHECK(alignment.results.size() == 1);
}

namespace {

StoredTensor integers(std::vector<std::int64_t> values, Shape shape) {
  Tensor<std::int64_t> tensor(std::move(shape));
  tensor.values = std::move(values);
  return StoredTensor::from(tensor);
}

/// Looks integers up in a table, and computes the tanh of what it finds.
void add_texts(RecordingWriter& writer, const std::string& name, const StoredTensor& ids, float table) {
  Shape shape = ids.shape();
  shape.push_back(4);
  writer.value(name, ids);
  writer.value(name + "/table", filled({9, 4}, table));
  writer.value(name + "/x", filled(shape, table));
  writer.record("aten::embedding", {name + "/table", name}, {name + "/x"}, {}, name);
  writer.value(name + "/y", filled(shape, table));
  writer.record("aten::tanh", {name + "/x"}, {name + "/y"}, {}, name);
}

/// Weights of an attention of as many positions.
void add_attention(RecordingWriter& writer, const std::string& name, std::int64_t positions) {
  writer.value(name + "/s", filled({2, positions, positions}, 1.0F));
  writer.value(name + "/p", filled({2, positions, positions}, 0.5F));
  writer.record("aten::_softmax", {name + "/s"}, {name + "/p"}, {{"dim", -1}, {"half_to_float", false}}, name);
}

}  // namespace

TEST_CASE("A text is found within a row of several, and tokens in one axis stay in their texts") {
  TwoRuns runs;
  add_texts(runs.a, "ids", integers({7, 3, 2, 1, 7, 1, 3, 8, 2, 7, 5, 3}, {1, 12}), 0.25F);
  add_texts(runs.b, "ids", integers({7, 1, 3, 8, 2}, {1, 5}), 0.25F);
  const RunAlignment alignment = runs.align();
  REQUIRE(alignment.rows);
  REQUIRE(alignment.rows->positions);
  CHECK(alignment.rows->positions->of_b == std::vector<AlignedStretch>{{4, 0, 5}});
  TwoRuns in_one_axis;
  add_texts(in_one_axis.a, "ids", integers({7, 3, 2, 1, 7, 1, 3, 8, 2, 7, 5, 3}, {12}), 0.25F);
  add_texts(in_one_axis.b, "ids", integers({7, 1, 3, 8, 2, 7, 3, 2}, {8}), 0.25F);
  const RunAlignment other = in_one_axis.align();
  REQUIRE(other.rows);
  CHECK(other.rows->of_b == std::vector<std::int64_t>{4, 5, 6, 7, 8, 0, 1, 2});
}

TEST_CASE("One sequence of vectors has its first positions in common with another one") {
  TwoRuns runs;
  const auto add = [](RecordingWriter& writer, std::int64_t positions) {
    Tensor<float> x({1, positions, 4});
    for (std::size_t i = 0; i < x.size(); ++i) x.values[i] = std::sin(static_cast<float>(i));
    for (std::size_t i = 24; i < x.size(); ++i) x.values[i] += static_cast<float>(positions);
    writer.value("x", StoredTensor::from(x));
    writer.value("w", filled({1, 4, 3}, 0.5F));
    writer.value("y", filled({1, positions, 3}, 2.0F));
    writer.record("aten::bmm", {"x", "w"}, {"y"}, {}, "fc");
  };
  add(runs.a, 12);
  add(runs.b, 9);
  const RunAlignment alignment = runs.align();
  REQUIRE(alignment.rows);
  REQUIRE(alignment.rows->positions);
  CHECK(alignment.rows->positions->of_b == std::vector<AlignedStretch>{{0, 0, 6}});
}

TEST_CASE("Pairs that are left out are results of each run alone, and what read them reads what they were made of") {
  TwoRuns runs;
  for (RecordingWriter* writer : {&runs.a, &runs.b}) {
    writer->value("x", filled({4, 6}, 1.0F));
    add_linear(*writer, false);
    writer->value("z", filled({4, 3}, 3.0F));
    writer->record("aten::tanh", {"y"}, {"z"}, {}, "act");
  }
  const RunAlignment all = runs.align();
  REQUIRE(all.results.size() == 3);
  const RunAlignment some = without_pairs(all, {1});
  REQUIRE(some.results.size() == 2);
  CHECK(some.only_a == std::vector<RecordedResult>{all.results[1].a});
  CHECK(some.only_b == std::vector<RecordedResult>{all.results[1].b});
  CHECK(some.results[1].a == all.results[2].a);
  CHECK(some.results[1].reads == std::vector<std::size_t>{0});
  CHECK(some.results[1].reads_sources == all.results[1].reads_sources);  // the bias
  CHECK(some.results[1].operands == OperandsAre::open);
  CHECK(some.results[1].reads_left_out);
  CHECK_FALSE(some.results[0].reads_left_out);
}

TEST_CASE("Tokens of another integer type are the same tokens") {
  const StoredTensor tokens = integers({1, 2, 3, 4, 5, 1, 2, 8, 7, 6}, {2, 5});
  const auto narrow = [](const StoredTensor& of) { return converted(of, ElementType::i32, ""); };
  TwoRuns same;
  add_texts(same.a, "text", tokens, 0.25F);
  add_texts(same.b, "text", narrow(tokens), 0.25F);
  const RunAlignment alignment = same.align();
  CHECK_FALSE(alignment.rows);
  CHECK(std::all_of(alignment.sources.begin(), alignment.sources.end(),
                    [](const auto& one) { return one.is_identical; }));
  TwoRuns parting;
  add_texts(parting.a, "text", tokens, 0.25F);
  add_texts(parting.b, "text", narrow(integers({1, 2, 3, 4, 6, 6, 1, 2, 8, 7, 6, 5}, {2, 6})), 0.25F);
  const auto rows = parting.align().rows;
  REQUIRE((rows && rows->positions));
  CHECK(rows->positions->of_b == std::vector<AlignedStretch>{{0, 0, 4}, {0, 0, 5}});
}

TEST_CASE("Of two texts the one that differs parts, and what follows from the other one alone is compared as a whole") {
  const StoredTensor question = integers({1, 2, 3, 4, 5, 1, 2, 8, 7, 6, 3, 3}, {2, 6});
  TwoRuns runs;
  for (RecordingWriter* writer : {&runs.a, &runs.b}) {
    add_texts(*writer, "question", question, 0.25F);
    const bool is_a = writer == &runs.a;
    // Row 1 of b is more like row 0 of a; its question says that it is row 1.
    add_texts(*writer, "answer",
              is_a ? integers({5, 6, 7, 1, 5, 1, 2, 3}, {2, 4}) : integers({5, 6, 4, 4, 5, 6, 7, 3}, {2, 4}), 0.5F);
    writer->value("z", filled({2, 4, 4}, 1.0F));
    writer->record("aten::mul", {"answer/y", "answer/y"}, {"z"});
  }
  const RunAlignment alignment = runs.align();
  REQUIRE((alignment.rows && alignment.rows->positions));
  CHECK(alignment.rows->positions->tokens_in_a == "answer");
  CHECK(alignment.rows->of_b == std::vector<std::int64_t>{0, 1});
  CHECK(alignment.rows->positions->of_b == std::vector<AlignedStretch>{{0, 0, 2}, {0, 0, 1}});
  std::vector<bool> have_same_inputs;
  for (const AlignedResult& one : alignment.results) have_same_inputs.push_back(one.has_same_inputs);
  CHECK(have_same_inputs == std::vector<bool>{true, false, false});
}

TEST_CASE("Types of segments part where the tokens are the same, and position ids do not") {
  const auto rows_of = [](const StoredTensor& in_b) {
    TwoRuns runs;
    for (RecordingWriter* writer : {&runs.a, &runs.b}) {
      const bool is_a = writer == &runs.a;
      add_texts(*writer, "text", integers({4, 2, 7, 3, 5, 1}, {1, 6}), 0.25F);
      const bool are_types = in_b.to_int64().values.back() < 2;
      const StoredTensor in_a = are_types ? integers({0, 0, 0, 1, 1, 1}, {1, 6}) : integers({0, 0, 0, 1, 2, 3}, {1, 6});
      add_texts(*writer, "other", is_a ? in_a : in_b, 0.5F);
    }
    return runs.align().rows;
  };
  const auto rows = rows_of(integers({0, 0, 1, 1, 1, 1}, {1, 6}));
  REQUIRE((rows && rows->positions));
  CHECK(rows->positions->of_b == std::vector<AlignedStretch>{{0, 0, 2}});
  CHECK_FALSE(rows_of(integers({0, 0, 0, 0, 1, 2}, {1, 6})));
}

TEST_CASE("Positions along the first axis of tokens are found where the run shows that they lie there") {
  const std::vector<std::vector<std::int64_t>> texts = {{1, 2, 3, 4, 5, 6}, {7, 8, 7, 5, 3, 3}};
  const auto turned = [](const std::vector<std::vector<std::int64_t>>& of) {
    std::vector<std::int64_t> values;
    for (std::size_t t = 0; t < of[0].size(); ++t)
      for (const std::vector<std::int64_t>& text : of) values.push_back(text[t]);
    return integers(values, {static_cast<std::int64_t>(of[0].size()), static_cast<std::int64_t>(of.size())});
  };
  const auto rows_of = [&](const std::vector<std::vector<std::int64_t>>& in_b) {
    TwoRuns runs;
    for (RecordingWriter* writer : {&runs.a, &runs.b}) {
      const auto& of = writer == &runs.a ? texts : in_b;
      add_texts(*writer, "text", turned(of), 0.25F);
      add_attention(*writer, "attention", static_cast<std::int64_t>(of[0].size()));
    }
    return runs.align().rows;
  };
  using Stretches = std::vector<AlignedStretch>;
  const auto parting = rows_of({{1, 2, 3, 4, 5, 6}, {7, 8, 7, 4, 3, 3}});
  REQUIRE((parting && parting->positions));
  CHECK(parting->positions->lie_first);
  CHECK(parting->positions->of_b == Stretches{{0, 0, 6}, {0, 0, 3}});
  CHECK(parting->positions->parting->row == 1);
  CHECK(parting->positions->parting->position == 3);
  CHECK(parting->positions->parting->b == 4);
  const auto longer = rows_of({{1, 2, 3, 4, 5, 6, 1}, {7, 8, 7, 5, 3, 3, 1}});
  REQUIRE((longer && longer->positions));
  CHECK(longer->positions->of_b == Stretches{{0, 0, 6}, {0, 0, 6}});
  const auto padded = rows_of({{0, 0, 1, 2, 3, 4, 5, 6}, {0, 0, 7, 8, 7, 5, 3, 3}});
  REQUIRE((padded && padded->positions));
  CHECK(padded->positions->of_b == Stretches{{0, 2, 6}, {0, 2, 6}});
  const auto exchanged = rows_of({texts[1], texts[0]});
  REQUIRE(exchanged);
  CHECK(exchanged->of_b == std::vector<std::int64_t>{1, 0});
  CHECK_FALSE(exchanged->positions);
}

TEST_CASE("Values without positions are compared in the rows whose sequences are the same as a whole") {
  const AlignedRows rows{2, 2, {0, 1}, AlignedPositions{7, 7, {{0, 0, 7}, {0, 0, 4}}, "", "", {}}};
  const StoredTensor a = StoredTensor::from(Tensor<float>({2, 3}, {1, 2, 3, 4, 5, 6}));
  const StoredTensor b = StoredTensor::from(Tensor<float>({2, 3}, {1, 2, 3, 4, 5, 6.0001F}));
  const auto both = aligned_numbers(a, b, rows);
  REQUIRE(both);
  CHECK(both->b.to_double().values == std::vector<double>{1, 2, 3});
}

TEST_CASE("Rows of a batch that is cut or put in another order before the first op are found") {
  TwoRuns runs;
  Tensor<float> x({4, 6});
  for (std::size_t i = 0; i < x.size(); ++i) x.values[i] = static_cast<float>(i);
  Tensor<float> turned = x;
  std::rotate(turned.values.begin(), turned.values.begin() + 6, turned.values.end());
  runs.a.value("x", StoredTensor::from(x));
  runs.b.value("x", StoredTensor::from(turned));
  add_linear(runs.a, true);
  add_linear(runs.b, true);
  CHECK(runs.align().rows->of_b == std::vector<std::int64_t>{1, 2, 3, 0});
}

TEST_CASE("A weight that differs is the same value with other numbers, and another operand is told") {
  TwoRuns runs;
  for (RecordingWriter* writer : {&runs.a, &runs.b}) {
    const bool is_b = writer == &runs.b;
    writer->value("x", filled({4, 6}, 1.0F));
    writer->value("s", filled({4, 6}, is_b ? 2.5F : 2.0F));
    writer->value("u", filled({4, 6}, 3.0F));
    writer->value("v", filled({4, 6}, 4.0F));
    writer->value("t", filled({4, 6}, 5.0F));
    writer->record("aten::mul", {"x", "s"}, {"u"}, {}, "m");
    writer->record("aten::exp", {"u"}, {"v"}, {}, "e");
    writer->record("aten::sub", {is_b ? "x" : "v", "u"}, {"t"}, {}, "d");
  }
  const RunAlignment alignment = runs.align();
  REQUIRE(alignment.results.size() == 3);
  REQUIRE(alignment.sources.size() == 2);
  CHECK(alignment.sources[0].is_identical);
  CHECK_FALSE(alignment.sources[1].is_identical);
  CHECK(alignment.sources[1].a == "s");
  CHECK(alignment.results[1].operands == OperandsAre::same);
  CHECK(alignment.results[2].operands == OperandsAre::other);
  CHECK(alignment.results[2].other_slot == 0);
}

TEST_CASE("A norm that one run folds into a convolution is the convolution's counterpart, by its numbers") {
  TwoRuns runs;
  const Shape image = {2, 3, 4, 4};
  const auto numbers = [&](float factor, float shift) {
    Tensor<float> tensor(image);
    for (std::size_t i = 0; i < tensor.size(); ++i)
      tensor.values[i] = factor * static_cast<float>(i % 11) - 4.0F + shift * static_cast<float>(i % 3);
    return StoredTensor::from(tensor);
  };
  for (RecordingWriter* writer : {&runs.a, &runs.b}) writer->value("x", filled({2, 3, 4, 4}, 1.0F));
  runs.a.value("w", filled({3, 3, 1, 1}, 0.5F));
  runs.a.value("scale", filled({3}, 2.0F));
  runs.a.value("c", numbers(3.0F, 0.5F));
  runs.a.value("n", numbers(1.0F, 1.0F));
  runs.a.record("aten::convolution", {"x", "w", std::nullopt}, {"c"}, {{"stride", {1, 1}}}, "conv");
  runs.a.record("aten::batch_norm", {"c", "scale", "scale", "scale", "scale"}, {"n"}, {{"training", false}}, "bn");
  runs.b.value("v", filled({3, 3, 1, 1}, 9.0F));
  runs.b.value("m", numbers(1.0F, 1.0000001F));
  runs.b.record("Conv", {"x", "v"}, {"m"}, {}, "conv");
  const RunAlignment alignment = runs.align();
  REQUIRE(alignment.results.size() == 1);
  CHECK(alignment.results.front().by == AlignedBy::numbers);
  CHECK(alignment.results.front().a == RecordedResult{1, 0});
  CHECK(alignment.only_a == std::vector<RecordedResult>{{0, 0}});
  CHECK(alignment.sources.size() == 1);  // x: the weights are other ones
  CHECK(alignment.sources_only_b == std::vector<std::string>{"v"});
}

TEST_CASE("Masks tell how rows lie, and a matrix whose axes one run exchanges is transposed") {
  // Rows 0 and 1 are exchanged. Along axis 1, where no pair is finite, nothing is the same.
  const float out = -std::numeric_limits<float>::infinity();
  const AlignedRows rows{2, 2, {1, 0}};
  const StoredTensor a = StoredTensor::from(Tensor<float>({2, 2}, {1, out, 2, out}));
  const StoredTensor b = StoredTensor::from(Tensor<float>({2, 2}, {2, out, 1, out}));
  const auto both = aligned_numbers(a, b, rows);
  REQUIRE(both);
  CHECK(both->a.identical(both->b));
  const auto matrix = aligned_numbers(StoredTensor::from(Tensor<float>({2, 3}, {1, 2, 3, 4, 5, 6})),
                                      StoredTensor::from(Tensor<float>({3, 2}, {1, 4, 2, 5, 3, 6})), std::nullopt);
  REQUIRE(matrix);
  CHECK(matrix->a.identical(matrix->b));
}

TEST_CASE("Positions that count up and types of segments are no tokens, and tokens that are the same do not part") {
  const auto ids = [](std::vector<std::int64_t> values, Shape shape) {
    Tensor<std::int64_t> tensor(std::move(shape));
    tensor.values = std::move(values);
    return StoredTensor::from(tensor);
  };
  const auto aligned = [&](const StoredTensor& tokens_b, const StoredTensor& positions_b) {
    TwoRuns runs;
    for (RecordingWriter* writer : {&runs.a, &runs.b}) {
      const bool is_a = writer == &runs.a;
      writer->value("ids", is_a ? ids({4, 2, 7, 3}, {1, 4}) : tokens_b);
      writer->value("at", is_a ? ids({0, 1, 2, 3}, {1, 4}) : positions_b);
      const std::int64_t count = (is_a ? 4 : tokens_b.shape()[1]);
      for (const auto& [table, operand, result] :
           {std::array<const char*, 3>{"table", "ids", "x"}, {"places", "at", "p"}}) {
        writer->value(table, filled({9, 4}, *table == 't' ? 0.25F : 0.5F));
        writer->value(result, filled({1, count, 4}, 1.0F));
        writer->record("aten::embedding", {table, operand}, {result});
      }
      writer->value("y", filled({1, count, 4}, 2.0F));
      writer->record("aten::add", {"x", "p"}, {"y"});
    }
    return runs.align();
  };
  const RunAlignment longer = aligned(ids({4, 2, 7, 3, 5, 5}, {1, 6}), ids({0, 1, 2, 3, 4, 5}, {1, 6}));
  REQUIRE(longer.rows);
  REQUIRE(longer.rows->positions);
  CHECK(longer.rows->positions->tokens_in_a == "ids");
  CHECK_FALSE(aligned(ids({4, 2, 7, 3}, {1, 4}), ids({1, 2, 3, 4}, {1, 4})).rows);
}

TEST_CASE("Exporters repeat the name of a list of modules in front of its members") {
  TwoRuns runs;
  for (RecordingWriter* writer : {&runs.a, &runs.b}) {
    writer->value("x", filled({4, 6}, 1.0F));
    writer->value("y", filled({4, 6}, 2.0F));
  }
  runs.a.record("aten::tanh", {"x"}, {"y"}, {}, "blocks.0.attn.act");
  runs.b.record("Tanh", {"x"}, {"y"}, {}, "", "/blocks/blocks.0/attn/act/Tanh");
  const RunAlignment alignment = runs.align();
  REQUIRE(alignment.results.size() == 1);
  CHECK(alignment.results.front().by == AlignedBy::op);
}

TEST_CASE("Without modules results are aligned by what they compute, and numbers tell which of several one is") {
  TwoRuns runs;
  runs.a.value("x", filled({4, 7}, 1.0F));
  runs.b.value("x", filled({4, 7}, 1.0F));
  runs.a.value("y", filled({4, 7}, 8.0F));
  runs.a.record("aten::gelu", {"x"}, {"y"}, {}, "act");
  runs.a.value("z", filled({4, 7}, 30.0F));
  runs.a.record("aten::exp", {"y"}, {"z"}, {}, "e");
  for (const auto& [id, first] : {std::pair{"e", 50.0F}, {"f", -60.0F}, {"g", 8.0F}})
    runs.b.value(id, filled({4, 7}, first));
  runs.b.record("Erf", {"x"}, {"e"});
  runs.b.record("Mul", {"x", "e"}, {"g"});
  runs.b.record("Sqrt", {"g"}, {"f"});
  runs.b.value("z", filled({4, 7}, 30.0F));
  runs.b.record("Exp", {"g"}, {"z"});
  const RunAlignment alignment = runs.align();
  CHECK(runs.ids_of_b(alignment) == Ids{"g", "z"});
  CHECK(alignment.results[0].by == AlignedBy::numbers);
  CHECK(alignment.results[1].by == AlignedBy::order);
  CHECK(alignment.only_b.size() == 2);
}

TEST_CASE(
    "Values from outside with the same bits are the same operand, and keep their places where one of them differs") {
  for (const bool is_other : {false, true}) {
    TwoRuns runs;
    for (RecordingWriter* writer : {&runs.a, &runs.b}) {
      const bool is_b = writer == &runs.b;
      writer->value("x", filled({4, 6}, 1.0F));
      writer->value("s", filled({6}, is_b && is_other ? 2.5F : 2.0F));
      writer->value("t", filled({6}, 2.0F));
      writer->value("u", filled({4, 6}, 3.0F));
      writer->value("v", filled({4, 6}, 4.0F));
      // Run b reads the equal values the other way round.
      writer->record("aten::sub", {"x", is_b && !is_other ? "t" : "s"}, {"u"}, {}, "m");
      writer->record("aten::div", {"u", is_b && !is_other ? "s" : "t"}, {"v"}, {}, "n");
    }
    const RunAlignment alignment = runs.align();
    REQUIRE(alignment.results.size() == 2);
    for (const AlignedResult& one : alignment.results) CHECK(one.operands == OperandsAre::same);
    REQUIRE(alignment.sources.size() == 3);
    CHECK(alignment.sources[1].is_identical == !is_other);
    CHECK(alignment.sources[2].is_identical);
    if (is_other) CHECK(alignment.sources[1].b == "s");
  }
}

TEST_CASE("A value that one run reads twice is the same operand as two equal ones of the other run") {
  TwoRuns runs;
  for (RecordingWriter* writer : {&runs.a, &runs.b}) {
    writer->value("x", filled({4, 6}, 1.0F));
    for (const char* id : {"s", "t"}) writer->value(id, filled({6}, 2.0F));
    writer->value("u", filled({4, 6}, 3.0F));
    writer->value("v", filled({4, 6}, 4.0F));
    writer->record("aten::sub", {"x", "s"}, {"u"}, {}, "m");
    writer->record("aten::div", {"u", writer == &runs.b ? "t" : "s"}, {"v"}, {}, "n");
  }
  const RunAlignment alignment = runs.align();
  REQUIRE(alignment.results.size() == 2);
  CHECK(alignment.results[1].operands == OperandsAre::same);
}

TEST_CASE("Values without elements have no rows to align") {
  const AlignedRows rows{4, 4, {3, 2, 1, 0}};
  for (const Shape& shape : {Shape{0, 4}, Shape{4, 0}}) {
    const StoredTensor empty = StoredTensor::from(Tensor<float>(shape));
    const std::optional<AlignedNumbers> both = aligned_numbers(empty, empty, rows);
    REQUIRE(both);
    CHECK(both->a.size() == 0);
  }
}
