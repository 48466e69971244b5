#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "driftbound/trace/run_alignment.hpp"
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
