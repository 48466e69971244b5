#include <doctest/doctest.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "driftbound/num/errors.hpp"
#include "support/load_errors.hpp"

using namespace driftbound;
using namespace driftbound::test;

namespace {

using Where = std::vector<std::pair<std::string, std::string>>;

/// y = x + c with c [2] stored elsewhere.
OnnxModel model_with(const Where& where, const std::vector<std::int64_t>& shape = {2}) {
  OnnxModel model;
  model.input("x", {2}).initializer(onnx_external_tensor("c", onnx_float, shape, where));
  model.node("Add", {"x", "c"}, "y").output("y");
  return model;
}

std::string bytes_of(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

struct Model {
  TemporaryFolder folder;
  std::filesystem::path file(const Where& where, const std::vector<std::int64_t>& shape = {2}) const {
    std::filesystem::create_directories(folder / "inner");
    return model_with(where, shape).save(folder / "inner/m.onnx");
  }
};

}  // namespace

TEST_CASE("weights outside the file are those of the data file, whole or in part") {
  const Model model;
  const auto file = model.file({{"location", "w.bin"}, {"offset", "4"}, {"length", "8"}});
  model.folder.write("inner/w.bin", bytes_of({1, 2, 3, 4}));
  const ModelDescription description = describe_model(file);
  const Graph& graph = description.graph;
  CHECK(graph.value(graph.nodes.at(0).inputs[1]).constant.to_double().values == std::vector<double>{2, 3});
  REQUIRE(description.data_files.size() == 1);
  CHECK(description.data_files[0].location == "w.bin");
  CHECK(description.data_files[0].bytes == 16);

  for (const Where& where : {Where{{"location", "w.bin"}}, Where{{"location", "./w.bin"}, {"offset", "0"}},
                             Where{{"location", "w.bin"}, {"length", "8"}, {"checksum", "ignored"}}}) {
    const Graph start = load_model(model.file(where));
    CHECK(start.value(start.nodes.at(0).inputs[1]).constant.to_double().values == std::vector<double>{1, 2});
  }
}

TEST_CASE("tensors share a data file, which is mapped once, and outlive the loader") {
  const TemporaryFolder folder;
  folder.write("w.bin", bytes_of({1, 2, 3, 4}));
  OnnxModel model;
  model.input("x", {2})
      .initializer(onnx_external_tensor("a", onnx_float, {2}, {{"location", "w.bin"}}))
      .initializer(onnx_external_tensor("b", onnx_float, {2}, {{"location", "w.bin"}, {"offset", "8"}}))
      .node("Add", {"x", "a"}, "s")
      .node("Mul", {"s", "b"}, "y")
      .output("y");
  const Graph graph = load_model(model.save(folder / "m.onnx"));
  const StoredTensor& a = graph.value(graph.nodes.at(0).inputs[1]).constant;
  const StoredTensor& b = graph.value(graph.nodes.at(1).inputs[1]).constant;
  CHECK(b.bytes().data() == a.bytes().data() + 8);
  CHECK(b.to_double().values == std::vector<double>{3, 4});
}

TEST_CASE("the value of a Constant may lie outside the file") {
  const TemporaryFolder folder;
  folder.write("w.bin", bytes_of({1, 2}));
  const Message value = onnx_external_tensor("", onnx_float, {2}, {{"location", "w.bin"}});
  OnnxModel model;
  model.input("x", {2})
      .node("Constant", {}, "c", {OnnxAttribute::of_tensor("value", value)})
      .node("Add", {"x", "c"}, "y")
      .output("y");
  const Graph graph = load_model(model.save(folder / "m.onnx"));
  CHECK(graph.value(graph.nodes.at(0).inputs[1]).constant.to_double().values == std::vector<double>{1, 2});
}

TEST_CASE("paths that leave the model's folder are refused, whatever lies there") {
  const Model model;
  model.folder.write("w.bin", bytes_of({1, 2}));
  const auto refused = [&](const std::string& location, const std::string& why) {
    CAPTURE(location);
    const std::string message = load_error<ParseError>(model.file({{"location", location}}));
    CHECK(contains(message, "initialiser 'c'"));
    CHECK(contains(message, why));
  };
  refused((model.folder / "w.bin").string(), "absolute");
  refused("/dev/zero", "absolute");
  refused("../w.bin", "'..'");
  refused("deeper/../../w.bin", "'..'");
  refused("..", "'..'");
  refused("", "names no file");
  refused(std::string("w.bin\0/../..", 12), "zero byte");

  std::filesystem::create_directories(model.folder / "inner");
  std::filesystem::create_symlink("../w.bin", model.folder / "inner/link.bin");
  std::filesystem::create_directory_symlink("..", model.folder / "inner/up");
  std::filesystem::create_symlink("/dev/zero", model.folder / "inner/zero");
  refused("link.bin", "symbolic link");
  refused("up/w.bin", "symbolic link");
  refused("zero", "symbolic link");

  // a folder whose name merely begins like the model's is another folder
  std::filesystem::create_directories(model.folder / "inner2");
  model.folder.write("inner2/w.bin", bytes_of({1, 2}));
  std::filesystem::create_symlink("../inner2/w.bin", model.folder / "inner/beside.bin");
  refused("beside.bin", "symbolic link");
}

TEST_CASE("links within the model's folder are followed, and the folder may be reached by one") {
  const Model model;
  const auto file = model.file({{"location", "link.bin"}});
  model.folder.write("inner/w.bin", bytes_of({1, 2}));
  std::filesystem::create_symlink("w.bin", model.folder / "inner/link.bin");
  CHECK(load_model(file).nodes.size() == 1);
  std::filesystem::create_directory_symlink("inner", model.folder / "alias");
  CHECK(load_model(model.folder / "alias/m.onnx").nodes.size() == 1);
}

TEST_CASE("data files that are none are FileErrors that name tensor and location") {
  const Model model;
  const auto refused = [&](const std::string& location) {
    const std::string message = load_error<FileError>(model.file({{"location", location}}));
    CAPTURE(location);
    CHECK(contains(message, "m.onnx"));
    CHECK(contains(message, "initialiser 'c'"));
    CHECK(contains(message, "'" + location + "'"));
  };
  refused("missing.bin");
  std::filesystem::create_directories(model.folder / "inner/sub");
  refused("sub");
  refused(".");
  REQUIRE(::mkfifo((model.folder / "inner/pipe").c_str(), 0600) == 0);
  refused("pipe");
  std::filesystem::create_symlink("loop", model.folder / "inner/loop");
  refused("loop");
}

TEST_CASE("ranges that the data file or the tensor does not have are refused") {
  const Model model;
  const auto message = [&](const std::string& offset, const std::string& length,
                           const std::vector<std::int64_t>& shape = {2}) {
    const auto file = model.file({{"location", "w.bin"}, {"offset", offset}, {"length", length}}, shape);
    model.folder.write("inner/w.bin", bytes_of({1, 2}));
    return load_error<Error>(file);
  };
  CHECK(message("0", "8").empty());
  CHECK(contains(message("1", "8"), "beyond the end"));
  CHECK(contains(message("9", "0"), "beyond the end"));
  CHECK(contains(message("18446744073709551615", "8"), "beyond the end"));
  CHECK(contains(message("8", "18446744073709551608"), "beyond the end"));
  CHECK(contains(message("18446744073709551616", "8"), "offset"));
  CHECK(contains(message("-1", "8"), "offset"));
  CHECK(contains(message("0x0", "8"), "offset"));
  CHECK(contains(message("", "8"), "offset"));
  CHECK(contains(message("0", " 8"), "length"));
  CHECK(contains(message("0", "4"), "shape and type"));
  CHECK(contains(message("0", "8", {1}), "shape and type"));
  CHECK(contains(message("0", "8", {std::int64_t{1} << 61}), "shape and type"));
  CHECK(contains(message("0", "8", {std::int64_t{1} << 40, std::int64_t{1} << 40}), "2^62"));
  CHECK(contains(message("0", "8", {-1}), "negative"));
}

TEST_CASE("a tensor's data lie in one place, which is named once") {
  const Model model;
  const auto twice = model.file({{"location", "w.bin"}, {"location", "v.bin"}});
  CHECK(contains(load_error<ParseError>(twice), "twice"));
  OnnxModel both;
  both.input("x", {2}).initializer(
      onnx_external_tensor("c", onnx_float, {2}, {{"location", "w.bin"}}).bytes(9, bytes_of({1, 2})));
  both.node("Add", {"x", "c"}, "y").output("y");
  CHECK(contains(load_error<ParseError>(both), "as well"));
  CHECK(contains(load_error<ParseError>(model.file({})), "names no file"));
}
