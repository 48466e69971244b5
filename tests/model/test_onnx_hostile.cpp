#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "driftbound/model/load.hpp"
#include "driftbound/num/errors.hpp"
#include "support/hostile.hpp"
#include "support/onnx_writer.hpp"
#include "support/rich_model.hpp"
#include "support/temporary_folder.hpp"

using namespace driftbound;
using namespace driftbound::test;

namespace {

/// A function with an attribute, a branch, sparse weights, weights elsewhere, and a shape put together.
std::string intricate_model() {
  Message function = onnx_function("f", {"a", "w"}, {"r"},
                                   {onnx_node("Mul", {"a", "w"}, {"m"}),
                                    onnx_node("Elu", {"m"}, {"r"}, {OnnxAttribute::reference("alpha", "p", 1)})});
  function.bytes(6, "p");
  const Message branch = onnx_graph({onnx_node("Neg", {"h"}, {"n"})}, {"n"});
  OnnxModel model(13);
  model.function(function)
      .input("x", {"N", 2})
      .sparse_initializer(onnx_sparse_tensor(onnx_tensor("s", {1}, std::vector<float>{5}),
                                             onnx_tensor("", {1, 1}, std::vector<std::int64_t>{1}), {2}))
      .initializer(
          onnx_external_tensor("e", onnx_float, {2}, {{"location", "w.bin"}, {"offset", "4"}, {"length", "8"}}))
      .initializer(onnx_boolean("c", true))
      .initializer("i", {1}, std::vector<std::int64_t>{0})
      .initializer("t", {2}, std::vector<std::int64_t>{1, -1})
      .node("f", {"x", "s"}, "h", {OnnxAttribute::of_float("p", 2)}, "call", "local")
      .node("If", {"c"}, "b", {OnnxAttribute::of_graph("then_branch", branch)})
      .node("Shape", {"b"}, "shape")
      .node("Gather", {"shape", "i"}, "rows")
      .node("Concat", {"rows", "t"}, "target", {OnnxAttribute::of_int("axis", 0)})
      .node("Reshape", {"b", "target"}, "r")
      .node("Add", {"r", "e"}, "y")
      .output("y");
  return model.bytes();
}

std::vector<std::string> good_models(const TemporaryFolder& folder) {
  folder.write("w.bin", std::string(16, '\x3F'));
  return {rich_model().bytes(), intricate_model()};
}

bool copes(const std::filesystem::path& file) {
  return refuses_or([&] {
    const ModelDescription model = describe_model(file);
    std::size_t bytes = 0;
    for (const Value& value : model.graph.values) bytes += value.constant.bytes().size();
    return bytes < 100'000;
  });
}

void check_refused(const std::string& bytes) {
  const TemporaryFolder folder;
  CHECK_THROWS_AS(load_model(folder.write("m.onnx", bytes)), ParseError);
}

}  // namespace

TEST_CASE("a model cut short anywhere is refused, or whole up to a field nobody needs") {
  const TemporaryFolder folder;
  for (const std::string& good : good_models(folder)) {
    CHECK(load_model(write_anew(folder, "good.onnx", good)).nodes.size() == 5);
    for (std::size_t length = 0; length < good.size(); ++length) {
      CAPTURE(length);
      CHECK_THROWS_AS(load_model(write_anew(folder, "cut.onnx", good.substr(0, length))), Error);
    }
  }
}

TEST_CASE("any byte of a model may be wrong without harm") {
  const TemporaryFolder folder;
  for (const std::string& good : good_models(folder)) {
    for (std::size_t at = 0; at < good.size(); ++at) {
      for (const int value : {0x00, 0x01, 0x7F, 0x80, 0xFF}) {
        std::string bad = good;
        bad[at] = static_cast<char>(value);
        CAPTURE(at);
        CAPTURE(value);
        CHECK(copes(write_anew(folder, "bad.onnx", bad)));
      }
    }
  }
}

TEST_CASE("any bit of a model may flip, and any byte may be missing or doubled, without harm") {
  const TemporaryFolder folder;
  for (const std::string& good : good_models(folder)) {
    for (std::size_t at = 0; at < good.size(); ++at) {
      for (int bit = 0; bit < 8; ++bit) {
        std::string bad = good;
        bad[at] = static_cast<char>(bad[at] ^ (1 << bit));
        CHECK(copes(write_anew(folder, "bad.onnx", bad)));
      }
      CHECK(copes(write_anew(folder, "bad.onnx", good.substr(0, at) + good.substr(at + 1))));
      CHECK(copes(write_anew(folder, "bad.onnx", good.substr(0, at + 1) + good.substr(at))));
    }
  }
}

TEST_CASE("lengths and numbers beyond all measure are refused") {
  const std::string huge_length = "\x3A\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01";  // graph of 2^64 - 1 bytes
  const std::string endless_number = "\x08" + std::string(11, '\xFF');
  const std::string too_large_number = "\x08" + std::string(9, '\xFF') + "\x02";
  const std::string field_zero("\x00\x01", 2);
  const std::string huge_field = "\xF8\xFF\xFF\xFF\xFF\x01\x01";
  const std::string wire_type_7 = "\x0F\x01";
  const std::string lone_group_end = "\x0C";
  for (const std::string& bytes :
       {huge_length, endless_number, too_large_number, field_zero, huge_field, wire_type_7, lone_group_end})
    check_refused(bytes);
  check_refused(std::string(1'000'000, '\x0B'));  // groups within groups
  check_refused("<html>not a model</html>");
  check_refused("");
  check_refused(std::string(100, '\0'));
}

TEST_CASE("swarms of empty parts are refused at the first one") {
  std::string nodes, attributes;
  for (int i = 0; i < 50'000; ++i) nodes += std::string("\x0A\x00", 2);
  for (int i = 0; i < 200'000; ++i) attributes += std::string("\x2A\x00", 2);
  check_refused(Message().bytes(7, nodes).data());
  check_refused(Message().message(7, Message().bytes(1, attributes)).data());
}

TEST_CASE("absurd declared shapes are refused, not allocated") {
  const TemporaryFolder folder;
  OnnxModel input;
  input.input("x", {std::int64_t{1} << 40, std::int64_t{1} << 40}).node("Relu", {"x"}, "y").output("y");
  CHECK_THROWS_AS(load_model(input.save(folder / "m.onnx")), ShapeMismatch);
  OnnxModel rank;
  rank.input("x", std::vector<OnnxModel::Dimension>(65, 1)).node("Relu", {"x"}, "y").output("y");
  CHECK_THROWS_AS(load_model(rank.save(folder / "m.onnx")), ParseError);
  OnnxModel constant;
  constant.input("x", {1})
      .initializer(onnx_tensor_header("c", onnx_float, std::vector<std::int64_t>(65, 1)).fixed32(4, 1))
      .node("Add", {"x", "c"}, "y")
      .output("y");
  CHECK_THROWS_AS(load_model(constant.save(folder / "m.onnx")), ParseError);
  OnnxModel reshape;
  reshape.input("x", {1})
      .initializer("t", {1}, std::vector<std::int64_t>{std::int64_t{1} << 50})
      .node("Reshape", {"x", "t"}, "y")
      .output("y");
  CHECK_THROWS_AS(load_model(reshape.save(folder / "m.onnx")), ShapeMismatch);
}

TEST_CASE("cycles and names given twice are refused by name") {
  const auto complaint = [](const OnnxModel& model) {
    const TemporaryFolder folder;
    try {
      load_model(folder.write("m.onnx", model.bytes()));
    } catch (const ParseError& error) {
      return std::string(error.what());
    }
    return std::string("read");
  };
  const auto complains = [&](const OnnxModel& model, const char* text) {
    CAPTURE(complaint(model));
    CHECK(complaint(model).find(text) != std::string::npos);
  };
  OnnxModel cycle;
  cycle.input("x", {2}).node("Add", {"x", "b"}, "a").node("Relu", {"a"}, "b").output("b");
  complains(cycle, "nodes depend on their own outputs: 'a', 'b'");
  OnnxModel two_nodes;
  two_nodes.input("x", {2}).node("Relu", {"x"}, "a").node("Neg", {"x"}, "a").output("a");
  complains(two_nodes, "two nodes compute the value 'a'");
  OnnxModel computed_and_given;
  computed_and_given.input("x", {2}).initializer("a", {1}, std::vector<float>{1}).node("Relu", {"x"}, "a").output("a");
  complains(computed_and_given, "the value 'a' is computed by a node and given as well");
  OnnxModel two_inputs;
  two_inputs.input("x", {2}).input("x", {2}).node("Relu", {"x"}, "y").output("y");
  complains(two_inputs, "two inputs are named 'x'");
  OnnxModel two_initializers;
  for (int i = 0; i < 2; ++i) two_initializers.initializer("c", {1}, std::vector<float>{1});
  two_initializers.input("x", {2}).node("Add", {"x", "c"}, "y").output("y");
  complains(two_initializers, "two values are named 'c'");
  OnnxModel undefined;
  undefined.input("x", {2}).node("Add", {"x", "\xFF\n"}, "y").output("y");
  complains(undefined, R"(its input '\xff\x0a' is not defined anywhere)");
}

TEST_CASE("names that are not UTF-8 are read, and escaped wherever they are kept") {
  const TemporaryFolder folder;
  OnnxModel model;
  model.input("x\xC0", {2}).node("Relu", {"x\xC0"}, "y\xFF", {}, "layer\x80").output("y\xFF");
  const Graph graph = load_model(model.save(folder / "m.onnx"));
  CHECK(graph.value(graph.inputs.at(0)).name == R"(x\xc0)");
  CHECK(graph.nodes.at(0).name == R"(layer\x80)");
  CHECK(graph.value(graph.outputs.at(0)).name == R"(y\xff)");
}

TEST_CASE("a model of more nodes than its size justifies is unsupported, unless its data files justify them") {
  const TemporaryFolder folder;
  constexpr int length = 60'000;
  OnnxModel model;
  model.input("v0", {1}).initializer(onnx_external_tensor("w", onnx_uint8, {40'000'000}, {{"location", "w.bin"}}));
  for (int i = 1; i <= length; ++i) model.node("Neg", {"v" + std::to_string(i - 1)}, "v" + std::to_string(i));
  const std::filesystem::path file = model.output("v" + std::to_string(length)).save(folder / "m.onnx");
  CHECK_THROWS_WITH_AS(load_model(file), doctest::Contains("more nodes, values or numbers"), Unsupported);
  folder.write("w.bin", std::string(40'000'000, '\0'));
  CHECK(load_model(file).nodes.size() == length);
}

TEST_CASE("a long chain of nodes in reverse order is sorted quickly") {
  OnnxModel model;
  model.input("v0", {1});
  constexpr int length = 20'000;
  for (int i = length; i > 0; --i) model.node("Neg", {"v" + std::to_string(i - 1)}, "v" + std::to_string(i));
  model.output("v" + std::to_string(length));
  const TemporaryFolder folder;
  CHECK(load_model(model.save(folder / "m.onnx")).nodes.size() == length);
}

TEST_CASE("models that cannot be read are FileErrors that name the file") {
  const TemporaryFolder folder;
  for (const std::filesystem::path& file :
       {folder / "missing.onnx", folder.path(), std::filesystem::path("/dev/null")}) {
    try {
      load_model(file);
      FAIL("no FileError");
    } catch (const FileError& error) {
      CHECK(std::string(error.what()).find(file.string()) != std::string::npos);
    }
  }
}
