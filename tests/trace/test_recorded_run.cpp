#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "driftbound/num/errors.hpp"
#include "driftbound/trace/recorded_run.hpp"
#include "support/recording.hpp"
#include "support/temporary_folder.hpp"
#include "support/text.hpp"

using namespace driftbound;
using namespace driftbound::test;

namespace {

StoredTensor counted(Shape shape, float first = 0.0f) {
  Tensor<float> tensor(std::move(shape));
  for (std::size_t i = 0; i < tensor.size(); ++i) tensor.values[i] = first + static_cast<float>(i);
  return StoredTensor::from(tensor);
}

RecordingWriter sum_of_two() {
  RecordingWriter writer;
  writer.value("a", counted({2, 3}));
  writer.value("b", counted({2, 3}, 10));
  writer.value("c", counted({2, 3}, 20));
  writer.record("aten::add", {"a", "b"}, {"c"}, {{"alpha", 1}, {"other", nullptr}}, "net.block");
  return writer;
}

}  // namespace

TEST_CASE("Numbers whose pages were given back are read again") {
  const TemporaryFolder folder;
  RecordingWriter writer = sum_of_two();
  writer.write(folder / "run.safetensors");
  const RecordedRun run(folder / "run.safetensors");
  const StoredTensor before = run.stored("b");
  run.release_pages();
  CHECK(before.to_double().values[5] == 15.0);
  CHECK(run.stored("c").to_double().values[5] == 25.0);
}

TEST_CASE("A recorded run has its records and values") {
  const TemporaryFolder folder;
  RecordingWriter writer = sum_of_two();
  writer.metadata()["provenance"] = R"({"program": "torch 2.4", "device": "cpu", "backend": "cpu"})";
  writer.write(folder.path() / "run.safetensors");
  CHECK(is_recorded_run(folder.path() / "run.safetensors"));
  const RecordedRun run(folder.path() / "run.safetensors");
  CHECK(run.problems().empty());
  CHECK(run.provenance().program == "torch 2.4");
  REQUIRE(run.records().size() == 1);
  const Record& record = run.records().front();
  CHECK(record.op == "aten::add");
  CHECK(record.name == "net.block/aten::add");
  CHECK(record.attributes.at("other").is_none());
  CHECK(std::get<std::int64_t>(record.attributes.at("alpha").value) == 1);
  CHECK(record.operands == std::vector<std::optional<std::string>>{"a", "b"});
  CHECK(run.shape_of("c") == Shape{2, 3});
  CHECK(run.stored("b").to_double().values == std::vector<double>{10, 11, 12, 13, 14, 15});
  CHECK(run.producer_of("c") == std::optional<std::size_t>(0));
  CHECK_FALSE(run.producer_of("a"));
  CHECK(run.arithmetic_of(record, false).evidence == Evidence::assumed);
  CHECK(run.arithmetic_of(record, true).accumulator == FormatId::fp64);
  CHECK_THROWS_AS(run.stored("d"), InvalidArgument);
}

TEST_CASE("Messages call a value by its name in the program, also where its elements are moved") {
  const TemporaryFolder folder;
  RecordingWriter writer;
  const Tensor<float> w({2, 3}, {1.0F, 2.0F, 3.0F, 4.0F, 5.0F, 6.0F});
  writer.value("w", StoredTensor::from(w));
  writer.description("w")["name"] = "net.fc.weight";
  writer.derived("t", ElementType::f32, {3, 2});
  writer.value("y", StoredTensor::from(w));
  writer.record("aten::t", {"w"}, {"t"});
  writer.record("aten::neg", {"w"}, {"y"});
  writer.write(folder.path() / "run.safetensors");
  const RecordedRun run(folder.path() / "run.safetensors");
  CHECK(run.called("w") == "net.fc.weight");
  CHECK(run.called("t") == "net.fc.weight");
  CHECK(run.called("y") == "y");
  CHECK_THROWS_AS(run.called("d"), InvalidArgument);
}

TEST_CASE("Records with one name are told apart") {
  const TemporaryFolder folder;
  RecordingWriter writer = sum_of_two();
  writer.record("aten::add", {"a", "c"}, {std::nullopt}, {}, "net.block");
  writer.write(folder.path() / "run.safetensors");
  const RecordedRun run(folder.path() / "run.safetensors");
  CHECK(run.records()[1].name == "net.block/aten::add#2");
  CHECK_FALSE(run.records()[1].results[0]);
}

TEST_CASE("Shards are read in turn; missing and foreign ones are named, and the others are kept") {
  const TemporaryFolder folder;
  sum_of_two().write(folder.path() / "run.safetensors", 0, false);
  RecordingWriter second;
  second.value("d", counted({2, 3}));
  second.record("aten::mul", {"a", "b"}, {"d"});
  SUBCASE("all are there") {
    second.write(folder.path() / "run-00001.safetensors", 1, true);
    const RecordedRun run(folder.path() / "run.safetensors");
    CHECK(run.records().size() == 2);
    CHECK(run.problems().empty());
  }
  SUBCASE("one is missing") {
    second.write(folder.path() / "run-00002.safetensors", 2, true);
    const RecordedRun run(folder.path() / "run.safetensors");
    CHECK(run.records().size() == 2);
    REQUIRE(run.problems().size() == 1);
    CHECK(contains(run.problems()[0], "'run-00001.safetensors' is missing"));
  }
  SUBCASE("the recording was cut off") {
    second.write(folder.path() / "run-00001.safetensors", 1, false);
    const RecordedRun run(folder.path() / "run.safetensors");
    CHECK(run.records().size() == 2);
    REQUIRE(run.problems().size() == 1);
    CHECK(contains(run.problems()[0], "did not end in an orderly way: it has 2 records"));
  }
  SUBCASE("one is of another run") {
    second.metadata()["run"] = "another";
    second.write(folder.path() / "run-00001.safetensors", 1, true);
    const RecordedRun run(folder.path() / "run.safetensors");
    CHECK(run.records().size() == 1);
    CHECK(contains(run.problems()[0], "'run-00001.safetensors' is of another run"));
  }
  SUBCASE("a further shard is no recording by itself") {
    second.write(folder.path() / "run-00001.safetensors", 1, true);
    CHECK_THROWS_WITH_AS(RecordedRun(folder.path() / "run-00001.safetensors"), doctest::Contains("name the first one"),
                         InvalidArgument);
  }
}

TEST_CASE("What the recorder says of the recording is among its problems") {
  const TemporaryFolder folder;
  RecordingWriter first, last;
  first.record("aten::exp", {"x"}, {"y"});
  first.write(folder.path() / "run.safetensors", 0, false);
  last.metadata()["provenance"] =
      R"({"program": "p", "details": {"ended_by": "ValueError: no", "not_seen": "a compiled module"}})";
  last.write(folder.path() / "run-00001.safetensors", 1);
  const RecordedRun run(folder.path() / "run.safetensors");
  CHECK(run.problems() == std::vector<std::string>{"An exception ended the recording: ValueError: no.",
                                                   "The recording lacks what could not be seen: a compiled module."});
  CHECK(run.provenance().program == "p");
}

TEST_CASE("A damaged record or value is named, and the others are kept") {
  const TemporaryFolder folder;
  RecordingWriter writer = sum_of_two();
  writer.record("", {"a"}, {"c"});
  writer.record("aten::relu", {"a"}, {"e"});
  writer.last_record()["operands"] = "a";
  writer.describe("e", ElementType::f32, {2});
  writer.description("e")["type"] = "F8";
  writer.write(folder.path() / "run.safetensors");
  const RecordedRun run(folder.path() / "run.safetensors");
  CHECK(run.records().size() == 1);
  REQUIRE(run.problems().size() == 3);
  CHECK(contains(run.problems()[0], "value 'e' has the element type 'F8'"));
  CHECK(contains(run.problems()[1], "record 1 has no \"op\""));
  CHECK(contains(run.problems()[2], "\"operands\" is no list"));
}

TEST_CASE("Weights lie in other files, whose hashes are checked") {
  const TemporaryFolder folder;
  const StoredTensor weights = counted({3, 2});
  write_safetensors(folder.path() / "model.safetensors", {{"fc.weight", &weights}}, {});
  RecordingWriter writer = sum_of_two();
  writer.derived("w", ElementType::f32, {3, 2});
  writer.description("w")["file"] = "model";
  writer.description("w")["name"] = "fc.weight";
  std::string hash = sha256_of_file(folder.path() / "model.safetensors");
  SUBCASE("the same") {
    writer.metadata()["files"] = R"({"model": {"path": "model.safetensors", "sha256": ")" + hash + "\"}}";
    writer.write(folder.path() / "run.safetensors");
    const RecordedRun run(folder.path() / "run.safetensors");
    CHECK(run.is_stored("w"));
    CHECK(run.stored("w").identical(weights));
  }
  SUBCASE("another") {
    hash[0] = hash[0] == '0' ? '1' : '0';
    writer.metadata()["files"] = R"({"model": {"path": "model.safetensors", "sha256": ")" + hash + "\"}}";
    writer.write(folder.path() / "run.safetensors");
    const RecordedRun run(folder.path() / "run.safetensors");
    CHECK_THROWS_WITH_AS(run.stored("w"), doctest::Contains("is another one than the run used"), InvalidArgument);
  }
  SUBCASE("a tensor that is not there") {
    writer.description("w")["name"] = "fc.bias";
    writer.metadata()["files"] = R"({"model": {"path": "model.safetensors"}})";
    writer.write(folder.path() / "run.safetensors");
    const RecordedRun run(folder.path() / "run.safetensors");
    CHECK_THROWS_WITH_AS(run.stored("w"), doctest::Contains("has no tensor 'fc.bias'"), ParseError);
  }
  SUBCASE("a file that is not there") {
    writer.metadata()["files"] = R"({"model": {"path": "none.safetensors"}})";
    writer.write(folder.path() / "run.safetensors");
    const RecordedRun run(folder.path() / "run.safetensors");
    CHECK_THROWS_AS(run.stored("w"), FileError);
  }
}

TEST_CASE("Parts of values") {
  const TemporaryFolder folder;
  const StoredTensor whole = counted({4, 3});
  RecordingWriter writer;
  writer.rows("r", whole, {1, 3});
  writer.elements("e", whole, {0, 5, 11});
  writer.description("e")["part"]["draws"] = 2;
  writer.write(folder.path() / "run.safetensors");
  const RecordedRun run(folder.path() / "run.safetensors");
  CHECK(run.part_of("r")->axes.at(0) == std::vector<std::int64_t>{1, 3});
  CHECK(run.stored("r").to_double().values == std::vector<double>{3, 4, 5, 9, 10, 11});
  CHECK(*run.part_of("e")->elements == std::vector<std::int64_t>{0, 5, 11});
  CHECK(run.part_of("e")->draws == 2);
}

TEST_CASE("Indices of parts that do not ascend within the value are refused") {
  const TemporaryFolder folder;
  for (const std::vector<std::int64_t>& numbers : {std::vector<std::int64_t>{1, 0}, std::vector<std::int64_t>{2, 2}}) {
    RecordingWriter writer;
    writer.elements("e", counted({4, 3}), numbers);
    writer.write(folder.path() / "run.safetensors");
    const RecordedRun run(folder.path() / "run.safetensors");
    CHECK_THROWS_WITH_AS(run.part_of("e"), doctest::Contains("do not ascend"), ParseError);
  }
  RecordingWriter writer;
  writer.elements("e", counted({4, 3}), {3});
  writer.description("e")["shape"] = Shape{3};
  writer.write(folder.path() / "run.safetensors");
  const RecordedRun run(folder.path() / "run.safetensors");
  CHECK_THROWS_AS(run.part_of("e"), ParseError);
}
